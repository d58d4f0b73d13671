//! Decoder-only Transformers with tied embeddings: GPT-2, and character models of the same architecture.

use crate::Tree;
use crate::compile::compile;
use crate::diff::checkpoint;
use crate::error::Error;
use crate::expr::{Keys, Tensor, s};
use crate::loss;
use crate::nn::{
    Activation, Dropout, Embedding, Fans, Initializer, KvCache, Layer, LayerNorm, Linear, MultiHeadAttention,
    TransformerBlock,
};
use crate::optim::{Adam, Optimizer, Schedule};
use crate::rng::Key;

/// The sizes of a [`Gpt`].
///
/// ```
/// use glassgrad::models::GptConfig;
/// assert_eq!(GptConfig::GPT2.parameters(), 124_439_808);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptConfig {
    /// The number of tokens.
    pub vocabulary: usize,
    /// The context length: the number of positions that have an embedding.
    pub context: usize,
    /// The width of the residual stream.
    pub width: usize,
    /// The number of blocks.
    pub layers: usize,
    /// The number of attention heads, which share the width evenly.
    pub heads: usize,
    /// The dropout probability of embeddings and residual branches, in training.
    pub dropout: f64,
}

impl GptConfig {
    /// GPT-2 with 124 million parameters.
    pub const GPT2: GptConfig =
        GptConfig { vocabulary: 50_257, context: 1024, width: 768, layers: 12, heads: 12, dropout: 0.1 };

    /// GPT-2 medium, 355 million parameters.
    pub const GPT2_MEDIUM: GptConfig = GptConfig { width: 1024, layers: 24, heads: 16, ..GptConfig::GPT2 };

    /// GPT-2 large, 774 million parameters.
    pub const GPT2_LARGE: GptConfig = GptConfig { width: 1280, layers: 36, heads: 20, ..GptConfig::GPT2 };

    /// GPT-2 XL, 1.56 billion parameters.
    pub const GPT2_XL: GptConfig = GptConfig { width: 1600, layers: 48, heads: 25, ..GptConfig::GPT2 };

    /// A character model: 6 blocks of width 384 with 6 heads, and a context of 256 characters.
    ///
    /// ```
    /// use glassgrad::models::GptConfig;
    /// assert_eq!(GptConfig::character(65).parameters(), 10_770_816);
    /// ```
    pub const fn character(vocabulary: usize) -> GptConfig {
        GptConfig { vocabulary, context: 256, width: 384, layers: 6, heads: 6, dropout: 0.2 }
    }

    /// The number of parameters of a network of these sizes. The token embedding counts once: the output projection is the
    /// same matrix.
    ///
    /// ```
    /// use glassgrad::models::{Gpt, GptConfig};
    /// use glassgrad::{rng::Key, tree::Tree};
    /// let config = GptConfig { vocabulary: 11, context: 6, width: 8, layers: 2, heads: 2, dropout: 0.0 };
    /// assert_eq!(Gpt::new(Key::new(1), &config).element_count(), config.parameters());
    /// assert_eq!(GptConfig::GPT2_XL.parameters(), 1_557_611_200);
    /// ```
    pub const fn parameters(&self) -> usize {
        let GptConfig { vocabulary, context, width, layers, .. } = *self;
        // A block has twelve squares of the width; biases of 3 + 1 + 4 + 1 widths; scale and shift of two normalizations.
        (vocabulary + context) * width + layers * (12 * width * width + 13 * width) + 2 * width
    }
}

/// A decoder-only Transformer: token and position embeddings, causal pre-norm blocks with the tanh form of GELU, a last
/// layer normalization, and an output projection that is the transposed token embedding (tied embeddings).
///
/// The tied matrix is one leaf, `tokens.weight`, which the forward pass reads twice: its gradient is the sum of both
/// contributions, the optimizer has one slot for it, and files hold it once.
///
/// ```
/// use glassgrad::{Tensor, grad, models::{Gpt, GptConfig}, nn::Layer, rng::Key, tree::Tree};
/// let config = GptConfig { vocabulary: 11, context: 6, width: 8, layers: 2, heads: 2, dropout: 0.0 };
/// let network = Gpt::new(Key::new(1), &config);
/// let tokens = Tensor::from([[1_i64, 4, 2], [7, 0, 10]]);
/// assert_eq!(network.apply(&tokens).shape().to_string(), "[2, 3, 11]");
/// let targets = Tensor::from([[4_i64, 2, 9], [0, 10, 3]]);
/// // Small initial weights: about the entropy of the uniform distribution.
/// let loss = network.loss(&tokens, &targets);
/// assert!((loss.item().unwrap() - 11.0_f64.ln()).abs() < 0.05);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Gpt {
    /// The token embedding, tied to the output projection.
    pub tokens: Embedding,
    /// The position embedding.
    pub positions: Embedding,
    /// The blocks.
    pub blocks: Vec<TransformerBlock>,
    /// The layer normalization before the output projection.
    pub norm: LayerNorm,
    /// Dropout of the embeddings, in training.
    pub dropout: Dropout,
}

/// From this vocabulary on probabilities are computed again in the reverse sweep: they are the largest arrays of a step.
const LARGE_VOCABULARY: usize = 4096;

/// The mean cross-entropy of logits `[…, vocabulary]`.
#[track_caller]
fn loss_of(logits: &Tensor, targets: &Tensor) -> Tensor {
    let mean = |logits: &Tensor| loss::cross_entropy(logits, targets).mean();
    match logits.shape().last() {
        Some(LARGE_VOCABULARY..) => checkpoint(mean)(logits),
        _ => mean(logits),
    }
}

/// The standard deviation of initial weights.
const DEVIATION: f64 = 0.02;

impl Gpt {
    /// A network with the initialization of GPT-2: weights normal with the standard deviation 0.02, those of residual
    /// projections divided by √(2 · layers), biases 0. Heads that do not share the width evenly are an error when the network
    /// is applied.
    pub fn new(key: Key, config: &GptConfig) -> Gpt {
        let GptConfig { vocabulary, context, width, layers, heads, dropout } = *config;
        let normal = |key: Key, rows: usize, columns: usize, deviation: f64| {
            Initializer::Normal(deviation).draw(key, [rows, columns], Fans::of_matrix(rows, columns))
        };
        let linear = |key: Key, inputs: usize, outputs: usize, deviation: f64| Linear {
            weight: normal(key, inputs, outputs, deviation),
            bias: Some(Tensor::zeros([outputs])),
        };
        let residual = DEVIATION / (2.0 * layers.max(1) as f64).sqrt();
        let block = |number: usize| {
            let key = key.fold(2 + number as u64);
            let attention = MultiHeadAttention {
                input: linear(key.fold(0), width, 3 * width, DEVIATION),
                output: linear(key.fold(1), width, width, residual),
                heads,
                causal: true,
            };
            let expansion = linear(key.fold(2), width, 4 * width, DEVIATION);
            let contraction = linear(key.fold(3), 4 * width, width, residual);
            TransformerBlock {
                attention_norm: LayerNorm::new(width),
                attention,
                linear_norm: LayerNorm::new(width),
                linear: (expansion, Activation::GeluTanh, contraction),
                dropout: Dropout::new(dropout),
            }
        };
        Gpt {
            tokens: Embedding { weight: normal(key.fold(0), vocabulary, width, DEVIATION) },
            positions: Embedding { weight: normal(key.fold(1), context, width, DEVIATION) },
            blocks: (0..layers).map(block).collect(),
            norm: LayerNorm::new(width),
            dropout: Dropout::new(dropout),
        }
    }

    /// The sizes of this network.
    ///
    /// ```
    /// use glassgrad::{models::{Gpt, GptConfig}, rng::Key};
    /// let config = GptConfig { vocabulary: 11, context: 6, width: 8, layers: 2, heads: 2, dropout: 0.1 };
    /// assert_eq!(Gpt::new(Key::new(1), &config).config(), config);
    /// ```
    pub fn config(&self) -> GptConfig {
        let size = |table: &Embedding, axis: usize| table.weight.shape().get(axis).copied().unwrap_or(0);
        GptConfig {
            vocabulary: size(&self.tokens, 0),
            context: size(&self.positions, 0),
            width: size(&self.tokens, 1),
            layers: self.blocks.len(),
            heads: self.blocks.first().map_or(1, |block| block.attention.heads),
            dropout: self.dropout.rate,
        }
    }

    /// The mean cross-entropy of the tokens that follow, in evaluation mode. Tokens and targets are `[batch, positions]`.
    #[track_caller]
    pub fn loss(&self, tokens: &Tensor, targets: &Tensor) -> Tensor {
        loss_of(&self.apply(tokens), targets)
    }

    /// The same in training mode, with dropout.
    ///
    /// ```
    /// use glassgrad::{Tensor, models::{Gpt, GptConfig}, rng::Key};
    /// let config = GptConfig { vocabulary: 5, context: 4, width: 8, layers: 1, heads: 2, dropout: 0.5 };
    /// let (network, tokens) = (Gpt::new(Key::new(1), &config), Tensor::from([[1_i64, 2, 3]]));
    /// let loss = |key: u64| network.loss_train(&tokens, &tokens, &Key::new(key).into()).item().unwrap();
    /// assert_ne!(loss(1), loss(2));
    /// ```
    #[track_caller]
    pub fn loss_train(&self, tokens: &Tensor, targets: &Tensor, key: &Keys) -> Tensor {
        loss_of(&self.apply_train(tokens, key), targets)
    }

    /// AdamW as GPTs are trained: β₂ = 0.95, decay of matrices only, gradients clipped to the norm 1, a linear warm-up and a
    /// cosine schedule down to a tenth of the learning rate after `steps` steps in all. Gradient accumulation is
    /// `Training::accumulate`.
    ///
    /// ```
    /// use glassgrad::models::Gpt;
    /// let optimizer = Gpt::optimizer(6e-4, 0.1, 100, 1000);
    /// assert_eq!(optimizer.names(), ["clip by norm", "Adam", "selected decay"]);
    /// assert!((optimizer.rate_at(50) - 3e-4).abs() < 1e-12 && (optimizer.rate_at(1001) - 6e-5).abs() < 1e-9);
    /// ```
    pub fn optimizer(rate: f64, decay: f64, warm_up: u64, steps: u64) -> Optimizer {
        let cosine = Schedule::Cosine { steps: steps.saturating_sub(warm_up).max(1), least: 0.1 };
        let schedule = Schedule::WarmUp { steps: warm_up, then: Box::new(cosine) };
        let adam = Optimizer::new(rate).link(Adam { beta2: 0.95, ..Adam::default() });
        adam.matrix_decay(decay).clip_norm(1.0).schedule(schedule)
    }

    #[track_caller]
    fn run(&self, tokens: &Tensor, key: Option<&Keys>) -> Tensor {
        let [.., count] = tokens.shape()[..] else {
            let message = format!("tokens are [batch, positions], not {}", tokens.describe());
            return Tensor::refused(Error::new("gpt", message), &[tokens]);
        };
        if let Some(failed) = self.too_long(tokens, count) {
            return failed;
        }
        let positions = self.positions.weight.slice(&[s(..count as isize)]);
        let embedded = self.tokens.apply(tokens) + positions;
        let features = match key {
            Some(key) => self.blocks.apply_train(&self.dropout.apply_train(&embedded, &key.fold(0)), &key.fold(1)),
            None => self.blocks.apply(&embedded),
        };
        self.tokens.logits(&self.norm.apply(&features))
    }

    /// The error for more positions than there are embeddings.
    #[track_caller]
    fn too_long(&self, tokens: &Tensor, count: usize) -> Option<Tensor> {
        let context = self.positions.weight.shape().first().copied().unwrap_or(0);
        if count <= context || tokens.error().is_some() {
            return None;
        }
        let message = format!("{count} positions, and the network has embeddings of {context}");
        let help = "shorten the sequence, or build the network with a longer GptConfig::context";
        Some(Tensor::refused(Error::new("gpt", message).help(help), &[tokens]))
    }

    /// Empty KV caches, one for each block, for a batch of sequences of at most `capacity` positions.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::s, models::{Gpt, GptConfig}, nn::Layer, rng::Key};
    /// let config = GptConfig { vocabulary: 9, context: 8, width: 8, layers: 2, heads: 2, dropout: 0.0 };
    /// let network = Gpt::new(Key::new(1), &config);
    /// let tokens = Tensor::from([[1_i64, 4, 2, 7]]);
    /// let (first, cache) = network.apply_cached(&tokens.slice(&[s(..), s(..3)]), &network.cache(1, 8));
    /// let (second, _) = network.apply_cached(&tokens.slice(&[s(..), s(3..)]), &cache);
    /// let apart = network.apply(&tokens) - Tensor::concatenate([&first, &second], 1);
    /// assert!(apart.abs().max().item().unwrap() < 1e-6);
    /// ```
    #[track_caller]
    pub fn cache(&self, batch: usize, capacity: usize) -> Vec<KvCache> {
        self.blocks.iter().map(|block| block.attention.cache(batch, capacity)).collect()
    }

    /// The logits of new positions whose predecessors are cached, and the extended caches. Positions count from the length of
    /// the cache on.
    #[track_caller]
    pub fn apply_cached(&self, tokens: &Tensor, cache: &[KvCache]) -> (Tensor, Vec<KvCache>) {
        let Some(first) = cache.first().filter(|_| cache.len() == self.blocks.len()) else {
            let message = format!("{} caches for {} blocks", cache.len(), self.blocks.len());
            let error = Error::new("apply_cached", message).help("begin with the caches that .cache(..) returns");
            return (Tensor::refused(error, &[tokens]), cache.to_vec());
        };
        let count = tokens.shape().last().copied().unwrap_or(0);
        let places = Tensor::arange(count as i64) + &first.length;
        let mut features = self.tokens.apply(tokens) + self.positions.apply(&places);
        let mut extended = Vec::with_capacity(cache.len());
        for (block, cache) in self.blocks.iter().zip(cache) {
            let (next, cache) = block.apply_cached(&features, cache);
            features = next;
            extended.push(cache);
        }
        (self.tokens.logits(&self.norm.apply(&features)), extended)
    }

    /// `count` tokens that continue a prompt, sampled one after another over a KV cache. One program processes prompts of one
    /// length, and one each further token. Where the context is full, the cache is filled anew from its second half.
    ///
    /// ```
    /// use glassgrad::{models::{Gpt, GptConfig, Sampling}, rng::Key};
    /// let config = GptConfig { vocabulary: 9, context: 8, width: 8, layers: 2, heads: 2, dropout: 0.0 };
    /// let network = Gpt::new(Key::new(1), &config);
    /// let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    /// let tokens = network.generate(&[3, 1], 20, &greedy).unwrap();
    /// assert!(tokens.len() == 20 && tokens.iter().all(|token| (0..9).contains(token)));
    /// ```
    pub fn generate(&self, prompt: &[i64], count: usize, sampling: &Sampling) -> Result<Vec<i64>, Error> {
        let context = self.config().context;
        if prompt.is_empty() || context < 2 {
            let message = if prompt.is_empty() { "the prompt is empty" } else { "a context of one position" };
            return Err(Error::new("generate", message).help("a prompt has at least one token, a context at least two"));
        }
        let last = compile(|(cache, (network, tokens)): &(Vec<KvCache>, (Gpt, Tensor))| {
            let (logits, cache) = network.apply_cached(tokens, cache);
            (cache, logits.slice(&[s(0), s(-1)]))
        });
        let mut tokens = prompt.to_vec();
        let mut cache = self.cache(1, context);
        let (mut cached, mut begin) = (0, tokens.len().saturating_sub(context));
        while tokens.len() < prompt.len() + count {
            if tokens.len() - begin > context {
                (cache, cached, begin) = (self.cache(1, context), 0, tokens.len() - context.div_ceil(2));
            }
            let new = &tokens[begin + cached..];
            let data = (self.clone(), Tensor::new(new, [1, new.len()]));
            cached += new.len();
            let logits = last.update(&mut cache, &data)?.to_f64_vec()?;
            tokens.push(sampling.draw(&logits, tokens.len() as u64) as i64);
        }
        Ok(tokens[prompt.len()..].to_vec())
    }
}

impl Layer for Gpt {
    /// The logits of the token behind each position: tokens `[…, positions]` give `[…, positions, vocabulary]`.
    #[track_caller]
    fn apply(&self, tokens: &Tensor) -> Tensor {
        self.run(tokens, None)
    }

    #[track_caller]
    fn apply_train(&self, tokens: &Tensor, key: &Keys) -> Tensor {
        self.run(tokens, Some(key))
    }
}

/// How a token is sampled from logits.
///
/// ```
/// use glassgrad::models::Sampling;
/// let best = Sampling { top_k: Some(1), ..Sampling::default() };
/// assert_eq!(best.draw(&[0.5, 2.0, 1.0], 7), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The softmax temperature; 0 is greedy decoding.
    pub temperature: f64,
    /// Only this many most probable tokens are sampled.
    pub top_k: Option<usize>,
    /// The random key.
    pub key: Key,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { temperature: 1.0, top_k: None, key: Key::new(0) }
    }
}

impl Sampling {
    /// The token with the given number in the sequence, by inverse transform sampling.
    pub fn draw(&self, logits: &[f64], number: u64) -> usize {
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if self.temperature <= 0.0 {
            return logits.iter().position(|logit| *logit == largest).unwrap_or(0);
        }
        let least = self.least(logits);
        let weight = |logit: &f64| match *logit >= least {
            true => ((logit - largest) / self.temperature).exp(),
            false => 0.0,
        };
        let weights: Vec<f64> = logits.iter().map(weight).collect();
        let mut left = self.key.uniform(number) * weights.iter().sum::<f64>();
        for (token, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return token;
            }
        }
        // Rounding may leave a little of the sum: the last token that has a weight.
        weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)
    }

    /// The smallest logit that is sampled.
    fn least(&self, logits: &[f64]) -> f64 {
        match self.top_k {
            Some(k) if k < logits.len() => {
                let mut sorted = logits.to_vec();
                sorted.sort_by(|a, b| b.total_cmp(a));
                sorted[k.max(1) - 1]
            }
            _ => f64::NEG_INFINITY,
        }
    }
}
