//! Results do not depend on the number of threads, to the last bit, and long loops compute what short ones do.

use glassgrad::array::Buffer;
use glassgrad::expr::Axes;
use glassgrad::{Tensor, grad};
use rayon::ThreadPoolBuilder;

fn numbers(count: usize, phase: f64) -> Vec<f32> {
    (0..count).map(|k| ((k as f64 * 0.618 + phase).sin() * 1.5) as f32).collect()
}

fn matrix(rows: usize, columns: usize, phase: f64) -> Tensor {
    Tensor::new(&numbers(rows * columns, phase), [rows, columns])
}

/// Functions with loops that are long enough to be cut, each with its argument.
fn cases() -> Vec<(&'static str, Tensor)> {
    let x = matrix(1000, 700, 0.1);
    let y = matrix(1000, 700, 0.2);
    let slope = |f: &dyn Fn(&Tensor) -> Tensor| grad(|x: &Tensor| f(x))(&x);
    vec![
        ("element by element", (&x * &y).tanh() + x.exp() / (y.square() + 1.0)),
        ("sum of all", ((&x * &y).tanh() + (-&x).exp()).sum()),
        ("sums of columns", (x.tanh() * &y).sum_over(0)),
        ("sums of rows", (x.tanh() * &y).sum_over(1)),
        ("largest of all", (x.tanh() * &y).max()),
        ("largest of columns", (x.tanh() * &y).max_over(0)),
        ("several at once", {
            let t = x.tanh() * &y;
            t.sum_over(0).sum() + t.sum_over(1).square().sum() + t.square().sum()
        }),
        ("softmax", x.softmax(-1)),
        ("softmax along the other axis", x.softmax(0)),
        ("gradient of a sum", slope(&|x: &Tensor| ((x * &y).tanh() + (-x).exp()).sum())),
        ("gradient of a norm", slope(&|x: &Tensor| (x - x.mean_over(Axes::from(1).keep())).square().sum())),
        ("product of matrices", x.matmul(&y.transpose())),
        ("transposed", (x.transpose() + 1.0).exp() * y.transpose()),
        ("three axes, the middle one summed", x.reshape([100, 10, 700]).tanh().sum_over(1)),
        ("three axes, the outer ones summed", x.reshape([100, 10, 700]).tanh().sum_over([0, 2])),
    ]
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().iter().map(|number| number.to_bits()).collect()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let on = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| cases().iter().map(|(name, tensor)| (*name, bits(tensor))).collect::<Vec<_>>())
    };
    let one = on(1);
    for threads in [2, 3, 8] {
        for ((name, expected), (_, found)) in one.iter().zip(on(threads)) {
            assert_eq!(*expected, found, "{name} on {threads} threads");
        }
    }
}

#[test]
fn long_loops_compute_what_the_definitions_say() {
    for (name, tensor) in cases().into_iter().filter(|(name, _)| *name != "product of matrices") {
        let expected = tensor.eval_by_reference().unwrap();
        let Buffer::F32(expected) = expected.buffer() else { panic!("{name} is not of 32 bits") };
        let found: Vec<f32> = tensor.to_vec().unwrap();
        let scale = expected.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-5 * scale, "{name}: {found} is not {expected}");
        }
    }
}
