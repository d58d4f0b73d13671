//! Cholesky factorisation.

use crate::gemm::multiply_add;
use crate::matrix::Matrix;
use crate::simd::{dot, vectorized};

/// The columns that are factored before the rest of the matrix is updated by products.
const PANEL: usize = 32;
/// The columns of the rest that one product updates: only blocks that meet the lower triangle are computed.
const STRIPE: usize = 128;

/// The lower triangle l with l·lᵀ = a, of which only the lower triangle is read, or the index of the first pivot that is
/// not a positive number.
///
/// ```
/// use glassgrad_linalg::{Matrix, cholesky};
/// let l = cholesky(&Matrix::from_fn(2, 2, |i, j| [[4.0, 2.0], [2.0, 10.0]][i][j])).unwrap();
/// assert_eq!(l.elements(), [2.0, 0.0, 1.0, 3.0]);
/// assert_eq!(cholesky(&Matrix::from_fn(2, 2, |_, _| 1.0)), Err(1));
/// ```
///
/// # Panics
/// If the matrix is not square.
pub fn cholesky(matrix: &Matrix) -> Result<Matrix, usize> {
    let n = matrix.rows();
    assert_eq!(n, matrix.columns(), "a Cholesky factorisation of a square matrix");
    let mut l = Matrix::from_fn(n, n, |i, j| if j <= i { matrix[(i, j)] } else { 0.0 });
    for begin in (0..n).step_by(PANEL) {
        let end = (begin + PANEL).min(n);
        vectorized(
            #[inline(always)]
            || factor_panel(&mut l, begin, end),
        )?;
        let below = Matrix::from_fn(n - end, end - begin, |i, j| l[(end + i, begin + j)]);
        for stripe in (end..n).step_by(STRIPE) {
            let last = (stripe + STRIPE).min(n);
            let (rows, columns) = (stripe - end..n - end, stripe - end..last - end);
            let factor = below.view(columns, 0..end - begin).transposed();
            multiply_add(l.view_mut(stripe..n, stripe..last), -1.0, below.view(rows, 0..end - begin), factor);
        }
    }
    // The products have also written above the diagonal.
    for i in 0..n {
        l.row_mut(i)[i + 1..].fill(0.0);
    }
    Ok(l)
}

/// Factors the columns from `begin` to `end`, which hold what earlier columns have left of the matrix.
#[inline(always)]
fn factor_panel(l: &mut Matrix, begin: usize, end: usize) -> Result<(), usize> {
    for j in begin..end {
        let row = &l.row(j)[begin..j];
        let pivot = l[(j, j)] - dot(row, row);
        // NaN is not positive either.
        if pivot.is_nan() || pivot <= 0.0 {
            return Err(j);
        }
        let diagonal = pivot.sqrt();
        l[(j, j)] = diagonal;
        for i in j + 1..l.rows() {
            let (upper, row) = l.two_rows_mut(j, i);
            row[j] = (row[j] - dot(&upper[begin..j], &row[begin..j])) / diagonal;
        }
    }
    Ok(())
}
