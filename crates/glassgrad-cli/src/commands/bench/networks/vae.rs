//! A variational autoencoder 784-400-20: a step of Adam, batch 128, with given noise.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::models::Vae;
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;

use super::super::data::Source;
use super::super::training::{Mode, Training};
use super::filled;

const BATCH: usize = 128;

type Data = (Tensor, Tensor);

pub(super) fn workload() -> Training<Vae, Data> {
    let mut source = Source::default();
    let network = filled(&mut source, &Vae::new(Key::new(0), 784, 400, 20));
    let images = source.uniform([BATCH, 784], 0.0, 1.0, DType::F32);
    let data = vec![(images, source.uniform([BATCH, 20], -1.0, 1.0, DType::F32))];
    Training::new(loss, Optimizer::adam(1e-3), Mode::Compiled, network, data)
}

fn loss(network: &Vae, (images, noise): &Data) -> Tensor {
    network.loss_with(images, &network.encode(images), noise).mean()
}
