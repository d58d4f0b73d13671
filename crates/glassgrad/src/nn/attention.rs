//! Multi-head attention and Transformer blocks.

use super::activation::Activation;
use super::layer::Layer;
use super::linear::Linear;
use super::noise::Dropout;
use super::normalization::LayerNorm;
use crate::Tree;
use crate::error::Error;
use crate::expr::{Keys, Tensor};
use crate::operations::Attention;
use crate::operations::attention::{hidden, self_attention};
use crate::rng::Key;
use crate::shape::Shape;

/// Multi-head self-attention over sequences of shape `[…, positions, width]`.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, MultiHeadAttention}, rng::Key};
/// let attention = MultiHeadAttention::new(Key::new(1), 16, 4);
/// assert_eq!(attention.apply(&Tensor::ones([2, 10, 16])).shape().to_string(), "[2, 10, 16]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct MultiHeadAttention {
    /// The projection to queries, keys and values, concatenated along the last axis.
    pub input: Linear,
    /// The output projection of the concatenated heads.
    pub output: Linear,
    /// The number of heads.
    #[tree(static)]
    pub heads: usize,
    /// Whether attention is causal: a position attends only to itself and to earlier positions.
    #[tree(static)]
    pub causal: bool,
}

/// The most positions for which the matrix of scores under a mask is stored: one large product is faster than tiles, until memory decides.
const MOST_STORED: usize = 512;

impl MultiHeadAttention {
    /// Attention with `heads` heads of size `width / heads`.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Layer, MultiHeadAttention}, rng::Key};
    /// let uneven = MultiHeadAttention::new(Key::new(1), 10, 3);
    /// assert!(uneven.apply(&Tensor::ones([2, 10])).eval().unwrap_err().to_string().contains("3 heads"));
    /// ```
    pub fn new(key: Key, width: usize, heads: usize) -> MultiHeadAttention {
        MultiHeadAttention {
            input: Linear::new(key.fold(0), width, 3 * width),
            output: Linear::new(key.fold(1), width, width),
            heads,
            causal: false,
        }
    }

    /// With a causal mask: a position attends only to itself and to earlier positions.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad, nn::{Layer, MultiHeadAttention}, rng::Key};
    /// let attention = MultiHeadAttention::new(Key::new(1), 4, 2).causal();
    /// let first = |x: &Tensor| attention.apply(x).slice(&[0.into()]).sum();
    /// let gradient = grad(first)(&Tensor::uniform(Key::new(2), [3, 4]));
    /// assert_eq!(gradient.slice(&[(1..).into()]).abs().sum().item().unwrap(), 0.0);
    /// ```
    pub fn causal(self) -> MultiHeadAttention {
        MultiHeadAttention { causal: true, ..self }
    }

    /// Self-attention under a boolean `mask` of shape `[…, queries, keys]`: true where a query may attend to a key.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Layer, MultiHeadAttention}, rng::Key};
    /// let attention = MultiHeadAttention::new(Key::new(1), 4, 2);
    /// let x = Tensor::uniform(Key::new(2), [3, 4]);
    /// let all = Tensor::ones([3, 3]).gt(0.0);
    /// assert_eq!(attention.masked(&x, Some(&all)).to_string(), attention.apply(&x).to_string());
    /// ```
    #[track_caller]
    pub fn masked(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        self.attend(x, mask.map_or(Visible::All, Visible::Masked))
    }

    /// Self-attention under a mask, or a causal one. Scores of long sequences are computed by tiles and never stored as a whole.
    #[track_caller]
    fn attend(&self, x: &Tensor, visible: Visible<'_>) -> Tensor {
        let [lead @ .., places, width] = &x.shape()[..] else { return self.input.apply(x) };
        if self.heads == 0 || !width.is_multiple_of(self.heads) {
            let message = format!("{} heads cannot share a width of {width} evenly", self.heads);
            return Tensor::refused(Error::new("attention", message), &[x]);
        }
        let size = width / self.heads;
        let batch: usize = lead.iter().product();
        let all = self.input.apply(x).reshape([batch, *places, 3, self.heads, size]);
        let output = |mixed: &Tensor| self.output.apply(&mixed.reshape(x.shape())).reported_as("attention", &[x]);
        let mask = match visible {
            Visible::All => return output(&self_attention(&all, false)),
            Visible::Earlier => return output(&self_attention(&all, true)),
            Visible::Masked(mask) => mask,
        };
        let part = |number: isize| all.slice(&[(..).into(), (..).into(), number.into()]);
        let (queries, keys, values) = (part(0), part(1), part(2));
        let mask = mask.broadcast_to([lead, &[*places, *places]].concat()).reshape([batch, 1, *places, *places]);
        if *places > MOST_STORED {
            let config = Attention::default().mask(&mask);
            let [queries, keys, values] = [queries, keys, values].map(|part| part.swap_axes(1, 2));
            let mixed = queries.scaled_dot_product_attention(&keys, &values, &config).swap_axes(1, 2);
            return output(&mixed);
        }
        // Labels in place of transposes: products read heads where they lie, and write them where they are wanted.
        let scores = Tensor::einsum("bqhd,bkhd->bhqk", [&queries, &keys]) * (1.0 / (size as f64).sqrt());
        let mixed = Tensor::einsum("bhqk,bkhd->bqhd", [&hidden(&scores, &mask).softmax(-1), &values]);
        output(&mixed)
    }
}

/// Which positions a position attends to.
#[derive(Clone, Copy)]
enum Visible<'m> {
    All,
    /// Itself and earlier ones.
    Earlier,
    /// Those where a boolean mask `[…, queries, keys]` is true.
    Masked(&'m Tensor),
}

impl MultiHeadAttention {
    /// An empty KV cache for a batch of this shape and at most `capacity` positions.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Layer, MultiHeadAttention}, rng::Key};
    /// let attention = MultiHeadAttention::new(Key::new(1), 4, 2).causal();
    /// let x = Tensor::normal(Key::new(2), [3, 5, 4]); // 3 sequences of 5 positions
    /// let mut cache = attention.cache(3, 8);
    /// let mut one_by_one = Vec::new();
    /// for place in x.split(&[1; 5], 1) {
    ///     let (y, next) = attention.apply_cached(&place, &cache);
    ///     one_by_one.push(y);
    ///     cache = next;
    /// }
    /// let apart = attention.apply(&x) - Tensor::concatenate(&one_by_one, 1);
    /// assert!(apart.abs().max().item().unwrap() < 1e-6);
    /// ```
    #[track_caller]
    pub fn cache(&self, batch: impl Into<Shape>, capacity: usize) -> KvCache {
        let width = self.output.weight.shape().last().copied().unwrap_or(0);
        let size = width.checked_div(self.heads).unwrap_or(0);
        let shape = Shape::from(capacity).followed_by(&batch.into()).followed_by(&[self.heads, size]);
        let empty = Tensor::full(shape, 0.0, self.input.weight.dtype());
        KvCache { keys: empty.clone(), values: empty, length: Tensor::from(0_i64) }
    }

    /// Causal attention of new positions `[.., positions, width]` to themselves and to the cached ones, with the extended cache.
    /// All calls with the same number of new positions have the same shapes, so that a compiled function is planned once. Reading
    /// a result that exceeds the capacity of the cache is an error.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::MultiHeadAttention, rng::Key};
    /// let attention = MultiHeadAttention::new(Key::new(1), 4, 2);
    /// let (y, cache) = attention.apply_cached(&Tensor::ones([3, 4]), &attention.cache((), 8));
    /// assert_eq!((y.shape().to_string(), cache.length.item().unwrap()), ("[3, 4]".into(), 3.0));
    /// ```
    #[track_caller]
    pub fn apply_cached(&self, x: &Tensor, cache: &KvCache) -> (Tensor, KvCache) {
        let [lead @ .., places, width] = &x.shape()[..] else { return (self.input.apply(x), cache.clone()) };
        if self.heads == 0 || !width.is_multiple_of(self.heads) {
            let message = format!("{} heads cannot share a width of {width} evenly", self.heads);
            return (Tensor::refused(Error::new("apply_cached", message), &[x]), cache.clone());
        }
        let size = width / self.heads;
        let all = self.input.apply(x).reshape([lead, &[*places, 3, self.heads, size]].concat());
        let parts = all.split(&[1; 3], lead.len() + 1);
        let [queries, keys, values] = [0, 1, 2].map(|part| parts[part].squeeze(lead.len() + 1));
        let rows = Tensor::arange(*places as i64) + &cache.length;
        let written = |held: &Tensor, new: &Tensor| held.with_at(&[&rows], new.move_axis(lead.len(), 0));
        let cache = KvCache {
            keys: written(&cache.keys, &keys),
            values: written(&cache.values, &values),
            length: &cache.length + *places,
        };
        let heads_first = |held: &Tensor| held.move_axis(0, -2);
        let config = Attention::default().causal_from(&cache.length - *places);
        let mixed = queries.swap_axes(-3, -2).scaled_dot_product_attention(
            &heads_first(&cache.keys),
            &heads_first(&cache.values),
            &config,
        );
        let joined = mixed.swap_axes(-3, -2).reshape(x.shape());
        (self.output.apply(&joined).reported_as("apply_cached", &[x, &cache.keys]), cache)
    }
}

/// A KV cache: keys and values of the positions processed so far, and their number. Autoregressive generation carries it from
/// token to token, see [`MultiHeadAttention::cache`].
///
/// ```
/// use glassgrad::{nn::MultiHeadAttention, rng::Key};
/// let cache = MultiHeadAttention::new(Key::new(1), 16, 4).cache(2, 10);
/// assert_eq!(cache.keys.shape().to_string(), "[10, 2, 4, 4]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct KvCache {
    /// Keys `[capacity, .., heads, size]`.
    pub keys: Tensor,
    /// Values, of the same shape.
    pub values: Tensor,
    /// The number of cached positions, an integer.
    pub length: Tensor,
}

impl Layer for MultiHeadAttention {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self.attend(x, if self.causal { Visible::Earlier } else { Visible::All })
    }
}

/// A Transformer block with pre-normalization: attention and a two-layer feed-forward network, each with a residual connection.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, TransformerBlock}, rng::Key};
/// let block = TransformerBlock::new(Key::new(1), 16, 4);
/// assert_eq!(block.apply(&Tensor::ones([2, 10, 16])).shape().to_string(), "[2, 10, 16]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct TransformerBlock {
    /// Layer normalization before attention.
    pub attention_norm: LayerNorm,
    /// Self-attention.
    pub attention: MultiHeadAttention,
    /// Layer normalization before the feed-forward network.
    pub linear_norm: LayerNorm,
    /// The feed-forward network: to the hidden width, and back.
    pub linear: (Linear, Activation, Linear),
    /// Dropout on both residual branches, in training.
    pub dropout: Dropout,
}

impl TransformerBlock {
    /// A block with a hidden width of four times `width`, GELU activation and no dropout.
    ///
    /// ```
    /// use glassgrad::{nn::TransformerBlock, rng::Key, tree::Tree};
    /// assert_eq!(TransformerBlock::new(Key::new(1), 128, 4).element_count(), 198_272);
    /// ```
    pub fn new(key: Key, width: usize, heads: usize) -> TransformerBlock {
        let linear = |number: u64, inputs: usize, outputs: usize| Linear::new(key.fold(number), inputs, outputs);
        TransformerBlock {
            attention_norm: LayerNorm::new(width),
            attention: MultiHeadAttention::new(key.fold(0), width, heads),
            linear_norm: LayerNorm::new(width),
            linear: (linear(1, width, 4 * width), Activation::Gelu, linear(2, 4 * width, width)),
            dropout: Dropout::new(0.0),
        }
    }

    /// With a causal mask: a position attends only to itself and to earlier positions.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Layer, TransformerBlock}, rng::Key};
    /// let block = TransformerBlock::new(Key::new(1), 4, 2).causal();
    /// let x = Tensor::normal(Key::new(2), [5, 4]);
    /// let (first, all) = (block.apply(&x.slice(&[(..2).into()])), block.apply(&x).slice(&[(..2).into()]));
    /// assert!((first - all).abs().max().item().unwrap() < 1e-6);
    /// ```
    pub fn causal(self) -> TransformerBlock {
        TransformerBlock { attention: self.attention.causal(), ..self }
    }

    /// The block for new positions of sequences whose earlier positions are cached, see
    /// [`MultiHeadAttention::apply_cached`].
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::TransformerBlock, rng::Key};
    /// let block = TransformerBlock::new(Key::new(1), 4, 2).causal();
    /// let (y, _) = block.apply_cached(&Tensor::ones([1, 4]), &block.attention.cache((), 8));
    /// assert_eq!(y.shape().to_string(), "[1, 4]");
    /// ```
    #[track_caller]
    pub fn apply_cached(&self, x: &Tensor, cache: &KvCache) -> (Tensor, KvCache) {
        let (attended, cache) = self.attention.apply_cached(&self.attention_norm.apply(x), cache);
        let attended = x + attended;
        (&attended + self.linear.apply(&self.linear_norm.apply(&attended)), cache)
    }

    #[track_caller]
    fn with_noise(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
        let noisy = |x: &Tensor, number: u64| match key {
            Some(key) => self.dropout.apply_train(x, &key.fold(number)),
            None => x.clone(),
        };
        let attended = x + noisy(&self.attention.apply(&self.attention_norm.apply(x)), 0);
        &attended + noisy(&self.linear.apply(&self.linear_norm.apply(&attended)), 1)
    }
}

impl Layer for TransformerBlock {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self.with_noise(x, None)
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        self.with_noise(x, Some(key))
    }
}
