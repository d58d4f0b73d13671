//! Dense linear algebra on stacks of matrices: the last two axes are a matrix, all before them are a batch.
//!
//! Each operation is a method of [`Tensor`](crate::Tensor), of `f32` and `f64`, differentiable to every order,
//! and reads `f32` into `f64` before it begins. What holds for all of them:
//!
//! - **A matrix is singular** if a pivot cannot be told from the rounding errors that it carries. Where a
//!   regular one is needed, a singular one is an error that says which matrix of the batch it is, also where
//!   only a derivative needs it. Rows and columns may have any scale.
//! - **What is not finite** in a matrix makes its whole result NaN, and leaves the rest of the batch alone.
//! - **Symmetric operations** ([`cholesky`](crate::Tensor::cholesky), [`eigh`](crate::Tensor::eigh)) take the
//!   symmetric part (a + aᵀ)/2 of what they get, so that they are functions of all matrices and their
//!   derivatives are symmetric.
//! - **Repeated eigenvalues and singular values** have no derivative of their vectors: what would be divided by
//!   their distance is exactly zero. The gradient of a function of the values alone that treats them alike (a
//!   sum, a sum of exponentials) is right there; its second derivative is if the function is linear in them.
//! - **Bases of complements** ([`qr_complete`](crate::Tensor::qr_complete), [`svd_full`](crate::Tensor::svd_full)) are not unique: the derivative is
//!   that of the space, without a rotation of the basis within it.
//! - **Empty** matrices and batches are like any others: the determinant of a matrix without rows is 1.
//!
//! `batched` is how an operation on one matrix becomes one on a batch, `factor` the factorisations of one matrix, by the crate `glassgrad-linalg`,
//! `matrices` the vocabulary that rules are written in; the others are one idea each.

mod batched;
mod cholesky;
mod complete;
mod determinant;
mod eigen;
mod factor;
mod functions;
mod general;
mod lu;
mod matrices;
mod pseudoinverse;
mod qr;
mod schur;
mod singular;
mod solve;

pub(crate) use factor::factored;
pub use solve::Triangle;
