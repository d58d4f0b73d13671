//! Adagrad: a learning rate for each weight that falls with the squares of its gradients.

use crate::formula::Symbol;
use crate::ops::Algebra as _;
use crate::optim::{Link, Optimizer, Rule, Slot};

/// Updates divided by the root of the sum of their squares so far.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer};
/// let optimizer = Optimizer::adagrad(1.0);
/// let (x, gradient) = (Tensor::from([0.0]), Tensor::from([5.0]));
/// let (x, state) = optimizer.update(&x, &gradient, &optimizer.init(&x));
/// // 1, and then 1/√2.
/// assert!((optimizer.update(&x, &gradient, &state).0.item().unwrap() + 1.707).abs() < 1e-3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    /// Added to the root, for numerical stability.
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

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::per_weight("sum of squares", "s")]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let (s, g) = (rule.slot("s"), rule.update());
        let epsilon = rule.constant("ε", self.epsilon);
        let s = rule.set("s", s + g.square());
        g / (s.sqrt() + epsilon)
    }
}

impl Optimizer {
    /// Adagrad with its usual constants.
    ///
    /// ```
    /// use glassgrad::optim::Optimizer;
    /// assert_eq!(Optimizer::adagrad(1e-2).names(), ["Adagrad"]);
    /// ```
    pub fn adagrad(rate: f64) -> Optimizer {
        Optimizer::new(rate).link(Adagrad::default())
    }
}
