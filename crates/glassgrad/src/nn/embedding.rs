//! Embeddings.

use super::initializer::{Fans, Initializer};
use super::layer::{Layer, narrowed};
use crate::Tree;
use crate::expr::Tensor;
use crate::rng::Key;

/// An embedding: a lookup table of learned vectors, indexed by integers.
///
/// ```
/// use glassgrad::{Tensor, nn::{Embedding, Layer}, rng::Key};
/// let words = Embedding::new(Key::new(1), 1000, 16);
/// assert_eq!(words.apply(&Tensor::from([[3_i64, 999], [0, 3]])).shape().to_string(), "[2, 2, 16]");
/// assert!(words.apply(&Tensor::from([1000_i64])).eval().is_err());
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Embedding {
    /// The table, `[count, width]`.
    pub weight: Tensor,
}

impl Embedding {
    /// A table of `count` vectors of this width, initialised from the standard normal distribution.
    ///
    /// ```
    /// use glassgrad::{nn::Embedding, rng::Key, tree::Tree};
    /// assert_eq!(Embedding::new(Key::new(1), 10, 4).element_count(), 40);
    /// ```
    pub fn new(key: Key, count: usize, size: usize) -> Embedding {
        Embedding { weight: Initializer::Normal(1.0).draw(key, [count, size], Fans::of_matrix(count, size)) }
    }

    /// The output projection of a model with tied embeddings: features `[…, width]` times the transposed table, a logit for
    /// each row of it. The table is one parameter, which both uses read: its gradient is the sum of both contributions.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad, nn::{Embedding, Layer}};
    /// let table = Embedding { weight: Tensor::from([[1.0, 0.0], [0.0, 2.0]]) };
    /// assert_eq!(table.logits(&Tensor::from([3.0, 5.0])).to_string(), "[ 3, 10]");
    /// let index = Tensor::from([1_i64]);
    /// let tied = |table: &Embedding| table.logits(&table.apply(&index)).sum();
    /// assert_eq!(grad(tied)(&table).weight.to_string(), "[[0, 2],\n [1, 4]]");
    /// ```
    #[track_caller]
    pub fn logits(&self, features: &Tensor) -> Tensor {
        let product = narrowed(features, &self.weight).matmul(&self.weight.transpose());
        product.reported_as("logits", &[features, &self.weight])
    }
}

impl Layer for Embedding {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self.weight.embedding(x)
    }
}
