//! Parameters that are drawn towards zero.

use crate::expr::Tensor;
use crate::optim::{Link, Memory, Optimiser, Step};

/// Adds a part of each parameter to its update: at the beginning of a chain it is the slope of half of that part of the
/// squares, at its end a decay that no other link changes.
///
/// ```
/// use glassgrad::{Tensor, optim::{Optimiser, WeightDecay}};
/// let optimiser = Optimiser::new(0.5).link(WeightDecay(0.5));
/// let (x, slope) = (Tensor::from([4.0]), Tensor::from([0.0]));
/// assert_eq!(optimiser.update(&x, &slope, &optimiser.start(&x)).0.to_string(), "[3]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightDecay(pub f64);

impl Link for WeightDecay {
    fn name(&self) -> &'static str {
        "weight decay"
    }

    fn update(&self, step: &Step<'_>, updates: Vec<Tensor>, _: &mut Memory) -> Vec<Tensor> {
        updates.iter().zip(step.parameters).map(|(update, parameter)| update + parameter * self.0).collect()
    }
}

/// Adds a number with the sign of each parameter to its update: the slope of that part of the absolute values.
///
/// ```
/// use glassgrad::{Tensor, optim::{Optimiser, PullToZero}};
/// let optimiser = Optimiser::new(0.5).link(PullToZero(0.5));
/// let (x, slope) = (Tensor::from([4.0, -4.0]), Tensor::from([0.0, 0.0]));
/// assert_eq!(optimiser.update(&x, &slope, &optimiser.start(&x)).0.to_string(), "[ 3.75, -3.75]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PullToZero(pub f64);

impl Link for PullToZero {
    fn name(&self) -> &'static str {
        "pull to zero"
    }

    fn update(&self, step: &Step<'_>, updates: Vec<Tensor>, _: &mut Memory) -> Vec<Tensor> {
        updates.iter().zip(step.parameters).map(|(update, parameter)| update + parameter.sign() * self.0).collect()
    }
}

impl Optimiser {
    /// The same with a part of each parameter added to its update.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::sgd(0.1).weight_decay(1e-4).momentum(0.9).names(), ["weight decay", "momentum"]);
    /// ```
    pub fn weight_decay(self, part: f64) -> Optimiser {
        self.link(WeightDecay(part))
    }

    /// Adam, and weight decay that it does not divide by anything.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::adamw(1e-3, 0.01).names(), ["adam", "weight decay"]);
    /// ```
    pub fn adamw(rate: f64, part: f64) -> Optimiser {
        Optimiser::adam(rate).weight_decay(part)
    }
}
