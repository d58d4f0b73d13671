//! The network of `train mnist --model cnn`: two padded convolutions of 3×3 with pooling, two layers, dropout in front of
//! both; a step of Adam, batch 128.
//!
//! The masks of dropout are data, so that all engines drop the same numbers and must find the same losses.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Conv2d, Flatten, Layer as _, Linear, MaxPool};
use glassgrad::operations::Convolution;
use glassgrad::optim::Optimizer;

use super::data::Source;
use super::training::{Mode, Training, cross_entropy};

type Convolved = (Conv2d, Activation, MaxPool<2>);
type Network = ((Convolved, Convolved, Flatten), (Linear, Activation), Linear);
/// Images, targets, and a mask for each dropout.
type Data = (Tensor, Tensor, [Tensor; 2]);

const BATCH: usize = 128;
const RATE: f64 = 0.25;

pub(super) fn workload() -> Training<Network, Data> {
    let mut source = Source::default();
    let (first, second) = (convolved(&mut source, 16, 1), convolved(&mut source, 32, 16));
    let (hidden, output) = (source.layer(32 * 7 * 7, 128), source.layer(128, 10));
    let network = ((first, second, Flatten(3)), (hidden, Activation::Relu), output);
    let images = source.uniform([BATCH, 1, 28, 28], 0.0, 1.0, DType::F32);
    let targets = source.targets(BATCH, 10);
    let masks = [32 * 7 * 7, 128].map(|width| source.mask([BATCH, width], RATE));
    Training::new(loss, Optimizer::adam(1e-3), Mode::Compiled, network, vec![(images, targets, masks)])
}

fn convolved(source: &mut Source, outputs: usize, inputs: usize) -> Convolved {
    let bound = 1.0 / (inputs as f64 * 9.0).sqrt();
    let weight = source.uniform([outputs, inputs, 3, 3], -bound, bound, DType::F32);
    let bias = Some(source.uniform([outputs], -bound, bound, DType::F32));
    (Conv2d { weight, bias, config: Convolution::default().padding(1) }, Activation::Relu, MaxPool::new(2))
}

fn loss((convolutions, hidden, output): &Network, (images, targets, [first, second]): &Data) -> Tensor {
    let seen = convolutions.apply(images) * first;
    cross_entropy(&output.apply(&(hidden.apply(&seen) * second)), targets)
}
