//! A character GPT: 6 layers of width 384 with 6 heads, 65 characters, embeddings tied to the output; a step of AdamW on
//! 8 sequences of 128 tokens.

use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Dropout, Layer as _, LayerNorm, MultiHeadAttention, TransformerBlock};
use glassgrad::optim::Optimizer;
use glassgrad::{Tensor, Tree};

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};

const BATCH: usize = 8;
const TOKENS: usize = 128;
const CHARACTERS: usize = 65;
const WIDTH: usize = 384;
const HEADS: usize = 6;
const LAYERS: usize = 6;

/// The network.
#[derive(Tree)]
pub(super) struct Gpt {
    characters: Tensor,
    positions: Tensor,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
}

type Data = (Tensor, Tensor);

pub(super) fn workload() -> Training<Gpt, Data> {
    let mut source = Source::default();
    let characters = source.uniform([CHARACTERS, WIDTH], -0.05, 0.05, DType::F32);
    let positions = source.uniform([TOKENS, WIDTH], -0.05, 0.05, DType::F32);
    let blocks = (0..LAYERS).map(|_| block(&mut source)).collect();
    let network = Gpt { characters, positions, blocks, norm: LayerNorm::new(WIDTH) };
    let tokens = source.indices(BATCH * TOKENS, CHARACTERS).reshape([BATCH, TOKENS]);
    let targets = source.targets(BATCH * TOKENS, CHARACTERS);
    let optimizer = Optimizer::adamw(3e-4, 0.01);
    Training::new(loss, optimizer, Mode::Compiled, network, vec![(tokens, targets)])
}

fn block(source: &mut Source) -> TransformerBlock {
    let (input, output) = (source.layer(WIDTH, 3 * WIDTH), source.layer(WIDTH, WIDTH));
    TransformerBlock {
        attention_norm: LayerNorm::new(WIDTH),
        attention: MultiHeadAttention { input, output, heads: HEADS, causal: true },
        linear_norm: LayerNorm::new(WIDTH),
        linear: (source.layer(WIDTH, 4 * WIDTH), Activation::Gelu, source.layer(4 * WIDTH, WIDTH)),
        dropout: Dropout::new(0.0),
    }
}

fn loss(network: &Gpt, (tokens, targets): &Data) -> Tensor {
    let embedded = network.characters.embedding(tokens) + &network.positions;
    let features = network.blocks.iter().fold(embedded, |x, block| block.apply(&x));
    let features = network.norm.apply(&features).reshape([BATCH * TOKENS, WIDTH]);
    cross_entropy(&features.matmul(&network.characters.transpose()), targets)
}
