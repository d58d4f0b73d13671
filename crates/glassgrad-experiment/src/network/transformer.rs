//! Blocks of attention over the characters of a text, the rows of an image, or the numbers of a row.

use glassgrad::expr::Keys;
use glassgrad::nn::{Dropout, Embedding, Fans, Initializer, Layer, LayerNorm, Linear, TransformerBlock};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Tree};

use super::{Family, IoSpec};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::task::View;

#[derive(Clone, Debug, Tree)]
pub struct Transformer {
    input: Input,
    /// Positional encoding.
    places: Tensor,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    output: Linear,
    dropout: Dropout,
}

/// The embedding of each position.
#[derive(Clone, Debug, Tree)]
enum Input {
    Symbols(Embedding),
    Numbers(Linear, #[tree(static)] usize),
}

impl Family for Transformer {
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Transformer, Failure> {
        let width = common_width(settings)?;
        let small = |key: Key, shape: [usize; 2]| {
            Initializer::Normal(0.02).draw(key, shape, Fans::of_matrix(shape[0], shape[1]))
        };
        let (input, places, is_text) = match ends.view {
            View::Text { symbols } => {
                (Input::Symbols(Embedding { weight: small(key.fold(0), [symbols, width]) }), settings.context, true)
            }
            View::Image { height, width: columns } => {
                (Input::Numbers(Linear::new(key.fold(0), columns, width), columns), height, false)
            }
            View::Row { numbers } => (Input::Numbers(Linear::new(key.fold(0), 1, width), 1), numbers, false),
        };
        let block = |number: usize| {
            let block = TransformerBlock::new(key.fold(10 + number as u64), width, settings.heads);
            let attention = if is_text { block.attention.clone().causal() } else { block.attention.clone() };
            TransformerBlock { attention, dropout: Dropout::new(settings.dropout), ..block }
        };
        Ok(Transformer {
            input,
            places: small(key.fold(1), [places, width]),
            blocks: (0..settings.layers.len()).map(block).collect(),
            norm: LayerNorm::new(width),
            output: Linear::new(key.fold(2), width, ends.outputs),
            dropout: Dropout::new(settings.dropout),
        })
    }

    #[track_caller]
    fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
        let vectors = match &self.input {
            Input::Symbols(embedding) => embedding.apply(x),
            Input::Numbers(linear, step) => linear.apply(&x.reshape([x.shape()[0], x.shape()[1] / step, *step])),
        };
        let count = vectors.shape()[1] as isize;
        let x = vectors + self.places.slice(&[(..count).into()]);
        let x = match key {
            Some(key) => self.blocks.apply_train(&self.dropout.apply_train(&x, &key.fold(0)), &key.fold(1)),
            None => self.blocks.apply(&x),
        };
        let x = self.norm.apply(&x);
        match &self.input {
            Input::Symbols(_) => self.output.apply(&x),
            Input::Numbers(..) => self.output.apply(&x.mean_over(1)),
        }
    }
}

/// The width of all blocks, which the heads share evenly.
pub(super) fn common_width(settings: &Settings) -> Result<usize, Failure> {
    let Some(width) = settings.layers.first().copied() else {
        return Err(Failure::Input("--layers: a transformer has at least one block".to_owned()));
    };
    if settings.layers.iter().any(|other| *other != width) {
        return Err(Failure::Input("--layers: the blocks of a transformer are equally wide, as in 64,64".to_owned()));
    }
    if settings.heads == 0 || !width.is_multiple_of(settings.heads) {
        let message = format!("--heads {}: heads share the width of {width} evenly", settings.heads);
        return Err(Failure::Input(message));
    }
    Ok(width)
}
