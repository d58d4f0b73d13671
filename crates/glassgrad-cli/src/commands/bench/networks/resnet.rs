//! ResNet-18 for images of 32×32: a step of SGD with momentum, batch 32.
//!
//! Batch normalisation uses the statistics of the batch and keeps none, in all engines.

use glassgrad::dtype::DType;
use glassgrad::nn::{BatchNorm, Layer as _, Linear, Statistics};
use glassgrad::operations::Convolution;
use glassgrad::optim::Optimizer;
use glassgrad::{Tensor, Tree};

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};

const BATCH: usize = 32;
/// The channels of each stage, and the stride of its first block.
const STAGES: [(usize, usize); 4] = [(64, 1), (128, 2), (256, 2), (512, 2)];

/// A convolution without bias, and the normalisation behind it.
#[derive(Tree)]
pub(super) struct Convolved {
    weight: Tensor,
    norm: BatchNorm,
    #[tree(static)]
    config: Convolution<2>,
}

/// Two convolutions, and the projection of what is added to them where its shape differs.
#[derive(Tree)]
pub(super) struct Block {
    first: Convolved,
    second: Convolved,
    shortcut: Option<Convolved>,
}

/// The network.
#[derive(Tree)]
pub(super) struct ResNet {
    stem: Convolved,
    blocks: Vec<Block>,
    output: Linear,
}

type Data = (Tensor, Tensor);

pub(super) fn workload() -> Training<ResNet, Data> {
    let mut source = Source::default();
    let stem = Convolved::new(&mut source, 3, 64, 3, 1);
    let (mut blocks, mut inputs) = (Vec::new(), 64);
    for (channels, stride) in STAGES {
        blocks.push(Block::new(&mut source, inputs, channels, stride));
        blocks.push(Block::new(&mut source, channels, channels, 1));
        inputs = channels;
    }
    let network = ResNet { stem, blocks, output: source.layer(512, 10) };
    let images = source.uniform([BATCH, 3, 32, 32], -1.0, 1.0, DType::F32);
    let targets = source.targets(BATCH, 10);
    let optimizer = Optimizer::sgd(0.003).momentum(0.9);
    Training::new(loss, optimizer, Mode::Compiled, network, vec![(images, targets)]).checked_in_f64()
}

impl Convolved {
    fn new(source: &mut Source, inputs: usize, outputs: usize, size: usize, stride: usize) -> Convolved {
        let bound = 1.0 / ((inputs * size * size) as f64).sqrt();
        let weight = source.uniform([outputs, inputs, size, size], -bound, bound, DType::F32);
        let config = Convolution::default().stride(stride).padding(size / 2);
        Convolved { weight, norm: BatchNorm::new(outputs), config }
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        let unused = Statistics::new(self.weight.shape()[0]);
        self.norm.normalize(&x.conv2d(&self.weight, self.config), &unused).0
    }
}

impl Block {
    fn new(source: &mut Source, inputs: usize, outputs: usize, stride: usize) -> Block {
        let first = Convolved::new(source, inputs, outputs, 3, stride);
        let second = Convolved::new(source, outputs, outputs, 3, 1);
        let shortcut = (inputs != outputs).then(|| Convolved::new(source, inputs, outputs, 1, stride));
        Block { first, second, shortcut }
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        let residual = self.second.apply(&self.first.apply(x).relu());
        let shortcut = self.shortcut.as_ref().map_or_else(|| x.clone(), |shortcut| shortcut.apply(x));
        (residual + shortcut).relu()
    }
}

fn loss(network: &ResNet, (images, targets): &Data) -> Tensor {
    let stem = network.stem.apply(images).relu();
    let features = network.blocks.iter().fold(stem, |x, block| block.apply(&x));
    cross_entropy(&network.output.apply(&features.mean_over(&[-2, -1][..])), targets)
}
