//! RMSprop: updates divided by their typical size.

use super::momentum::towards;
use crate::expr::Tensor;
use crate::optim::{Link, Memory, Optimiser, Step};

/// Updates divided by the root of the running mean of their squares.
///
/// ```
/// use glassgrad::optim::{Optimiser, RmsProp};
/// let optimiser = Optimiser::new(1e-2).link(RmsProp { factor: 0.9, ..RmsProp::default() }).momentum(0.5);
/// assert_eq!(optimiser.names(), ["RMSprop", "momentum"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    /// What stays of the mean of squares in a step.
    pub factor: f64,
    /// What is added to the root.
    pub epsilon: f64,
}

impl Default for RmsProp {
    fn default() -> RmsProp {
        RmsProp { factor: 0.99, epsilon: 1e-8 }
    }
}

impl Link for RmsProp {
    fn name(&self) -> &'static str {
        "RMSprop"
    }

    fn start(&self, parameters: &[Tensor]) -> Memory {
        Memory::zeros(1, parameters)
    }

    fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor> {
        let mut steps = Vec::with_capacity(updates.len());
        for (square, update) in memory.leaves[0].iter_mut().zip(&updates) {
            *square = towards(square, &update.square(), self.factor);
            steps.push(update / (square.sqrt() + self.epsilon));
        }
        steps
    }
}

impl Optimiser {
    /// RMSprop with its usual constants.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::rmsprop(1e-2).names(), ["RMSprop"]);
    /// ```
    pub fn rmsprop(rate: f64) -> Optimiser {
        Optimiser::new(rate).link(RmsProp::default())
    }
}
