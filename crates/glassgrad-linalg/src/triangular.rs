//! Triangular systems.

use crate::gemm::{View, ViewMut, multiply_add};
use crate::matrix::Matrix;
use crate::simd::{add_scaled, dot, vectorized};

/// The equations that are solved before the others are updated by one product.
const BLOCK: usize = 32;

/// Which triangle of a matrix is meant, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// The upper triangle instead of the lower one.
    pub upper: bool,
    /// The transpose of the triangle is solved with.
    pub transposed: bool,
    /// The diagonal is 1, whatever stands there.
    pub unit: bool,
}

/// Replaces b by the x with t·x = b for a triangle t of a matrix, of which nothing else is read.
///
/// ```
/// use glassgrad_linalg::{Matrix, Triangle, solve_triangular};
/// let t = Matrix::from_fn(2, 2, |i, j| [[2.0, f64::NAN], [1.0, 4.0]][i][j]);
/// let mut x = Matrix::from_fn(2, 1, |i, _| [2.0, 9.0][i]);
/// solve_triangular(&t, Triangle { upper: false, transposed: false, unit: false }, &mut x);
/// assert_eq!(x.elements(), [1.0, 2.0]);
/// ```
///
/// # Panics
/// If the matrix is not square or b does not have as many rows.
pub fn solve_triangular(t: &Matrix, triangle: Triangle, b: &mut Matrix) {
    let n = t.rows();
    assert!(n == t.columns() && n == b.rows(), "a square system of {n} equations");
    if b.columns() == 1 {
        return vectorized(
            #[inline(always)]
            || solve_vector(t, triangle, b.elements_mut()),
        );
    }
    let columns = b.columns();
    let is_lower = triangle.upper == triangle.transposed;
    let blocks = n.div_ceil(BLOCK);
    for number in 0..blocks {
        let number = if is_lower { number } else { blocks - 1 - number };
        let (begin, end) = (number * BLOCK, ((number + 1) * BLOCK).min(n));
        // What is solved already leaves these equations; it lies before them or behind them.
        let solved = if is_lower { 0..begin } else { end..n };
        let count = solved.len();
        let factor = match triangle.transposed {
            false => t.view(begin..end, solved),
            true => t.view(solved, begin..end).transposed(),
        };
        if is_lower {
            let (known, open) = b.split_rows_mut(begin);
            let open = ViewMut::new(open, columns, 0..end - begin, 0..columns);
            multiply_add(open, -1.0, factor, View::new(known, columns, 0..count, 0..columns));
        } else {
            let (open, known) = b.split_rows_mut(end);
            let open = ViewMut::new(open, columns, begin..end, 0..columns);
            multiply_add(open, -1.0, factor, View::new(known, columns, 0..count, 0..columns));
        }
        vectorized(
            #[inline(always)]
            || solve_block(t, triangle, b, begin, end),
        );
    }
}

/// The equations from `begin` to `end` by themselves.
#[inline(always)]
fn solve_block(t: &Matrix, triangle: Triangle, b: &mut Matrix, begin: usize, end: usize) {
    let at = |i: usize, j: usize| if triangle.transposed { t[(j, i)] } else { t[(i, j)] };
    let is_lower = triangle.upper == triangle.transposed;
    for number in 0..end - begin {
        let i = if is_lower { begin + number } else { end - 1 - number };
        let solved = if is_lower { begin..i } else { i + 1..end };
        for j in solved {
            let (first, second) = b.two_rows_mut(i.min(j), i.max(j));
            let (row, known) = if j < i { (second, first) } else { (first, second) };
            add_scaled(row, -at(i, j), known);
        }
        if !triangle.unit {
            let diagonal = t[(i, i)];
            b.row_mut(i).iter_mut().for_each(|x| *x /= diagonal);
        }
    }
}

/// One right-hand side: whole rows of the triangle are read in either case.
#[inline(always)]
fn solve_vector(t: &Matrix, triangle: Triangle, x: &mut [f64]) {
    let n = x.len();
    let is_lower = triangle.upper == triangle.transposed;
    for number in 0..n {
        let i = if is_lower { number } else { n - 1 - number };
        let row = t.row(i);
        let stored = if triangle.upper { i + 1..n } else { 0..i };
        if !triangle.transposed {
            x[i] -= dot(&row[stored.clone()], &x[stored.clone()]);
        }
        if !triangle.unit {
            x[i] /= row[i];
        }
        if triangle.transposed {
            let known = x[i];
            add_scaled(&mut x[stored.clone()], -known, &row[stored]);
        }
    }
}
