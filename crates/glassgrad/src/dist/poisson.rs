//! Counts.

use super::Distribution;
use crate::Tree;
use crate::expr::{Keys, Tensor};

/// Counts of what happens independently, at a rate.
///
/// ```
/// use glassgrad::{Tensor, dist::{Distribution, Poisson}};
/// let calls = Poisson { log_rate: Tensor::from([2.0_f64.ln()]) };
/// let none = calls.log_probability(&Tensor::from([0.0])).exp().item().unwrap();
/// assert!((none - (-2.0_f64).exp()).abs() < 1e-15);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Poisson {
    /// The logarithm of the rate: any number is one, so a network can predict it.
    pub log_rate: Tensor,
}

impl Poisson {
    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Poisson};
    /// let one = Poisson { log_rate: Tensor::from(0.5) };
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Poisson) -> Tensor {
        let difference = &self.log_rate - &other.log_rate;
        self.log_rate.exp() * difference - self.log_rate.exp() + other.log_rate.exp()
    }
}

impl Distribution for Poisson {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        observed * &self.log_rate - self.log_rate.exp() - (observed + 1.0).lgamma()
    }

    fn mean(&self) -> Tensor {
        self.log_rate.exp()
    }

    fn variance(&self) -> Tensor {
        self.log_rate.exp()
    }

    fn mode(&self) -> Tensor {
        self.log_rate.exp().floor()
    }

    fn sample(&self, key: &Keys) -> Tensor {
        self.log_rate.exp().poisson(key)
    }
}
