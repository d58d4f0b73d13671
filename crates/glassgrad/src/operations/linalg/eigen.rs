//! Eigenvalues and eigenvectors of symmetric matrices.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, square, square_size};
use super::factor::symmetric_eigen;
use super::matrices::{above, as_column, as_row, diagonal, only_row, reciprocal_where, rows, symmetric_part};
use super::solve::Triangle;
use crate::expr::{Axes, Rule, Tensor};

const NAME: &str = "eigh";

/// A row of eigenvalues, and below it the vectors as columns.
#[derive(Clone, Debug)]
struct Packed;

impl MatrixOperation for Packed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (size + 1, size))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        let (values, vectors) = symmetric_eigen(&inputs[0])?;
        let size = vectors.rows();
        Ok(Matrix::from_fn(size + 1, size, |i, j| if i == 0 { values[j] } else { vectors[(i - 1, j)] }))
    }

    /// With m = vᵀda·v: dλ is the diagonal of m, and dv = v·(m / (λⱼ - λᵢ)).
    fn rule<'r>(&self, _: &'r [Tensor], packed: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| {
            let Some(da) = moved[0].as_ref().filter(|da| da.shape().elements() > 0) else {
                return packed.zeros_like();
            };
            let (values, vectors) = unpacked(packed);
            let m = vectors.transpose().matmul(da).matmul(&vectors);
            let turned = inverse_distances(&values) * &m;
            above(&[&as_row(&diagonal(&m)), &vectors.matmul(&turned)])
        }))
    }
}

#[track_caller]
fn unpacked(packed: &Tensor) -> (Tensor, Tensor) {
    let size = packed.shape()[packed.rank() - 1];
    (only_row(&rows(packed, 0..1)), rows(packed, 1..size + 1))
}

/// 1/(xⱼ - xᵢ) in row i and column j, and zero where the two are equal to working precision.
pub(super) fn inverse_distances(values: &Tensor) -> Tensor {
    let distances = as_row(values) - as_column(values);
    reciprocal_where(&distances.abs().gt(as_row(&negligible(values))), &distances)
}

/// What cannot be told from zero beside the largest of some values.
pub(super) fn negligible(values: &Tensor) -> Tensor {
    let count = values.shape()[values.rank() - 1] as f64;
    values.stop_gradient().abs().max_over(Axes::from(-1).keep()).scaled(count * values.dtype().epsilon())
}

impl Tensor {
    /// The eigenvalues of the symmetric part of `self`, ascending, and their vectors of length 1 as columns.
    ///
    /// The sign of a vector is not determined, and of equal eigenvalues only the space that the vectors span is:
    /// differentiate functions that do not depend on either.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let a = Tensor::from([[2.0, 1.0], [1.0, 2.0]]);
    /// let (values, vectors) = a.eigh();
    /// assert_eq!(values.to_string(), "[1, 3]");
    /// assert_eq!(vectors.square().to_string(), "[[0.5, 0.5],\n [0.5, 0.5]]");
    /// let largest = grad(|a: &Tensor| a.eigh().0.max());
    /// assert_eq!(largest(&a).to_string(), "[[0.5, 0.5],\n [0.5, 0.5]]");
    /// ```
    #[track_caller]
    pub fn eigh(&self) -> (Tensor, Tensor) {
        let origin = Location::caller();
        match square_size(NAME, self, origin) {
            Ok(_) => unpacked(&Packed.on(&[&symmetric_part(self)], origin)),
            Err(failed) => (failed.clone(), failed),
        }
    }

    /// The eigenvalues, ascending, of the symmetric matrix whose lower or upper triangle `self` has; nothing else is
    /// read. [`Tensor::eigh`] takes the symmetric part instead.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::linalg::Triangle};
    /// let a = Tensor::from([[2.0, 99.0], [1.0, 2.0]]);
    /// assert_eq!(a.eigvalsh(Triangle::lower()).to_string(), "[1, 3]");
    /// ```
    #[track_caller]
    pub fn eigvalsh(&self, triangle: Triangle) -> Tensor {
        let symmetric = match triangle.is_upper() {
            true => self.triu(0) + self.triu(1).transpose(),
            false => self.tril(0) + self.tril(-1).transpose(),
        };
        symmetric.eigh().0.composed_as("eigvalsh", &[self])
    }
}
