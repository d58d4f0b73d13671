//! Diagnostics of a training step: what does not show in the loss.

use std::collections::HashSet;
use std::fmt;

use super::precision::Precision;

use crate::diff::grad;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Keys, Op, Tensor};
use crate::glass::{self, Verdict};
use crate::ops::Operation;
use crate::optim::Optimizer;
use crate::sorting::IndirectSort;
use crate::tree::Tree;

/// Something about a step that is likely to hinder training.
///
/// ```
/// use glassgrad::{Tensor, expr::Keys, rng::Key, train::{Diagnostic, inspect}};
/// let loss = |x: &(Tensor, Tensor), batch: &Tensor, _: &Keys| (&x.0 * batch).sum();
/// let found = inspect(loss, &(Tensor::from([1.0]), Tensor::from([2.0])), &Tensor::from([3.0]), &Key::new(1).into());
/// assert!(matches!(&found.unwrap()[..], [Diagnostic::NotReached { parameter, .. }] if parameter == "1"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Diagnostic {
    /// No derivative of the loss arrives at a parameter.
    NotReached {
        /// Its path.
        parameter: String,
        /// Why.
        reason: String,
    },
    /// Vanishing gradient: that of a parameter is tiny beside those of others.
    Vanishing {
        /// Its path.
        parameter: String,
        /// The root mean square of its gradient.
        gradient: f64,
        /// That of the parameter with the largest gradient.
        largest: f64,
    },
    /// Exploding gradient: that of a parameter is far larger than the parameter itself.
    Exploding {
        /// Its path.
        parameter: String,
        /// The root mean square of its gradient.
        gradient: f64,
        /// The root mean square of the parameter.
        size: f64,
    },
    /// Overflow: elements of a gradient that 16 bits cannot represent, where they are finite in full precision.
    Overflow {
        /// The path of the parameter.
        parameter: String,
        /// The type of 16 bits.
        dtype: DType,
        /// The share of the elements.
        share: f64,
    },
    /// Underflow: elements of a gradient that are zero in 16 bits, and not in full precision.
    Underflow {
        /// The path of the parameter.
        parameter: String,
        /// The type of 16 bits.
        dtype: DType,
        /// The share of the elements that are not zero in full precision.
        share: f64,
    },
    /// Loss of precision: the gradient in 16 bits differs from that in full precision.
    Imprecise {
        /// The path of the parameter.
        parameter: String,
        /// The type of 16 bits.
        dtype: DType,
        /// The norm of the difference relative to that of the gradient.
        error: f64,
    },
    /// Dead units: zero for every example of the batch, and so is their gradient.
    DeadUnits {
        /// How many.
        dead: usize,
        /// Of how many.
        units: usize,
        /// The line that created them.
        line: String,
    },
}

/// Gradients smaller than the largest by this factor vanish.
const VANISHING: f64 = 1e-6;
/// Gradients larger than their parameter by this factor explode.
const EXPLODING: f64 = 1e4;
/// So large a share of the elements of a gradient may underflow.
const UNDERFLOW: f64 = 0.1;
/// So large may the relative error of a gradient in 16 bits be.
const IMPRECISE: f64 = 0.1;
/// So large a part of the units may be dead.
const DEAD: f64 = 0.25;

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnostic::NotReached { parameter, reason } => write!(formatter, "{parameter} does not learn: {reason}"),
            Diagnostic::Vanishing { parameter, gradient, largest } => write!(
                formatter,
                "vanishing gradient of {parameter}: RMS {gradient:.1e}, and {largest:.1e} elsewhere; to try: another initializer \
                 (Initializer::He, Initializer::Xavier), normalization, fewer layers of sigmoid or tanh"
            ),
            Diagnostic::Exploding { parameter, gradient, size } => write!(
                formatter,
                "exploding gradient of {parameter}: RMS {gradient:.1e}, of the parameter {size:.1e}; to try: a lower learning rate, \
                 .clip_norm(1.0), a smaller initial scale"
            ),
            Diagnostic::Overflow { parameter, dtype, share } => write!(
                formatter,
                "overflow in the gradient of {parameter}: {:.1} % of its elements are not finite in {dtype}; to try: Precision::Bf16, \
                 a lower learning rate, normalization",
                100.0 * share
            ),
            Diagnostic::Underflow { parameter, dtype, share } => write!(
                formatter,
                "underflow in the gradient of {parameter}: {:.1} % of its nonzero elements are zero in {dtype}; to try: \
                 Precision::Bf16, or Precision::Full",
                100.0 * share
            ),
            Diagnostic::Imprecise { parameter, dtype, error } => write!(
                formatter,
                "loss of precision in the gradient of {parameter}: {dtype} changes it by {:.1} %; to try: normalization, or \
                 Precision::Full",
                100.0 * error
            ),
            Diagnostic::DeadUnits { dead, units, line } => write!(
                formatter,
                "{dead} of {units} units are dead: zero for every example, computed at {line}; to try: a lower learning rate, \
                 Activation::LeakyRelu, Initializer::He"
            ),
        }
    }
}

/// The typical size of numbers: the root of their mean square, in 64 bits, where squares of small numbers are not zero yet.
fn size(tensor: &Tensor) -> Result<f64, Error> {
    if tensor.shape().elements() == 0 { Ok(0.0) } else { tensor.cast(DType::F64).square().mean().sqrt().item() }
}

/// Looks at one step of training: the loss of one batch, its gradient, and what units make on the way.
///
/// ```
/// use glassgrad::nn::{Activation, Layer, Mlp};
/// use glassgrad::{Tensor, expr::Keys, loss, rng::Key, train::{Diagnostic, inspect}};
/// // Thirty layers of sigmoids: the gradient vanishes at the first.
/// let deep = Mlp::new(Key::new(1), &[4; 31], Activation::Sigmoid);
/// let wrong = |network: &Mlp, x: &Tensor, _: &Keys| network.apply(x).square().mean();
/// let diagnostics = inspect(wrong, &deep, &Tensor::ones([8, 4]), &Key::new(1).into()).unwrap();
/// let first = |diagnostic: &Diagnostic| matches!(diagnostic, Diagnostic::Vanishing { parameter, .. } if parameter == "layers.0.weight");
/// assert!(diagnostics.iter().any(first), "{diagnostics:?}");
/// ```
pub fn inspect<X: Tree, B: Tree>(
    loss: impl Fn(&X, &B, &Keys) -> Tensor,
    parameters: &X,
    batch: &B,
    key: &Keys,
) -> Result<Vec<Diagnostic>, Error> {
    let function = |parameters: &X| loss(parameters, batch, key);
    let mut diagnostics = Vec::new();
    let audit = glass::audit(function, parameters)?;
    for finding in &audit.findings {
        let is_whole_or_fine = matches!(finding.verdict, Verdict::Reached | Verdict::NotDifferentiable);
        if !is_whole_or_fine {
            let cuts: Vec<String> = finding
                .verdict
                .cuts()
                .iter()
                .map(|cut| format!("{} at {}:{}", cut.expression, cut.origin.file(), cut.origin.line()))
                .collect();
            let reason = match cuts.is_empty() {
                true => finding.verdict.word().to_owned(),
                false => format!("{} by {}", finding.verdict.word(), cuts.join(", ")),
            };
            diagnostics.push(Diagnostic::NotReached { parameter: finding.name.clone(), reason });
        }
    }
    let gradients = grad(function)(parameters).realise()?;
    let mut sizes = Vec::new();
    for ((path, leaf), (_, gradient)) in parameters.leaves().into_iter().zip(gradients.leaves()) {
        if leaf.is_float() && leaf.shape().elements() > 0 {
            sizes.push((path.to_string(), size(&gradient)?, size(&leaf)?));
        }
    }
    let largest = sizes.iter().map(|(_, gradient, _)| *gradient).fold(0.0, f64::max);
    for (parameter, gradient, size) in sizes {
        if gradient > 0.0 && gradient < VANISHING * largest {
            diagnostics.push(Diagnostic::Vanishing { parameter, gradient, largest });
        } else if gradient > EXPLODING * size.max(1e-3) {
            diagnostics.push(Diagnostic::Exploding { parameter, gradient, size });
        }
    }
    diagnostics.extend(dead_units(&function(parameters))?);
    Ok(diagnostics)
}

/// Compares the gradient of a step in 16 bits with that in full precision: overflow, underflow and loss of precision, by
/// parameter. Loss scaling is not applied: what underflows without it is found.
///
/// ```
/// use glassgrad::nn::{Layer, Linear};
/// use glassgrad::{Tensor, expr::Keys, loss, optim::Optimizer, rng::Key, train::{Diagnostic, Precision, inspect_precision}};
/// let loss = |layer: &Linear, x: &Tensor, _: &Keys| layer.apply(x).square().mean();
/// let (layer, key) = (Linear::new(Key::new(1), 4, 3), Key::new(2).into());
/// let found = |size: f32, precision| {
///     let batch = Tensor::full([8, 4], size, glassgrad::dtype::DType::F32);
///     inspect_precision(loss, &Optimizer::sgd(0.1), &layer, &batch, &key, precision).unwrap()
/// };
/// assert!(found(1.0, Precision::Bf16).is_empty() && found(1e8, Precision::Bf16).is_empty());
/// assert!(matches!(&found(1e5, Precision::F16)[..], [Diagnostic::Overflow { .. }, ..]));
/// ```
pub fn inspect_precision<X: Tree, B: Tree>(
    loss: impl Fn(&X, &B, &Keys) -> Tensor,
    optimizer: &Optimizer,
    parameters: &X,
    batch: &B,
    key: &Keys,
    precision: Precision,
) -> Result<Vec<Diagnostic>, Error> {
    let Some(dtype) = precision.dtype() else { return Ok(Vec::new()) };
    let gradient = |precision: Precision| {
        grad(|parameters: &X| loss(&precision.rounded(optimizer, parameters), batch, key))(parameters)
    };
    compared(dtype, &gradient(Precision::Full), &gradient(precision))
}

/// The findings of [`inspect_precision`] from both gradients.
pub(super) fn compared<X: Tree>(dtype: DType, full: &X, rounded: &X) -> Result<Vec<Diagnostic>, Error> {
    let mut diagnostics = Vec::new();
    for ((path, full), (_, rounded)) in full.leaves().into_iter().zip(rounded.leaves()) {
        if !full.is_float() || full.shape().elements() == 0 {
            continue;
        }
        let parameter = path.to_string();
        let count = |condition: &Tensor| condition.cast(DType::F64).sum().item();
        let finite = full.is_finite().and(&rounded.is_finite());
        let overflown = count(&full.is_finite().and(&rounded.is_finite().not()))?;
        let nonzero = full.not_equal(0.0);
        let lost = count(&nonzero.and(&rounded.equal(0.0)))? / count(&nonzero)?.max(1.0);
        let apart = finite.choose(&(&full - &rounded), &full.zeros_like());
        let error = size(&apart)? / size(&full)?.max(f64::MIN_POSITIVE);
        if overflown > 0.0 {
            let share = overflown / full.shape().elements() as f64;
            diagnostics.push(Diagnostic::Overflow { parameter, dtype, share });
        } else if lost > UNDERFLOW {
            diagnostics.push(Diagnostic::Underflow { parameter, dtype, share: lost });
        } else if error > IMPRECISE {
            diagnostics.push(Diagnostic::Imprecise { parameter, dtype, error });
        }
    }
    Ok(diagnostics)
}

/// Units behind a loss that are zero for every example: lines along the last axis of what a one-sided function makes.
fn dead_units(loss: &Tensor) -> Result<Vec<Diagnostic>, Error> {
    let is_one_sided = |tensor: &Tensor| match tensor.op() {
        Op::Map(formula) => crate::expr::single_row(formula).is_some_and(|row| row == Operation::Relu),
        _ => false,
    };
    let mut seen = HashSet::new();
    let mut stack = vec![loss.clone()];
    let mut layers = Vec::new();
    while let Some(tensor) = stack.pop() {
        if seen.insert(tensor.0.id) {
            if tensor.rank() > 1 && is_one_sided(&tensor) {
                layers.push(tensor.clone());
            }
            stack.extend(tensor.inputs());
        }
    }
    layers.indirect_sort_by_key(|layer| layer.0.id);
    let mut diagnostics = Vec::new();
    for layer in layers {
        // Units are the channels of images, and the last axis of anything else.
        let unit_axis = if layer.rank() == 4 { 1 } else { layer.rank() - 1 };
        let others: Vec<isize> =
            (0..layer.rank()).filter(|axis| *axis != unit_axis).map(|axis| axis as isize).collect();
        let fires = layer.gt(0.0).any_over(&others[..]).to_vec::<bool>()?;
        let dead = fires.iter().filter(|fires| !**fires).count();
        if dead as f64 > DEAD * fires.len() as f64 {
            let line = format!("{}:{}", layer.origin().file(), layer.origin().line());
            diagnostics.push(Diagnostic::DeadUnits { dead, units: fires.len(), line });
        }
    }
    Ok(diagnostics)
}
