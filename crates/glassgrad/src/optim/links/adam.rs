//! Adam: running means of the updates and of their squares.

use super::momentum::towards;
use crate::expr::Tensor;
use crate::optim::{Link, Memory, Optimiser, Step};

/// The running mean of the updates divided by the root of that of their squares, both corrected for beginning at zero.
///
/// ```
/// use glassgrad::optim::{Adam, Optimiser};
/// let patient = Optimiser::new(1e-3).link(Adam { mean_factor: 0.95, ..Adam::default() });
/// assert_eq!(patient.names(), ["adam"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// What stays of the mean in a step.
    pub mean_factor: f64,
    /// What stays of the mean of squares.
    pub square_factor: f64,
    /// What is added to the root.
    pub epsilon: f64,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { mean_factor: 0.9, square_factor: 0.999, epsilon: 1e-8 }
    }
}

impl Link for Adam {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn start(&self, parameters: &[Tensor]) -> Memory {
        Memory::zeros(2, parameters)
    }

    fn update(&self, step: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor> {
        let Some((means, [squares])) = memory.leaves.split_first_mut() else { return updates };
        // After n steps a mean that began at zero is too small by the share 1 - βⁿ.
        let share = |factor: f64| 1.0 - (step.count * factor.ln()).exp();
        let (mean_factor, root_factor) = (share(self.mean_factor).recip(), share(self.square_factor).sqrt().recip());
        let mut steps = Vec::with_capacity(updates.len());
        for ((mean, square), update) in means.iter_mut().zip(squares).zip(&updates) {
            *mean = towards(mean, update, self.mean_factor);
            *square = towards(square, &update.square(), self.square_factor);
            let [mean_factor, root_factor] = [&mean_factor, &root_factor].map(|number| number.cast(mean.dtype()));
            steps.push(&*mean * mean_factor / (square.sqrt() * root_factor + self.epsilon));
        }
        steps
    }
}

impl Optimiser {
    /// Adam with its usual constants.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::adam(1e-3).names(), ["adam"]);
    /// ```
    pub fn adam(rate: f64) -> Optimiser {
        Optimiser::new(rate).link(Adam::default())
    }
}
