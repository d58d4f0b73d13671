//! Sums of squares, with the structured Jacobian of what is squared.

use super::search::{Minimum, Round, dot, length, moved};
use crate::calculus;
use crate::compile::compile;
use crate::diff::Outcome;
use crate::error::Error;
use crate::tree::Tree;

/// The method of Levenberg and Marquardt: steps of Gauss and Newton, JᵀJ in place of the Hessian, damped where they do not
/// lower the sum.
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
    /// Until the gradient Jᵀr is no longer than 10⁻¹⁰.
    ///
    /// ```
    /// use glassgrad::optim::LevenbergMarquardt;
    /// assert_eq!(LevenbergMarquardt::new(), LevenbergMarquardt::default());
    /// ```
    pub fn new() -> LevenbergMarquardt {
        LevenbergMarquardt::default()
    }

    /// Until the gradient is no longer than this.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::LevenbergMarquardt};
    /// let found = LevenbergMarquardt::new().tolerance(0.1).minimise(|x: &Tensor| x.square(), &Tensor::from([1.0]));
    /// assert!(found.unwrap().gradient_norm <= 0.1);
    /// ```
    pub fn tolerance(self, tolerance: f64) -> LevenbergMarquardt {
        LevenbergMarquardt { tolerance, ..self }
    }

    /// At most so many rounds.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::LevenbergMarquardt};
    /// let found = LevenbergMarquardt::new().rounds(1).minimise(|x: &Tensor| x.square(), &Tensor::from([1.0]));
    /// assert_eq!(found.unwrap().rounds.len(), 1);
    /// ```
    pub fn rounds(self, rounds: usize) -> LevenbergMarquardt {
        LevenbergMarquardt { rounds, ..self }
    }

    /// Minimises half the sum of the squares of residuals from a point on.
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
        let slopes = calculus::jacobian(&residuals);
        let mut point = start.realise()?;
        let mut errors = compiled.call(&point)?;
        let mut value = 0.5 * dot(&errors, &errors)?;
        let (mut rounds, mut damping) = (Vec::new(), 0.0);
        loop {
            let jacobian = slopes.at(&point)?;
            let gradient = jacobian.rmatvec(&errors)?;
            let gradient_norm = length(&gradient)?;
            let converged = gradient_norm <= self.tolerance;
            let end = |point: X, rounds: Vec<Round>| Minimum { point, value, gradient_norm, converged, rounds };
            if converged || rounds.len() >= self.rounds {
                return Ok(end(point, rounds));
            }
            let normal = jacobian.gram();
            let downhill = gradient.scale(-1.0).realise()?;
            let size = normal.trace()?.max(1e-30) / point.element_count().max(1) as f64;
            let mut taken = None;
            for _ in 0..40 {
                let step =
                    if damping == 0.0 { normal.solve(&downhill) } else { normal.shifted(damping).solve(&downhill) };
                if let Ok(step) = step {
                    let next = moved(&point, &step, 1.0)?;
                    let there = compiled.call(&next)?;
                    let value_there = 0.5 * dot(&there, &there)?;
                    let noise = 8.0 * f64::EPSILON * value;
                    let promised = 0.5 * dot(&downhill, &step)?;
                    if value_there <= value - 1e-4 * promised + noise {
                        taken = Some((next, there, value_there));
                        break;
                    }
                }
                damping = if damping == 0.0 { 1e-3 * size } else { 4.0 * damping };
            }
            let Some((next, there, value_there)) = taken else { return Ok(end(point, rounds)) };
            rounds.push(Round { value, gradient_norm, step: damping });
            damping = if damping < 1e-8 * size { 0.0 } else { damping / 8.0 };
            (point, errors, value) = (next, there, value_there);
        }
    }
}
