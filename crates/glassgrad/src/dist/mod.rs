//! Distributions: what a network predicts is one, and its loss is how unlikely it makes what was observed.
//!
//! ```
//! use glassgrad::dist::{Distribution, Normal};
//! use glassgrad::{Tensor, loss};
//! let (prediction, observed) = (Tensor::from([1.0, 5.0]), Tensor::from([1.0, 2.0]));
//! let normal = Normal::around(&prediction, std::f64::consts::FRAC_1_SQRT_2);
//! // With the variance ½, the loss is the square of the difference, and a constant.
//! let difference = normal.loss(&observed) - loss::mse(&prediction, &observed);
//! assert!(difference.var().item().unwrap() < 1e-30);
//! ```

mod bernoulli;
mod categorical;
mod gamma;
mod laplace;
#[cfg(feature = "linalg")]
mod multivariate;
mod normal;
mod poisson;

pub use bernoulli::Bernoulli;
pub use categorical::Categorical;
pub use gamma::{Beta, Dirichlet, Gamma, StudentT};
pub use laplace::Laplace;
#[cfg(feature = "linalg")]
pub use multivariate::MultivariateNormal;
pub use normal::Normal;
pub use poisson::Poisson;

use crate::expr::{Keys, Tensor};

/// A distribution of tensors, or a batch of them.
///
/// ```
/// use glassgrad::{Tensor, dist::{Distribution, Poisson}};
/// let counts = Poisson { log_rate: Tensor::from([0.0, 1.0]) };
/// assert_eq!(counts.mean().to_vec::<f64>().unwrap(), [1.0, 1.0_f64.exp()]);
/// ```
pub trait Distribution {
    /// The logarithm of the probability, or of its density, of what was observed: a number for each element or example.
    #[track_caller]
    fn log_probability(&self, observed: &Tensor) -> Tensor;

    /// Its mean.
    #[track_caller]
    fn mean(&self) -> Tensor;

    /// Its variance.
    #[track_caller]
    fn variance(&self) -> Tensor;

    /// What is most likely: the prediction, if there must be one.
    #[track_caller]
    fn mode(&self) -> Tensor;

    /// Draws from it.
    #[track_caller]
    fn sample(&self, key: &Keys) -> Tensor;

    /// How unlikely what was observed is: the negative logarithm.
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::{Bernoulli, Distribution}};
    /// let even = Bernoulli { logits: Tensor::from([0.0]) };
    /// assert_eq!(even.loss(&Tensor::from([1.0])).item().unwrap(), 2.0_f64.ln());
    /// ```
    #[track_caller]
    fn loss(&self, observed: &Tensor) -> Tensor {
        -self.log_probability(observed)
    }
}
