//! Gamma variates whose samples have derivatives in the concentration, by implicit reparameterization.

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{CustomOp, Keys, Rule, Tensor};
use crate::rng::Key;
use crate::shape::Shape;
use crate::special;

impl Tensor {
    /// The logarithms of gamma variates with these concentrations and rate 1: the variates themselves underflow for small
    /// concentrations. The derivative of a sample z in the concentration α is that of implicit reparameterization,
    /// dz/dα = -∂F(z; α)/∂α / f(z; α) with the distribution function F and the density f. It has first derivatives;
    /// reading a second one is an error.
    ///
    /// ```
    /// use glassgrad::{Tensor, rng::Key};
    /// let logs = Tensor::full([20_000], 3.0, glassgrad::dtype::DType::F64).log_gamma_sample(Key::new(1));
    /// let samples = logs.exp();
    /// assert!((samples.mean().item().unwrap() - 3.0).abs() < 0.05 && (samples.var().item().unwrap() - 3.0).abs() < 0.15);
    /// assert!(Tensor::from([-1.0]).log_gamma_sample(Key::new(1)).eval().is_err());
    /// ```
    #[track_caller]
    pub fn log_gamma_sample(&self, key: impl Into<Keys>) -> Tensor {
        match Tensor::not_float("log_gamma_sample", &[self]) {
            Some(failed) => failed,
            None => Tensor::custom(LogGamma, &[&key.into().0, self]),
        }
    }
}

/// The logarithms of gamma variates from a key and concentrations.
#[derive(Clone, Debug)]
struct LogGamma;

impl CustomOp for LogGamma {
    fn name(&self) -> &str {
        "log_gamma_sample"
    }

    fn key(&self) -> Option<String> {
        Some(String::new())
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        match inputs[0].rank() {
            0 => Ok((inputs[1].shape().clone(), inputs[1].dtype())),
            _ => Err("it takes one key".to_owned()),
        }
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let Buffer::I64(bits) = inputs[0].buffer() else { return Err("keys are i64".to_owned()) };
        let key = Key(bits[0] as u64);
        let concentrations = inputs[1].buffer();
        let all = (0..concentrations.len()).map(|k| concentrations.get(k));
        if let Some(wrong) = all.into_iter().find(|a| !(*a > 0.0 && *a < 1e15)) {
            return Err(format!("{wrong} is not a concentration: it must be above 0, and below 10¹⁵"));
        }
        let draw = |k: usize| log_gamma_variate(key.fold(k as u64), concentrations.get(k));
        Ok(Array::new(inputs[1].shape().clone(), Buffer::from_fn(inputs[1].dtype(), concentrations.len(), draw)))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        let slope = Tensor::custom(LogGammaSlope, &[&inputs[1], output]);
        Rule::Pullback(Box::new(move |g| vec![None, Some(g * &slope)]))
    }
}

/// The derivative of the logarithm of a gamma variate in its concentration, from both.
#[derive(Clone, Debug)]
struct LogGammaSlope;

impl CustomOp for LogGammaSlope {
    fn name(&self) -> &str {
        "log_gamma_sample"
    }

    fn key(&self) -> Option<String> {
        Some("slope".to_owned())
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let (concentrations, logs) = (inputs[0].buffer(), inputs[1].buffer());
        let slope = |k: usize| implicit_slope(concentrations.get(k), logs.get(k));
        Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(inputs[0].dtype(), concentrations.len(), slope)))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        let message = "samples have first derivatives in the concentration, and no second ones";
        let failed = Tensor::refused(Error::new("log_gamma_sample", message), &[&inputs[0]]);
        Rule::Pullback(Box::new(move |_| vec![Some(failed.clone()), Some(failed.clone())]))
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        let shape = inputs.iter().zip(with_axis).find(|(_, has)| **has)?.0.shape();
        Some(Tensor::custom(LogGammaSlope, &[&inputs[0].broadcast_to(shape), &inputs[1].broadcast_to(shape)]))
    }
}

/// The logarithm of a gamma variate that belongs to a key, by the method of Marsaglia and Tsang. A concentration below 1
/// is raised by 1, and the variate multiplied with a power of a uniform number.
fn log_gamma_variate(key: Key, concentration: f64) -> f64 {
    let raised = if concentration < 1.0 { concentration + 1.0 } else { concentration };
    let d = raised - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    let boost = if concentration < 1.0 { (1.0 - key.uniform(0)).ln() / concentration } else { 0.0 };
    for round in 0..u64::MAX {
        let (x, u) = (key.normal(2 * round + 2), 1.0 - key.uniform(4 * round + 1));
        let cube = 1.0 + c * x;
        if cube > 0.0 && u.ln() < 0.5 * x * x + d * (1.0 - cube.powi(3) + 3.0 * cube.ln()) {
            return d.ln() + 3.0 * cube.ln() + boost;
        }
    }
    concentration.ln()
}

/// d ln z/dα = -∂P(α, z)/∂α / (z f(z)), with the series P(α, z) = zᵅ e⁻ᶻ Σ zⁿ/Γ(α+n+1): the terms
/// zⁿ Γ(α)/Γ(α+n+1) times (ψ(α+n+1) - ln z).
fn implicit_slope(concentration: f64, log: f64) -> f64 {
    /// The most terms of the series: it takes about 40·√z.
    const MOST_TERMS: usize = 1 << 26;
    let z = log.exp();
    let (mut term, mut digamma) = (1.0 / concentration, special::polygamma(0, concentration + 1.0));
    let mut sum = 0.0;
    for n in 1..MOST_TERMS {
        let contribution = term * (digamma - log);
        sum += contribution;
        let next = concentration + n as f64;
        // Behind the largest term they shrink at least as fast as a geometric series.
        if next > z && term <= f64::EPSILON * 0.01 * (sum.abs() + 1.0 / concentration) {
            break;
        }
        term *= z / next;
        digamma += 1.0 / next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::Float;

    /// P(α, z) by its series.
    fn distribution(alpha: f64, z: f64) -> f64 {
        let mut term = (alpha * z.ln() - z - Float::lgamma(alpha + 1.0)).exp();
        let mut sum = 0.0;
        for n in 1..10_000 {
            sum += term;
            term *= z / (alpha + f64::from(n));
        }
        sum
    }

    #[test]
    fn slopes_keep_the_distribution_function() {
        // Along the derivative, a small step in α moves z so that P(α, z) stays.
        for (alpha, z) in [(0.3, 0.01), (0.3, 1.5), (1.0, 0.7), (2.5, 4.0), (40.0, 35.0), (40.0, 60.0)] {
            let slope = implicit_slope(alpha, f64::ln(z));
            let step = 1e-4 * alpha;
            let at = |sign: f64| distribution(alpha + sign * step, (f64::ln(z) + sign * step * slope).exp());
            let drift = (at(1.0) - at(-1.0)).abs() / step;
            assert!(drift < 1e-6, "{alpha} {z}: {drift:e}");
        }
    }
}
