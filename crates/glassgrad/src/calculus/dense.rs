//! Dense systems of equations, on plain numbers.

use super::condition::{self, NOISE};
use super::solve::Singular;

/// From this size on the library's factorisation is worth its preparation.
#[cfg(feature = "linalg")]
const LARGE: usize = 64;

/// The factors of a square matrix by partial pivoting.
pub(super) struct Factors {
    size: usize,
    /// Below the diagonal l, from it on u, row by row.
    compact: Vec<f64>,
    /// Row k of l·u is row `rows[k]` of the matrix.
    rows: Vec<usize>,
    odd: bool,
    /// The condition number, see [`condition`].
    pub(super) condition: f64,
}

impl Factors {
    /// The factors of a matrix given row by row, or why it has none.
    pub(super) fn of(size: usize, matrix: Vec<f64>) -> Result<Factors, Singular> {
        Factors::with_magnitudes(size, matrix, None, f64::EPSILON)
    }

    /// The factors of a matrix whose entries are sums of terms of these magnitudes, each with a rounding error of a unit.
    pub(super) fn with_magnitudes(
        size: usize,
        matrix: Vec<f64>,
        magnitudes: Option<&[f64]>,
        unit: f64,
    ) -> Result<Factors, Singular> {
        if matrix.iter().any(|number| !number.is_finite()) {
            return Err(Singular::NotFinite);
        }
        // Entries in which nothing cancels are taken for exact.
        let cancels = |magnitudes: &[f64]| magnitudes.iter().zip(&matrix).any(|(size, number)| *size > number.abs());
        let unit = if magnitudes.is_some_and(cancels) { unit } else { f64::EPSILON };
        let scaling = condition::scaling(size, |i, j| match magnitudes {
            Some(magnitudes) => magnitudes[i * size + j],
            None => matrix[i * size + j].abs(),
        });
        let mut factors = Factors::by_rows(size, matrix);
        if let Some(place) = factors.vanishing_pivot() {
            return Err(Singular::at_pivot(place, size));
        }
        factors.condition = condition::condition(&factors, size, &scaling);
        if condition::is_singular(factors.condition, unit) {
            return Err(Singular::ill_conditioned(factors.condition, size));
        }
        Ok(factors)
    }

    #[cfg(feature = "linalg")]
    fn by_rows(size: usize, matrix: Vec<f64>) -> Factors {
        if size < LARGE {
            return Factors::eliminated(size, matrix);
        }
        let (compact, rows, transpositions) = crate::operations::linalg::factored(size, &matrix);
        Factors { size, compact, rows, odd: transpositions % 2 == 1, condition: 1.0 }
    }

    #[cfg(not(feature = "linalg"))]
    fn by_rows(size: usize, matrix: Vec<f64>) -> Factors {
        Factors::eliminated(size, matrix)
    }

    fn eliminated(size: usize, mut compact: Vec<f64>) -> Factors {
        let mut rows: Vec<usize> = (0..size).collect();
        let mut odd = false;
        for k in 0..size {
            let at = |i: usize| compact[i * size + k].abs();
            let pivot = (k..size).fold(k, |best, i| if at(i) > at(best) { i } else { best });
            if pivot != k {
                let (above, below) = compact.split_at_mut(pivot * size);
                above[k * size..(k + 1) * size].swap_with_slice(&mut below[..size]);
                rows.swap(k, pivot);
                odd = !odd;
            }
            let (above, below) = compact.split_at_mut((k + 1) * size);
            let row = &above[k * size..];
            if row[k] == 0.0 {
                continue;
            }
            for other in below.chunks_exact_mut(size) {
                let factor = other[k] / row[k];
                other[k] = factor;
                if factor != 0.0 {
                    other[k + 1..].iter_mut().zip(&row[k + 1..]).for_each(|(a, b)| *a -= factor * b);
                }
            }
        }
        Factors { size, compact, rows, odd, condition: 1.0 }
    }

    /// The first pivot that is within the rounding error of its sum.
    fn vanishing_pivot(&self) -> Option<usize> {
        let at = |i: usize, j: usize| self.compact[i * self.size + j].abs();
        (0..self.size).find(|k| {
            let summed: f64 = (0..*k).map(|j| at(*k, j) * at(j, *k)).sum();
            at(*k, *k).is_nan() || at(*k, *k) <= NOISE * f64::EPSILON * (summed + at(*k, *k))
        })
    }

    /// Solves for right-hand sides that lie beside one another: row k has the k-th number of each of them.
    pub(super) fn solve(&self, right: &mut [f64], scratch: &mut Vec<f64>) {
        let size = self.size;
        if size == 0 {
            return;
        }
        let count = right.len() / size;
        scratch.clear();
        self.rows.iter().for_each(|row| scratch.extend_from_slice(&right[row * count..(row + 1) * count]));
        for i in 0..size {
            let (above, below) = scratch.split_at_mut(i * count);
            for (j, other) in above.chunks_exact(count).enumerate() {
                subtract(&mut below[..count], other, self.compact[i * size + j]);
            }
        }
        for i in (0..size).rev() {
            let (above, below) = scratch.split_at_mut((i + 1) * count);
            let row = &mut above[i * count..];
            for (j, other) in below.chunks_exact(count).enumerate() {
                subtract(row, other, self.compact[i * size + i + 1 + j]);
            }
            let reciprocal = 1.0 / self.compact[i * size + i];
            row.iter_mut().for_each(|number| *number *= reciprocal);
        }
        right.copy_from_slice(scratch);
    }

    /// Solves the transposed system for one right-hand side.
    pub(super) fn solve_transposed(&self, right: &mut [f64], scratch: &mut Vec<f64>) {
        let size = self.size;
        let at = |i: usize, j: usize| self.compact[i * size + j];
        // A = Pᵀ·l·u, so that Aᵀ = uᵀ·lᵀ·P.
        scratch.clear();
        scratch.extend_from_slice(right);
        for i in 0..size {
            scratch[i] /= at(i, i);
            let solved = scratch[i];
            (i + 1..size).for_each(|j| scratch[j] -= at(i, j) * solved);
        }
        for i in (0..size).rev() {
            let solved = scratch[i];
            (0..i).for_each(|j| scratch[j] -= at(i, j) * solved);
        }
        self.rows.iter().zip(scratch).for_each(|(row, solved)| right[*row] = *solved);
    }

    /// Solves for right-hand sides that lie one after another. A few at a time are laid beside one another, so that a row of
    /// numbers is worked on at once and all stays in the first cache.
    pub(super) fn solve_rows(&self, right: &mut [f64]) {
        const BESIDE: usize = 64;
        let (size, mut columns, mut scratch) = (self.size, vec![0.0; self.size * BESIDE], Vec::new());
        for part in right.chunks_mut(size * BESIDE) {
            let count = part.len() / size;
            let columns = &mut columns[..part.len()];
            for (k, row) in part.chunks_exact(size).enumerate() {
                row.iter().enumerate().for_each(|(i, number)| columns[i * count + k] = *number);
            }
            self.solve(columns, &mut scratch);
            for (k, row) in part.chunks_exact_mut(size).enumerate() {
                row.iter_mut().enumerate().for_each(|(i, number)| *number = columns[i * count + k]);
            }
        }
    }

    /// The sign of the determinant, and the logarithm of its magnitude.
    pub(super) fn determinant(&self) -> (f64, f64) {
        let pivots = (0..self.size).map(|k| self.compact[k * self.size + k]);
        let start = (if self.odd { -1.0 } else { 1.0 }, 0.0);
        pivots.fold(start, |(sign, log), pivot: f64| (sign * pivot.signum(), log + pivot.abs().ln()))
    }
}

fn subtract(row: &mut [f64], other: &[f64], factor: f64) {
    if factor != 0.0 {
        row.iter_mut().zip(other).for_each(|(a, b)| *a -= factor * b);
    }
}

/// c -= a·b for matrices given row by row, with `inner` columns of a.
pub(super) fn subtract_product(c: &mut [f64], a: &[f64], b: &[f64], inner: usize, columns: usize) {
    if columns == 0 || inner == 0 {
        return;
    }
    for (row, left) in c.chunks_exact_mut(columns).zip(a.chunks_exact(inner)) {
        for (factor, other) in left.iter().zip(b.chunks_exact(columns)) {
            subtract(row, other, *factor);
        }
    }
}

/// aᵀ·b for matrices with as many rows, given row by row.
pub(super) fn transposed_product(a: &[f64], b: &[f64], rows: usize, left: usize, right: usize) -> Vec<f64> {
    let mut result = vec![0.0; left * right];
    for k in 0..rows {
        let other = &b[k * right..(k + 1) * right];
        for (i, factor) in a[k * left..(k + 1) * left].iter().enumerate() {
            subtract(&mut result[i * right..(i + 1) * right], other, -factor);
        }
    }
    result
}

/// The eigenvalues of a symmetric matrix, and their vectors as columns, by rotations in planes. Nothing if they do not
/// converge.
pub(super) fn symmetric_eigen(mut matrix: Vec<f64>, size: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|k| vectors[k * size + k] = 1.0);
    for _ in 0..60 {
        let outside: f64 = (0..size * size).filter(|k| k / size != k % size).map(|k| matrix[k] * matrix[k]).sum();
        let all: f64 = matrix.iter().map(|number| number * number).sum();
        if outside <= f64::EPSILON * f64::EPSILON * all {
            return Some(((0..size).map(|k| matrix[k * size + k]).collect(), vectors));
        }
        for p in 0..size {
            for q in p + 1..size {
                let apart = matrix[p * size + q];
                if apart == 0.0 {
                    continue;
                }
                let theta = (matrix[q * size + q] - matrix[p * size + p]) / (2.0 * apart);
                let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                let sine = tangent * cosine;
                for k in 0..size {
                    let (a, b) = (matrix[p * size + k], matrix[q * size + k]);
                    matrix[p * size + k] = cosine * a - sine * b;
                    matrix[q * size + k] = sine * a + cosine * b;
                }
                for numbers in [&mut matrix, &mut vectors] {
                    for row in numbers.chunks_exact_mut(size) {
                        let (a, b) = (row[p], row[q]);
                        row[p] = cosine * a - sine * b;
                        row[q] = sine * a + cosine * b;
                    }
                }
            }
        }
    }
    None
}

/// The elements of an array with its axes in another order: axis k of the result is axis `order[k]`.
pub(super) fn permuted(elements: &[f64], shape: &[usize], order: &[usize]) -> Vec<f64> {
    if order.iter().enumerate().all(|(k, axis)| k == *axis) {
        return elements.to_vec();
    }
    let mut strides = vec![1; shape.len()];
    (1..shape.len()).rev().for_each(|axis| strides[axis - 1] = strides[axis] * shape[axis]);
    let sizes: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
    let steps: Vec<usize> = order.iter().map(|axis| strides[*axis]).collect();
    let mut result = Vec::with_capacity(elements.len());
    if elements.is_empty() {
        return result;
    }
    let (last, outer) = (sizes.len() - 1, sizes.len() - 1);
    let mut index = vec![0; outer];
    let mut start = 0;
    loop {
        result.extend((0..sizes[last]).map(|k| elements[start + k * steps[last]]));
        let Some(axis) = (0..outer).rev().find(|axis| index[*axis] + 1 < sizes[*axis]) else { return result };
        for inner in axis + 1..outer {
            start -= index[inner] * steps[inner];
            index[inner] = 0;
        }
        index[axis] += 1;
        start += steps[axis];
    }
}
