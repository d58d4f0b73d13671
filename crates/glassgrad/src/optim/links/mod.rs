//! The links, a file for each family, and the tables in which each has a row.

mod adagrad;
mod adam;
mod clip;
mod decay;
mod momentum;
mod plateau;
mod rmsprop;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use clip::{ClipNorm, ClipValue};
pub use decay::{L1, SelectedDecay, WeightDecay};
pub use momentum::{Ema, Momentum};
pub use plateau::Plateau;
pub use rmsprop::RmsProp;

use super::Optimizer;

/// An optimizer that can be chosen by name.
///
/// ```
/// use glassgrad::optim::OPTIMIZERS;
/// let adamw = OPTIMIZERS.iter().find(|row| row.name == "adamw").unwrap();
/// let optimizer = (adamw.build)(1e-3, None).weight_decay(adamw.weight_decay);
/// assert_eq!(optimizer.names(), ["Adam", "weight decay"]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OptimizerRow {
    /// Its name, in lower case.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// A learning rate to begin with.
    pub rate: f64,
    /// The chain of links with a learning rate, and with a momentum if it has one.
    pub build: fn(rate: f64, momentum: Option<f64>) -> Optimizer,
    /// The decoupled weight decay that belongs to it.
    pub weight_decay: f64,
}

/// The momentum that is usual.
const MOMENTUM: f64 = 0.9;

const fn row(
    name: &'static str,
    about: &'static str,
    rate: f64,
    build: fn(f64, Option<f64>) -> Optimizer,
) -> OptimizerRow {
    OptimizerRow { name, about, rate, build, weight_decay: 0.0 }
}

/// The optimizers that can be chosen by name, a row each.
///
/// ```
/// use glassgrad::optim::OPTIMIZERS;
/// assert!(OPTIMIZERS.iter().any(|row| row.name == "adam"));
/// ```
pub static OPTIMIZERS: [OptimizerRow; 8] = [
    row("sgd", "Stochastic gradient descent", 0.1, |rate, momentum| match momentum {
        Some(momentum) => Optimizer::sgd(rate).momentum(momentum),
        None => Optimizer::sgd(rate),
    }),
    row("momentum", "Gradient descent with momentum", 0.05, |rate, momentum| {
        Optimizer::sgd(rate).momentum(momentum.unwrap_or(MOMENTUM))
    }),
    row("nesterov", "Gradient descent with Nesterov momentum", 0.05, |rate, momentum| {
        Optimizer::sgd(rate).nesterov(momentum.unwrap_or(MOMENTUM))
    }),
    row("ema", "Exponential moving average of the gradients", 0.1, |rate, momentum| {
        Optimizer::sgd(rate).ema(momentum.unwrap_or(MOMENTUM))
    }),
    row("rmsprop", "Root mean square propagation", 0.01, |rate, _| Optimizer::rmsprop(rate)),
    row("adagrad", "Adaptive gradient", 0.05, |rate, _| Optimizer::adagrad(rate)),
    row("adam", "Adaptive moment estimation", 0.01, |rate, _| Optimizer::adam(rate)),
    OptimizerRow {
        weight_decay: 0.01,
        ..row("adamw", "Adam with decoupled weight decay", 0.01, |rate, _| Optimizer::adam(rate))
    },
];

/// Adds a link to an optimizer.
///
/// ```
/// use glassgrad::optim::{Modifier, Optimizer};
/// let halved: Modifier = |optimizer| optimizer.rate_factor("", 0.5);
/// assert_eq!(halved(Optimizer::sgd(0.1)).rate(), 0.1);
/// ```
pub type Modifier = fn(Optimizer) -> Optimizer;

/// Links that modify any optimizer, a row each: its name, and an optimizer with it added.
///
/// ```
/// use glassgrad::optim::{MODIFIERS, Optimizer};
/// let (name, add) = MODIFIERS[0];
/// assert_eq!(add(Optimizer::adam(0.1)).names(), [name, "Adam"]);
/// ```
pub static MODIFIERS: [(&str, Modifier); 6] = [
    ("clip by norm", |optimizer| optimizer.clip_norm(1.0)),
    ("clip by value", |optimizer| optimizer.clip_value(1.0)),
    ("weight decay", |optimizer| optimizer.weight_decay(0.01)),
    ("selected decay", |optimizer| optimizer.matrix_decay(0.01)),
    ("L1 penalty", |optimizer| optimizer.link(L1(0.01))),
    ("plateau", |optimizer| optimizer.link(Plateau::new(0.5, 0))),
];
