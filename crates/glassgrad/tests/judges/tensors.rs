//! Tensors of tests, and what it means that two of them agree: to as many roundings as the test allows.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::rng::Key;

use super::ROUNDINGS;
use super::closeness::{agree, size_of_all};

/// The elements, which must be there.
#[track_caller]
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn vector(numbers: &[f64]) -> Tensor {
    Tensor::new(numbers, numbers.len())
}

/// Random 64-bit numbers of a shape.
pub(crate) fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(DType::F64)
}

#[track_caller]
pub(crate) fn assert_near(what: &str, actual: &[f64], expected: &[f64], roundings: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}: {actual:?} is not {expected:?}");
    let finite: Vec<f64> = expected.iter().copied().filter(|number| number.is_finite()).collect();
    let size = size_of_all(&finite);
    for (a, b) in actual.iter().zip(expected) {
        assert!(agree(*a, *b, size, roundings), "{what}: {actual:?} is not {expected:?}");
    }
}

#[track_caller]
pub(crate) fn assert_close(what: &str, actual: &[f64], expected: &[f64]) {
    assert_near(what, actual, expected, ROUNDINGS);
}

#[track_caller]
pub(crate) fn assert_tensors(what: &str, actual: &Tensor, expected: &Tensor) {
    let (a, b) = (numbers(actual), numbers(expected));
    assert_eq!(actual.shape(), expected.shape(), "{what}");
    assert_close(what, &a, &b);
}
