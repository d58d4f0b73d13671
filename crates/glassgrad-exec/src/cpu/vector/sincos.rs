//! Sine and cosine, in 64 bits, without branches; in 32 bits by way of 64, since that costs less than care.
//!
//! The argument is reduced by multiples of π/2 in three parts, the first two of which are exact when multiplied by
//! less than 2²⁰. Arguments beyond [`LIMIT`] are for the platform's functions.

/// Up to here arguments are reduced exactly enough.
pub(super) const LIMIT: f64 = 1e6;

/// Adding this rounds to a whole number, which then stands in the lowest bits.
const MAGIC: f64 = 1.5 * (1_u64 << 52) as f64;
/// π/2 in three parts.
const HALF_PI: [f64; 3] = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21];

// (sin r - r)/r³ and (cos r - 1 + r²/2)/r⁴ in r² up to (π/4)², interpolated at Chebyshev points.
const SINE: [f64; 6] = [
    1.5917988979397435e-10,
    -2.5051129896450185e-8,
    2.7557316093198404e-6,
    -1.9841269836740532e-4,
    8.333333333330936e-3,
    -1.6666666666666666e-1,
];
const COSINE: [f64; 6] = [
    -1.138254464534925e-11,
    2.087614504941318e-9,
    -2.755731726587808e-7,
    2.48015872987544e-5,
    -1.3888888888887389e-3,
    4.1666666666666664e-2,
];
// The same, to 32 bits.
const SHORT_SINE: [f64; 4] =
    [2.724962008007533e-06, -0.00019840084376422702, 0.008333331870341349, -0.16666666663844049];
const SHORT_COSINE: [f64; 3] = [2.454768977246003e-5, -1.388830186756237e-3, 4.166666465348879e-2];

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(coefficients: [f64; N], s: f64) -> f64 {
    let mut sum = 0.0;
    for coefficient in coefficients {
        sum = multiply_add::<FUSED>(sum, s, coefficient);
    }
    sum
}

/// The sine of x and this many quarter turns.
#[inline(always)]
fn turned<const FUSED: bool, const S: usize, const C: usize>(
    x: f64,
    quarters: u64,
    sine: [f64; S],
    cosine: [f64; C],
) -> f64 {
    let shifted = multiply_add::<FUSED>(x, std::f64::consts::FRAC_2_PI, MAGIC);
    let n = shifted - MAGIC;
    let quadrant = shifted.to_bits().wrapping_add(quarters);
    // x - n·π/2 as r + low: the first difference is exact, the second one's rounding is taken along.
    let first = x - n * HALF_PI[0];
    let product = n * HALF_PI[1];
    let second = first - product;
    let back = first - second;
    let rounding = (first - (second + back)) + (back - product);
    let correction = multiply_add::<FUSED>(n, -HALF_PI[2], rounding);
    let r = second + correction;
    let low = (second - r) + correction;
    let s = r * r;
    let odd = multiply_add::<FUSED>(s * r, polynomial::<FUSED, S>(sine, s), multiply_add::<FUSED>(low, -0.5 * s, low));
    let half = 0.5 * s;
    let top = 1.0 - half;
    // What 1 - s/2 rounds off, and the share of the low part: the derivative of the cosine is -r, nearly.
    let tail = multiply_add::<FUSED>(-r, low, (1.0 - top) - half);
    let even = top + multiply_add::<FUSED>(s * s, polynomial::<FUSED, C>(cosine, s), tail);
    let value = if quadrant & 1 == 0 { r + odd } else { even };
    if quadrant & 2 == 0 { value } else { -value }
}

#[inline(always)]
pub(super) fn sin<const FUSED: bool>(x: f64) -> f64 {
    // A difference of equal numbers is +0; the sine of -0 is -0. The choice comes last, so that it is one between numbers.
    let value = turned::<FUSED, 6, 6>(x, 0, SINE, COSINE);
    if x == 0.0 { x } else { value }
}

#[inline(always)]
pub(super) fn cos<const FUSED: bool>(x: f64) -> f64 {
    turned::<FUSED, 6, 6>(x, 1, SINE, COSINE)
}

#[inline(always)]
pub(super) fn short_sin<const FUSED: bool>(x: f32) -> f32 {
    let value = turned::<FUSED, 4, 3>(f64::from(x), 0, SHORT_SINE, SHORT_COSINE) as f32;
    if x == 0.0 { x } else { value }
}

#[inline(always)]
pub(super) fn short_cos<const FUSED: bool>(x: f32) -> f32 {
    turned::<FUSED, 4, 3>(f64::from(x), 1, SHORT_SINE, SHORT_COSINE) as f32
}
