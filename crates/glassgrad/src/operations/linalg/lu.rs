//! The LU decomposition.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, sizes};
use super::factor::Lu;
use super::matrices::{above, beside, columns, identity, rows};
use super::solve::{SolveTriangular, Triangle, divided};
use crate::dtype::DType;
use crate::expr::{Index, Rule, Tensor, s};

const NAME: &str = "lu";

/// Both factors in one matrix, l below the diagonal, and beside it a column with the order of the rows.
#[derive(Clone, Debug)]
struct Packed;

impl MatrixOperation for Packed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        Ok((inputs[0].0, inputs[0].1 + 1))
    }

    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String> {
        let (m, n) = (inputs[0].rows(), inputs[0].columns());
        let factors = Lu::regular(&inputs[0], epsilon)?;
        let (compact, rows) = (factors.compact(), factors.rows());
        Ok(Matrix::from_fn(m, n + 1, |i, j| if j < n { compact[(i, j)] } else { rows[i] as f64 }))
    }

    /// Of a square matrix, with m = l⁻¹·p·da·u⁻¹: dl is l times what m has below the diagonal, du is the rest of m
    /// times u. Further rows of l are p·a·u⁻¹, further columns of u are l⁻¹·p·a.
    fn rule<'r>(&self, inputs: &'r [Tensor], packed: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| {
            let Some(da) = &moved[0] else { return packed.zeros_like() };
            let Factors { order, l, u } = Factors::of(packed, &inputs[0]);
            let (m, n, k) = (l.shape()[l.rank() - 2], u.shape()[u.rank() - 1], l.shape()[l.rank() - 1]);
            let under = |matrix: &Tensor| {
                let triangle = Triangle::lower().unit();
                SolveTriangular { name: NAME, triangle, computed: true }.on(&[&rows(&l, 0..k), matrix], packed.origin())
            };
            let over = |matrix: &Tensor| divided(NAME, matrix, &columns(&u, 0..k), Triangle::upper(), packed.origin());
            let da = order.one_hot(m, da.dtype()).matmul(da);
            let both = over(&under(&columns(&rows(&da, 0..k), 0..k)));
            let dl = rows(&l, 0..k).matmul(&both.tril(-1));
            let du = both.triu(0).matmul(&columns(&u, 0..k));
            let square = &dl + &du;
            let below = over(&(columns(&rows(&da, k..m), 0..k) - rows(&l, k..m).matmul(&du)));
            let right = under(&(columns(&rows(&da, 0..k), k..n) - dl.matmul(&columns(&u, k..n))));
            // One of the two has no elements.
            let compact = if m > k { above(&[&square, &below]) } else { beside(&[&square, &right]) };
            beside(&[&compact, &columns(packed, n..n + 1).zeros_like()])
        }))
    }
}

/// The factors that a packed matrix holds.
struct Factors {
    order: Tensor,
    l: Tensor,
    u: Tensor,
}

impl Factors {
    #[track_caller]
    fn of(packed: &Tensor, matrix: &Tensor) -> Factors {
        let (m, n) = (matrix.shape()[matrix.rank() - 2], matrix.shape()[matrix.rank() - 1]);
        let k = m.min(n);
        let l = columns(packed, 0..k).tril(-1) + identity(m, k, matrix.dtype());
        let u = rows(&columns(packed, 0..n), 0..k).triu(0);
        Factors { order: packed.slice(&[Index::Rest, s(-1)]).cast(DType::I64), l, u }
    }
}

impl Tensor {
    /// The factors of `self` with its rows in another order: the order (place k holds the number of the row that
    /// comes k-th), l with ones on its diagonal and nothing above, and u with nothing below. Of m rows and n columns, l
    /// has the shape m × min(m, n) and u min(m, n) × n. A matrix with a pivot of zero is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (order, l, u) = Tensor::from([[1.0, 3.0], [2.0, 4.0]]).lu();
    /// assert_eq!(order.to_string(), "[1, 0]");
    /// assert_eq!(l.to_string(), "[[  1,   0],\n [0.5,   1]]");
    /// assert_eq!(u.to_string(), "[[2, 4],\n [0, 1]]");
    /// ```
    #[track_caller]
    pub fn lu(&self) -> (Tensor, Tensor, Tensor) {
        let origin = Location::caller();
        if let Err(failed) = sizes(NAME, self, origin) {
            return (failed.clone(), failed.clone(), failed);
        }
        let Factors { order, l, u } = Factors::of(&Packed.on(&[self], origin), self);
        (order, l, u)
    }
}
