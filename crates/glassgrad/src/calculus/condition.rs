//! Condition numbers: by how much a system amplifies the rounding errors of its entries.
//!
//! An entry that is a sum of terms carries a rounding error in proportion to the sum of their magnitudes, not to its
//! own: in `diag(p) - p·pᵀ` the terms cancel, and what is left may be noise. The condition number here is that of
//! Skeel with these magnitudes M in place of |A|, ‖S⁻¹ |A⁻¹| M S‖∞ for a scaling S of the unknowns. It does not
//! depend on the scale of the rows, and S makes it nearly independent of that of the columns, so that a diagonal
//! matrix has condition 1 whatever its entries are.

use super::dense::Factors;

/// Up to this size the condition number is computed from the inverse; above, it is estimated.
const EXACT: usize = 16;
/// The iterations of the estimator. It has converged after two or three in practice.
const ITERATIONS: usize = 5;

/// How many rounding errors an entry may carry.
pub(super) const NOISE: f64 = 32.0;
/// The amplification of rounding errors up to which the determinant of a structured factorisation is taken.
pub(super) const STABLE: f64 = 1e8;

/// Whether a system with this condition number cannot be distinguished from a singular one, when its entries carry rounding
/// errors of this unit.
pub(super) fn is_singular(condition: f64, unit: f64) -> bool {
    let error = condition * NOISE * unit;
    error.is_nan() || error >= 1.0
}

/// The scaling S of the unknowns, and the vector M·S·1, of the magnitudes of a matrix given row by row.
pub(super) fn scaling(size: usize, magnitudes: impl Fn(usize, usize) -> f64) -> (Vec<f64>, Vec<f64>) {
    let reciprocal = |largest: f64| if largest > 0.0 && largest.is_finite() { 1.0 / largest } else { 1.0 };
    let mut columns = vec![0.0_f64; size];
    for i in 0..size {
        let row = reciprocal((0..size).fold(0.0_f64, |largest, j| largest.max(magnitudes(i, j))));
        for (j, column) in columns.iter_mut().enumerate() {
            *column = column.max(row * magnitudes(i, j));
        }
    }
    let scale: Vec<f64> = columns.into_iter().map(reciprocal).collect();
    let sums = (0..size).map(|i| (0..size).map(|j| magnitudes(i, j) * scale[j]).sum());
    let sums = sums.collect();
    (scale, sums)
}

/// ‖S⁻¹ |A⁻¹| diag(v)‖∞ from the factors of A: exact for small systems, else a lower bound that is seldom far from it.
pub(super) fn condition(factors: &Factors, size: usize, (scale, sums): &(Vec<f64>, Vec<f64>)) -> f64 {
    let mut scratch = Vec::new();
    if size <= EXACT {
        let mut inverse = vec![0.0; size * size];
        (0..size).for_each(|k| inverse[k * size + k] = sums[k]);
        factors.solve(&mut inverse, &mut scratch);
        let row =
            |i: usize| inverse[i * size..(i + 1) * size].iter().map(|number| number.abs()).sum::<f64>() / scale[i];
        return (0..size).map(row).fold(1.0, largest);
    }
    // The estimator of Hager and Higham for the 1-norm of B = diag(v) A⁻ᵀ S⁻¹.
    let forward = |x: &[f64], scratch: &mut Vec<f64>| -> Vec<f64> {
        let mut y: Vec<f64> = x.iter().zip(scale).map(|(x, s)| x / s).collect();
        factors.solve_transposed(&mut y, scratch);
        y.iter().zip(sums).map(|(y, v)| y * v).collect()
    };
    let back = |y: &[f64], scratch: &mut Vec<f64>| -> Vec<f64> {
        let mut z: Vec<f64> = y.iter().zip(sums).map(|(y, v)| y * v).collect();
        factors.solve(&mut z, scratch);
        z.iter().zip(scale).map(|(z, s)| z / s).collect()
    };
    let length = |y: &[f64]| y.iter().map(|number| number.abs()).sum::<f64>();
    let mut x = vec![1.0 / size as f64; size];
    let mut best = 1.0;
    let mut last = usize::MAX;
    for _ in 0..ITERATIONS {
        let y = forward(&x, &mut scratch);
        let now = length(&y);
        if (now <= best || now.is_nan()) && last != usize::MAX {
            best = largest(best, now);
            break;
        }
        best = largest(best, now);
        let signs: Vec<f64> = y.iter().map(|number| number.signum()).collect();
        let z = back(&signs, &mut scratch);
        let place = (0..size).fold(0, |found, k| if z[k].abs() > z[found].abs() { k } else { found });
        if place == last {
            break;
        }
        last = place;
        x.fill(0.0);
        x[place] = 1.0;
    }
    // A vector of alternating signs finds what cancellation hides from the iteration.
    let alternating: Vec<f64> =
        (0..size).map(|k| (1.0 + k as f64 / (size - 1) as f64) * if k % 2 == 0 { 1.0 } else { -1.0 }).collect();
    largest(best, 2.0 * length(&forward(&alternating, &mut scratch)) / (3.0 * size as f64))
}

/// The larger of two numbers; NaN if one is.
pub(super) fn largest(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() { f64::NAN } else { one.max(other) }
}
