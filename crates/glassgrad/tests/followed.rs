//! Loops that go on with large products piece by piece: when they do, and that they compute what they would as a whole.

use std::sync::Arc;

use glassgrad::dtype::DType;
use glassgrad::exec::{Isa, with_isa, with_threads};
use glassgrad::opt::program::{Contraction, Memory, Program, Step};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, scan, value_and_grad};

fn matrix(dtype: DType, rows: usize, columns: usize, phase: f64) -> Tensor {
    let numbers: Vec<f64> = (0..rows * columns).map(|k| (k as f64 * 0.618 + phase).sin() * 0.3).collect();
    Tensor::new(&numbers, [rows, columns]).cast(dtype).detach().expect("numbers")
}

/// Weights and biases of two layers, of which the products are large enough.
type Parameters = ((Tensor, Tensor), (Tensor, Tensor));
type State = (Parameters, Parameters, Tensor);
type Data = (Tensor, Tensor);

fn start(dtype: DType) -> (State, Data) {
    let layer = |rows, columns, phase| (matrix(dtype, rows, columns, phase), matrix(dtype, 1, columns, phase + 1.0));
    let parameters = (layer(300, 280, 0.1), layer(280, 310, 0.2));
    let means = Tree::zeros_like(&parameters).realise().unwrap();
    ((parameters, means, Tensor::from(0.0)), (matrix(dtype, 40, 300, 0.3), matrix(dtype, 40, 310, 0.4)))
}

/// A step with momentum, at a rate that falls with the number of steps.
fn step((state, data): &(State, Data)) -> (State, Tensor) {
    let (parameters, means, count) = state;
    let loss = |((w, b), (v, c)): &Parameters| {
        let hidden = (data.0.matmul(w) + b).tanh();
        (hidden.matmul(v) + c - &data.1).square().mean()
    };
    let (value, slopes) = value_and_grad(loss)(parameters);
    let rate = 0.01 / (count + 1.0);
    let means = means.zip(&slopes, |mean, slope| mean * 0.9 + slope);
    let moved = parameters.zip(&means, |own, mean| own - mean * rate.cast(own.dtype()));
    ((moved, means, count + 1.0), value)
}

fn followed(program: &Program) -> Vec<&Contraction> {
    let followed = |step: &'_ Step| matches!(step, Step::Contract(product) if product.epilogue.is_some());
    let steps = program.steps.iter().filter(|step| followed(step));
    steps.filter_map(|step| if let Step::Contract(product) = step { Some(product) } else { None }).collect()
}

fn bits(tree: &impl Tree) -> Vec<u64> {
    tree.flatten().iter().flat_map(|leaf| leaf.to_f64_vec().unwrap()).map(f64::to_bits).collect()
}

/// The elements that the reference computes.
fn by_definition(tensor: &Tensor) -> Vec<f64> {
    Tensor::from(tensor.eval_by_reference().unwrap()).to_f64_vec().unwrap()
}

fn planned(roots: &Tensor) -> Arc<Program> {
    roots.program().unwrap()
}

#[test]
fn updates_follow_the_gradients_of_weights() {
    let compiled = compile(step);
    let program = compiled.program(&start(DType::F32)).unwrap();
    let followed = followed(&program);
    assert_eq!(followed.len(), 2, "{program}");
    for product in followed {
        let epilogue = product.epilogue.as_ref().unwrap();
        assert_eq!(product.operands[2].memory, Memory::Tile);
        assert_eq!(epilogue.loads.iter().filter(|load| load.memory == Memory::Tile).count(), 1);
        assert!(epilogue.stores.len() == 2, "the mean and the weights: {program}");
    }
    assert!(program.to_string().contains("epilogue: loop"), "{program}");
    // No gradient of weights has a place.
    assert!(program.values.iter().all(|value| value.bytes < 300 * 280 * 4), "{:?}", program.values);
}

#[test]
fn pieces_give_the_bits_of_any_number_of_threads_and_what_the_definitions_say() {
    for dtype in [DType::F32, DType::F64] {
        let (state, data) = start(dtype);
        let (expected, value) = step(&(state.clone(), data.clone()));
        let expected: Vec<f64> = expected.flatten().iter().chain([&value]).flat_map(by_definition).collect();
        let tolerance = if dtype == DType::F32 { 2e-6 } else { 1e-14 };
        for isa in Isa::here() {
            let run = |threads| {
                let mut state = state.clone();
                let compiled = compile(step);
                let values = with_threads(threads, || {
                    with_isa(isa, || {
                        let first = compiled.update(&mut state, &data).unwrap();
                        let found: Vec<f64> = state
                            .flatten()
                            .iter()
                            .chain([&first])
                            .flat_map(|leaf| leaf.to_f64_vec().unwrap())
                            .collect();
                        for (found, expected) in found.iter().zip(&expected) {
                            assert!((found - expected).abs() <= tolerance, "{found} is not {expected} in {dtype}");
                        }
                        (0..3)
                            .map(|_| compiled.update(&mut state, &data).unwrap().item().unwrap())
                            .collect::<Vec<f64>>()
                    })
                });
                assert!(values.windows(2).all(|pair| pair[1] < pair[0]), "{values:?}");
                bits(&state)
            };
            let alone = run(1);
            assert!([2, 3, 8].into_iter().all(|threads| run(threads) == alone), "{dtype} at {isa:?}");
        }
    }
}

#[test]
fn an_update_over_its_state_gives_what_a_call_gives() {
    let ((mut updated, data), compiled) = (start(DType::F32), compile(step));
    let mut called = start(DType::F32).0;
    for _ in 0..5 {
        called = compiled.call(&(called, data.clone())).unwrap().0;
        compiled.update(&mut updated, &data).unwrap();
        assert_eq!(bits(&updated), bits(&called));
    }
}

#[test]
fn what_others_read_or_ask_for_is_there_as_a_whole() {
    let (x, y) = (matrix(DType::F32, 400, 60, 0.1), matrix(DType::F32, 60, 400, 0.2));
    let product = || x.matmul(&y);
    let one = product();
    assert_eq!(followed(&planned(&(&one * 2.0).tanh())).len(), 1);
    // Read by a sum over rows, by two loops, transposed, by another product, and small.
    let twice = product();
    let along = (twice.tanh() * twice.sum_over(0)).exp();
    assert_eq!(followed(&planned(&along)).len(), 0);
    assert_eq!(followed(&planned(&product().tanh().sum_over(1))).len(), 0);
    assert_eq!(followed(&planned(&product().matmul(&product()))).len(), 0);
    let small = matrix(DType::F32, 40, 60, 0.1).matmul(&matrix(DType::F32, 60, 40, 0.2)).tanh();
    assert_eq!(followed(&planned(&small)).len(), 0);
    for tensor in [
        (product() * 2.0).tanh(),
        (product().transpose() + 1.0).tanh(),
        along,
        product() + matrix(DType::F32, 1, 400, 0.3),
    ] {
        let expected = by_definition(&tensor);
        for (found, expected) in tensor.to_f64_vec().unwrap().iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{found} is not {expected}");
        }
    }
}

/// A state that is read after the gradient of it was made is not written over before.
#[test]
fn weights_that_are_read_later_are_still_themselves() {
    let start = || (matrix(DType::F32, 300, 300, 0.5), matrix(DType::F32, 40, 300, 0.6));
    let step = |(w, x): &(Tensor, Tensor)| {
        let slope = grad(|w: &Tensor| (x.matmul(w).matmul(w)).square().mean())(w);
        let moved = w - slope * 0.1;
        (moved, w.matmul(&w.transpose()).sum_over(0))
    };
    let (mut updated, x) = start();
    let compiled = compile(step);
    let (expected, others) = step(&start());
    let found = compiled.update(&mut updated, &x).unwrap();
    for (found, expected) in [(&updated, &expected), (&found, &others)] {
        let expected = by_definition(expected);
        for (found, expected) in found.to_f64_vec().unwrap().iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{found} is not {expected}");
        }
    }
}

/// In a loop over time a matrix is turned once before it if all that the body does is to multiply with its transpose. What is
/// done behind the product counts too.
#[test]
fn a_loop_behind_a_product_reads_a_matrix_as_it_is() {
    let (w, start) = (matrix(DType::F32, 256, 256, 0.1), matrix(DType::F32, 256, 256, 0.2));
    let entries = matrix(DType::F32, 5, 256, 0.3);
    let next = |state: &Tensor, x: &Tensor| Tensor::einsum("ik,jk->ij", [state, &w]) * &w + x;
    let looped = scan(|state: &Tensor, x: &Tensor| (next(state, x), ()), &start, &entries).0;
    let unrolled = (0..5).fold(start.clone(), |state, k| {
        let entry = entries.slice(&[glassgrad::expr::s(k..k + 1)]).reshape([256]);
        next(&state, &entry).detach().unwrap()
    });
    let (found, expected) = (looped.to_f64_vec().unwrap(), unrolled.to_f64_vec().unwrap());
    let scale = expected.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-5 * scale, "{found} is not {expected}");
    }
}
