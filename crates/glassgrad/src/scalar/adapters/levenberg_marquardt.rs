//! Problems of the crate `levenberg-marquardt`.

use levenberg_marquardt::LeastSquaresProblem;
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

use super::Residuals;
use crate::scalar::{Mode, Recorded};

/// Residuals as a problem of `levenberg-marquardt`, with an exact Jacobian.
///
/// ```
/// use glassgrad::Real;
/// use glassgrad::scalar::adapters::{LeastSquares, Residuals};
/// use levenberg_marquardt::LevenbergMarquardt;
///
/// /// y = a·exp(-b·t), measured at five times.
/// struct Decay([f64; 5]);
/// impl Residuals for Decay {
///     fn count(&self) -> usize {
///         5
///     }
///     fn evaluate<T: Real>(&self, x: &[T], results: &mut [T]) {
///         for (t, result) in results.iter_mut().enumerate() {
///             *result = x[0] * (-x[1] * T::literal(t as f64)).exp() - T::literal(self.0[t]);
///         }
///     }
/// }
///
/// let measured = std::array::from_fn(|t| 3.0 * (-0.4 * t as f64).exp());
/// let problem = LeastSquares::new(Decay(measured), vec![1.0, 1.0]);
/// let (solved, report) = LevenbergMarquardt::new().minimize(problem);
/// assert!(report.termination.was_successful());
/// assert!((solved.parameters()[0] - 3.0).abs() < 1e-9 && (solved.parameters()[1] - 0.4).abs() < 1e-9);
/// ```
#[derive(Clone, Debug)]
pub struct LeastSquares<F> {
    function: F,
    parameters: DVector<f64>,
}

impl<F: Residuals> LeastSquares<F> {
    /// A problem with its starting point.
    pub fn new(function: F, start: Vec<f64>) -> Self {
        LeastSquares { function, parameters: DVector::from_vec(start) }
    }

    /// The present parameters.
    pub fn parameters(&self) -> &[f64] {
        self.parameters.as_slice()
    }
}

impl<F: Residuals> LeastSquaresProblem<f64, Dyn, Dyn> for LeastSquares<F> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        self.parameters.copy_from(x);
    }

    fn params(&self) -> DVector<f64> {
        self.parameters.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let mut results = vec![0.0; self.function.count()];
        self.function.evaluate(self.parameters(), &mut results);
        Some(DVector::from_vec(results))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let recorded = Recorded::several(|x, y| self.function.evaluate(x, y), self.parameters(), self.function.count());
        let jacobian = recorded.jacobian(Mode::Auto);
        Some(DMatrix::from_row_slice(jacobian.rows(), jacobian.columns(), jacobian.elements()))
    }
}
