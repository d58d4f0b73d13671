//! Residual networks with batch normalization, for small images.

use crate::Tree;
use crate::expr::Tensor;
use crate::loss;
use crate::nn::{BatchNorm, Conv2d, Initializer, Layer as _, Linear, Statistics};
use crate::operations::Convolution;
use crate::rng::Key;

/// The sizes of a [`ResNet`].
///
/// ```
/// use glassgrad::{models::{ResNet, ResNetConfig}, rng::Key, tree::Tree};
/// let (network, _) = ResNet::new(Key::new(1), &ResNetConfig::resnet18(3, 10));
/// assert_eq!(network.element_count(), 11_173_962);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResNetConfig {
    /// The channels of an image.
    pub channels: usize,
    /// The number of classes.
    pub classes: usize,
    /// The width of each stage and its number of blocks. The first block of each stage but the first halves height and
    /// width.
    pub stages: Vec<(usize, usize)>,
}

impl ResNetConfig {
    /// ResNet-18 for images of 32×32: a stem of one 3×3 convolution without pooling, and four stages of two blocks.
    ///
    /// ```
    /// use glassgrad::models::ResNetConfig;
    /// assert_eq!(ResNetConfig::resnet18(3, 10).stages, [(64, 2), (128, 2), (256, 2), (512, 2)]);
    /// ```
    pub fn resnet18(channels: usize, classes: usize) -> ResNetConfig {
        ResNetConfig { channels, classes, stages: vec![(64, 2), (128, 2), (256, 2), (512, 2)] }
    }
}

/// A convolution without bias, followed by batch normalization.
///
/// ```
/// use glassgrad::{Tensor, models::ConvNorm, nn::Statistics, rng::Key};
/// let layer = ConvNorm::new(Key::new(1), 3, 8, 3, 2);
/// let (y, _) = layer.train(&Tensor::ones([2, 3, 8, 8]), &Statistics::new(8));
/// assert_eq!(y.shape().to_string(), "[2, 8, 4, 4]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct ConvNorm {
    /// The convolution.
    pub convolution: Conv2d,
    /// Its normalization.
    pub norm: BatchNorm,
}

impl ConvNorm {
    /// A convolution with this kernel size and stride, padded to keep the size at stride 1; He initialization.
    pub fn new(key: Key, channels: usize, outputs: usize, size: usize, stride: usize) -> ConvNorm {
        let config = Convolution::default().stride(stride).padding(size / 2);
        let convolution = Conv2d::with_init(key, channels, outputs, size, config, Initializer::HeNormal);
        ConvNorm { convolution: convolution.without_bias(), norm: BatchNorm::new(outputs) }
    }

    /// Training mode: normalized by the batch, with the next running statistics.
    #[track_caller]
    pub fn train(&self, x: &Tensor, statistics: &Statistics) -> (Tensor, Statistics) {
        self.norm.normalize(&self.convolution.apply(x), statistics)
    }

    /// Evaluation mode: normalized by the running statistics.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::ConvNorm, nn::Statistics, rng::Key};
    /// let layer = ConvNorm::new(Key::new(1), 3, 8, 3, 1);
    /// assert_eq!(layer.predict(&Tensor::ones([2, 3, 8, 8]), &Statistics::new(8)).shape().to_string(), "[2, 8, 8, 8]");
    /// ```
    #[track_caller]
    pub fn predict(&self, x: &Tensor, statistics: &Statistics) -> Tensor {
        self.norm.predict(&self.convolution.apply(x), statistics)
    }
}

/// A residual block: two 3×3 convolutions, and a shortcut, which is a 1×1 convolution where the shape changes.
#[derive(Clone, Debug, Tree)]
pub struct ResidualBlock {
    /// The first convolution, which has the stride of the block.
    pub first: ConvNorm,
    /// The second one.
    pub second: ConvNorm,
    /// The projection of the shortcut; without it the shortcut is the identity.
    pub shortcut: Option<ConvNorm>,
}

/// The running statistics of a [`ResidualBlock`].
#[derive(Clone, Debug, Tree)]
pub struct ResidualStatistics {
    /// Those of the first convolution.
    pub first: Statistics,
    /// Those of the second.
    pub second: Statistics,
    /// Those of the shortcut.
    pub shortcut: Option<Statistics>,
}

impl ResidualBlock {
    fn new(key: Key, channels: usize, outputs: usize, stride: usize) -> (ResidualBlock, ResidualStatistics) {
        let projected = stride != 1 || channels != outputs;
        let block = ResidualBlock {
            first: ConvNorm::new(key.fold(0), channels, outputs, 3, stride),
            second: ConvNorm::new(key.fold(1), outputs, outputs, 3, 1),
            shortcut: projected.then(|| ConvNorm::new(key.fold(2), channels, outputs, 1, stride)),
        };
        let statistics = ResidualStatistics {
            first: Statistics::new(outputs),
            second: Statistics::new(outputs),
            shortcut: projected.then(|| Statistics::new(outputs)),
        };
        (block, statistics)
    }

    #[track_caller]
    fn train(&self, x: &Tensor, statistics: &ResidualStatistics) -> (Tensor, ResidualStatistics) {
        let (inner, first) = self.first.train(x, &statistics.first);
        let (residual, second) = self.second.train(&inner.relu(), &statistics.second);
        let (projected, shortcut) = match (&self.shortcut, &statistics.shortcut) {
            (Some(layer), Some(before)) => {
                let (projected, after) = layer.train(x, before);
                (projected, Some(after))
            }
            _ => (x.clone(), None),
        };
        ((residual + projected).relu(), ResidualStatistics { first, second, shortcut })
    }

    #[track_caller]
    fn predict(&self, x: &Tensor, statistics: &ResidualStatistics) -> Tensor {
        let inner = self.first.predict(x, &statistics.first).relu();
        let residual = self.second.predict(&inner, &statistics.second);
        let shortcut = match (&self.shortcut, &statistics.shortcut) {
            (Some(layer), Some(statistics)) => layer.predict(x, statistics),
            _ => x.clone(),
        };
        (residual + shortcut).relu()
    }
}

/// A residual network that classifies images `[batch, channels, height, width]`.
///
/// ```
/// use glassgrad::{Tensor, models::{ResNet, ResNetConfig}, rng::Key};
/// let config = ResNetConfig { channels: 1, classes: 10, stages: vec![(8, 1), (16, 1)] };
/// let (network, statistics) = ResNet::new(Key::new(1), &config);
/// let (logits, statistics) = network.train(&Tensor::uniform(Key::new(2), [4, 1, 8, 8]), &statistics);
/// assert_eq!(logits.shape().to_string(), "[4, 10]");
/// assert_eq!(network.predict(&Tensor::ones([2, 1, 8, 8]), &statistics).shape().to_string(), "[2, 10]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct ResNet {
    /// The first convolution.
    pub stem: ConvNorm,
    /// The blocks of all stages.
    pub blocks: Vec<ResidualBlock>,
    /// From the mean over all pixels to the logits.
    pub output: Linear,
}

/// The running statistics of all normalizations of a [`ResNet`]: no parameters, and part of the state of training.
#[derive(Clone, Debug, Tree)]
pub struct ResNetStatistics {
    /// Those of the stem.
    pub stem: Statistics,
    /// Those of each block.
    pub blocks: Vec<ResidualStatistics>,
}

impl ResNet {
    /// A network with He initialization, and its running statistics before the first step.
    pub fn new(key: Key, config: &ResNetConfig) -> (ResNet, ResNetStatistics) {
        let first = config.stages.first().map_or(config.channels, |(width, _)| *width);
        let (mut blocks, mut statistics, mut channels) = (Vec::new(), Vec::new(), first);
        for (stage, (width, count)) in config.stages.iter().enumerate() {
            for number in 0..*count {
                let stride = if stage > 0 && number == 0 { 2 } else { 1 };
                let key = key.fold(2 + blocks.len() as u64);
                let (block, running) = ResidualBlock::new(key, channels, *width, stride);
                blocks.push(block);
                statistics.push(running);
                channels = *width;
            }
        }
        let network = ResNet {
            stem: ConvNorm::new(key.fold(0), config.channels, first, 3, 1),
            blocks,
            output: Linear::new(key.fold(1), channels, config.classes),
        };
        (network, ResNetStatistics { stem: Statistics::new(first), blocks: statistics })
    }

    /// The logits in training mode, and the next running statistics.
    #[track_caller]
    pub fn train(&self, images: &Tensor, statistics: &ResNetStatistics) -> (Tensor, ResNetStatistics) {
        let (stem, stem_statistics) = self.stem.train(images, &statistics.stem);
        let (mut x, mut blocks) = (stem.relu(), Vec::with_capacity(self.blocks.len()));
        for (block, statistics) in self.blocks.iter().zip(&statistics.blocks) {
            let (next, statistics) = block.train(&x, statistics);
            x = next;
            blocks.push(statistics);
        }
        (self.output.apply(&pooled(&x)), ResNetStatistics { stem: stem_statistics, blocks })
    }

    /// The logits in evaluation mode.
    #[track_caller]
    pub fn predict(&self, images: &Tensor, statistics: &ResNetStatistics) -> Tensor {
        let mut x = self.stem.predict(images, &statistics.stem).relu();
        for (block, statistics) in self.blocks.iter().zip(&statistics.blocks) {
            x = block.predict(&x, statistics);
        }
        self.output.apply(&pooled(&x))
    }

    /// The mean cross-entropy in training mode, and the next running statistics.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::{ResNet, ResNetConfig}, rng::Key};
    /// let config = ResNetConfig { channels: 1, classes: 2, stages: vec![(4, 1)] };
    /// let (network, statistics) = ResNet::new(Key::new(1), &config);
    /// let images = Tensor::uniform(Key::new(2), [4, 1, 6, 6]);
    /// let (loss, _) = network.loss(&images, &Tensor::from([0_i64, 1, 1, 0]), &statistics);
    /// assert!(loss.item().unwrap() > 0.0);
    /// ```
    #[track_caller]
    pub fn loss(&self, images: &Tensor, classes: &Tensor, statistics: &ResNetStatistics) -> (Tensor, ResNetStatistics) {
        let (logits, statistics) = self.train(images, statistics);
        (loss::cross_entropy(&logits, classes).mean(), statistics)
    }
}

/// The mean over height and width.
#[track_caller]
fn pooled(x: &Tensor) -> Tensor {
    x.mean_over(&[-2, -1][..])
}
