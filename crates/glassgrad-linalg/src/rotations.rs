//! Plane rotations of neighbouring rows, collected and then applied stripe by stripe.

use crate::matrix::Matrix;
use crate::simd::vectorized;

/// The number of rotations that are collected before they are applied.
const CAPACITY: usize = 1 << 14;
/// The columns to which all collected rotations are applied before the next ones: their part of a row stays in registers,
/// and that of all rows in the cache.
const STRIPE: usize = 16;

/// A power of two below which the digits of a number may be fewer than elsewhere, or those of its quotients.
pub(crate) const TINY: f64 = f64::MIN_POSITIVE / f64::EPSILON;

/// The cosine and sine of the rotation that maps (x, z) to (r, 0), and r.
#[inline(always)]
pub(crate) fn rotation(x: f64, z: f64) -> (f64, f64, f64) {
    if z == 0.0 {
        return (1.0, 0.0, x);
    }
    let r = x.hypot(z);
    if r < TINY {
        // Quotients of subnormal numbers are no cosines: they are scaled up first.
        let (x, z) = (x / TINY, z / TINY);
        let r = x.hypot(z);
        return (x / r, z / r, r * TINY);
    }
    (x / r, z / r, r)
}

/// A matrix whose rows are rotated.
pub(crate) struct Rotated {
    matrix: Matrix,
    waiting: Vec<(usize, f64, f64)>,
}

impl Rotated {
    pub(crate) fn new(matrix: Matrix) -> Rotated {
        Rotated { matrix, waiting: Vec::new() }
    }

    /// Rotates row k and the next one: they become c·rₖ + s·rₖ₊₁ and c·rₖ₊₁ - s·rₖ.
    #[inline]
    pub(crate) fn rotate(&mut self, k: usize, c: f64, s: f64) {
        self.waiting.push((k, c, s));
        if self.waiting.len() == CAPACITY {
            self.settle();
        }
    }

    /// The matrix after all rotations.
    pub(crate) fn into_matrix(mut self) -> Matrix {
        self.settle();
        self.matrix
    }

    fn settle(&mut self) {
        let (waiting, columns) = (&self.waiting, self.matrix.columns());
        let elements = self.matrix.elements_mut();
        let whole = columns / STRIPE * STRIPE;
        vectorized(
            #[inline(always)]
            || {
                for begin in (0..whole).step_by(STRIPE) {
                    rotate_stripe::<STRIPE>(elements, columns, begin, waiting);
                }
                for begin in whole..columns {
                    rotate_stripe::<1>(elements, columns, begin, waiting);
                }
            },
        );
        self.waiting.clear();
    }
}

/// Applies rotations to `WIDTH` columns from `begin` on. The second row of a rotation is the first one of the next, nearly
/// always, and stays in registers.
#[inline(always)]
fn rotate_stripe<const WIDTH: usize>(
    elements: &mut [f64],
    columns: usize,
    begin: usize,
    rotations: &[(usize, f64, f64)],
) {
    let Some((mut held, ..)) = rotations.first().copied() else { return };
    let mut row = load::<WIDTH>(elements, held * columns + begin);
    for (k, c, s) in rotations.iter().copied() {
        if k != held {
            store(elements, held * columns + begin, &row);
            row = load(elements, k * columns + begin);
        }
        let next = load::<WIDTH>(elements, (k + 1) * columns + begin);
        let (mut first, mut second) = ([0.0; WIDTH], [0.0; WIDTH]);
        for lane in 0..WIDTH {
            first[lane] = c * row[lane] + s * next[lane];
            second[lane] = c * next[lane] - s * row[lane];
        }
        store(elements, k * columns + begin, &first);
        (row, held) = (second, k + 1);
    }
    store(elements, held * columns + begin, &row);
}

#[inline(always)]
fn load<const WIDTH: usize>(elements: &[f64], place: usize) -> [f64; WIDTH] {
    let mut row = [0.0; WIDTH];
    row.copy_from_slice(&elements[place..][..WIDTH]);
    row
}

#[inline(always)]
fn store<const WIDTH: usize>(elements: &mut [f64], place: usize, row: &[f64; WIDTH]) {
    elements[place..][..WIDTH].copy_from_slice(row);
}
