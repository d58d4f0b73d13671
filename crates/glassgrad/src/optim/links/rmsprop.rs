//! RMSprop: updates divided by the root of the moving average of their squares.

use super::momentum::moving_average;
use crate::formula::Symbol;
use crate::ops::Algebra as _;
use crate::optim::{Link, Optimizer, Rule, Slot};

/// Updates divided by the root of the moving average of their squares.
///
/// ```
/// use glassgrad::optim::{Optimizer, RmsProp};
/// let optimizer = Optimizer::new(1e-2).link(RmsProp { alpha: 0.9, ..RmsProp::default() }).momentum(0.5);
/// assert_eq!(optimizer.names(), ["RMSprop", "momentum"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    /// The decay rate of the moving average.
    pub alpha: f64,
    /// Added to the root, for numerical stability.
    pub epsilon: f64,
}

impl Default for RmsProp {
    fn default() -> RmsProp {
        RmsProp { alpha: 0.99, epsilon: 1e-8 }
    }
}

impl Link for RmsProp {
    fn name(&self) -> &'static str {
        "RMSprop"
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::per_weight("mean square", "s")]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (s, g) = (rule.slot("s"), rule.update());
        let (alpha, epsilon) = (rule.constant("α", self.alpha), rule.constant("ε", self.epsilon));
        let s = rule.set("s", moving_average(alpha, s, g.square()));
        g / (s.sqrt() + epsilon)
    }
}

impl Optimizer {
    /// RMSprop with its usual constants.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::rmsprop(1e-2).names(), ["RMSprop"]);
    /// ```
    pub fn rmsprop(rate: f64) -> Optimizer {
        Optimizer::new(rate).link(RmsProp::default())
    }
}
