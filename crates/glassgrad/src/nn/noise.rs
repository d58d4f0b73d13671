//! Stochastic layers: dropout and stochastic units.

use super::layer::Layer;
use crate::Tree;
use crate::expr::{Keys, Tensor};

/// Dropout: in training, sets each element to 0 with probability p and scales the others by 1 / (1 - p), which preserves the mean.
///
/// ```
/// use glassgrad::{Tensor, nn::{Dropout, Layer}, rng::Key};
/// let x = Tensor::ones(1000);
/// let dropped = Dropout::new(0.75).apply_train(&x, &Key::new(1).into());
/// assert_eq!(dropped.max().item().unwrap(), 4.0);
/// assert!(dropped.count_nonzero().item().unwrap() < 300.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Tree)]
pub struct Dropout {
    /// The dropout probability p.
    #[tree(static)]
    pub rate: f64,
}

impl Dropout {
    /// Dropout with this probability. A value outside of [0, 1) is an error when the layer is applied.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Dropout, Layer}, rng::Key};
    /// let error = Dropout::new(2.0).apply_train(&Tensor::ones(3), &Key::new(1).into()).eval().unwrap_err();
    /// assert!(error.to_string().contains("not between 0 and 1"));
    /// ```
    pub fn new(rate: f64) -> Dropout {
        Dropout { rate }
    }
}

impl Layer for Dropout {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        x.clone()
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        x.dropout(key, self.rate)
    }
}

/// Stochastic binary units: Bernoulli samples with probability sigmoid(x) in training, the probability itself in evaluation mode.
/// The straight-through estimator passes the derivative of the probability.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, StochasticUnit}, rng::Key};
/// let x = Tensor::from([0.0, 50.0]);
/// assert_eq!(StochasticUnit.apply(&x).to_string(), "[0.5,   1]");
/// let fired = StochasticUnit.apply_train(&x, &Key::new(1).into()).to_vec::<f64>().unwrap();
/// assert!(fired[1] == 1.0 && (fired[0] == 0.0 || fired[0] == 1.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Tree)]
pub struct StochasticUnit;

impl Layer for StochasticUnit {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        x.sigmoid()
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        x.stochastic_unit(key)
    }
}
