//! The Laplace distribution.

use super::Distribution;
use crate::Tree;
use crate::expr::{Keys, Tensor};

/// The Laplace distribution: exponential on both sides of its mean.
///
/// ```
/// use glassgrad::{Tensor, dist::{Distribution, Laplace}};
/// let standard = Laplace { mean: Tensor::from(0.0), log_scale: Tensor::from(0.0) };
/// assert!((standard.log_probability(&Tensor::from(1.0)).item().unwrap() + 1.0 + 2.0_f64.ln()).abs() < 1e-15);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Laplace {
    /// The mean, which is the median too.
    pub mean: Tensor,
    /// The logarithm of the scale: any number is one, so a network can predict it.
    pub log_scale: Tensor,
}

impl Laplace {
    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Laplace};
    /// let one = Laplace { mean: Tensor::from(0.0), log_scale: Tensor::from(1.0) };
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Laplace) -> Tensor {
        let distance = (&self.mean - &other.mean).abs();
        let own = (&self.log_scale - &other.log_scale).exp() * (-&distance * (-&self.log_scale).exp()).exp();
        own + distance * (-&other.log_scale).exp() + (&other.log_scale - &self.log_scale) - 1.0
    }
}

impl Distribution for Laplace {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        let distance = (observed - &self.mean).abs() * (-&self.log_scale).exp();
        -distance - &self.log_scale - std::f64::consts::LN_2
    }

    fn mean(&self) -> Tensor {
        self.mean.clone()
    }

    fn variance(&self) -> Tensor {
        (&self.log_scale * 2.0).exp() * 2.0
    }

    fn mode(&self) -> Tensor {
        self.mean.clone()
    }

    /// The derivative with respect to mean and scale passes through.
    fn sample(&self, key: &Keys) -> Tensor {
        // Between -½ and ½, without the ends.
        let uniform = Tensor::uniform(key, self.mean.shape()).cast(self.mean.dtype()) - 0.5;
        let magnitude = -(1.0 - uniform.abs() * 2.0).maximum(f64::from(f32::MIN_POSITIVE)).ln();
        &self.mean + self.log_scale.exp() * uniform.sign() * magnitude
    }
}
