//! Gradient clipping.

use crate::dtype::DType;
use crate::expr::Tensor;
use crate::formula::Symbol;
use crate::ops::Algebra as _;
use crate::optim::{Link, Optimizer, Quantity, Rule, Step};

/// Clips the updates of all leaves together to this Euclidean norm.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer};
/// let optimizer = Optimizer::sgd(1.0).clip_norm(5.0);
/// let (x, gradient) = ((Tensor::from([0.0]), Tensor::from([0.0])), (Tensor::from([30.0]), Tensor::from([40.0])));
/// let (next, _) = optimizer.update(&x, &gradient, &optimizer.init(&x));
/// assert_eq!((next.0.to_string(), next.1.to_string()), ("[-3]".into(), "[-4]".into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipNorm(pub f64);

impl Link for ClipNorm {
    fn name(&self) -> &'static str {
        "clip by norm"
    }

    fn quantities(&self, _: &Step<'_>, updates: &[Tensor]) -> Vec<Quantity> {
        let squares = updates.iter().map(|update| update.square().sum().cast(DType::F64));
        let sum = squares.reduce(|sum, square| sum + square).unwrap_or_else(|| Tensor::from(0.0));
        vec![Quantity::shared("norm", sum.sqrt())]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (norm, c) = (rule.quantity("norm"), rule.constant("c", self.0));
        let s = rule.define("s", c / norm.max(c));
        s * rule.update()
    }
}

/// Clips every element of the updates between minus this and this.
///
/// ```
/// use glassgrad::{Tensor, optim::{ClipValue, Optimizer}};
/// let optimizer = Optimizer::new(1.0).link(ClipValue(5.0));
/// let (x, gradient) = (Tensor::from([0.0, 0.0]), Tensor::from([30.0, -2.0]));
/// assert_eq!(optimizer.update(&x, &gradient, &optimizer.init(&x)).0.to_string(), "[-5,  2]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipValue(pub f64);

impl Link for ClipValue {
    fn name(&self) -> &'static str {
        "clip by value"
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (g, c) = (rule.update(), rule.constant("c", self.0));
        g.max(-c).min(c)
    }
}

impl Optimizer {
    /// The same with the gradient clipped to this norm before all other links.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::adam(0.1).clip_norm(1.0).names(), ["clip by norm", "Adam"]);
    /// ```
    pub fn clip_norm(self, norm: f64) -> Optimizer {
        self.link_first(ClipNorm(norm))
    }

    /// The same with every element of the gradient clipped before all other links.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::sgd(0.1).clip_value(1.0).names(), ["clip by value"]);
    /// ```
    pub fn clip_value(self, largest: f64) -> Optimizer {
        self.link_first(ClipValue(largest))
    }
}
