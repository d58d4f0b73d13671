//! Cross-entropy with weights of classes, examples that do not count, and smoothed labels.

use crate::error::Error;
use crate::expr::Tensor;
use crate::shape::Shape;

/// What [`cross_entropy_with`] and [`nll_with`] do beside the plain loss.
///
/// ```
/// use glassgrad::{Tensor, loss::Classes};
/// let options = Classes::default().weight(&Tensor::from([1.0, 2.0])).ignore_index(-100).label_smoothing(0.1);
/// assert_eq!(options.ignore_index, Some(-100));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// A weight for each class.
    pub weight: Option<Tensor>,
    /// The target of examples that do not count.
    pub ignore_index: Option<i64>,
    /// The share of each target that is distributed evenly over all classes.
    pub label_smoothing: f64,
}

impl Classes {
    /// With a weight for each class.
    ///
    /// ```
    /// use glassgrad::{Tensor, loss::Classes};
    /// assert!(Classes::default().weight(&Tensor::ones(3)).weight.is_some());
    /// ```
    #[must_use]
    pub fn weight(self, weight: &Tensor) -> Classes {
        Classes { weight: Some(weight.clone()), ..self }
    }

    /// Without examples of this target.
    ///
    /// ```
    /// use glassgrad::loss::Classes;
    /// assert_eq!(Classes::default().ignore_index(0).ignore_index, Some(0));
    /// ```
    #[must_use]
    pub fn ignore_index(self, index: i64) -> Classes {
        Classes { ignore_index: Some(index), ..self }
    }

    /// With a share of each target distributed evenly over all classes.
    ///
    /// ```
    /// use glassgrad::loss::Classes;
    /// assert_eq!(Classes::default().label_smoothing(0.1).label_smoothing, 0.1);
    /// ```
    #[must_use]
    pub fn label_smoothing(self, share: f64) -> Classes {
        Classes { label_smoothing: share, ..self }
    }
}

/// [`cross_entropy`](super::cross_entropy) of classes with options, and the weight of each example: 0 for one that does
/// not count, else that of its class. The loss is multiplied with the weight already, so that the mean that others
/// return is `loss.sum() / weight.sum()`.
///
/// ```
/// use glassgrad::{Tensor, loss::{self, Classes}};
/// let logits = Tensor::from([[0.0, 0.0], [7.0, 8.0]]);
/// let (wrong, weight) = loss::cross_entropy_with(&logits, &Tensor::from([1_i64, -100]), &Classes::default().ignore_index(-100));
/// assert_eq!(wrong.to_vec::<f64>().unwrap(), [2.0_f64.ln(), 0.0]);
/// assert_eq!(weight.to_string(), "[1, 0]");
/// ```
#[track_caller]
pub fn cross_entropy_with(logits: &Tensor, targets: &Tensor, options: &Classes) -> (Tensor, Tensor) {
    weighted("cross_entropy_with", &super::widened(logits).log_softmax(-1), logits, targets, options)
}

/// [`nll`](super::nll) of classes with options, and the weight of each example, as in [`cross_entropy_with`].
///
/// ```
/// use glassgrad::{Tensor, loss::{self, Classes}};
/// let logs = Tensor::from([[-1.0, -2.0], [-3.0, -4.0]]);
/// let options = Classes::default().weight(&Tensor::from([1.0, 10.0]));
/// let (wrong, weight) = loss::nll_with(&logs, &Tensor::from([0_i64, 1]), &options);
/// assert_eq!((wrong.to_string(), weight.to_string()), ("[ 1, 40]".into(), "[ 1, 10]".into()));
/// ```
#[track_caller]
pub fn nll_with(logs: &Tensor, targets: &Tensor, options: &Classes) -> (Tensor, Tensor) {
    weighted("nll_with", &super::widened(logs), logs, targets, options)
}

#[track_caller]
fn weighted(
    name: &'static str,
    logs: &Tensor,
    given: &Tensor,
    targets: &Tensor,
    options: &Classes,
) -> (Tensor, Tensor) {
    let pair = |failed: Tensor| (failed.clone(), failed);
    let operands = [given, targets];
    if let Some(failed) = operands.into_iter().chain([logs]).find(|tensor| tensor.error().is_some()) {
        return pair(failed.clone().composed_as(name, &operands));
    }
    let Some(classes) = logs.shape().last().copied() else {
        return pair(Tensor::refused(Error::new(name, "there is no axis of classes"), &operands));
    };
    let examples = Shape::from(&logs.shape()[..logs.rank() - 1]);
    if targets.is_float() || *targets.shape() != examples {
        let message = format!("targets are one i64 for each row, of shape {examples}, not {}", targets.describe());
        return pair(Tensor::refused(Error::new(name, message), &operands));
    }
    if !(0.0..=1.0).contains(&options.label_smoothing) {
        let message = format!("the share of smoothing is from 0 to 1, not {}", options.label_smoothing);
        return pair(Tensor::refused(Error::new(name, message), &operands));
    }
    let weight = match &options.weight {
        Some(weight) if **weight.shape() != [classes] && weight.error().is_none() => {
            let message = format!("there is one weight for each of {classes} classes, not {}", weight.describe());
            return pair(Tensor::refused(Error::new(name, message), &[given, targets, weight]));
        }
        Some(weight) => weight.clone(),
        None => Tensor::full(classes, 1.0, logs.dtype()),
    };
    let counted = options.ignore_index.map(|index| targets.not_equal(index));
    // The class of an example that does not count may be none at all.
    let class = counted.as_ref().map_or(targets.clone(), |counted| counted.choose(targets, &targets.zeros_like()));
    let one_hot = class.one_hot_as(name, classes, logs.dtype());
    let by_class = &one_hot * &weight;
    let smoothed = by_class.clone() * (1.0 - options.label_smoothing)
        + &weight * (options.label_smoothing / classes.max(1) as f64);
    let keep = |numbers: Tensor| match &counted {
        Some(counted) => counted.choose(&numbers, &numbers.zeros_like()),
        None => numbers,
    };
    // A weight of zero must not meet an infinite logarithm.
    let terms = smoothed.equal(0.0).choose(&logs.zeros_like(), &(logs * &smoothed));
    let loss = keep(-terms.sum_over(-1)).composed_as(name, &operands);
    (loss, keep(by_class.sum_over(-1)).composed_as(name, &operands))
}
