//! Functions that several benchmarks differentiate, generic in the number.

#![allow(dead_code, reason = "every benchmark includes this file and uses a part of it")]

use glassgrad::{Real, c};

/// Rosenbrock's valley.
pub(crate) fn rosenbrock<T: Real>(x: &[T]) -> T {
    let term = |pair: &[T]| {
        let valley = pair[1] - pair[0] * pair[0];
        let distance = c::<T>(1.0) - pair[0];
        valley * valley * c(100.0) + distance * distance
    };
    x.windows(2).map(term).sum()
}

/// The shift depends on the values alone: as a constant it changes no derivative.
pub(crate) fn log_sum_exp<T: Real>(x: &[T]) -> T {
    let shift = x.iter().map(|x| x.primal()).fold(f64::NEG_INFINITY, f64::max);
    x.iter().map(|x| (*x - c(shift)).exp()).sum::<T>().ln() + c(shift)
}

/// The determinant of a square matrix by expansion by minors.
pub(crate) fn determinant<T: Real>(matrix: &[T], size: usize) -> T {
    fn minor<T: Real>(matrix: &[T], size: usize, row: usize, columns: &mut Vec<usize>) -> T {
        if let [column] = columns[..] {
            return matrix[row * size + column];
        }
        let mut sum = c(0.0);
        for place in 0..columns.len() {
            let column = columns.remove(place);
            let term = matrix[row * size + column] * minor(matrix, size, row + 1, columns);
            columns.insert(place, column);
            sum = if place % 2 == 0 { sum + term } else { sum - term };
        }
        sum
    }
    minor(matrix, size, 0, &mut (0..size).collect())
}
