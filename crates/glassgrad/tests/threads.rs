//! Results do not depend on the number of threads, to the last bit, at any instruction set and in 32 and 64 bits,
//! and long loops compute what short ones do.

use glassgrad::array::Buffer;
use glassgrad::dtype::DType;
use glassgrad::exec::{Isa, with_isa, with_rounding_noise, with_threads};
use glassgrad::expr::{Axes, s};
use glassgrad::operations::{Convolution, Pooling};
use glassgrad::ops::Operation;
use glassgrad::{Tensor, grad};

fn numbers(count: usize, phase: f64) -> Vec<f32> {
    (0..count).map(|k| ((k as f64 * 0.618 + phase).sin() * 1.5) as f32).collect()
}

fn matrix(dtype: DType, rows: usize, columns: usize, phase: f64) -> Tensor {
    Tensor::new(&numbers(rows * columns, phase), [rows, columns]).cast(dtype).detach().expect("numbers")
}

/// Functions with loops that are long enough to be cut, each with its argument.
fn cases(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let x = matrix(dtype, 1000, 700, 0.1);
    let y = matrix(dtype, 1000, 700, 0.2);
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
        ("running sums", x.cumsum(1)),
        ("running sums along the first axis", x.cumsum(0)),
        ("transposed", (x.transpose() + 1.0).exp() * y.transpose()),
        ("three axes, the middle one summed", x.reshape([100, 10, 700]).tanh().sum_over(1)),
        ("three axes, the outer ones summed", x.reshape([100, 10, 700]).tanh().sum_over([0, 2])),
    ]
}

/// Convolutions that are cut along positions, along images, and along long sums, and pooling.
fn windows(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let known = |shape: &[usize], phase: f64| {
        let count = shape.iter().product();
        Tensor::new(&numbers(count, phase), shape).cast(dtype).detach().expect("numbers")
    };
    let images = known(&[24, 2, 20, 20], 0.5);
    let (few, many) = (known(&[6, 2, 5, 5], 0.6), known(&[40, 2, 3, 3], 0.7));
    let convolved = |images: &Tensor, kernel: &Tensor| images.conv2d(kernel, Convolution::default());
    let loss =
        |images: &Tensor, kernel: &Tensor| convolved(images, kernel).relu().max_pool2d(Pooling::new(2)).square().sum();
    let of_images = |kernel: &Tensor| grad(|images: &Tensor| loss(images, kernel))(&images);
    let of_kernel = |kernel: &Tensor| grad(|kernel: &Tensor| loss(&images, kernel))(kernel);
    let padded = Convolution::default().padding(1).stride(2);
    let (same, overlapping) = (Convolution::default().padding(1), Pooling::new(3).stride(2).padding(1));
    let wide = known(&[16, 4, 40, 40], 0.4);
    let pooled = |x: &Tensor| (x.conv2d(&many, same) + 0.1).relu().max_pool2d(Pooling::new(2));
    vec![
        ("few channels", convolved(&images, &few)),
        ("many channels", convolved(&images, &many)),
        ("gradient of images, few channels", of_images(&few)),
        ("gradient of images, many channels", of_images(&many)),
        ("gradient of a kernel, few channels", of_kernel(&few)),
        ("gradient of a kernel, many channels", of_kernel(&many)),
        ("padded gradient", grad(|x: &Tensor| x.conv2d(&many, padded).square().sum())(&images)),
        ("a pooled layer", pooled(&images)),
        ("a pooled layer and its gradient", grad(|x: &Tensor| pooled(x).square().sum())(&images)),
        ("windows that overlap", images.max_pool2d(overlapping)),
        ("gradient of windows that overlap", grad(|x: &Tensor| x.max_pool2d(overlapping).square().sum())(&images)),
        ("many windows that overlap", wide.max_pool2d(overlapping)),
        ("gradient of many of them", grad(|x: &Tensor| x.max_pool2d(overlapping).square().sum())(&wide)),
        ("gradient of their means", grad(|x: &Tensor| x.avg_pool2d(overlapping).square().sum())(&wide)),
        ("batched large products", known(&[20, 60, 70], 0.8).matmul(&known(&[20, 70, 64], 0.9))),
        ("batched products", known(&[48, 30, 70], 0.8).matmul(&known(&[48, 70, 50], 0.9))),
    ]
}

/// Products that are cut along columns, along rows, and into tiles up to a diagonal, whatever is contiguous.
fn products(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let known = |rows: usize, columns: usize, phase: f64| {
        Tensor::new(&numbers(rows * columns, phase), [rows, columns]).cast(dtype).detach().expect("numbers")
    };
    let (x, wide, tall) = (known(64, 130, 0.2), known(130, 305, 0.4), known(305, 130, 0.6));
    vec![
        ("a wide product", x.matmul(&wide)),
        ("a wide product of what is transposed", x.matmul(&tall.transpose())),
        ("a tall product", tall.matmul(&x.transpose())),
        ("a tall product of what is transposed", wide.transpose().matmul(&x.transpose())),
        ("a wide product that is read backwards", x.flip([0, 1]).matmul(&wide.flip([1]))),
        ("its own transpose", wide.transpose().matmul(&wide)),
        ("its own transpose, with weights", (&tall * tall.slice(&[s(..), s(..1)])).transpose().matmul(&tall)),
    ]
}

/// Every row of the table in one loop that is long enough to be cut, and summed.
fn rows(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let x = matrix(dtype, 300, 700, 0.3).abs() * 0.3 + 0.25;
    let y = matrix(dtype, 300, 700, 0.4).abs() * 0.2 + 1.1;
    let row = |operation: &Operation| {
        let parameter = operation.parameter().map_or(0.0, |parameter| parameter.default);
        let arguments = [&x, &y];
        (operation.name(), Tensor::apply(*operation, parameter, &arguments[..operation.arity()]) * &y)
    };
    let values: Vec<(&str, Tensor)> = Operation::ALL.iter().map(row).collect();
    let sums: Vec<(&str, Tensor)> = values.iter().map(|(name, value)| (*name, value.sum_over(0))).collect();
    values.into_iter().chain(sums).collect()
}

/// The bits of each element. What is not a number may have a sign by chance.
fn bits(tensor: &Tensor) -> Vec<u64> {
    let numbers = tensor.to_f64_vec().unwrap();
    numbers.iter().map(|number| if number.is_nan() { u64::MAX } else { number.to_bits() }).collect()
}

type Cases = fn(DType) -> Vec<(&'static str, Tensor)>;

/// The bits of some cases on this many threads at a level.
fn on(threads: usize, isa: Isa, cases: Cases, dtype: DType) -> Vec<(&'static str, Vec<u64>)> {
    let bits = || cases(dtype).iter().map(|(name, tensor)| (*name, bits(tensor))).collect();
    with_threads(threads, || with_isa(isa, bits))
}

fn assert_same_bits(cases: Cases, dtype: DType, many: &[usize]) {
    for isa in Isa::here() {
        let one = on(1, isa, cases, dtype);
        for threads in many {
            for ((name, expected), (_, found)) in one.iter().zip(on(*threads, isa, cases, dtype)) {
                assert!(*expected == found, "{name} in {dtype} on {threads} threads at {isa:?}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    assert_same_bits(cases, DType::F32, &[2, 3, 8]);
    assert_same_bits(cases, DType::F64, &[2]);
    assert_same_bits(windows, DType::F32, &[2, 3, 8]);
    assert_same_bits(windows, DType::F64, &[2]);
    assert_same_bits(products, DType::F32, &[2, 3, 8]);
    assert_same_bits(products, DType::F64, &[2]);
}

#[test]
fn two_threads_give_the_same_bits_for_every_row() {
    assert_same_bits(rows, DType::F32, &[2]);
    assert_same_bits(rows, DType::F64, &[2]);
}

/// The levels with fused multiply-adds compute the same, only more at a time.
#[test]
fn the_upper_levels_give_the_same_bits() {
    let upper: Vec<Isa> = Isa::here().into_iter().filter(|isa| *isa != Isa::Baseline).collect();
    for dtype in [DType::F32, DType::F64] {
        for cases in [cases as Cases, rows, windows] {
            let all: Vec<_> = upper.iter().map(|isa| on(2, *isa, cases, dtype)).collect();
            for pair in all.windows(2) {
                for ((name, expected), (_, found)) in pair[0].iter().zip(&pair[1]) {
                    assert!(expected == found, "{name} in {dtype} differs between {upper:?}");
                }
            }
        }
    }
}

#[test]
fn long_loops_compute_what_the_definitions_say() {
    let cases = cases(DType::F32).into_iter().filter(|(name, _)| *name != "product of matrices");
    for (name, tensor) in cases.chain(products(DType::F32)) {
        let by_reference = || match tensor.eval_by_reference().unwrap().buffer() {
            Buffer::F32(numbers) => numbers.clone(),
            other => panic!("{name} is {other:?}, not of 32 bits"),
        };
        let expected = by_reference();
        // How far rounding errors move a result: terms of long sums cancel, so that their errors are not relative to the sum.
        let noisy = [1, 2, 3].map(|seed| with_rounding_noise(seed, 4.0, by_reference));
        let found: Vec<f32> = tensor.to_vec().unwrap();
        let scale = expected.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let moved = noisy.iter().fold(0.0_f32, |most, noisy| most.max((noisy[k] - expected).abs()));
            let tolerance = 1e-6 * scale + moved;
            assert!((found - expected).abs() <= tolerance, "{name}: {found} is not {expected} within {tolerance}");
        }
    }
}
