//! Dense factorisations of `f64` matrices: LU, Cholesky, QR, symmetric and general eigenvalues, SVD, and triangular
//! systems.
//!
//! The crate is what `glassgrad::operations::linalg` computes with. It has no generic code and no complex numbers, so that
//! it builds in seconds. Everything runs on the calling thread, and results are the same bits at every instruction-set
//! level but for the products of [`Matrix::product`], whose kernels fuse multiplications with additions where the machine
//! can.
//!
//! LU, Cholesky, QR, triangular systems and the accumulation of Householder reflections are blocked: nearly all of their
//! work is matrix products. Singular values and eigenvalues come from Householder reduction to bidiagonal and tridiagonal
//! form and implicit QR iteration.
//!
//! ```
//! use glassgrad_linalg::{Lu, Matrix};
//! let a = Matrix::from_fn(2, 2, |i, j| [[0.0, 2.0], [4.0, 2.0]][i][j]);
//! let b = Matrix::from_fn(2, 1, |i, _| [2.0, 6.0][i]);
//! let x = Lu::of(&a).solve(&b);
//! assert_eq!((x[(0, 0)], x[(1, 0)]), (1.0, 1.0));
//! ```

mod bidiagonal;
mod cholesky;
mod eigen;
mod gemm;
mod householder;
mod lu;
mod matrix;
mod qr;
mod rotations;
mod schur;
mod simd;
mod svd;
#[cfg(test)]
mod tests;
mod triangular;

pub use cholesky::cholesky;
pub use eigen::symmetric_eigen;
pub use lu::Lu;
pub use matrix::Matrix;
pub use qr::{orthogonal_complement, orthonormal_columns};
pub use schur::{GeneralEigen, Schur, general_eigen};
pub use svd::Svd;
pub use triangular::{Triangle, solve_triangular};

/// An iteration that did not converge: it has taken more iterations than any matrix of finite numbers needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConvergence;
