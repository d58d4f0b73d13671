//! Loss functions.
//!
//! Every function returns the unreduced loss, one value per element or example; reduce it with `mean` or `sum`, which other
//! libraries choose by a parameter `reduction`. Each is the negative log-likelihood of a
//! distribution of [`dist`](crate::dist) up to a constant, or says why it is not.

mod classes;
mod ctc;
mod metric;
mod regression;

pub use classes::{Classes, cross_entropy_with, nll_with};
pub use ctc::ctc;
pub use metric::{cosine_embedding, hinge_embedding, margin_ranking, soft_margin, triplet_margin};
pub use regression::{gaussian_nll, kl_div, kl_div_logs, log_cosh, mae, poisson_nll, smooth_l1};

use crate::diff::FusedRegion;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, FusedKernel, Tensor};

/// Predictions as losses compute with them: those of 16 bits in `f32`, because a sum of small terms needs the digits, and the
/// value of a loss is compared from step to step.
#[track_caller]
fn widened(predictions: &Tensor) -> Tensor {
    match predictions.dtype() {
        DType::F16 | DType::BF16 if predictions.error().is_none() => predictions.cast(DType::F32),
        _ => predictions.clone(),
    }
}

/// The error for targets whose shape is not that of the predictions. Broadcasting would combine unrelated pairs: [4] with
/// [4, 1] would give [4, 4]. A scalar target is allowed.
#[track_caller]
fn unlike(operation: &str, predictions: &Tensor, targets: &Tensor) -> Option<Tensor> {
    if let Some(failed) = [predictions, targets].into_iter().find(|tensor| tensor.error().is_some()) {
        return Some(failed.clone());
    }
    if predictions.shape() == targets.shape() || targets.rank() == 0 {
        return None;
    }
    let (predicted, wanted) = (predictions.shape(), targets.shape());
    let message = format!("predictions of shape {predicted} and targets of shape {wanted} must be alike");
    let error =
        Error::new(operation, message).help(format!("reshape one of them, for example with .reshape({wanted})"));
    Some(Tensor::refused(error, &[predictions, targets]))
}

/// Probabilities are clipped to [ε, 1 - ε] before their logarithm is taken.
pub const EPSILON: f64 = 1e-12;

/// The squared error: the negative log-likelihood of a normal distribution with fixed variance.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::mse(&Tensor::from([1.0, 5.0]), &Tensor::from([1.0, 2.0]));
/// assert_eq!((wrong.to_string(), wrong.mean().item().unwrap()), ("[0, 9]".into(), 4.5));
/// ```
#[track_caller]
pub fn mse(predictions: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("mse", predictions, targets) {
        return failed;
    }
    (widened(predictions) - targets).square()
}

/// The Huber loss: quadratic for errors up to `delta` and linear beyond, so that the gradient of an outlier is bounded by `delta`.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::huber(&Tensor::from([1.0, 5.0]), &Tensor::from([0.0, 0.0]), 2.0);
/// assert_eq!(wrong.to_string(), "[0.5,   8]");
/// ```
#[track_caller]
pub fn huber(predictions: &Tensor, targets: &Tensor, delta: f64) -> Tensor {
    if let Some(failed) = unlike("huber", predictions, targets) {
        return failed;
    }
    let distance = (widened(predictions) - targets).abs();
    let near = distance.minimum(delta);
    // Half the square of the near part, and the rest times delta.
    near.square() * 0.5 + (distance - near) * delta
}

/// The hinge loss max(0, 1 - t·y) for targets t of 1 or -1.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::hinge(&Tensor::from([3.0, 0.5]), &Tensor::from([1.0, -1.0]));
/// assert_eq!(wrong.to_string(), "[  0, 1.5]");
/// ```
#[track_caller]
pub fn hinge(scores: &Tensor, sides: &Tensor) -> Tensor {
    if let Some(failed) = unlike("hinge", scores, sides) {
        return failed;
    }
    (1.0 - widened(scores) * sides).relu()
}

/// The cross-entropy between targets and softmax(logits), reduced along the last axis. Targets are class indices or class
/// probabilities. Reading the loss of an index out of range is an error.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let logits = Tensor::from([[0.0, 0.0], [1000.0, 0.0]]);
/// let by_class = loss::cross_entropy(&logits, &Tensor::from([1_i64, 0]));
/// let by_probability = loss::cross_entropy(&logits, &Tensor::from([[0.0, 1.0], [1.0, 0.0]]));
/// assert_eq!(by_class.to_vec::<f64>().unwrap(), [2.0_f64.ln(), 0.0]);
/// assert_eq!(by_probability.to_vec::<f64>().unwrap(), [2.0_f64.ln(), 0.0]);
/// ```
#[track_caller]
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    let wide = widened(logits);
    let is_refused = [logits, targets].iter().any(|tensor| tensor.error().is_some()) || logits.rank() == 0;
    // What does not fit is refused under the names of the operands.
    if is_refused || targets.is_float() || targets.shape()[..] != logits.shape()[..logits.rank() - 1] {
        return nll_as("cross_entropy", &wide.log_softmax(-1), targets);
    }
    // For classes the logarithm of the normalizer is added once for each example: logarithms of all probabilities are never needed.
    let operation = "cross_entropy";
    let region = FusedRegion::new(&[logits, targets]);
    let wide = widened(&region.parameters[0]);
    let shift = wide.shift_over(Axes::from(-1).keep());
    let shifted = &wide - &shift;
    let normalizers = shifted.exp().sum_over(-1).ln();
    let losses = &normalizers + nll_as(operation, &shifted, &region.parameters[1]);
    let outputs = vec![losses, normalizers + shift.squeeze(-1)];
    region.outputs(FusedKernel::CrossEntropy(operation), outputs).swap_remove(0)
}

/// The same from probabilities, clipped below at 10⁻¹².
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::cross_entropy_of_probabilities(&Tensor::from([[0.25, 0.75], [1.0, 0.0]]), &Tensor::from([0_i64, 1]));
/// let found = wrong.to_vec::<f64>().unwrap();
/// assert!((found[0] - 4.0_f64.ln()).abs() < 1e-15 && (found[1] - 27.631).abs() < 1e-3);
/// ```
#[track_caller]
pub fn cross_entropy_of_probabilities(probabilities: &Tensor, targets: &Tensor) -> Tensor {
    nll_as("cross_entropy_of_probabilities", &widened(probabilities).maximum(EPSILON).ln(), targets)
}

/// The negative log-likelihood from log-probabilities: that of the target class, or the mean weighted by target probabilities.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let logs = Tensor::from([[-1.0, -2.0, -3.0]]);
/// assert_eq!(loss::nll(&logs, &Tensor::from([2_i64])).to_string(), "[3]");
/// assert_eq!(loss::nll(&logs, &Tensor::from([[0.5, 0.5, 0.0]])).to_string(), "[1.5]");
/// assert!(loss::nll(&logs, &Tensor::from([1.0])).eval().is_err());
/// ```
#[track_caller]
pub fn nll(logs: &Tensor, targets: &Tensor) -> Tensor {
    nll_as("nll", &widened(logs), targets)
}

/// [`nll`] under the name of the loss that the user called.
#[track_caller]
fn nll_as(operation: &'static str, logs: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = [logs, targets].into_iter().find(|tensor| tensor.error().is_some()) {
        return failed.clone();
    }
    let Some(classes) = logs.shape().last().copied() else {
        let message = "there is no axis of classes";
        return Tensor::refused(Error::new(operation, message), &[logs, targets]);
    };
    let weights = match targets.is_float() {
        true => targets.clone(),
        // Truth values take a quarter of the memory of numbers.
        false => targets.one_hot_as(operation, classes, DType::Bool).cast(logs.dtype()),
    };
    if weights.shape() != logs.shape() {
        let message = format!(
            "targets are an integer for each row, of shape {}, or probabilities of shape {}",
            crate::shape::Shape::from(&logs.shape()[..logs.rank() - 1]),
            logs.shape()
        );
        return Tensor::refused(Error::new(operation, message), &[logs, targets]);
    }
    -(logs * weights).sum_over(-1)
}

/// The binary cross-entropy between target probabilities and sigmoid(logits): the negative log-likelihood of a Bernoulli distribution.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::binary_cross_entropy(&Tensor::from([0.0, -1000.0]), &Tensor::from([1.0, 1.0]));
/// assert_eq!(wrong.to_vec::<f64>().unwrap(), [2.0_f64.ln(), 1000.0]);
/// ```
#[track_caller]
pub fn binary_cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("binary_cross_entropy", logits, targets) {
        return failed;
    }
    let logits = widened(logits);
    logits.softplus() - logits * targets
}

/// The same from probabilities, clipped to [10⁻¹², 1 - 10⁻¹²].
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::binary_cross_entropy_of_probabilities(&Tensor::from([0.25, 0.0]), &Tensor::from([0.0, 1.0]));
/// let found = wrong.to_vec::<f64>().unwrap();
/// assert!((found[0] + 0.75_f64.ln()).abs() < 1e-15 && (found[1] - 27.631).abs() < 1e-3);
/// ```
#[track_caller]
pub fn binary_cross_entropy_of_probabilities(probabilities: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("binary_cross_entropy_of_probabilities", probabilities, targets) {
        return failed;
    }
    let probabilities = &widened(probabilities);
    let logarithm = |probability: &Tensor| probability.maximum(EPSILON).ln();
    -(targets * logarithm(probabilities) + (1.0 - targets) * logarithm(&(1.0 - probabilities)))
}

/// The L1 penalty, the sum of absolute values: as a regularizer it makes parameters sparse.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// assert_eq!(loss::l1(&(Tensor::from([1.0, -2.0]), Tensor::from([[3.0]]))).item().unwrap(), 6.0);
/// ```
#[track_caller]
pub fn l1<X: crate::tree::Tree>(parameters: &X) -> Tensor {
    summed(parameters, |leaf| leaf.abs().sum())
}

/// The L2 penalty, the sum of squares: as a regularizer it shrinks parameters.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// assert_eq!(loss::l2(&(Tensor::from([1.0, -2.0]), Tensor::from([[3.0]]))).item().unwrap(), 14.0);
/// ```
#[track_caller]
pub fn l2<X: crate::tree::Tree>(parameters: &X) -> Tensor {
    summed(parameters, |leaf| leaf.square().sum())
}

#[track_caller]
fn summed<X: crate::tree::Tree>(parameters: &X, of: impl Fn(&Tensor) -> Tensor) -> Tensor {
    let leaves = parameters.flatten();
    let terms = leaves.iter().filter(|leaf| leaf.is_float()).map(of);
    terms.reduce(|sum, term| sum + term).unwrap_or_else(|| Tensor::from(0.0_f32))
}
