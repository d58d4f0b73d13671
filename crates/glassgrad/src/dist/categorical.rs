//! The categorical distribution.

use super::Distribution;
use crate::Tree;
use crate::expr::{Keys, Tensor};
use crate::loss::cross_entropy;

/// The categorical distribution with probabilities softmax(logits) along the last axis. Observations are class indices or class
/// probabilities.
///
/// ```
/// use glassgrad::{Tensor, dist::{Categorical, Distribution}};
/// let species = Categorical { logits: Tensor::from([[1.0, 5.0, 2.0]]) };
/// assert_eq!(species.mode().to_string(), "[1]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Categorical {
    /// Unnormalised log-probabilities.
    pub logits: Tensor,
}

impl Categorical {
    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Categorical};
    /// let one = Categorical { logits: Tensor::from([0.5, 1.0]) };
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Categorical) -> Tensor {
        let (own, theirs) = (self.logits.log_softmax(-1), other.logits.log_softmax(-1));
        (own.exp() * (&own - theirs)).sum_over(-1)
    }
}

impl Distribution for Categorical {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        -cross_entropy(&self.logits, observed)
    }

    /// The probability of each class: the mean of unit vectors.
    fn mean(&self) -> Tensor {
        self.logits.softmax(-1)
    }

    /// That of each component of unit vectors.
    fn variance(&self) -> Tensor {
        let probabilities = self.logits.softmax(-1);
        &probabilities * (1.0 - &probabilities)
    }

    fn mode(&self) -> Tensor {
        self.logits.argmax(-1)
    }

    fn sample(&self, key: &Keys) -> Tensor {
        self.logits.categorical(key, -1)
    }
}
