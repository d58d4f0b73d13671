//! ResNet-18 for images of 32×32: a step of SGD with momentum, batch 32.
//!
//! Batch normalization uses the statistics of the batch; the running ones are not kept, in all engines.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::models::{ResNet, ResNetConfig, ResNetStatistics};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};
use super::filled;

const BATCH: usize = 32;

type Data = (Tensor, Tensor, ResNetStatistics);

pub(super) fn workload() -> Training<ResNet, Data> {
    let mut source = Source::default();
    let (network, statistics) = ResNet::new(Key::new(0), &ResNetConfig::resnet18(3, 10));
    let network = filled(&mut source, &network);
    let images = source.uniform([BATCH, 3, 32, 32], -1.0, 1.0, DType::F32);
    let targets = source.targets(BATCH, 10);
    let optimizer = Optimizer::sgd(0.003).momentum(0.9);
    Training::new(loss, optimizer, Mode::Compiled, network, vec![(images, targets, statistics)]).checked_in_f64()
}

fn loss(network: &ResNet, (images, targets, statistics): &Data) -> Tensor {
    cross_entropy(&network.train(images, statistics).0, targets)
}
