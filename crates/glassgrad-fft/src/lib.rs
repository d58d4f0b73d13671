//! Discrete Fourier transforms of `f32` and `f64`, by rustfft.
//!
//! rustfft is generic, so each calling crate compiles all of its algorithms, for every instruction set: a quarter of what the
//! library would consist of. This crate is that compilation. It is built beside the library instead of in each of its
//! builds.

use rustfft::num_complex::Complex;
use rustfft::{FftNum, FftPlanner};

/// Replaces each run of `size` complex numbers, real and imaginary parts in turn, by its transform, without a factor:
/// Xₖ = Σⱼ xⱼ exp(∓2πi jk/n), with + for the inverse.
///
/// ```
/// let mut x = [1.0_f32, 0.0, 0.0, 0.0];
/// glassgrad_fft::transform_f32(&mut x, 2, false);
/// assert_eq!(x, [1.0, 0.0, 1.0, 0.0]);
/// ```
///
/// # Panics
/// If the length is no multiple of `2 · size`.
pub fn transform_f32(elements: &mut [f32], size: usize, inverse: bool) {
    transform(elements, size, inverse);
}

/// [`transform_f32`] of `f64`.
///
/// ```
/// let mut x = [1.0, 0.0, 2.0, 0.0];
/// glassgrad_fft::transform_f64(&mut x, 2, true);
/// assert_eq!(x, [3.0, 0.0, -1.0, 0.0]);
/// ```
///
/// # Panics
/// If the length is no multiple of `2 · size`.
pub fn transform_f64(elements: &mut [f64], size: usize, inverse: bool) {
    transform(elements, size, inverse);
}

fn transform<E: FftNum>(elements: &mut [E], size: usize, inverse: bool) {
    if elements.is_empty() {
        return;
    }
    assert!(size > 0 && elements.len().is_multiple_of(2 * size), "transforms of {size} complex numbers");
    let mut numbers: Vec<Complex<E>> = elements.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect();
    let mut planner = FftPlanner::new();
    let plan = if inverse { planner.plan_fft_inverse(size) } else { planner.plan_fft_forward(size) };
    plan.process(&mut numbers);
    for (pair, number) in elements.chunks_exact_mut(2).zip(numbers) {
        (pair[0], pair[1]) = (number.re, number.im);
    }
}
