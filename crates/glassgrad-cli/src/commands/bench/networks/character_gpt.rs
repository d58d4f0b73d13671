//! GPTs with embeddings tied to the output, a step of AdamW: a character model of 6 layers of width 384 with 6 heads and 65 characters
//! on 8 sequences of 128 tokens; the same on 64 sequences of 256, and GPT-2 with 124 million parameters on 16 of 1024, for a GPU.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::models::{Gpt, GptConfig};
use glassgrad::nn::Layer as _;
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::train::Precision;

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};
use super::{filled, rounded};

const BATCH: usize = 8;
pub(super) const CONFIG: GptConfig = GptConfig { context: 128, dropout: 0.0, ..GptConfig::character(65) };

type Data = (Tensor, Tensor);

pub(super) fn workload() -> Training<Gpt, Data> {
    training(loss)
}

/// The same in mixed precision: `bf16`, with parameters and optimizer in 32 bits.
pub(super) fn in_bf16() -> Training<Gpt, Data> {
    training(|network, data| loss(&rounded(network, DType::BF16), data)).without_differences()
}

fn training(loss: fn(&Gpt, &Data) -> Tensor) -> Training<Gpt, Data> {
    let mut source = Source::default();
    let network = filled(&mut source, &Gpt::new(Key::new(0), &CONFIG));
    let count = BATCH * CONFIG.context;
    let tokens = source.indices(count, CONFIG.vocabulary).reshape([BATCH, CONFIG.context]);
    let targets = source.targets(count, CONFIG.vocabulary);
    Training::new(loss, Optimizer::adamw(3e-4, 0.01), Mode::Compiled, network, vec![(tokens, targets)])
}

/// The sizes for a GPU: a batch, and a network whose vocabulary is a multiple of 64, as products on tensor cores want it.
const WIDE: (usize, GptConfig) = (64, GptConfig { context: 256, ..CONFIG });
const GPT2: (usize, GptConfig) = (16, GptConfig { vocabulary: 50_304, dropout: 0.0, ..GptConfig::GPT2 });

/// The character model at a size for a GPU.
pub(super) fn wide(precision: Precision) -> Training<Gpt, Data> {
    large(WIDE, precision)
}

/// GPT-2 with 124 million parameters.
pub(super) fn gpt2(precision: Precision) -> Training<Gpt, Data> {
    large(GPT2, precision)
}

fn large((batch, config): (usize, GptConfig), precision: Precision) -> Training<Gpt, Data> {
    let mut source = Source::default();
    let network = filled(&mut source, &Gpt::new(Key::new(0), &config));
    let mut tokens = || source.indices(batch * config.context, config.vocabulary).reshape([batch, config.context]);
    let (inputs, targets) = (tokens(), tokens());
    // Evaluated, so that a step reads them where they lie.
    let data = [inputs, targets].map(|tokens| tokens.detach().unwrap_or(tokens));
    let [inputs, targets] = data;
    let loss: fn(&Gpt, &Data) -> Tensor = match precision {
        Precision::Full => |network, (tokens, targets)| network.loss(tokens, targets),
        Precision::Bf16 => |network, (tokens, targets)| rounded(network, DType::BF16).loss(tokens, targets),
        Precision::F16 => |network, (tokens, targets)| rounded(network, DType::F16).loss(tokens, targets),
    };
    let optimizer = Optimizer::adamw(3e-4, 0.01);
    Training::new(loss, optimizer, Mode::Compiled, network, vec![(inputs, targets)]).without_differences()
}

fn loss(network: &Gpt, (tokens, targets): &Data) -> Tensor {
    let count = BATCH * CONFIG.context;
    cross_entropy(&network.apply(tokens).reshape([count, CONFIG.vocabulary]), targets)
}
