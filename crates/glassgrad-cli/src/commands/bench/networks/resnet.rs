//! ResNet-18 for images of 32×32: a step of SGD with momentum, batch 32, or 512 for a GPU.
//!
//! Batch normalization uses the statistics of the batch; the running ones are not kept, in all engines.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::models::{ResNet, ResNetConfig, ResNetStatistics};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::train::Precision;

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};
use super::{filled, rounded};

const BATCH: usize = 32;

type Data = (Tensor, Tensor, ResNetStatistics);

pub(super) fn workload() -> Training<ResNet, Data> {
    training(BATCH, loss).checked_in_f64()
}

/// The same in mixed precision: `bf16`, with parameters and optimizer in 32 bits.
pub(super) fn in_bf16() -> Training<ResNet, Data> {
    training(BATCH, |network, data| loss(&rounded(network, DType::BF16), data)).without_differences()
}

/// The same with a batch for a GPU, in one of two precisions.
pub(super) fn wide(precision: Precision) -> Training<ResNet, Data> {
    let loss: fn(&ResNet, &Data) -> Tensor = match precision {
        Precision::Full => loss,
        Precision::Bf16 => |network, data| loss(&rounded(network, DType::BF16), data),
        Precision::F16 => |network, data| loss(&rounded(network, DType::F16), data),
    };
    training(512, loss).without_differences()
}

fn training(batch: usize, loss: fn(&ResNet, &Data) -> Tensor) -> Training<ResNet, Data> {
    let mut source = Source::default();
    let (network, statistics) = ResNet::new(Key::new(0), &ResNetConfig::resnet18(3, 10));
    let network = filled(&mut source, &network);
    let images = source.uniform([batch, 3, 32, 32], -1.0, 1.0, DType::F32);
    let targets = source.targets(batch, 10);
    let optimizer = Optimizer::sgd(0.003).momentum(0.9);
    Training::new(loss, optimizer, Mode::Compiled, network, vec![(images, targets, statistics)])
}

fn loss(network: &ResNet, (images, targets, statistics): &Data) -> Tensor {
    cross_entropy(&network.train(images, statistics).0, targets)
}
