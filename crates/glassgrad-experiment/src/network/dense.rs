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
    /// The values of all units for a batch: of each hidden layer after its activation, and the outputs.
    #[track_caller]
    pub fn activations(&self, x: &Tensor) -> Vec<Tensor> {
        let mut values: Vec<Tensor> = Vec::new();
        for layer in &self.layers {
            let input = values.last().map_or_else(|| x.clone(), |before| self.activation.apply(before));
            values.push(layer.apply(&input));
        }
        let hidden = values.len().saturating_sub(1);
        values[..hidden].iter_mut().for_each(|value| *value = self.activation.apply(value));
        values
    }

    /// One linear layer, and nothing else.
    pub(super) fn linear(layer: Linear) -> Dense {
        Dense { layers: vec![layer], activation: Activation::Identity, dropout: Dropout::new(0.0) }
    }
}
