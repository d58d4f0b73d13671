//! The Hessian of ‖T - UVᵀ‖² in U, dense: T is n×n, U and V are n×k, 64 bits.

use glassgrad::Tensor;
use glassgrad::dtype::DType;

use super::data::Source;
use super::hessian::Hessian;

pub(super) fn workload(n: usize, k: usize) -> Hessian<(Tensor, Tensor)> {
    let mut source = Source::default();
    let mut draw = |columns| source.uniform([n, columns], -1.0, 1.0, DType::F64);
    let (t, v, u) = (draw(n), draw(k), draw(k));
    Hessian::new(|u, (t, v)| (t - u.matmul(&v.transpose())).square().sum(), u, (t, v))
}
