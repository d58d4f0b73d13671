//! Adam: moving averages of the gradient and of its square.

use super::momentum::moving_average;
use crate::formula::Symbol;
use crate::ops::Algebra as _;
use crate::optim::{Link, Optimizer, Rule, Slot};

/// The moving average of the gradient divided by the root of that of its square, both with bias correction.
///
/// ```
/// use glassgrad::optim::{Adam, Optimizer};
/// let optimizer = Optimizer::new(1e-3).link(Adam { beta1: 0.95, ..Adam::default() });
/// assert_eq!(optimizer.names(), ["Adam"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// The decay rate of the first moment.
    pub beta1: f64,
    /// The decay rate of the second moment.
    pub beta2: f64,
    /// Added to the root, for numerical stability.
    pub epsilon: f64,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl Link for Adam {
    fn name(&self) -> &'static str {
        "Adam"
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::per_weight("first moment", "m"), Slot::per_weight("second moment", "v")]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (m, v, g, t) = (rule.slot("m"), rule.slot("v"), rule.update(), rule.step());
        let [beta1, beta2] = [rule.constant("β1", self.beta1), rule.constant("β2", self.beta2)];
        let (one, epsilon) = (rule.number(1.0), rule.constant("ε", self.epsilon));
        let m = rule.set("m", moving_average(beta1, m, g));
        let v = rule.set("v", moving_average(beta2, v, g.square()));
        // The bias corrections are numbers of the step; with their reciprocals a weight costs a single division.
        let a = rule.define("a", one / (one - beta1.pow(t)));
        let b = rule.define("b", one / (one - beta2.pow(t)).sqrt());
        a * m / (b * v.sqrt() + epsilon)
    }
}

impl Optimizer {
    /// Adam with its usual constants.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::adam(1e-3).names(), ["Adam"]);
    /// ```
    pub fn adam(rate: f64) -> Optimizer {
        Optimizer::new(rate).link(Adam::default())
    }
}
