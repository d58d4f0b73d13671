//! Weight decay and the L1 penalty.

use crate::expr::Tensor;
use crate::formula::Symbol;
use crate::ops::Algebra as _;
use crate::optim::{Link, Optimizer, Quantity, Rule, Step};
use crate::tree::Path;

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

/// Weight decay of some leaves only, a decay group: λ is the factor for those that a condition selects, and 0 for the others.
///
/// ```
/// use glassgrad::{Tensor, optim::{Optimizer, SelectedDecay}};
/// let matrices = SelectedDecay::new(0.5, |_, leaf| leaf.rank() >= 2);
/// let (x, zero) = ((Tensor::from([[4.0]]), Tensor::from([4.0])), (Tensor::from([[0.0]]), Tensor::from([0.0])));
/// let optimizer = Optimizer::new(0.5).link(matrices);
/// let (next, _) = optimizer.update(&x, &zero, &optimizer.init(&x));
/// assert_eq!((next.0.to_string(), next.1.to_string()), ("[[3]]".into(), "[4]".into()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SelectedDecay {
    /// The factor λ.
    pub factor: f64,
    /// Whether the leaf at a path decays.
    pub is_decayed: fn(&Path, &Tensor) -> bool,
}

impl SelectedDecay {
    /// Decay by this factor of the leaves for which the condition holds.
    ///
    /// ```
    /// use glassgrad::optim::{Link, SelectedDecay};
    /// assert_eq!(SelectedDecay::new(0.1, |path, _| path.starts_with("head")).name(), "selected decay");
    /// ```
    pub fn new(factor: f64, is_decayed: fn(&Path, &Tensor) -> bool) -> SelectedDecay {
        SelectedDecay { factor, is_decayed }
    }
}

impl Link for SelectedDecay {
    fn name(&self) -> &'static str {
        "selected decay"
    }

    fn quantities(&self, step: &Step<'_>, _: &[Tensor]) -> Vec<Quantity> {
        let factor = |(path, leaf): (&Path, &Tensor)| {
            let factor = if (self.is_decayed)(path, leaf) { self.factor } else { 0.0 };
            Tensor::from(factor).cast(leaf.dtype())
        };
        vec![Quantity::per_leaf("λ", step.paths.iter().zip(step.parameters).map(factor).collect())]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        rule.update() + rule.quantity("λ") * rule.parameter()
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

    /// The same with weight decay of the matrices only: leaves of rank 2 and more decay, biases and the scales and shifts of
    /// normalizations do not. These are the two decay groups with which Transformers are usually trained.
    ///
    /// ```
    /// use glassgrad::{nn::Linear, optim::Optimizer, rng::Key, tree::Tree};
    /// let layer = Linear::new(Key::new(1), 2, 1);
    /// let optimizer = Optimizer::sgd(1.0).matrix_decay(1.0);
    /// let (next, _) = optimizer.update(&layer, &Tree::zeros_like(&layer), &optimizer.init(&layer));
    /// assert_eq!(next.weight.abs().sum().item().unwrap(), 0.0);
    /// assert_eq!(next.bias.unwrap().to_string(), layer.bias.unwrap().to_string());
    /// ```
    pub fn matrix_decay(self, factor: f64) -> Optimizer {
        self.link(SelectedDecay::new(factor, |_, leaf| leaf.rank() >= 2))
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
