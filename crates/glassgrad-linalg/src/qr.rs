//! QR factorisation by Householder reflections.

use crate::householder::{Reflections, reflection};
use crate::matrix::Matrix;
use crate::simd::{add_scaled, vectorized};

/// The columns that are reduced before the others are updated by products.
const PANEL: usize = 32;

/// The reflections whose product is the orthogonal factor, and the triangle r, of as many rows as the matrix has columns
/// if these are fewer.
pub(crate) fn factored(mut a: Matrix) -> (Reflections, Matrix) {
    let (m, n) = (a.rows(), a.columns());
    let count = m.min(n);
    let mut reflections = Reflections::new(m, count, 0);
    for begin in (0..count).step_by(PANEL) {
        let end = (begin + PANEL).min(count);
        vectorized(
            #[inline(always)]
            || reduce_panel(&mut a, &mut reflections, begin, end),
        );
        if end < n {
            reflections.apply_block(begin..end, true, &mut a, end..n);
        }
    }
    (reflections, Matrix::from_fn(count, n, |i, j| if i <= j { a[(i, j)] } else { 0.0 }))
}

/// Reduces the columns from `begin` to `end` to a triangle.
#[inline(always)]
fn reduce_panel(a: &mut Matrix, reflections: &mut Reflections, begin: usize, end: usize) {
    let m = a.rows();
    let mut sums = [0.0; PANEL];
    for k in begin..end {
        let mut v: Vec<f64> = (k..m).map(|i| a[(i, k)]).collect();
        let (factor, diagonal) = reflection(&mut v);
        a[(k, k)] = diagonal;
        let sums = &mut sums[..end - k - 1];
        sums.fill(0.0);
        for (i, v) in v.iter().enumerate() {
            add_scaled(sums, *v, &a.row(k + i)[k + 1..end]);
        }
        for (i, v) in v.iter().enumerate() {
            add_scaled(&mut a.row_mut(k + i)[k + 1..end], -factor * v, sums);
        }
        reflections.set(k, &v, factor);
    }
}

/// The orthonormal columns q with a = q·r, where r is an upper triangle without negative numbers on its diagonal.
///
/// ```
/// use glassgrad_linalg::{Matrix, orthonormal_columns};
/// let a = Matrix::from_fn(2, 1, |i, _| [3.0, 4.0][i]);
/// let q = orthonormal_columns(&a);
/// assert!((q[(0, 0)] - 0.6).abs() < 1e-15 && (q[(1, 0)] - 0.8).abs() < 1e-15);
/// ```
///
/// # Panics
/// If there are more columns than rows.
pub fn orthonormal_columns(matrix: &Matrix) -> Matrix {
    let (m, n) = (matrix.rows(), matrix.columns());
    assert!(n <= m, "{n} orthonormal columns of {m} elements");
    let (reflections, r) = factored(matrix.balanced().0);
    // Unit vectors with the signs of r's diagonal, which thereby becomes positive.
    let mut columns = Matrix::from_fn(m, n, |i, j| if i == j { 1.0_f64.copysign(r[(j, j)]) } else { 0.0 });
    reflections.apply(&mut columns);
    columns
}

/// An orthonormal basis of the orthogonal complement of the columns of q, which are orthonormal: as many columns as q has rows
/// more than columns.
///
/// ```
/// use glassgrad_linalg::{Matrix, orthogonal_complement};
/// let c = orthogonal_complement(&Matrix::from_fn(2, 1, |i, _| [0.6, 0.8][i]));
/// assert!((c[(0, 0)] * 0.6 + c[(1, 0)] * 0.8).abs() < 1e-15 && (c[(0, 0)].abs() - 0.8).abs() < 1e-15);
/// ```
///
/// # Panics
/// If there are more columns than rows.
pub fn orthogonal_complement(q: &Matrix) -> Matrix {
    let (m, n) = (q.rows(), q.columns());
    assert!(n <= m, "{n} orthonormal columns of {m} elements");
    let (reflections, _) = factored(q.clone());
    let mut columns = Matrix::from_fn(m, m - n, |i, j| if i == n + j { 1.0 } else { 0.0 });
    reflections.apply(&mut columns);
    columns
}
