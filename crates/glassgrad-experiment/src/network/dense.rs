//! Multilayer perceptron: linear layers with an activation, and optional dropout, between them.

use glassgrad::expr::Keys;
use glassgrad::nn::{Activation, Dropout, Layer, Linear, Mlp};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Tree};

use super::{Family, IoSpec, noisy, numbers};
use crate::failure::Failure;
use crate::settings::Settings;

#[derive(Clone, Debug, Tree)]
pub struct Dense {
    pub layers: Vec<Linear>,
    pub activation: Activation,
    dropout: Dropout,
}

impl Family for Dense {
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Dense, Failure> {
        let widths = [&[numbers(settings, ends)?], &settings.layers[..], &[ends.outputs]].concat();
        let Mlp { layers, activation } =
            Mlp::with_init(key, &widths, settings.activation.layer(), settings.init.initializer());
        Ok(Dense { layers, activation, dropout: Dropout::new(settings.dropout) })
    }

    #[track_caller]
    fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
        let mut x = x.clone();
        for (number, layer) in self.layers.iter().enumerate() {
            if number > 0 {
                x = noisy(&self.dropout, self.activation.apply(&x), key, number as u64);
            }
            x = layer.apply(&x);
        }
        x
    }
}

impl Dense {
    /// One linear layer, and nothing else.
    pub(super) fn linear(layer: Linear) -> Dense {
        Dense { layers: vec![layer], activation: Activation::Identity, dropout: Dropout::new(0.0) }
    }
}
