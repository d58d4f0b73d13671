//! Singular values of bidiagonal matrices, by implicit QR iteration with and without a shift.
//!
//! The iteration without a shift, for small singular values, is that of J. Demmel and W. Kahan, Accurate singular values of
//! bidiagonal matrices, 1990.

use crate::NoConvergence;
use crate::householder::{Reflections, reflection};
use crate::matrix::Matrix;
use crate::rotations::{Rotated, rotation};
use crate::simd::{add_scaled, dot};

/// The iteration needs about two steps for a singular value.
const STEPS_PER_VALUE: usize = 60;

/// The diagonal and the elements above it of the bidiagonal matrix uᵀ·a·v for a square matrix, where u and v are the
/// products of the reflections.
///
/// Each step subtracts a product of a column and a row twice, on the left and on the right. The second one waits until the
/// next reflection is known, so that there are two passes over the matrix for a step.
#[inline(always)]
pub(crate) fn bidiagonalise(mut a: Matrix, left: &mut Reflections, right: &mut Reflections) -> (Vec<f64>, Vec<f64>) {
    let n = a.rows();
    let (mut diagonal, mut above) = (Vec::with_capacity(n), Vec::with_capacity(n));
    // By row: the vector on the left, and what the pending subtraction multiplies the vector on the right with. By column:
    // that vector, and the sums of the left one with the columns.
    let (mut v, mut pending) = (vec![0.0; n], vec![0.0; n]);
    let (mut u, mut sums) = (vec![0.0; n], vec![0.0; n]);
    for k in 0..n {
        let rest = k..n;
        // The column that is to be eliminated, up to date.
        for i in rest.clone() {
            v[i] = a[(i, k)] - pending[i] * u[k];
        }
        let (factor, beta) = reflection(&mut v[rest.clone()]);
        diagonal.push(beta);
        left.set(k, &v[rest.clone()], factor);
        sums[rest.clone()].fill(0.0);
        for i in rest.clone() {
            let row = &mut a.row_mut(i)[rest.clone()];
            add_scaled(row, -pending[i], &u[rest.clone()]);
            add_scaled(&mut sums[rest.clone()], v[i], row);
        }
        if k + 1 == n {
            break;
        }
        // The row that is to be eliminated, up to date.
        let behind = k + 1..n;
        for j in behind.clone() {
            u[j] = a[(k, j)] - factor * v[k] * sums[j];
        }
        let (turned, beta) = reflection(&mut u[behind.clone()]);
        above.push(beta);
        right.set(k, &u[behind.clone()], turned);
        for i in behind.clone() {
            let row = &mut a.row_mut(i)[behind.clone()];
            add_scaled(row, -factor * v[i], &sums[behind.clone()]);
            pending[i] = turned * dot(row, &u[behind.clone()]);
        }
    }
    (diagonal, above)
}

/// Reduces a bidiagonal matrix to its diagonal, whose elements may be negative. The rows of `left` and `right` are rotated
/// along.
pub(crate) fn iterate(
    d: &mut [f64],
    e: &mut [f64],
    left: &mut Rotated,
    right: &mut Rotated,
) -> Result<(), NoConvergence> {
    let mut last = d.len().saturating_sub(1);
    let mut steps = STEPS_PER_VALUE * d.len();
    while last > 0 {
        let is_small =
            |k: usize| e[k].abs() <= f64::EPSILON * (d[k].abs() + d[k + 1].abs()) || e[k].abs() < f64::MIN_POSITIVE;
        let first = (0..last).rev().find(|k| is_small(*k)).map_or(0, |k| k + 1);
        if first > 0 {
            e[first - 1] = 0.0;
        }
        if first == last {
            last -= 1;
            continue;
        }
        steps = steps.checked_sub(1).ok_or(NoConvergence)?;
        let shift = smaller_singular_value(d[last - 1], e[last - 1], d[last]);
        // A shift that the first element does not notice would only cost accuracy.
        let is_lost = d[first] == 0.0 || (shift / d[first]).powi(2) < f64::EPSILON;
        match is_lost {
            true => step_without_shift(d, e, first, last, left, right),
            false => step(d, e, first, last, shift, left, right),
        }
    }
    match d.iter().all(|value| value.is_finite()) {
        true => Ok(()),
        false => Err(NoConvergence),
    }
}

/// The smaller singular value of [[f, g], [0, h]].
fn smaller_singular_value(f: f64, g: f64, h: f64) -> f64 {
    let (f, h) = (f.abs(), h.abs());
    let larger = 0.5 * ((f + h).hypot(g) + (f - h).hypot(g));
    if larger == 0.0 { 0.0 } else { f.min(h) * (f.max(h) / larger) }
}

/// A step of QR on bᵀb with a shift: the bulge changes sides until it is at the end.
fn step(d: &mut [f64], e: &mut [f64], first: usize, last: usize, shift: f64, left: &mut Rotated, right: &mut Rotated) {
    // The first column of bᵀb - shift², divided by the first element.
    let mut x = (d[first] - shift) * (1.0 + shift / d[first]);
    let mut bulge = e[first];
    for k in first..last {
        // Columns k and k + 1: what stands beside element k - 1 of the upper diagonal vanishes.
        let (c, s, r) = rotation(x, bulge);
        if k > first {
            e[k - 1] = r;
        }
        let (diagonal, above) = (d[k], e[k]);
        e[k] = c * above - s * diagonal;
        bulge = s * d[k + 1];
        d[k + 1] *= c;
        right.rotate(k, c, s);
        // Rows k and k + 1: what stands below element k of the diagonal vanishes.
        let (c, s, r) = rotation(c * diagonal + s * above, bulge);
        d[k] = r;
        let (above, diagonal) = (e[k], d[k + 1]);
        x = c * above + s * diagonal;
        d[k + 1] = c * diagonal - s * above;
        e[k] = x;
        if k + 1 < last {
            bulge = s * e[k + 1];
            e[k + 1] *= c;
        }
        left.rotate(k, c, s);
    }
}

/// A step without a shift, whose elements are computed without subtractions, each to its own relative accuracy.
fn step_without_shift(
    d: &mut [f64],
    e: &mut [f64],
    first: usize,
    last: usize,
    left: &mut Rotated,
    right: &mut Rotated,
) {
    let (mut carried, mut c_left, mut s_left) = (d[first], 1.0, 0.0);
    for k in first..last {
        let (c, s, r) = rotation(carried, e[k]);
        right.rotate(k, c, s);
        if k > first {
            e[k - 1] = s_left * r;
        }
        let diagonal;
        (c_left, s_left, diagonal) = rotation(c_left * r, s * d[k + 1]);
        left.rotate(k, c_left, s_left);
        d[k] = diagonal;
        carried = c * d[k + 1];
    }
    d[last] = c_left * carried;
    e[last - 1] = s_left * carried;
}
