//! A small convolutional network: two convolutions of 5×5 with pooling, two layers; a step of Adam, batch 64.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Conv2d, Flatten, Layer as _, Linear, MaxPool};
use glassgrad::operations::Convolution;
use glassgrad::optim::Optimizer;

use super::data::Source;
use super::training::{Mode, Training, cross_entropy};

type Convolved = (Conv2d, Activation, MaxPool<2>);
type Network = (Convolved, Convolved, Flatten, Linear, Activation, Linear);
type Data = (Tensor, Tensor);

const BATCH: usize = 64;

pub(super) fn workload() -> Training<Network, Data> {
    let mut source = Source::default();
    let mut convolved = |outputs: usize, inputs: usize| {
        let bound = 1.0 / (inputs as f64 * 25.0).sqrt();
        let weight = source.uniform([outputs, inputs, 5, 5], -bound, bound, DType::F32);
        let bias = Some(source.uniform([outputs], -bound, bound, DType::F32));
        (Conv2d { weight, bias, config: Convolution::default() }, Activation::Relu, MaxPool::new(2))
    };
    let (first, second) = (convolved(8, 1), convolved(16, 8));
    let (hidden, output) = (source.layer(256, 120), source.layer(120, 10));
    let network = (first, second, Flatten(3), hidden, Activation::Relu, output);
    let images = source.uniform([BATCH, 1, 28, 28], 0.0, 1.0, DType::F32);
    let targets = source.targets(BATCH, 10);
    Training::new(loss, Optimizer::adam(1e-3), Mode::Compiled, network, vec![(images, targets)])
}

fn loss(network: &Network, (images, targets): &Data) -> Tensor {
    cross_entropy(&network.apply(images), targets)
}
