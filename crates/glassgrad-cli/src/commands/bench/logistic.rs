//! The Hessian of logistic regression: n weights, 2n examples, 64 bits.

use glassgrad::Tensor;
use glassgrad::dtype::DType;

use super::data::Source;
use super::hessian::Hessian;

pub(super) fn workload(n: usize) -> Hessian<(Tensor, Tensor)> {
    let mut source = Source::default();
    let examples = source.uniform([2 * n, n], -1.0, 1.0, DType::F64);
    let sides = source.uniform(2 * n, -1.0, 1.0, DType::F64).sign();
    let sides = sides.detach().unwrap_or(sides);
    let weights = source.uniform(n, -0.1, 0.1, DType::F64);
    Hessian::new(loss, weights, (examples, sides))
}

fn loss(weights: &Tensor, (examples, sides): &(Tensor, Tensor)) -> Tensor {
    (-(sides * examples.matmul(weights))).exp().log1p().sum()
}
