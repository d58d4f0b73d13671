//! Sums of squares, with the structured Jacobian of what is squared.

use super::search::{Minimum, Round, Stop, dot, length, moved, numbers};
use crate::calculus;
use crate::compile::compile;
use crate::diff::Outcome;
use crate::error::Error;
use crate::tree::Tree;

/// The method of Levenberg and Marquardt: steps of Gauss and Newton, JᵀJ in place of the Hessian, damped where they do not
/// lower the sum.
///
/// The damping is a multiple of the largest diagonal of JᵀJ so far, so that the steps do not depend on the units of the
/// parameters. It grows and shrinks with the ratio of the decrease to the one that the linear model predicts.
///
/// ```
/// use glassgrad::{Tensor, optim::LevenbergMarquardt};
/// let (t, y) = (Tensor::from([0.0, 1.0, 2.0]), Tensor::from([2.0, 1.0, 0.5]));
/// let residuals = |p: &(Tensor, Tensor)| &p.0 * (&t * &p.1).exp() - &y;
/// let start = (Tensor::from(1.0), Tensor::from(0.0));
/// let found = LevenbergMarquardt::new().minimise(residuals, &start).unwrap();
/// assert!((found.point.0.item().unwrap() - 2.0).abs() < 1e-9);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LevenbergMarquardt {
    tolerance: f64,
    rounds: usize,
}

impl Default for LevenbergMarquardt {
    fn default() -> LevenbergMarquardt {
        LevenbergMarquardt { tolerance: 1e-10, rounds: 200 }
    }
}

impl LevenbergMarquardt {
    /// Until the gradient Jᵀr is no longer than 10⁻¹⁰, or the cosine of the angle between the residuals and each column of
    /// the Jacobian no larger.
    ///
    /// ```
    /// use glassgrad::optim::LevenbergMarquardt;
    /// assert_eq!(LevenbergMarquardt::new(), LevenbergMarquardt::default());
    /// ```
    pub fn new() -> LevenbergMarquardt {
        LevenbergMarquardt::default()
    }

    /// Until the gradient, or each cosine, is no larger than this.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::LevenbergMarquardt};
    /// let found = LevenbergMarquardt::new().tolerance(0.1).minimise(|x: &Tensor| x.square(), &Tensor::from([1.0]));
    /// assert!(found.unwrap().gradient_norm <= 0.1);
    /// ```
    pub fn tolerance(self, tolerance: f64) -> LevenbergMarquardt {
        LevenbergMarquardt { tolerance, ..self }
    }

    /// The maximum number of iterations.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::LevenbergMarquardt};
    /// let found = LevenbergMarquardt::new().rounds(1).minimise(|x: &Tensor| x.square(), &Tensor::from([1.0]));
    /// assert_eq!(found.unwrap().rounds.len(), 1);
    /// ```
    pub fn rounds(self, rounds: usize) -> LevenbergMarquardt {
        LevenbergMarquardt { rounds, ..self }
    }

    /// Minimises half the sum of the squares of residuals from a point on. The function is traced once: a number that it
    /// reads from a captured `Cell` or the like stays what it was at the first call.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::LevenbergMarquardt};
    /// let a = Tensor::from([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]);
    /// let line = |x: &Tensor| a.matmul(x) - Tensor::from([1.0, 3.0, 5.0]);
    /// let found = LevenbergMarquardt::new().minimise(line, &Tensor::from([0.0, 0.0])).unwrap();
    /// assert!(found.value < 1e-20);
    /// ```
    pub fn minimise<X: Tree, R: Outcome>(&self, residuals: impl Fn(&X) -> R, start: &X) -> Result<Minimum<X>, Error> {
        let compiled = compile(&residuals);
        let derivative = calculus::jacobian(&residuals);
        let mut point = start.realise()?;
        let mut errors = compiled.call(&point)?;
        let mut value = 0.5 * dot(&errors, &errors)?;
        let (mut rounds, mut damping) = (Vec::new(), FIRST);
        let (mut weights, mut idle) = (vec![0.0_f64; numbers(&point)?.len()], 0);
        loop {
            let jacobian = derivative.at(&point)?;
            let gradient = jacobian.rmatvec(&errors)?;
            let gradient_norm = length(&gradient)?;
            let normal = jacobian.gram();
            let squares = numbers(&normal.diag()?)?;
            let stop = if !value.is_finite() || !gradient_norm.is_finite() {
                Some(Stop::NotFinite)
            } else if gradient_norm <= self.tolerance || cosine(&numbers(&gradient)?, &squares, value) <= self.tolerance
            {
                Some(Stop::Gradient)
            } else {
                (rounds.len() >= self.rounds).then_some(Stop::Rounds)
            };
            if let Some(stop) = stop {
                return Ok(Minimum::new(point, value, gradient_norm, stop, rounds));
            }
            for (weight, square) in weights.iter_mut().zip(&squares) {
                *weight = weight.max(*square);
            }
            if rounds.is_empty() {
                // A parameter that nothing depends on yet is damped as it is.
                weights.iter_mut().filter(|weight| **weight == 0.0).for_each(|weight| *weight = 1.0);
            }
            let downhill = gradient.scale(-1.0).realise()?;
            let (mut taken, mut growth) = (None, 2.0);
            for _ in 0..60 {
                let damped = if damping == 0.0 { None } else { Some(normal.damped(damping, &weights)) };
                if let Ok(step) = damped.as_ref().unwrap_or(&normal).solve(&downhill) {
                    let next = moved(&point, &step, 1.0)?;
                    let there = compiled.call(&next)?;
                    let value_there = 0.5 * dot(&there, &there)?;
                    // The decrease of the linear model: half of -gᵀs + λ sᵀDs.
                    let shortened: f64 =
                        weights.iter().zip(numbers(&step)?).map(|(weight, step)| weight * step * step).sum();
                    let predicted = 0.5 * (dot(&downhill, &step)? + damping * shortened);
                    let ratio = (value - value_there) / predicted;
                    let noise = 8.0 * f64::EPSILON * value;
                    if ratio > ACCEPTED || value_there <= value && predicted <= noise {
                        taken = Some((next, there, value_there, ratio));
                        break;
                    }
                    if predicted <= f64::EPSILON * value {
                        break;
                    }
                }
                damping = if damping == 0.0 { FIRST } else { growth * damping };
                growth *= 2.0;
            }
            let Some((next, there, value_there, ratio)) = taken else {
                return Ok(Minimum::new(point, value, gradient_norm, Stop::Rounding, rounds));
            };
            // A step within rounding errors may be taken a few times, as the gradient can still become smaller.
            let still = value_there == value;
            rounds.push(Round { value, gradient_norm, step: damping });
            (idle, damping) = (if still { idle + 1 } else { 0 }, loosened(damping, ratio));
            (point, errors, value) = (next, there, value_there);
            if idle > IDLE {
                return Ok(Minimum::new(point, value, gradient_norm, Stop::Rounding, rounds));
            }
        }
    }
}

/// The part of the predicted decrease that a step must bring.
const ACCEPTED: f64 = 1e-4;
/// The first damping, and the one below which there is none, relative to the diagonal.
const FIRST: f64 = 1e-3;
const NONE: f64 = 1e-12;
/// How many steps in a row may leave the value as it is.
const IDLE: usize = 4;

/// The damping after a step that brought this part of the predicted decrease.
fn loosened(damping: f64, ratio: f64) -> f64 {
    let factor = if ratio > 0.75 {
        0.1
    } else if ratio < 0.25 {
        2.0
    } else {
        0.5
    };
    if damping * factor < NONE { 0.0 } else { damping * factor }
}

/// The largest cosine of the angle between the residuals and a column of the Jacobian, from the gradient, the squared
/// lengths of the columns and half of that of the residuals.
fn cosine(gradient: &[f64], squares: &[f64], value: f64) -> f64 {
    let cosines = gradient.iter().zip(squares).map(|(partial, square)| match partial.abs() {
        0.0 => 0.0,
        partial => partial / (square * 2.0 * value).sqrt(),
    });
    cosines.fold(0.0, f64::max)
}
