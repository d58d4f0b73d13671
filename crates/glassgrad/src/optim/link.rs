//! Links of an optimizer: slots, quantities over all leaves, and formula.

use std::fmt;

use super::rule::{Rule, Value};
use crate::expr::Tensor;
use crate::formula::Symbol;
use crate::tree::Path;

/// One link of an optimizer: it changes the updates of all leaves, which begin as the gradient.
///
/// A link states its formula once, over symbols. The update of tensors, the numbers of a single weight and the typeset
/// formula are all derived from it.
///
/// ```
/// use glassgrad::Algebra;
/// use glassgrad::formula::Symbol;
/// use glassgrad::optim::{Link, Optimizer, Rule, Slot};
/// use glassgrad::{Tensor, grad};
///
/// /// Lion: the sign of a blend of the momentum and the gradient.
/// #[derive(Debug)]
/// struct Lion {
///     beta1: f64,
///     beta2: f64,
/// }
///
/// impl Link for Lion {
///     fn name(&self) -> &'static str {
///         "Lion"
///     }
///     fn slots(&self) -> Vec<Slot> {
///         vec![Slot::per_weight("momentum", "m")]
///     }
///     fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
///         let (m, g) = (rule.slot("m"), rule.update());
///         let [beta1, beta2] = [rule.constant("β1", self.beta1), rule.constant("β2", self.beta2)];
///         let one = rule.number(1.0);
///         let update = (beta1 * m + (one - beta1) * g).sign();
///         rule.set("m", beta2 * m + (one - beta2) * g);
///         update
///     }
/// }
///
/// let optimizer = Optimizer::new(0.25).link(Lion { beta1: 0.9, beta2: 0.99 });
/// let mut x = Tensor::from([3.0, -1.0]);
/// let mut state = optimizer.init(&x);
/// for _ in 0..4 {
///     let gradient = grad(|x: &Tensor| x.square().sum())(&x);
///     (x, state) = optimizer.update(&x, &gradient, &state);
/// }
/// assert_eq!(x.to_string(), "[2, 0]");
/// ```
pub trait Link: fmt::Debug {
    /// Its name in explanations.
    fn name(&self) -> &'static str;

    /// Its state: a tensor for each parameter, or a number, per slot.
    fn slots(&self) -> Vec<Slot> {
        Vec::new()
    }

    /// What its formula reads that is no pointwise function of one weight, such as the norm of the whole gradient.
    fn quantities(&self, step: &Step<'_>, updates: &[Tensor]) -> Vec<Quantity> {
        let _ = (step, updates);
        Vec::new()
    }

    /// The update of one weight, from that of the link before; slots are assigned by [`Rule::set`].
    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s>;
}

/// A state variable of a link.
///
/// ```
/// use glassgrad::optim::{Adam, Link};
/// let names: Vec<&str> = Adam::default().slots().iter().map(|slot| slot.name).collect();
/// assert_eq!(names, ["first moment", "second moment"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Its name, such as "first moment".
    pub name: &'static str,
    /// Its symbol in the formula, such as "m".
    pub symbol: &'static str,
    /// Whether there is a number for each weight; otherwise there is one 64-bit number.
    pub is_per_weight: bool,
    /// The value of all its numbers before the first step.
    pub initial: f64,
}

impl Slot {
    /// A number for each weight, which begins at zero.
    ///
    /// ```
    /// use glassgrad::optim::Slot;
    /// assert_eq!(Slot::per_weight("velocity", "v").initial, 0.0);
    /// ```
    pub const fn per_weight(name: &'static str, symbol: &'static str) -> Slot {
        Slot { name, symbol, is_per_weight: true, initial: 0.0 }
    }

    /// One 64-bit number for all weights.
    ///
    /// ```
    /// use glassgrad::optim::Slot;
    /// assert!(!Slot::scalar("best loss", "b", f64::INFINITY).is_per_weight);
    /// ```
    pub const fn scalar(name: &'static str, symbol: &'static str, initial: f64) -> Slot {
        Slot { name, symbol, is_per_weight: false, initial }
    }
}

/// A value that a formula reads and that is no pointwise function of one weight.
///
/// ```
/// use glassgrad::{Tensor, optim::Quantity};
/// assert_eq!(Quantity::shared("norm", Tensor::from(5.0)).symbol, "norm");
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    /// Its symbol in the formula.
    pub symbol: &'static str,
    pub(super) value: Value,
}

impl Quantity {
    /// One number for all weights.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Quantity};
    /// assert_eq!(Quantity::shared("norm", Tensor::from(5.0)).symbol, "norm");
    /// ```
    pub fn shared(symbol: &'static str, value: Tensor) -> Quantity {
        Quantity { symbol, value: Value::Shared(value) }
    }

    /// A tensor for each leaf: of its shape, or a number.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Quantity};
    /// let norms = vec![Tensor::from(5.0), Tensor::from(2.0)];
    /// assert_eq!(Quantity::per_leaf("norm", norms).symbol, "norm");
    /// ```
    pub fn per_leaf(symbol: &'static str, values: Vec<Tensor>) -> Quantity {
        Quantity { symbol, value: Value::Leaves(values) }
    }
}

/// A step of training, as links see it.
///
/// ```
/// use glassgrad::optim::Optimizer;
/// // A step knows the parameters: weight decay adds a fraction of them to the updates.
/// assert_eq!(Optimizer::sgd(0.1).weight_decay(0.01).names(), ["weight decay"]);
/// ```
pub struct Step<'s> {
    /// The number of this step, from 1 on, 64-bit.
    pub count: &'s Tensor,
    /// The value of the loss, if it was given.
    pub loss: Option<&'s Tensor>,
    /// The paths of the leaves.
    pub paths: &'s [Path],
    /// The leaves.
    pub parameters: &'s [Tensor],
}
