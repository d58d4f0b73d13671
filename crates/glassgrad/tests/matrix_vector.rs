//! Products of a matrix and a vector: one step, before the reference, at every instruction set and for any number of threads.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::exec::{Isa, Target, with_isa, with_threads};
use glassgrad::opt::graph::Graph;
use glassgrad::opt::lower::lower;
use glassgrad::opt::passes::optimise;
use glassgrad::opt::program::Step;
use glassgrad::rng::Key;

fn leaf(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(dtype).detach().expect("numbers")
}

/// Products with lines and with sums side by side, of sizes that fill no vector, and with a row or column of one.
fn products(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let (a, wide) = (leaf(1, &[203, 157], dtype), leaf(2, &[531, 650], dtype));
    let (x, y, z) = (leaf(3, &[157], dtype), leaf(4, &[203], dtype), leaf(5, &[1, 531], dtype));
    let every_second = leaf(6, &[314], dtype).reshape([157, 2]).slice(&[(..).into(), 1.into()]);
    vec![
        ("Ax", Tensor::einsum("ij,j->i", [&a, &x])),
        ("yA", Tensor::einsum("i,ij->j", [&y, &a])),
        ("scaled", Tensor::einsum("ij,j->i", [&a, &x]) * 0.5),
        ("one row", z.matmul(&wide)),
        ("one column", wide.transpose().matmul(&z.transpose())),
        ("transposed, every second", Tensor::einsum("ji,j->i", [&a.transpose(), &every_second])),
    ]
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    tensor.to_f64_vec().expect("numbers").iter().map(|number| number.to_bits()).collect()
}

#[test]
fn matrix_vector_products_are_those_of_the_reference() {
    for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::F64, 1e-13)] {
        for number in 0..products(dtype).len() {
            let (what, tensor) = products(dtype).swap_remove(number);
            let exact = Tensor::from(tensor.eval_by_reference().expect("a value")).to_f64_vec().expect("numbers");
            let size = exact.iter().fold(1.0, |size: f64, number| size.max(number.abs()));
            for isa in Isa::here() {
                let found = with_isa(isa, || products(dtype).swap_remove(number).1.to_f64_vec()).expect("numbers");
                let is_near = found.iter().zip(&exact).all(|(a, b)| (a - b).abs() <= tolerance * size);
                assert!(is_near && found.len() == exact.len(), "{what}, {dtype} at {isa:?}");
            }
        }
    }
}

#[test]
fn threads_and_upper_levels_give_the_same_bits() {
    for dtype in [DType::F32, DType::F64] {
        for (number, (what, tensor)) in products(dtype).into_iter().enumerate() {
            let expected = bits(&tensor);
            for threads in [1, 2, 5] {
                let found = with_threads(threads, || bits(&products(dtype).swap_remove(number).1));
                assert_eq!(found, expected, "{what}, {dtype}, {threads} threads");
            }
            if Isa::here().contains(&Isa::Avx2) {
                let found = with_isa(Isa::Avx2, || bits(&products(dtype).swap_remove(number).1));
                assert_eq!(found, expected, "{what}, {dtype}, AVX2");
            }
        }
    }
}

#[test]
fn a_large_matrix_in_memory_is_one_contraction() {
    let contractions = |tensor: &Tensor| {
        let program = lower(&optimise(Graph::of(&[tensor]).expect("a graph").0), Target::Cpu.capabilities());
        program.steps.iter().filter(|step| matches!(step, Step::Contract(_))).count()
    };
    let (a, x) = (leaf(1, &[203, 157], DType::F32), leaf(2, &[157], DType::F32));
    assert_eq!(contractions(&Tensor::einsum("ij,j->i", [&a, &x])), 1);
    // What is computed anyway is multiplied and summed up in the loop that computes it.
    assert_eq!(contractions(&Tensor::einsum("ij,j->i", [&a.exp(), &x])), 0);
}
