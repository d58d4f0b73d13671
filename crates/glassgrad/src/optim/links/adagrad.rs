//! Adagrad: a rate for each number that falls with what it has seen.

use crate::expr::Tensor;
use crate::optim::{Link, Memory, Optimiser, Step};

/// Updates divided by the root of the sum of their squares so far.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimiser};
/// let optimiser = Optimiser::adagrad(1.0);
/// let (x, slope) = (Tensor::from([0.0]), Tensor::from([5.0]));
/// let (x, state) = optimiser.update(&x, &slope, &optimiser.start(&x));
/// // 1, and then 1/√2.
/// assert!((optimiser.update(&x, &slope, &state).0.item().unwrap() + 1.707).abs() < 1e-3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    /// What is added to the root.
    pub epsilon: f64,
}

impl Default for Adagrad {
    fn default() -> Adagrad {
        Adagrad { epsilon: 1e-10 }
    }
}

impl Link for Adagrad {
    fn name(&self) -> &'static str {
        "Adagrad"
    }

    fn start(&self, parameters: &[Tensor]) -> Memory {
        Memory::zeros(1, parameters)
    }

    fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor> {
        let mut steps = Vec::with_capacity(updates.len());
        for (sum, update) in memory.leaves[0].iter_mut().zip(&updates) {
            *sum = &*sum + update.square();
            steps.push(update / (sum.sqrt() + self.epsilon));
        }
        steps
    }
}

impl Optimiser {
    /// Adagrad with its usual constants.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::adagrad(1e-2).names(), ["Adagrad"]);
    /// ```
    pub fn adagrad(rate: f64) -> Optimiser {
        Optimiser::new(rate).link(Adagrad::default())
    }
}
