//! A block of a Transformer, forwards and backwards: width 128, 4 heads, 64 places, batch 16, 32 bits.
//!
//! Normalisation stands in front of attention and of the two layers, whose inner width is four times the outer.

use glassgrad::dtype::DType;
use glassgrad::{Tensor, Tree};

use super::data::Source;
use super::gradient::Gradient;

const BATCH: usize = 16;
const PLACES: usize = 64;
const WIDTH: usize = 128;
const HEADS: usize = 4;
const INNER: usize = 4 * WIDTH;

#[derive(Tree)]
pub(super) struct Block {
    /// Queries, keys and values side by side.
    attention: (Tensor, Tensor),
    projection: (Tensor, Tensor),
    expansion: (Tensor, Tensor),
    contraction: (Tensor, Tensor),
    /// Scale and shift of the normalisations.
    norms: [(Tensor, Tensor); 2],
}

pub(super) fn workload() -> Gradient<Block, Tensor> {
    let mut source = Source::default();
    let (attention, projection) = (source.layer(WIDTH, 3 * WIDTH), source.layer(WIDTH, WIDTH));
    let (expansion, contraction) = (source.layer(WIDTH, INNER), source.layer(INNER, WIDTH));
    let norms = [(); 2].map(|()| {
        let mut draw = |low, high| source.uniform([WIDTH], low, high, DType::F32);
        (draw(0.5, 1.5), draw(-0.5, 0.5))
    });
    let input = source.uniform([BATCH, PLACES, WIDTH], -1.0, 1.0, DType::F32);
    Gradient::new(loss, Block { attention, projection, expansion, contraction, norms }, input)
}

/// The mean square of the block's result.
fn loss(block: &Block, input: &Tensor) -> Tensor {
    let attended = input + attention(block, &normalised(input, &block.norms[0]));
    let inner = linear(&normalised(&attended, &block.norms[1]), &block.expansion).gelu();
    (&attended + linear(&inner, &block.contraction)).square().mean()
}

fn attention(block: &Block, x: &Tensor) -> Tensor {
    let all = linear(x, &block.attention).reshape([BATCH, PLACES, 3, HEADS, WIDTH / HEADS]);
    let part = |k: isize| all.slice(&[(..).into(), (..).into(), k.into()]);
    let (queries, keys, values) = (part(0), part(1), part(2));
    let scale = 1.0 / ((WIDTH / HEADS) as f64).sqrt();
    let scores = Tensor::einsum("bqhd,bkhd->bhqk", &[&queries, &keys]) * scale;
    let mixed = Tensor::einsum("bhqk,bkhd->bqhd", &[&scores.softmax(-1), &values]);
    linear(&mixed.reshape([BATCH, PLACES, WIDTH]), &block.projection)
}

fn linear(x: &Tensor, (weight, bias): &(Tensor, Tensor)) -> Tensor {
    x.matmul(weight) + bias
}

fn normalised(x: &Tensor, (scale, shift): &(Tensor, Tensor)) -> Tensor {
    const EPSILON: f64 = 1e-5;
    let centred = x - x.mean_over(-1).unsqueeze(-1);
    let variance = centred.square().mean_over(-1).unsqueeze(-1);
    centred / (variance + EPSILON).sqrt() * scale + shift
}
