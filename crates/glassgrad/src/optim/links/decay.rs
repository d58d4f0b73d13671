//! Weight decay and the L1 penalty.

use crate::formula::Symbol;
use crate::ops::Algebra as _;
use crate::optim::{Link, Optimizer, Rule};

/// Weight decay: adds a multiple of each parameter to its update. At the beginning of a chain it is the gradient of an L2
/// penalty, at its end decoupled weight decay, which no other link changes.
///
/// ```
/// use glassgrad::{Tensor, optim::{Optimizer, WeightDecay}};
/// let optimizer = Optimizer::new(0.5).link(WeightDecay(0.5));
/// let (x, gradient) = (Tensor::from([4.0]), Tensor::from([0.0]));
/// assert_eq!(optimizer.update(&x, &gradient, &optimizer.init(&x)).0.to_string(), "[3]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightDecay(pub f64);

impl Link for WeightDecay {
    fn name(&self) -> &'static str {
        "weight decay"
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        rule.update() + rule.constant("λ", self.0) * rule.parameter()
    }
}

/// The L1 penalty: adds a multiple of the sign of each parameter to its update.
///
/// ```
/// use glassgrad::{Tensor, optim::{Optimizer, L1}};
/// let optimizer = Optimizer::new(0.5).link(L1(0.5));
/// let (x, gradient) = (Tensor::from([4.0, -4.0]), Tensor::from([0.0, 0.0]));
/// assert_eq!(optimizer.update(&x, &gradient, &optimizer.init(&x)).0.to_string(), "[ 3.75, -3.75]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct L1(pub f64);

impl Link for L1 {
    fn name(&self) -> &'static str {
        "L1 penalty"
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        rule.update() + rule.constant("λ", self.0) * rule.parameter().sign()
    }
}

impl Optimizer {
    /// The same with weight decay.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::sgd(0.1).weight_decay(1e-4).momentum(0.9).names(), ["weight decay", "momentum"]);
    /// ```
    pub fn weight_decay(self, factor: f64) -> Optimizer {
        self.link(WeightDecay(factor))
    }

    /// AdamW: Adam with decoupled weight decay.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::adamw(1e-3, 0.01).names(), ["Adam", "weight decay"]);
    /// ```
    pub fn adamw(rate: f64, factor: f64) -> Optimizer {
        Optimizer::adam(rate).weight_decay(factor)
    }
}
