//! The normal distribution of vectors.

use super::Distribution;
use crate::Tree;
use crate::expr::{Keys, Tensor};
use crate::operations::linalg::Triangle;

/// The normal distribution of vectors along the last axis, by the Cholesky factor L of its covariance LLᵀ.
///
/// ```
/// use glassgrad::{Tensor, dist::{Distribution, MultivariateNormal}};
/// let covariance = Tensor::from([[4.0, 2.0], [2.0, 5.0]]);
/// let normal = MultivariateNormal::new(&Tensor::from([0.0, 0.0]), &covariance);
/// assert_eq!(normal.variance().to_string(), "[4, 5]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct MultivariateNormal {
    /// The mean.
    pub mean: Tensor,
    /// The lower triangular factor of the covariance, with a positive diagonal.
    pub factor: Tensor,
}

impl MultivariateNormal {
    /// With a covariance, which must be positive definite.
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::MultivariateNormal};
    /// let normal = MultivariateNormal::new(&Tensor::from([0.0]), &Tensor::from([[9.0]]));
    /// assert_eq!(normal.factor.to_string(), "[[3]]");
    /// ```
    #[track_caller]
    pub fn new(mean: &Tensor, covariance: &Tensor) -> MultivariateNormal {
        MultivariateNormal { mean: mean.clone(), factor: covariance.cholesky() }
    }

    /// ln √det of the covariance.
    #[track_caller]
    fn half_log_determinant(&self) -> Tensor {
        self.factor.diagonal(0).ln().sum_over(-1)
    }

    /// L⁻¹x.
    #[track_caller]
    fn whitened(&self, x: &Tensor) -> Tensor {
        self.factor.solve_triangular(&x.unsqueeze(-1), Triangle::lower()).squeeze(-1)
    }

    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::MultivariateNormal};
    /// let normal = MultivariateNormal::new(&Tensor::from([1.0]), &Tensor::from([[9.0]]));
    /// assert_eq!(normal.kl_divergence(&normal).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &MultivariateNormal) -> Tensor {
        let size = self.mean.shape().last().copied().unwrap_or(0) as f64;
        let spread = other.factor.solve_triangular(&self.factor, Triangle::lower()).square().sum_over([-2, -1]);
        let distance = other.whitened(&(&other.mean - &self.mean)).square().sum_over(-1);
        other.half_log_determinant() - self.half_log_determinant() + (spread + distance - size) * 0.5
    }
}

/// ½ ln 2π.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;

impl Distribution for MultivariateNormal {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        let size = self.mean.shape().last().copied().unwrap_or(0) as f64;
        let distance = self.whitened(&(observed - &self.mean)).square().sum_over(-1);
        distance * -0.5 - self.half_log_determinant() - size * HALF_LOG_TAU
    }

    fn mean(&self) -> Tensor {
        self.mean.clone()
    }

    /// That of each component: the diagonal of the covariance.
    fn variance(&self) -> Tensor {
        self.factor.square().sum_over(-1)
    }

    fn mode(&self) -> Tensor {
        self.mean.clone()
    }

    /// The derivative with respect to mean and factor passes through.
    fn sample(&self, key: &Keys) -> Tensor {
        let noise = Tensor::normal(key, self.mean.shape()).cast(self.mean.dtype());
        &self.mean + self.factor.matmul(&noise.unsqueeze(-1)).squeeze(-1)
    }
}
