//! Shorter steps when the loss does not fall any more.

use crate::expr::Tensor;
use crate::optim::{Link, Memory, Step};

/// Multiplies updates with a factor that falls whenever the loss has not fallen for some steps. The loss must be given, with
/// [`Optimiser::update_knowing`](crate::optim::Optimiser::update_knowing); without it nothing changes.
///
/// ```
/// use glassgrad::optim::{Optimiser, Plateau};
/// assert_eq!(Optimiser::adam(0.1).link(Plateau::new(0.1, 10)).names(), ["adam", "plateau"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// What the factor is multiplied with.
    pub factor: f64,
    /// How many steps without a better loss are borne.
    pub patience: u64,
    /// By which part of itself a loss must be lower to be better.
    pub threshold: f64,
}

impl Plateau {
    /// A loss is better if it is lower by a ten-thousandth.
    ///
    /// ```
    /// use glassgrad::optim::Plateau;
    /// assert_eq!(Plateau::new(0.5, 3).threshold, 1e-4);
    /// ```
    pub fn new(factor: f64, patience: u64) -> Plateau {
        Plateau { factor, patience, threshold: 1e-4 }
    }
}

impl Link for Plateau {
    fn name(&self) -> &'static str {
        "plateau"
    }

    /// The best loss, the steps since it, and the factor.
    fn start(&self, _: &[Tensor]) -> Memory {
        Memory { leaves: Vec::new(), numbers: [f64::INFINITY, 0.0, 1.0].map(Tensor::from).to_vec() }
    }

    fn update(&self, step: &Step<'_>, updates: Vec<Tensor>, memory: &mut Memory) -> Vec<Tensor> {
        let (Some(loss), [best, waited, factor]) = (step.loss, &mut memory.numbers[..]) else { return updates };
        // A loss that does not fall makes the steps after this one shorter.
        let shortened = updates.iter().map(|update| update * factor.cast(update.dtype())).collect();
        let loss = loss.cast(best.dtype());
        // Also of negative losses, lower by a part means lower.
        let is_better = loss.lt(&(&*best - best.abs().minimum(f64::MAX) * self.threshold));
        let waited_now = is_better.choose(&waited.zeros_like(), &(&*waited + 1.0));
        let is_enough = waited_now.gt(self.patience as f64);
        *best = is_better.choose(&loss, best);
        *factor = is_enough.choose(&(&*factor * self.factor), factor);
        *waited = is_enough.choose(&waited_now.zeros_like(), &waited_now);
        shortened
    }
}
