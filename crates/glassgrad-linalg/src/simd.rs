//! Loops over rows, compiled for every instruction-set level.
//!
//! What runs inside of [`vectorized`] is compiled once for each level and the best one is taken at run time. Sums have a
//! fixed number of partial sums, and nothing is fused, so that the level does not change a bit.

/// Runs a function in a version for the instructions that this machine has. What it calls must be inlined into it.
#[inline]
pub(crate) fn vectorized<R>(function: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(function)
}

/// The number of partial sums of a scalar product.
const LANES: usize = 16;

/// The scalar product of the elements that both have.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let (blocks_a, rest_a) = a.as_chunks::<LANES>();
    let (blocks_b, rest_b) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in blocks_a.iter().zip(blocks_b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut rest = 0.0;
    for (a, b) in rest_a.iter().zip(rest_b) {
        rest += a * b;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest
}

/// `y += factor · x`.
#[inline(always)]
pub(crate) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// The Euclidean norm, without overflow or underflow of squares.
#[inline(always)]
pub(crate) fn norm(x: &[f64]) -> f64 {
    let mut largest = 0.0_f64;
    for x in x {
        largest = largest.max(x.abs());
    }
    if (1e-140..1e140).contains(&largest) {
        return dot(x, x).sqrt();
    }
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let mut sum = 0.0;
    for x in x {
        sum += (x / largest) * (x / largest);
    }
    largest * sum.sqrt()
}
