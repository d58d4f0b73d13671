//! Recurrent networks, which read an example step by step: the rows of an image, the numbers of a row, the characters of a text.

use glassgrad::expr::{Keys, s};
use glassgrad::nn::{Cell, Dropout, Embedding, Gru, Layer, Linear, Lstm, Recurrent, Rnn};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Tree};

use super::{Family, IoSpec, noisy};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::task::View;

/// Layers of one cell; the output is computed from the states of the last one.
#[derive(Clone, Debug, Tree)]
pub struct Reader<C> {
    embedding: Option<Embedding>,
    layers: Vec<Recurrent<C>>,
    output: Linear,
    dropout: Dropout,
    /// The width of a time step; `None` for text, which is embedded.
    #[tree(static)]
    step: Option<usize>,
}

/// A cell that can be drawn.
trait Drawn {
    fn drawn(key: Key, inputs: usize, states: usize) -> Self;
}

macro_rules! drawn {
    ($($Cell:ident),*) => { $(
        impl Drawn for $Cell {
            fn drawn(key: Key, inputs: usize, states: usize) -> $Cell {
                $Cell::new(key, inputs, states)
            }
        }
    )* };
}

drawn!(Rnn, Lstm, Gru);

impl<C: Cell + Drawn + glassgrad::tree::Tree> Family for Reader<C> {
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Reader<C>, Failure> {
        let Some(first) = settings.layers.first() else {
            return Err(Failure::Input("--layers: a recurrent network has at least one layer".to_owned()));
        };
        let (embedding, step) = match ends.view {
            View::Text { symbols } => (Some(Embedding::new(key.fold(0), symbols, *first)), None),
            View::Image { width, .. } => (None, Some(width)),
            View::Row { .. } => (None, Some(1)),
        };
        let widths = [&[step.unwrap_or(*first)], &settings.layers[..]].concat();
        let layer =
            |(number, ends): (usize, &[usize])| Recurrent::new(C::drawn(key.fold(1 + number as u64), ends[0], ends[1]));
        let last = settings.layers[settings.layers.len() - 1];
        Ok(Reader {
            embedding,
            layers: widths.windows(2).enumerate().map(layer).collect(),
            output: Linear::new(key.fold(100), last, ends.outputs),
            dropout: Dropout::new(settings.dropout),
            step,
        })
    }

    #[track_caller]
    fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
        let batch = x.shape()[0];
        // Recurrent layers have the time in front.
        let mut sequence = match (&self.embedding, self.step) {
            (Some(embedding), _) => noisy(&self.dropout, embedding.apply(&x.transpose()), key, 0),
            (None, step) => {
                let step = step.unwrap_or(1);
                x.reshape([batch, x.shape()[1] / step, step]).swap_axes(0, 1)
            }
        };
        for (number, layer) in self.layers.iter().enumerate() {
            sequence = noisy(&self.dropout, layer.apply(&sequence), key, 1 + number as u64);
        }
        match self.step {
            // A prediction after each character.
            None => self.output.apply(&sequence.swap_axes(0, 1)),
            // A prediction after the last step.
            Some(_) => self.output.apply(&sequence.slice(&[s(-1)])),
        }
    }
}
