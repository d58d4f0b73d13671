//! A physics-informed network 2-64-64-64-1 for Poisson's equation: a step of Adam, 4096 points inside and 256 on the boundary.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::models::Pinn;
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;

use super::super::data::Source;
use super::super::training::{Mode, Training};
use super::filled;

type Data = [Tensor; 4];

pub(super) fn workload() -> Training<Pinn, Data> {
    let mut source = Source::default();
    let network = filled(&mut source, &Pinn::new(Key::new(0), &[2, 64, 64, 64, 1]));
    let mut points = |shape: &[usize]| source.uniform(shape, -1.0, 1.0, DType::F32);
    let data = [points(&[4096, 2]), points(&[4096]), points(&[256, 2]), points(&[256])];
    Training::new(loss, Optimizer::adam(1e-3), Mode::Compiled, network, vec![data])
}

fn loss(network: &Pinn, [inside, right, boundary, values]: &Data) -> Tensor {
    network.loss(inside, right, boundary, values)
}
