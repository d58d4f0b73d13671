//! Residual network with batch normalization over images, and augmentation of what it trains on.

use glassgrad::data::{random_crop, random_flip};
use glassgrad::expr::Keys;
use glassgrad::models::{ResNet, ResNetConfig, ResNetStatistics};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Tree};

use super::{Family, IoSpec};
use crate::failure::Failure;
use crate::settings::{Augment, Settings};
use crate::task::View;

#[derive(Clone, Debug, Tree)]
pub struct Residual {
    network: ResNet,
    /// The running statistics, which no gradient updates: see [`super::STATE`].
    statistics: ResNetStatistics,
    #[tree(static)]
    size: [usize; 2],
    #[tree(static)]
    augment: Augment,
}

/// Blocks of each stage.
const BLOCKS: usize = 2;

impl Family for Residual {
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Residual, Failure> {
        let View::Image { height, width } = ends.view else {
            let message =
                "--model resnet: a residual network needs images (digits, mnist, fashion, or an .npz file of images)";
            return Err(Failure::Input(message.to_owned()));
        };
        if settings.layers.is_empty() {
            return Err(Failure::Input(
                "--layers: a resnet has the channels of one or more stages, as in 16,32".to_owned(),
            ));
        }
        let stages = settings.layers.iter().map(|channels| (*channels, BLOCKS)).collect();
        let config = ResNetConfig { channels: 1, classes: ends.outputs, stages };
        let (network, statistics) = ResNet::new(key, &config);
        Ok(Residual { network, statistics, size: [height, width], augment: settings.augment })
    }

    #[track_caller]
    fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
        match key {
            Some(key) => self.train(x, key).0,
            None => self.network.predict(&self.images(x), &self.statistics),
        }
    }

    #[track_caller]
    fn train(&self, x: &Tensor, key: &Keys) -> (Tensor, Option<Residual>) {
        let mut images = self.images(x);
        if self.augment != Augment::None {
            // An eighth of the size, as four pixels of images of 32×32.
            images = random_crop(&images, self.size[0].max(self.size[1]).div_ceil(8), &key.fold(0));
        }
        if self.augment == Augment::CropFlip {
            images = random_flip(&images, &key.fold(1));
        }
        let (logits, statistics) = self.network.train(&images, &self.statistics);
        (logits, Some(Residual { statistics, ..self.clone() }))
    }
}

impl Residual {
    #[track_caller]
    fn images(&self, x: &Tensor) -> Tensor {
        x.reshape([x.shape()[0], 1, self.size[0], self.size[1]])
    }
}
