//! The singular value decomposition, and the norms that it gives.

use std::panic::Location;

use glassgrad_linalg::{Matrix, Svd};

use super::batched::{MatrixOperation, Origin, sizes};
use super::eigen::{inverse_distances, negligible};
use super::factor::singular;
use super::matrices::{above, as_column, as_row, diagonal, only_row, reciprocal_where, rows};
use crate::expr::{Rule, Tensor};
use crate::shape::Shape;

const NAME: &str = "svd";

/// The rows of u, the row of singular values, and the rows of v.
#[derive(Clone, Debug)]
struct Packed;

impl MatrixOperation for Packed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        let (m, n) = inputs[0];
        Ok((m + 1 + n, m.min(n)))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        let (m, n) = (inputs[0].rows(), inputs[0].columns());
        let Svd { u, s, v } = singular(&inputs[0])?;
        Ok(Matrix::from_fn(m + 1 + n, m.min(n), |i, j| match i {
            i if i < m => u[(i, j)],
            i if i == m => s[j],
            _ => v[(i - m - 1, j)],
        }))
    }

    /// With p = uᵀda·v: ds is the diagonal of p. Inside of the spaces that u and v span, they turn by the antisymmetric
    /// matrices ((p + pᵀ)/(sⱼ - sᵢ) ± (p - pᵀ)/(sⱼ + sᵢ))/2; out of them, by what p leaves of da, over s.
    fn rule<'r>(&self, inputs: &'r [Tensor], packed: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| {
            let Some(da) = moved[0].as_ref().filter(|_| packed.shape().elements() > 0) else {
                return packed.zeros_like();
            };
            let Factors { u, s, v } = Factors::of(packed, &inputs[0]);
            let p = u.transpose().matmul(da).matmul(&v);
            let sums = as_row(&s) + as_column(&s);
            let least = as_row(&negligible(&s));
            let even = inverse_distances(&s) * (&p + p.transpose());
            // On the diagonal p - pᵀ is zero.
            let odd = reciprocal_where(&sums.gt(&least), &sums) * (&p - p.transpose());
            let inverse = reciprocal_where(&as_row(&s).gt(&least), &as_row(&s));
            let out_of_u = (da.matmul(&v) - u.matmul(&p)) * &inverse;
            let out_of_v = (da.transpose().matmul(&u) - v.matmul(&p.transpose())) * &inverse;
            let du = u.matmul(&(&even + &odd).scaled(0.5)) + out_of_u;
            let dv = v.matmul(&(&even - &odd).scaled(0.5)) + out_of_v;
            above(&[&du, &as_row(&diagonal(&p)), &dv])
        }))
    }
}

/// The factors of u·diag(s)·vᵀ.
pub(super) struct Factors {
    pub(super) u: Tensor,
    pub(super) s: Tensor,
    pub(super) v: Tensor,
}

impl Factors {
    #[track_caller]
    fn of(packed: &Tensor, matrix: &Tensor) -> Factors {
        let (m, n) = (matrix.shape()[matrix.rank() - 2], matrix.shape()[matrix.rank() - 1]);
        Factors { u: rows(packed, 0..m), s: only_row(&rows(packed, m..m + 1)), v: rows(packed, m + 1..m + 1 + n) }
    }

    /// The factors of what is known to be a matrix.
    #[track_caller]
    pub(super) fn of_matrix(matrix: &Tensor, origin: Origin) -> Factors {
        Factors::of(&Packed.on(&[matrix], origin), matrix)
    }
}

/// The singular values that are not zero to working precision; those that are have no derivative.
#[track_caller]
fn present_values(matrix: &Tensor, name: &str, origin: Origin) -> Result<Tensor, Tensor> {
    let (m, n) = sizes(name, matrix, origin)?;
    if m.min(n) == 0 {
        let batch = Shape::from(&matrix.shape()[..matrix.rank() - 2]);
        return Ok(Tensor::full(batch.followed_by(&[1]), 0.0, matrix.dtype()));
    }
    let s = Factors::of_matrix(matrix, origin).s;
    Ok(s.le(negligible(&s)).choose(&s.zeros_like(), &s))
}

impl Tensor {
    /// The factors u, s and vᵀ of `self` = u·diag(s)·vᵀ, reduced: of m rows and n columns there are min(m, n) singular
    /// values, descending, as many columns of u and as many rows of vᵀ.
    ///
    /// The sign of a pair of vectors is not determined, and of equal singular values only the spaces are:
    /// differentiate functions that do not depend on either. For a singular value of zero, what would be divided by
    /// it in a derivative is zero.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[0.0, 2.0], [-3.0, 0.0], [0.0, 0.0]]);
    /// let (u, s, vt) = a.svd();
    /// assert_eq!(s.to_string(), "[3, 2]");
    /// assert_eq!((u * s).matmul(&vt).to_string(), "[[ 0,  2],\n [-3,  0],\n [ 0,  0]]");
    /// ```
    #[track_caller]
    pub fn svd(&self) -> (Tensor, Tensor, Tensor) {
        let origin = Location::caller();
        if let Err(failed) = sizes(NAME, self, origin) {
            return (failed.clone(), failed.clone(), failed);
        }
        let Factors { u, s, v } = Factors::of_matrix(self, origin);
        (u, s, v.transpose())
    }

    /// The sum of the singular values of each matrix. Those that are zero contribute none to its derivative, as at
    /// the kink of an absolute value.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[0.0, 2.0], [-3.0, 0.0]]).nuclear_norm().item().unwrap(), 5.0);
    /// ```
    #[track_caller]
    pub fn nuclear_norm(&self) -> Tensor {
        match present_values(self, "nuclear_norm", Location::caller()) {
            Ok(values) => values.sum_over(-1),
            Err(failed) => failed,
        }
    }

    /// The largest singular value of each matrix: by how much it stretches a vector at most. Equal ones share the
    /// derivative evenly, and that of a matrix of zeros is zero.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[0.0, 2.0], [-3.0, 0.0]]).spectral_norm().item().unwrap(), 3.0);
    /// ```
    #[track_caller]
    pub fn spectral_norm(&self) -> Tensor {
        match present_values(self, "spectral_norm", Location::caller()) {
            Ok(values) => values.max_over(-1),
            Err(failed) => failed,
        }
    }
}
