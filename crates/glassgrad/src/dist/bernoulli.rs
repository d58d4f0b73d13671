//! The Bernoulli distribution.

use super::Distribution;
use crate::Tree;
use crate::expr::{Keys, Tensor};
use crate::loss::binary_cross_entropy;

/// The Bernoulli distribution: 1 with probability sigmoid(logits), else 0.
///
/// ```
/// use glassgrad::{Tensor, dist::{Bernoulli, Distribution}};
/// let coin = Bernoulli { logits: Tensor::from([2.0, -2.0]) };
/// assert_eq!(coin.mode().to_string(), "[1, 0]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Bernoulli {
    /// The log-odds.
    pub logits: Tensor,
}

impl Bernoulli {
    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Bernoulli};
    /// let one = Bernoulli { logits: Tensor::from(0.5) };
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Bernoulli) -> Tensor {
        let (yes, no) = (self.logits.sigmoid(), (-&self.logits).sigmoid());
        yes * (self.logits.log_sigmoid() - other.logits.log_sigmoid())
            + no * ((-&self.logits).log_sigmoid() - (-&other.logits).log_sigmoid())
    }
}

impl Distribution for Bernoulli {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        -binary_cross_entropy(&self.logits, observed)
    }

    fn mean(&self) -> Tensor {
        self.logits.sigmoid()
    }

    fn variance(&self) -> Tensor {
        self.logits.sigmoid() * (-&self.logits).sigmoid()
    }

    fn mode(&self) -> Tensor {
        self.logits.step(0.0)
    }

    fn sample(&self, key: &Keys) -> Tensor {
        self.logits.sigmoid().bernoulli(key)
    }
}
