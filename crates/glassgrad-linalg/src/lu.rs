//! LU factorisation with partial pivoting.

use crate::gemm::{View, multiply_add};
use crate::matrix::Matrix;
use crate::simd::{add_scaled, vectorized};
use crate::triangular::{Triangle, solve_triangular};

/// The columns that are factored before the rest of the matrix is updated by one product.
const PANEL: usize = 32;

/// The factors of p·a = l·u by partial pivoting.
///
/// ```
/// use glassgrad_linalg::{Lu, Matrix};
/// let lu = Lu::of(&Matrix::from_fn(2, 2, |i, j| [[1.0, 2.0], [4.0, 4.0]][i][j]));
/// assert_eq!((lu.row_order(), lu.transpositions()), (&[1, 0][..], 1));
/// assert_eq!(lu.compact().elements(), [4.0, 4.0, 0.25, 1.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Lu {
    compact: Matrix,
    order: Vec<usize>,
    transpositions: usize,
}

impl Lu {
    /// Factors a matrix. Where no pivot is left, u has a zero on its diagonal and l zeros below it.
    pub fn of(matrix: &Matrix) -> Lu {
        let (m, n) = (matrix.rows(), matrix.columns());
        let mut lu = Lu { compact: matrix.clone(), order: (0..m).collect(), transpositions: 0 };
        for begin in (0..m.min(n)).step_by(PANEL) {
            let end = (begin + PANEL).min(m.min(n));
            vectorized(
                #[inline(always)]
                || lu.factor_panel(begin, end),
            );
            if end == n {
                continue;
            }
            // u₁₂ = l₁₁⁻¹·a₁₂, then a₂₂ -= l₂₁·u₁₂.
            vectorized(
                #[inline(always)]
                || {
                    for i in begin + 1..end {
                        for k in begin..i {
                            let (upper, row) = lu.compact.two_rows_mut(k, i);
                            let factor = row[k];
                            add_scaled(&mut row[end..], -factor, &upper[end..]);
                        }
                    }
                },
            );
            let l = Matrix::from_fn(m - end, end - begin, |i, j| lu.compact[(end + i, begin + j)]);
            let (above, below) = lu.compact.split_rows_mut(end);
            let u = View::new(above, n, begin..end, end..n);
            let rest = crate::gemm::ViewMut::new(below, n, 0..m - end, end..n);
            multiply_add(rest, -1.0, l.view(0..m - end, 0..end - begin), u);
        }
        lu
    }

    /// Factors the columns from `begin` to `end`; rows are exchanged as a whole.
    #[inline(always)]
    fn factor_panel(&mut self, begin: usize, end: usize) {
        let m = self.compact.rows();
        for k in begin..end {
            let mut pivot = k;
            for i in k + 1..m {
                if self.compact[(i, k)].abs() > self.compact[(pivot, k)].abs() {
                    pivot = i;
                }
            }
            if pivot != k {
                let (first, second) = self.compact.two_rows_mut(k, pivot);
                first.swap_with_slice(second);
                self.order.swap(k, pivot);
                self.transpositions += 1;
            }
            let value = self.compact[(k, k)];
            if value == 0.0 {
                continue;
            }
            for i in k + 1..m {
                let (upper, row) = self.compact.two_rows_mut(k, i);
                let factor = row[k] / value;
                row[k] = factor;
                add_scaled(&mut row[k + 1..end], -factor, &upper[k + 1..end]);
            }
        }
    }

    /// l below the diagonal, whose own diagonal is 1, and u from the diagonal on upwards.
    pub fn compact(&self) -> &Matrix {
        &self.compact
    }

    /// Row k of l·u is row `row_order()[k]` of the matrix.
    pub fn row_order(&self) -> &[usize] {
        &self.order
    }

    /// The number of row exchanges of the permutation, whose parity is the sign of the determinant.
    pub fn transpositions(&self) -> usize {
        self.transpositions
    }

    /// The x with a·x = b. A vanishing pivot makes it infinite or NaN.
    ///
    /// # Panics
    /// If the matrix is not square or b does not have as many rows.
    pub fn solve(&self, b: &Matrix) -> Matrix {
        let size = self.compact.rows();
        assert!(size == self.compact.columns() && size == b.rows(), "a square system of {size} equations");
        let columns = b.columns();
        let mut x = Matrix::zeros(size, columns);
        for (k, row) in self.order.iter().enumerate() {
            x.row_mut(k).copy_from_slice(b.row(*row));
        }
        solve_triangular(&self.compact, Triangle { upper: false, transposed: false, unit: true }, &mut x);
        solve_triangular(&self.compact, Triangle { upper: true, transposed: false, unit: false }, &mut x);
        x
    }
}
