//! The normal distribution.

use super::Distribution;
use crate::Tree;
use crate::expr::{Keys, Tensor};

/// The normal distribution, with a variance that is fixed or predicted beside the mean.
///
/// ```
/// use glassgrad::{Tensor, dist::{Distribution, Normal}};
/// let standard = Normal::around(&Tensor::from(0.0), 1.0);
/// let density = standard.log_probability(&Tensor::from(0.0)).exp().item().unwrap();
/// assert!((density - 0.3989422804014327).abs() < 1e-15);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Normal {
    /// The mean.
    pub mean: Tensor,
    /// The logarithm of the standard deviation: any number is one, so a network can predict it.
    pub log_deviation: Tensor,
}

impl Normal {
    /// With a fixed standard deviation.
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::{Distribution, Normal}};
    /// assert!((Normal::around(&Tensor::from([1.0]), 3.0).variance().item().unwrap() - 9.0).abs() < 1e-14);
    /// ```
    #[track_caller]
    pub fn around(mean: &Tensor, deviation: f64) -> Normal {
        Normal { mean: mean.clone(), log_deviation: mean.full_like(deviation.ln()) }
    }
}

/// ½ ln 2π.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;

impl Normal {
    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Normal};
    /// let one = Normal::around(&Tensor::from(1.0), 3.0);
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Normal) -> Tensor {
        let shrunk = ((&self.log_deviation - &other.log_deviation) * 2.0).exp();
        let distance = ((&self.mean - &other.mean) * (-&other.log_deviation).exp()).square();
        (shrunk + distance - 1.0) * 0.5 - (&self.log_deviation - &other.log_deviation)
    }
}

impl Distribution for Normal {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        let standard = (observed - &self.mean) * (-&self.log_deviation).exp();
        standard.square() * -0.5 - &self.log_deviation - HALF_LOG_TAU
    }

    fn mean(&self) -> Tensor {
        self.mean.clone()
    }

    fn variance(&self) -> Tensor {
        (&self.log_deviation * 2.0).exp()
    }

    fn mode(&self) -> Tensor {
        self.mean.clone()
    }

    /// The derivative with respect to mean and deviation passes through.
    fn sample(&self, key: &Keys) -> Tensor {
        let noise = Tensor::normal(key, self.mean.shape()).cast(self.mean.dtype());
        &self.mean + self.log_deviation.exp() * noise
    }
}
