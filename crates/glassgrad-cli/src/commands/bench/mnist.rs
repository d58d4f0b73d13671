//! Multilayer perceptrons with ReLU, 784-1568-392-10 for handwritten digits and wider ones: an SGD step with weight decay.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Layer as _, Mlp};
use glassgrad::optim::Optimizer;

use super::data::Source;
use super::training::{Mode, Training, cross_entropy};

type Data = (Tensor, Tensor);

pub(super) fn workload(batch: usize) -> Training<Mlp, Data> {
    network(&[784, 1568, 392, 10], batch)
}

/// A network of four layers of one width for a thousand classes.
pub(super) fn wide(width: usize, batch: usize) -> Training<Mlp, Data> {
    network(&[width, width, width, width, 1000], batch)
}

fn network(sizes: &[usize], batch: usize) -> Training<Mlp, Data> {
    let mut source = Source::default();
    let layers = sizes.windows(2).map(|pair| source.layer(pair[0], pair[1])).collect();
    let network = Mlp { layers, activation: Activation::Relu };
    let images = source.uniform([batch, sizes[0]], 0.0, 1.0, DType::F32);
    let targets = source.targets(batch, sizes[sizes.len() - 1]);
    let optimizer = Optimizer::sgd(0.05).weight_decay(1e-4);
    Training::new(loss, optimizer, Mode::Compiled, network, vec![(images, targets)])
}

fn loss(network: &Mlp, (images, targets): &Data) -> Tensor {
    cross_entropy(&network.apply(images), targets)
}
