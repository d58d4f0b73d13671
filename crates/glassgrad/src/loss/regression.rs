//! Losses of numbers.

use super::unlike;
use crate::expr::Tensor;

/// The absolute value of the difference, of which the mean is the mean absolute error (L1 loss): of a Laplace
/// distribution with a fixed scale. Its derivative at 0 is 0.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// assert_eq!(loss::mae(&Tensor::from([1.0, 5.0]), &Tensor::from([1.0, 7.0])).to_string(), "[0, 2]");
/// ```
#[track_caller]
pub fn mae(predictions: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("mae", predictions, targets) {
        return failed;
    }
    (predictions - targets).abs().composed_as("mae", &[predictions, targets])
}

/// [`huber`](super::huber) divided by `beta`: the square below `beta` and the absolute value beyond it, with slope 1.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::smooth_l1(&Tensor::from([1.0, 5.0]), &Tensor::from([0.0, 0.0]), 2.0);
/// assert_eq!(wrong.to_string(), "[0.25,    4]");
/// ```
#[track_caller]
pub fn smooth_l1(predictions: &Tensor, targets: &Tensor, beta: f64) -> Tensor {
    if beta == 0.0 {
        return mae(predictions, targets).composed_as("smooth_l1", &[predictions, targets]);
    }
    (super::huber(predictions, targets, beta) / beta).composed_as("smooth_l1", &[predictions, targets])
}

/// ln cosh of the difference: a square near 0 and an absolute value far away, smooth everywhere.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::log_cosh(&Tensor::from([0.0, 1000.0]), &Tensor::from([0.0, 0.0]));
/// assert_eq!(wrong.to_vec::<f64>().unwrap(), [0.0, 1000.0 - 2.0_f64.ln()]);
/// ```
#[track_caller]
pub fn log_cosh(predictions: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("log_cosh", predictions, targets) {
        return failed;
    }
    // ln((eᵈ + e⁻ᵈ)/2) = d + ln(1 + e⁻²ᵈ) - ln 2
    let difference = predictions - targets;
    let result = &difference + (&difference * -2.0).softplus() - std::f64::consts::LN_2;
    result.composed_as("log_cosh", &[predictions, targets])
}

/// The negative log-likelihood of a normal distribution whose variance is predicted beside its mean, without the constant
/// ½ ln 2π. Variances count as at least 10⁻⁶.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let wrong = loss::gaussian_nll(&Tensor::from([1.0]), &Tensor::from([1.0]), &Tensor::from([4.0]));
/// assert_eq!(wrong.item().unwrap(), 0.5 * 4.0_f64.ln());
/// ```
#[track_caller]
pub fn gaussian_nll(means: &Tensor, targets: &Tensor, variances: &Tensor) -> Tensor {
    if let Some(failed) = unlike("gaussian_nll", means, targets) {
        return failed;
    }
    let variance = variances.maximum(1e-6);
    let result = (variance.ln() + (means - targets).square() / &variance) * 0.5;
    result.composed_as("gaussian_nll", &[means, targets, variances])
}

/// The negative log-likelihood of a Poisson distribution with the rate exp(log_rates), without the terms of the targets
/// alone.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// assert_eq!(loss::poisson_nll(&Tensor::from([0.0]), &Tensor::from([3.0])).item().unwrap(), 1.0);
/// ```
#[track_caller]
pub fn poisson_nll(log_rates: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("poisson_nll", log_rates, targets) {
        return failed;
    }
    (log_rates.exp() - targets * log_rates).composed_as("poisson_nll", &[log_rates, targets])
}

/// The terms p·(ln p - ln q) of the Kullback-Leibler divergence of predicted probabilities q, given by their logarithms,
/// from target probabilities p. A target of 0 contributes 0.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// let terms = loss::kl_div(&Tensor::from([-1.0, -2.0]), &Tensor::from([0.0, 1.0]));
/// assert_eq!(terms.to_string(), "[0, 2]");
/// ```
#[track_caller]
pub fn kl_div(log_probabilities: &Tensor, targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("kl_div", log_probabilities, targets) {
        return failed;
    }
    let terms = targets.xlogy(targets) - targets * log_probabilities;
    terms.composed_as("kl_div", &[log_probabilities, targets])
}

/// [`kl_div`] from targets that are logarithms of probabilities too.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// assert_eq!(loss::kl_div_logs(&Tensor::from([-1.0]), &Tensor::from([0.0])).item().unwrap(), 1.0);
/// ```
#[track_caller]
pub fn kl_div_logs(log_probabilities: &Tensor, log_targets: &Tensor) -> Tensor {
    if let Some(failed) = unlike("kl_div_logs", log_probabilities, log_targets) {
        return failed;
    }
    let terms = log_targets.exp() * (log_targets - log_probabilities);
    terms.composed_as("kl_div_logs", &[log_probabilities, log_targets])
}
