//! Complete decompositions: orthonormal columns completed to a basis of the whole space.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, Origin};
use super::matrices::{above, beside};
use crate::expr::{Rule, Tensor};
use crate::shape::Shape;

/// An orthonormal basis of the orthogonal complement of orthonormal columns.
#[derive(Clone, Debug)]
struct Complement(&'static str);

impl MatrixOperation for Complement {
    fn name(&self) -> &'static str {
        self.0
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        let (m, n) = inputs[0];
        Ok((m, m - n))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        Ok(glassgrad_linalg::orthogonal_complement(&inputs[0]))
    }

    /// qᵀc = 0 stays true, and the basis does not turn within the complement: dc = -q·dqᵀ·c.
    fn rule<'r>(&self, inputs: &'r [Tensor], c: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| match &moved[0] {
            Some(dq) => -inputs[0].matmul(&dq.transpose().matmul(c)),
            None => c.zeros_like(),
        }))
    }
}

/// Orthonormal columns, completed to an orthogonal matrix.
#[track_caller]
fn completed(q: &Tensor, name: &'static str, origin: Origin) -> Tensor {
    let (m, n) = (q.shape()[q.rank() - 2], q.shape()[q.rank() - 1]);
    if m == n { q.clone() } else { beside(&[q, &Complement(name).on(&[q], origin)]) }
}

impl Tensor {
    /// The factors q and r of `self` = q·r, complete: of m rows and n columns, q is an orthogonal matrix of m rows, and r has m rows, of
    /// which those below the n-th are zero. The first columns are those of [`Tensor::qr`].
    ///
    /// Of the columns after the n-th only the space that they span is determined: differentiate functions that do not depend on the
    /// basis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[3.0], [4.0]]);
    /// let (q, r) = a.qr_complete();
    /// assert_eq!((q.shape().to_string(), r.to_string()), ("[2, 2]".into(), "[[5],\n [0]]".into()));
    /// assert_eq!(q.matmul(&r).to_string(), a.to_string());
    /// ```
    #[track_caller]
    pub fn qr_complete(&self) -> (Tensor, Tensor) {
        let origin = Location::caller();
        let (q, r) = self.qr();
        if q.error().is_some() {
            return (q, r);
        }
        let (m, n) = (self.shape()[self.rank() - 2], self.shape()[self.rank() - 1]);
        if m <= n {
            return (q, r);
        }
        let batch = Shape::from(&self.shape()[..self.rank() - 2]);
        let zeros = Tensor::zeros(batch.followed_by(&[m - n, n])).cast(r.dtype());
        (completed(&q, "qr_complete", origin), above(&[&r, &zeros]))
    }

    /// The factors u, s and vᵀ of `self` = u·diag(s)·vᵀ, full: of m rows and n columns, u is an orthogonal matrix of m rows and vᵀ one of n
    /// rows. The first min(m, n) columns of u and rows of vᵀ are those of [`Tensor::svd`].
    ///
    /// Of the others only the spaces that they span are determined: differentiate functions that do not depend on the bases.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (u, s, vt) = Tensor::from([[0.0, 2.0], [-3.0, 0.0], [0.0, 0.0]]).svd_full();
    /// assert_eq!([&u, &s, &vt].map(|factor| factor.shape().to_string()), ["[3, 3]", "[2]", "[2, 2]"]);
    /// assert_eq!(u.abs().to_string(), "[[0, 1, 0],\n [1, 0, 0],\n [0, 0, 1]]");
    /// ```
    #[track_caller]
    pub fn svd_full(&self) -> (Tensor, Tensor, Tensor) {
        let origin = Location::caller();
        let (u, s, vt) = self.svd();
        if u.error().is_some() {
            return (u, s, vt);
        }
        let completed = |q: &Tensor| completed(q, "svd_full", origin);
        (completed(&u), s, completed(&vt.transpose()).transpose())
    }
}
