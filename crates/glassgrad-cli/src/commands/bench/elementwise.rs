//! The gradient of Σ tanh(x)·y + e⁻ˣ, in 32 bits.

use glassgrad::Tensor;
use glassgrad::dtype::DType;

use super::data::Source;
use super::gradient::Gradient;

pub(super) fn workload(count: usize) -> Gradient<Tensor, Tensor> {
    let mut source = Source::default();
    let [x, y] = [(); 2].map(|()| source.uniform(count, -2.0, 2.0, DType::F32));
    Gradient::new(|x, y| (x.tanh() * y + (-x).exp()).sum(), x, y)
}
