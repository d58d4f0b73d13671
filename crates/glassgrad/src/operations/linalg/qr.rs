//! The QR decomposition.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, sizes};
use super::matrices::columns;
use super::solve::{Triangle, divided};
use crate::expr::{Rule, Tensor};

const NAME: &str = "qr";

/// The orthonormal factor of matrices with at least as many rows as columns.
#[derive(Clone, Debug)]
struct Orthonormal;

impl MatrixOperation for Orthonormal {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        Ok(inputs[0])
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        Ok(glassgrad_linalg::orthonormal_columns(&inputs[0]))
    }

    /// With m = qᵀda·r⁻¹, and ω the antisymmetric matrix that is m below the diagonal: dq = da·r⁻¹ - q·(m - ω).
    fn rule<'r>(&self, inputs: &'r [Tensor], q: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| {
            let Some(da) = &moved[0] else { return q.zeros_like() };
            let r = upper_factor(q, &inputs[0]);
            let divided = divided(NAME, da, &r, Triangle::upper(), q.origin());
            let m = q.transpose().matmul(&divided);
            let below = m.tril(-1);
            divided - q.matmul(&(m - &below + below.transpose()))
        }))
    }
}

/// r = qᵀa, without the rounding errors below its diagonal.
#[track_caller]
fn upper_factor(q: &Tensor, a: &Tensor) -> Tensor {
    q.transpose().matmul(a).triu(0)
}

impl Tensor {
    /// The factors q and r of `self` = q·r, reduced: q has orthonormal columns, as many as `self` has rows or
    /// columns, whichever are fewer, and r is an upper triangle with no negative number on its diagonal, which makes
    /// the factors unique where the leading columns are independent. Where they are not, there is no derivative,
    /// and asking for it is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (q, r) = Tensor::from([[3.0, 1.0], [4.0, 2.0]]).qr();
    /// assert_eq!(q.to_string(), "[[ 0.6, -0.8],\n [ 0.8,  0.6]]");
    /// assert_eq!(r.to_string(), "[[  5, 2.2],\n [  0, 0.4]]");
    /// ```
    #[track_caller]
    pub fn qr(&self) -> (Tensor, Tensor) {
        let origin = Location::caller();
        let (row_count, column_count) = match sizes(NAME, self, origin) {
            Ok(sizes) => sizes,
            Err(failed) => return (failed.clone(), failed),
        };
        // The leading columns decide on q alone.
        let q = Orthonormal.on(&[&columns(self, 0..column_count.min(row_count))], origin);
        let r = upper_factor(&q, self);
        (q, r)
    }
}
