//! Adapters: problems of other crates' solvers, with exact derivatives of functions that are written once.
//!
//! - [`argmin`](https://docs.rs/argmin) (feature `argmin`): [`ArgminProblem`] has cost, gradient, Hessian and Jacobian.
//! - [`levenberg-marquardt`](https://docs.rs/levenberg-marquardt) (feature `levenberg-marquardt`):
//!   [`LeastSquares`] has residuals and their Jacobian.

#[cfg(feature = "argmin")]
mod argmin;
#[cfg(feature = "levenberg-marquardt")]
mod levenberg_marquardt;

use crate::ops::Real;

#[cfg(feature = "argmin")]
pub use argmin::ArgminProblem;
#[cfg(feature = "levenberg-marquardt")]
pub use levenberg_marquardt::LeastSquares;

/// A function of several numbers with one result, generic in the number, so that every mode can evaluate it.
pub trait Objective {
    /// The result.
    fn value<T: Real>(&self, x: &[T]) -> T;
}

/// A function of several numbers with several results, generic in the number.
pub trait Residuals {
    /// The number of results.
    fn count(&self) -> usize;
    /// Writes the results.
    fn evaluate<T: Real>(&self, x: &[T], results: &mut [T]);
}
