//! A block of a Transformer, forwards and backwards: width 128, 4 heads, 64 places, batch 16, 32 bits.
//!
//! Normalisation stands in front of attention and of the two layers, whose inner width is four times the outer.

use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Dropout, Layer as _, LayerNorm, Linear, MultiHeadAttention, TransformerBlock};
use glassgrad::{Tensor, Tree};

use super::data::Source;
use super::gradient::Gradient;

const BATCH: usize = 16;
const PLACES: usize = 64;
const WIDTH: usize = 128;
const HEADS: usize = 4;
const INNER: usize = 4 * WIDTH;

/// The parts of a block, in the order in which all engines draw them.
#[derive(Tree)]
pub(super) struct Parts {
    attention: MultiHeadAttention,
    linear: (Linear, Activation, Linear),
    norms: [LayerNorm; 2],
}

pub(super) fn workload() -> Gradient<Parts, Tensor> {
    let mut source = Source::default();
    let (input, output) = (source.layer(WIDTH, 3 * WIDTH), source.layer(WIDTH, WIDTH));
    let attention = MultiHeadAttention { input, output, heads: HEADS, causal: false };
    let linear = (source.layer(WIDTH, INNER), Activation::Gelu, source.layer(INNER, WIDTH));
    let norms = [(); 2].map(|()| {
        let mut draw = |low, high| source.uniform([WIDTH], low, high, DType::F32);
        LayerNorm { scale: draw(0.5, 1.5), shift: draw(-0.5, 0.5), epsilon: 1e-5 }
    });
    let input = source.uniform([BATCH, PLACES, WIDTH], -1.0, 1.0, DType::F32);
    Gradient::new(loss, Parts { attention, linear, norms }, input)
}

/// The mean square of the block's result.
fn loss(Parts { attention, linear, norms: [attention_norm, linear_norm] }: &Parts, input: &Tensor) -> Tensor {
    let block = TransformerBlock {
        attention_norm: attention_norm.clone(),
        attention: attention.clone(),
        linear_norm: linear_norm.clone(),
        linear: linear.clone(),
        dropout: Dropout::new(0.0),
    };
    block.apply(input).square().mean()
}
