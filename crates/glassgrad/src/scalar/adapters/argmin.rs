//! Problems of the crate `argmin`.

use argmin::core::{CostFunction, Error, Gradient, Hessian, Jacobian, Operator};

use super::{Objective, Residuals};
use crate::scalar::{Mode, Recorded, gradient, hessian};

/// A function as a problem of `argmin`, over vectors: an [`Objective`] has cost, gradient and Hessian, [`Residuals`] have
/// values and the Jacobian.
///
/// ```
/// use argmin::core::{CostFunction, Gradient, Hessian};
/// use glassgrad::Real;
/// use glassgrad::scalar::adapters::{ArgminProblem, Objective};
///
/// struct Rosenbrock;
/// impl Objective for Rosenbrock {
///     fn value<T: Real>(&self, x: &[T]) -> T {
///         (x[1] - x[0].square()).square() * T::literal(100.0) + (T::literal(1.0) - x[0]).square()
///     }
/// }
///
/// // Newton's method, by hand; every solver of argmin takes the problem like this.
/// let problem = ArgminProblem(Rosenbrock);
/// let mut x = vec![-1.2, 1.0];
/// for _ in 0..20 {
///     let (g, h) = (problem.gradient(&x).unwrap(), problem.hessian(&x).unwrap());
///     let determinant = h[0][0] * h[1][1] - h[0][1] * h[1][0];
///     x[0] -= (h[1][1] * g[0] - h[0][1] * g[1]) / determinant;
///     x[1] -= (h[0][0] * g[1] - h[1][0] * g[0]) / determinant;
/// }
/// assert!(problem.cost(&x).unwrap() < 1e-20 && (x[0] - 1.0).abs() < 1e-9);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ArgminProblem<F>(
    /// The function.
    pub F,
);

impl<F: Objective> CostFunction for ArgminProblem<F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.0.value(x))
    }
}

impl<F: Objective> Gradient for ArgminProblem<F> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, x: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(gradient(|x| self.0.value(x), x))
    }
}

impl<F: Objective> Hessian for ArgminProblem<F> {
    type Param = Vec<f64>;
    type Hessian = Vec<Vec<f64>>;

    fn hessian(&self, x: &Vec<f64>) -> Result<Vec<Vec<f64>>, Error> {
        let hessian = hessian(|x| self.0.value(x), x);
        Ok(hessian.elements().chunks(x.len().max(1)).map(<[f64]>::to_vec).collect())
    }
}

impl<F: Residuals> Operator for ArgminProblem<F> {
    type Param = Vec<f64>;
    type Output = Vec<f64>;

    fn apply(&self, x: &Vec<f64>) -> Result<Vec<f64>, Error> {
        let mut results = vec![0.0; self.0.count()];
        self.0.evaluate(x, &mut results);
        Ok(results)
    }
}

impl<F: Residuals> Jacobian for ArgminProblem<F> {
    type Param = Vec<f64>;
    type Jacobian = Vec<Vec<f64>>;

    fn jacobian(&self, x: &Vec<f64>) -> Result<Vec<Vec<f64>>, Error> {
        let recorded = Recorded::several(|x, y| self.0.evaluate(x, y), x, self.0.count());
        Ok(recorded.jacobian(Mode::Auto).elements().chunks(x.len().max(1)).map(<[f64]>::to_vec).collect())
    }
}
