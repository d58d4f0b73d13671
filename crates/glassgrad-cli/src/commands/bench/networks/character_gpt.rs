//! A character GPT: 6 layers of width 384 with 6 heads, 65 characters, embeddings tied to the output; a step of AdamW on
//! 8 sequences of 128 tokens.

use glassgrad::Tensor;
use glassgrad::models::{Gpt, GptConfig};
use glassgrad::nn::Layer as _;
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};
use super::filled;

const BATCH: usize = 8;
pub(super) const CONFIG: GptConfig = GptConfig { context: 128, dropout: 0.0, ..GptConfig::character(65) };

type Data = (Tensor, Tensor);

pub(super) fn workload() -> Training<Gpt, Data> {
    let mut source = Source::default();
    let network = filled(&mut source, &Gpt::new(Key::new(0), &CONFIG));
    let count = BATCH * CONFIG.context;
    let tokens = source.indices(count, CONFIG.vocabulary).reshape([BATCH, CONFIG.context]);
    let targets = source.targets(count, CONFIG.vocabulary);
    Training::new(loss, Optimizer::adamw(3e-4, 0.01), Mode::Compiled, network, vec![(tokens, targets)])
}

fn loss(network: &Gpt, (tokens, targets): &Data) -> Tensor {
    let count = BATCH * CONFIG.context;
    cross_entropy(&network.apply(tokens).reshape([count, CONFIG.vocabulary]), targets)
}
