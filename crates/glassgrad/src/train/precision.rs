//! Mixed precision: master weights in full precision, forward and backward pass in 16 bits.

use crate::Tree;
use crate::dtype::DType;
use crate::expr::Tensor;
use crate::optim::{Optimizer, State};
use crate::tree::Tree;

/// The precision of the forward and the backward pass of training.
///
/// Parameters (the master weights), gradients and the state of the optimizer keep their type. In 16 bits the trained leaves are
/// rounded before each forward pass; layers round their inputs to the type of their weights, so that activations and
/// cotangents are stored in 16 bits and products accumulate in `f32`. Normalizations and losses are computed in `f32`.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, data::Examples, dtype::DType, expr::Keys, loss, nn::{Layer, Linear}, optim::Optimizer, rng::Key};
/// use glassgrad::train::{Precision, Training};
/// let x = Tensor::linspace(-1.0_f32, 1.0, 32).reshape([32, 1]);
/// let examples = Arc::new(Examples::new((x.clone(), &x * 2.0)).unwrap());
/// let objective = |layer: &Linear, (x, y): &(Tensor, Tensor), _: &Keys| {
///     assert_eq!(layer.apply(x).dtype(), DType::BF16);
///     loss::mse(&layer.apply(x), y).mean()
/// };
/// let training = Training::new(objective, Optimizer::sgd(0.3)).precision(Precision::Bf16).epochs(40);
/// let trained = training.run(&Linear::new(Key::new(1), 1, 1), &examples).unwrap().parameters;
/// assert_eq!(trained.weight.dtype(), DType::F32);
/// assert!((trained.weight.item().unwrap() - 2.0).abs() < 0.02);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// The type of the parameters.
    #[default]
    Full,
    /// `bf16`: the range of `f32` with 8 bits of precision.
    Bf16,
    /// `f16`: 11 bits of precision with magnitudes from 6·10⁻⁸ to 65504, and dynamic loss scaling, which keeps gradients
    /// inside of that range.
    F16,
}

impl Precision {
    /// The element type of the passes, if it is not that of the parameters.
    ///
    /// ```
    /// use glassgrad::{dtype::DType, train::Precision};
    /// assert_eq!((Precision::Full.dtype(), Precision::Bf16.dtype()), (None, Some(DType::BF16)));
    /// ```
    pub fn dtype(self) -> Option<DType> {
        match self {
            Precision::Full => None,
            Precision::Bf16 => Some(DType::BF16),
            Precision::F16 => Some(DType::F16),
        }
    }

    /// The parameters as the loss sees them: leaves that the optimizer trains are rounded, others, as running statistics,
    /// stay.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType, optim::Optimizer, train::Precision};
    /// let (weights, statistics) = (Tensor::from([0.1_f32]), Tensor::from([0.1_f32]));
    /// let seen = Precision::Bf16.rounded(&Optimizer::sgd(0.1).freeze("1"), &(weights, statistics));
    /// assert_eq!((seen.0.dtype(), seen.1.dtype()), (DType::BF16, DType::F32));
    /// ```
    pub fn rounded<X: Tree>(self, optimizer: &Optimizer, parameters: &X) -> X {
        match self.dtype() {
            None => parameters.map(Tensor::clone),
            Some(dtype) => parameters.map_with_path(|path, leaf| match optimizer.is_trained(path, leaf) {
                true => leaf.cast(dtype),
                false => leaf.clone(),
            }),
        }
    }
}

/// The state of dynamic loss scaling: the loss is multiplied by a factor before the backward pass, so that small gradients do not
/// underflow. A step with a gradient that is not finite is skipped and halves the factor; after [`LossScale::INTERVAL`]
/// steps in a row without one it doubles.
///
/// ```
/// use glassgrad::train::LossScale;
/// assert_eq!(LossScale::start().factor.item().unwrap(), 65536.0);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct LossScale {
    /// The factor, a power of two, 64-bit.
    pub factor: Tensor,
    /// The number of steps in a row whose gradient was finite, 64-bit.
    pub finite: Tensor,
}

/// The largest factor: its products with losses stay far from the overflow of `f32`.
const LARGEST: f64 = 16_777_216.0;

impl LossScale {
    /// The number of finite steps after which the factor doubles.
    pub const INTERVAL: u64 = 2000;

    /// The state before the first step: a factor of 2¹⁶.
    pub fn start() -> LossScale {
        LossScale { factor: Tensor::from(65536.0), finite: Tensor::from(0.0) }
    }

    /// The state after a step.
    ///
    /// ```
    /// use glassgrad::{Tensor, train::LossScale};
    /// let after = LossScale::start().after(&Tensor::from(false));
    /// assert_eq!((after.factor.item().unwrap(), after.finite.item().unwrap()), (32768.0, 0.0));
    /// ```
    #[track_caller]
    pub fn after(&self, is_finite: &Tensor) -> LossScale {
        let counted = &self.finite + 1.0;
        let grows = counted.ge(LossScale::INTERVAL as f64);
        let grown = grows.choose(&(&self.factor * 2.0).minimum(LARGEST), &self.factor);
        let shrunk = (&self.factor * 0.5).maximum(1.0);
        let finite = grows.choose(&counted.zeros_like(), &counted);
        LossScale {
            factor: is_finite.choose(&grown, &shrunk),
            finite: is_finite.choose(&finite, &counted.zeros_like()),
        }
    }
}

/// Whether all floating-point leaves are finite, as one truth value.
#[track_caller]
pub(super) fn all_finite<X: Tree>(tree: &X) -> Tensor {
    let leaves = tree.flatten();
    let finite = leaves.iter().filter(|leaf| leaf.is_float()).map(|leaf| leaf.is_finite().all());
    finite.reduce(|all, leaf| all.and(&leaf)).unwrap_or_else(|| Tensor::from(true))
}

/// The update of a step, or where its gradient is not finite the state before it.
#[track_caller]
pub(super) fn unless_overflown<X: Tree>(
    is_finite: &Tensor,
    next: (X, State<X>),
    before: (&X, &State<X>),
) -> (X, State<X>) {
    let chosen = |next: &Tensor, before: &Tensor| is_finite.choose(next, before);
    (next.0.zip(before.0, chosen), next.1.zip(before.1, chosen))
}
