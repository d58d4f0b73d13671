//! Eigenvalues and eigenvectors of symmetric matrices: Householder tridiagonalisation and implicit QR iteration.

use crate::NoConvergence;
use crate::householder::{Reflections, reflection};
use crate::matrix::Matrix;
use crate::rotations::{Rotated, rotation};
use crate::simd::{add_scaled, dot, vectorized};

/// The iteration needs about two steps for an eigenvalue.
const STEPS_PER_VALUE: usize = 60;

/// The eigenvalues of a symmetric matrix, ascending, and their vectors as columns.
///
/// ```
/// use glassgrad_linalg::{Matrix, symmetric_eigen};
/// let (values, _) = symmetric_eigen(&Matrix::from_fn(2, 2, |i, j| [[2.0, 1.0], [1.0, 2.0]][i][j])).unwrap();
/// assert!((values[0] - 1.0).abs() < 1e-15 && (values[1] - 3.0).abs() < 1e-15);
/// ```
///
/// # Errors
/// If the iteration does not converge, as with numbers that are not finite.
///
/// # Panics
/// If the matrix is not square.
pub fn symmetric_eigen(matrix: &Matrix) -> Result<(Vec<f64>, Matrix), NoConvergence> {
    let n = matrix.rows();
    assert_eq!(n, matrix.columns(), "eigenvalues of a square matrix");
    if n == 0 {
        return Ok((Vec::new(), Matrix::zeros(0, 0)));
    }
    let (balanced, scale) = matrix.balanced();
    let mut reflections = Reflections::new(n, n - 1, 1);
    let (mut diagonal, mut beside) = vectorized(
        #[inline(always)]
        || tridiagonalise(balanced, &mut reflections),
    );
    let mut basis = Matrix::identity(n, n);
    reflections.apply(&mut basis);
    // Rotations of columns are rotations of rows of the transpose, whose elements are contiguous.
    let mut vectors = Rotated::new(basis.transposed());
    iterate(&mut diagonal, &mut beside, &mut vectors)?;
    let vectors = vectors.into_matrix();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| diagonal[*i].total_cmp(&diagonal[*j]));
    let values = order.iter().map(|i| diagonal[*i] * scale).collect();
    Ok((values, Matrix::from_fn(n, n, |i, j| vectors[(order[j], i)])))
}

/// The diagonal and the elements beside it of the tridiagonal matrix qᵀ·a·q, where q is the product of the reflections.
///
/// Each step subtracts v·wᵀ + w·vᵀ. That waits until the next v is known, so that one pass over the matrix subtracts and
/// multiplies with the next v.
#[inline(always)]
fn tridiagonalise(mut a: Matrix, reflections: &mut Reflections) -> (Vec<f64>, Vec<f64>) {
    let n = a.rows();
    let (mut diagonal, mut beside) = (Vec::with_capacity(n), Vec::with_capacity(n));
    // By column of the matrix; zero until the first step.
    let (mut v, mut w) = (vec![0.0; n], vec![0.0; n]);
    let (mut next, mut product) = (vec![0.0; n], vec![0.0; n]);
    for k in 0..n - 1 {
        diagonal.push(a[(k, k)]);
        let rest = k + 1..n;
        next[rest.clone()].copy_from_slice(&a.row(k)[rest.clone()]);
        let (factor, beta) = reflection(&mut next[rest.clone()]);
        beside.push(beta);
        reflections.set(k, &next[rest.clone()], factor);
        for i in rest.clone() {
            let row = &mut a.row_mut(i)[rest.clone()];
            if k > 0 {
                let (vi, wi) = (v[i], w[i]);
                for ((element, v), w) in row.iter_mut().zip(&v[rest.clone()]).zip(&w[rest.clone()]) {
                    *element -= vi * w + wi * v;
                }
            }
            product[i] = factor * dot(row, &next[rest.clone()]);
        }
        let half = 0.5 * factor * dot(&product[rest.clone()], &next[rest.clone()]);
        add_scaled(&mut product[rest.clone()], -half, &next[rest.clone()]);
        std::mem::swap(&mut v, &mut next);
        std::mem::swap(&mut w, &mut product);
        // The row that the next step begins with.
        let (vi, wi) = (v[k + 1], w[k + 1]);
        let row = &mut a.row_mut(k + 1)[rest.clone()];
        for ((element, v), w) in row.iter_mut().zip(&v[rest.clone()]).zip(&w[rest.clone()]) {
            *element -= vi * w + wi * v;
        }
    }
    diagonal.push(a[(n - 1, n - 1)]);
    (diagonal, beside)
}

/// Implicit QR iteration with Wilkinson's shift, until nothing is left beside the diagonal.
fn iterate(d: &mut [f64], e: &mut [f64], vectors: &mut Rotated) -> Result<(), NoConvergence> {
    let mut last = d.len() - 1;
    let mut steps = STEPS_PER_VALUE * d.len();
    while last > 0 {
        // The unreduced block that ends at the last value.
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
        step(d, e, first, last, vectors);
    }
    match d.iter().all(|value| value.is_finite()) {
        true => Ok(()),
        false => Err(NoConvergence),
    }
}

/// One step on the block from `first` to `last`: the bulge that the first rotation makes is chased to the end.
fn step(d: &mut [f64], e: &mut [f64], first: usize, last: usize, vectors: &mut Rotated) {
    // The eigenvalue of the last two rows that is next to the last element.
    let half = 0.5 * (d[last - 1] - d[last]);
    let corner = e[last - 1];
    let shift = d[last] - corner * (corner / (half + half.hypot(corner).copysign(half)));
    let (mut x, mut bulge) = (d[first] - shift, e[first]);
    for k in first..last {
        let (c, s, r) = rotation(x, bulge);
        if k > first {
            e[k - 1] = r;
        }
        let (difference, beside) = (d[k + 1] - d[k], e[k]);
        let moved = s * (s * difference + 2.0 * c * beside);
        d[k] += moved;
        d[k + 1] -= moved;
        e[k] = (c - s) * (c + s) * beside + c * s * difference;
        if k + 1 < last {
            (x, bulge) = (e[k], s * e[k + 1]);
            e[k + 1] *= c;
        }
        vectors.rotate(k, c, s);
    }
}
