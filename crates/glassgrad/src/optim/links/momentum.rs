//! Updates that remember those before them.

use crate::expr::Tensor;
use crate::optim::{Link, Memory, Optimiser, Step};

/// The sum of the updates so far, each of which fades by a factor from step to step.
///
/// ```
/// use glassgrad::{Tensor, optim::{Momentum, Optimiser}};
/// let optimiser = Optimiser::new(1.0).link(Momentum { factor: 0.5, nesterov: false });
/// let (x, slope) = (Tensor::from([0.0]), Tensor::from([1.0]));
/// let (x, state) = optimiser.update(&x, &slope, &optimiser.start(&x));
/// // 1, and then 1 + ½.
/// assert_eq!(optimiser.update(&x, &slope, &state).0.to_string(), "[-2.5]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    /// What is left of an update one step later.
    pub factor: f64,
    /// Whether the step looks ahead: it is what the sum would be after one more of the same update.
    pub nesterov: bool,
}

impl Link for Momentum {
    fn name(&self) -> &'static str {
        if self.nesterov { "Nesterov momentum" } else { "momentum" }
    }

    fn start(&self, parameters: &[Tensor]) -> Memory {
        Memory::zeros(1, parameters)
    }

    fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor> {
        let sums = &mut memory.leaves[0];
        let mut steps = Vec::with_capacity(updates.len());
        for (sum, update) in sums.iter_mut().zip(&updates) {
            *sum = &*sum * self.factor + update;
            steps.push(if self.nesterov { update + &*sum * self.factor } else { sum.clone() });
        }
        steps
    }
}

/// A running mean of the updates: β m + (1 - β) g, without a correction for its beginning at zero.
///
/// ```
/// use glassgrad::{Tensor, optim::{Average, Optimiser}};
/// let optimiser = Optimiser::new(1.0).link(Average { factor: 0.75 });
/// let (x, slope) = (Tensor::from([0.0]), Tensor::from([1.0]));
/// assert_eq!(optimiser.update(&x, &slope, &optimiser.start(&x)).0.to_string(), "[-0.25]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Average {
    /// What stays of the mean in a step.
    pub factor: f64,
}

impl Link for Average {
    fn name(&self) -> &'static str {
        "average"
    }

    fn start(&self, parameters: &[Tensor]) -> Memory {
        Memory::zeros(1, parameters)
    }

    fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor> {
        for (mean, update) in memory.leaves[0].iter_mut().zip(&updates) {
            *mean = towards(mean, update, self.factor);
        }
        memory.leaves[0].clone()
    }
}

/// A running mean after one step more.
#[track_caller]
pub(super) fn towards(mean: &Tensor, new: &Tensor, factor: f64) -> Tensor {
    mean * factor + new * (1.0 - factor)
}

impl Optimiser {
    /// Gradient descent, of batches or of everything.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert!(Optimiser::sgd(0.1).names().is_empty());
    /// ```
    pub fn sgd(rate: f64) -> Optimiser {
        Optimiser::new(rate)
    }

    /// The same with the sum of updates that fade.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::sgd(0.1).momentum(0.9).names(), ["momentum"]);
    /// ```
    pub fn momentum(self, factor: f64) -> Optimiser {
        self.link(Momentum { factor, nesterov: false })
    }

    /// The same with momentum that looks ahead.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::sgd(0.1).nesterov(0.9).names(), ["Nesterov momentum"]);
    /// ```
    pub fn nesterov(self, factor: f64) -> Optimiser {
        self.link(Momentum { factor, nesterov: true })
    }

    /// The same with the running mean of updates.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::sgd(0.1).average(0.9).names(), ["average"]);
    /// ```
    pub fn average(self, factor: f64) -> Optimiser {
        self.link(Average { factor })
    }
}
