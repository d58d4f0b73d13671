//! Units that see a few others each, by random wires.

use glassgrad::expr::Keys;
use glassgrad::nn::{Activation, Layer, Linear, SparseLinear};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Tree};

use super::{Family, IoSpec, numbers};
use crate::failure::Failure;
use crate::settings::Settings;

#[derive(Clone, Debug, Tree)]
pub struct Sparse {
    layers: Vec<SparseLinear>,
    output: Linear,
    activation: Activation,
}

impl Family for Sparse {
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Sparse, Failure> {
        let widths = [&[numbers(settings, ends)?], &settings.layers[..]].concat();
        let layer = |(number, ends): (usize, &[usize])| {
            SparseLinear::new(key.fold(number as u64), ends[0], ends[1], settings.fan_in.max(1))
        };
        let last = widths[widths.len() - 1];
        Ok(Sparse {
            layers: widths.windows(2).enumerate().map(layer).collect(),
            output: Linear::with_init(key.fold(widths.len() as u64), last, ends.outputs, settings.init.initializer()),
            activation: settings.activation.layer(),
        })
    }

    /// There is nothing random in it.
    #[track_caller]
    fn run(&self, x: &Tensor, _: Option<&Keys>) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = self.activation.apply(&layer.apply(&x));
        }
        self.output.apply(&x)
    }
}
