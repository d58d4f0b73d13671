//! Momentum, and the exponential moving average.

use crate::algebra::c;
use crate::formula::Symbol;
use crate::optim::{Link, Optimizer, Rule, Slot};

/// Momentum: the decaying sum of the updates so far.
///
/// ```
/// use glassgrad::{Tensor, optim::{Momentum, Optimizer}};
/// let optimizer = Optimizer::new(1.0).link(Momentum { factor: 0.5, nesterov: false });
/// let (x, gradient) = (Tensor::from([0.0]), Tensor::from([1.0]));
/// let (x, state) = optimizer.update(&x, &gradient, &optimizer.init(&x));
/// // 1, and then 1 + ½.
/// assert_eq!(optimizer.update(&x, &gradient, &state).0.to_string(), "[-2.5]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    /// The momentum μ: the decay of the velocity in a step.
    pub factor: f64,
    /// Whether it is Nesterov's momentum, which looks one step ahead.
    pub nesterov: bool,
}

impl Link for Momentum {
    fn name(&self) -> &'static str {
        if self.nesterov { "Nesterov momentum" } else { "momentum" }
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::per_weight("velocity", "v")]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (v, g) = (rule.slot("v"), rule.update());
        let momentum = rule.constant("μ", self.factor);
        let v = rule.set("v", momentum * v + g);
        if self.nesterov { g + momentum * v } else { v }
    }
}

/// The exponential moving average of the updates, β m + (1 − β) g, without bias correction.
///
/// ```
/// use glassgrad::{Tensor, optim::{Ema, Optimizer}};
/// let optimizer = Optimizer::new(1.0).link(Ema { beta: 0.75 });
/// let (x, gradient) = (Tensor::from([0.0]), Tensor::from([1.0]));
/// assert_eq!(optimizer.update(&x, &gradient, &optimizer.init(&x)).0.to_string(), "[-0.25]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ema {
    /// The decay rate.
    pub beta: f64,
}

impl Link for Ema {
    fn name(&self) -> &'static str {
        "EMA"
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::per_weight("moving average", "m")]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (m, g, beta) = (rule.slot("m"), rule.update(), rule.constant("β", self.beta));
        rule.set("m", moving_average(beta, m, g))
    }
}

/// An exponential moving average after one more value.
pub(super) fn moving_average<'s>(beta: Symbol<'s>, mean: Symbol<'s>, new: Symbol<'s>) -> Symbol<'s> {
    beta * mean + (c::<Symbol<'s>>(1.0) - beta) * new
}

impl Optimizer {
    /// Stochastic gradient descent.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert!(Optimizer::sgd(0.1).names().is_empty());
    /// ```
    pub fn sgd(rate: f64) -> Optimizer {
        Optimizer::new(rate)
    }

    /// The same with momentum.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::sgd(0.1).momentum(0.9).names(), ["momentum"]);
    /// ```
    pub fn momentum(self, factor: f64) -> Optimizer {
        self.link(Momentum { factor, nesterov: false })
    }

    /// The same with Nesterov's momentum.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::sgd(0.1).nesterov(0.9).names(), ["Nesterov momentum"]);
    /// ```
    pub fn nesterov(self, factor: f64) -> Optimizer {
        self.link(Momentum { factor, nesterov: true })
    }

    /// The same with the exponential moving average of updates.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::sgd(0.1).ema(0.9).names(), ["EMA"]);
    /// ```
    pub fn ema(self, beta: f64) -> Optimizer {
        self.link(Ema { beta })
    }
}
