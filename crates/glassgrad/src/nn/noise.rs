//! Layers that draw random numbers in training.

use super::layer::Layer;
use crate::Tree;
use crate::expr::{Keys, Tensor};

/// In training, replaces each number by 0 with some probability, and multiplies the others so that the mean stays.
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
    /// The probability of 0.
    #[tree(static)]
    pub rate: f64,
}

impl Dropout {
    /// With this probability. One that is none is told when the layer is used.
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

/// Units that fire, 1 or 0, with the probability sigmoid(x) in training; the probability itself in prediction. They are
/// given the derivative of the probability.
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
