//! Discrete Fourier transforms of `f32` and `f64`, by rustfft.
//!
//! rustfft is generic, so each calling crate compiles all of its algorithms, for every instruction set: a quarter of what the
//! library would consist of. This crate is that compilation. It is built beside the library instead of in each of its
//! builds.

use std::cell::RefCell;
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};

/// A transform of `size` complex numbers without a factor, Xₖ = Σⱼ xⱼ exp(∓2πi jk/n), with + for the inverse. Threads may share it.
///
/// ```
/// let plan = glassgrad_fft::plan_f64(2, false);
/// let (mut re, mut im) = ([0.0; 2], [0.0; 2]);
/// plan.transform([&[1.0, 2.0], &[0.0, 0.0]], [&mut re, &mut im]);
/// assert_eq!((re, im), ([3.0, -1.0], [0.0, 0.0]));
/// ```
pub struct Plan<E>(Arc<dyn Fft<E>>);

thread_local! {
    /// Planners keep the plans that they made.
    static SINGLE: RefCell<FftPlanner<f32>> = RefCell::new(FftPlanner::new());
    static DOUBLE: RefCell<FftPlanner<f64>> = RefCell::new(FftPlanner::new());
}

fn planned<E: FftNum>(planner: &mut FftPlanner<E>, size: usize, inverse: bool) -> Plan<E> {
    Plan(if inverse { planner.plan_fft_inverse(size) } else { planner.plan_fft_forward(size) })
}

/// The transform of a size in `f32`, planned once for each thread that asks.
///
/// ```
/// assert_eq!(glassgrad_fft::plan_f32(8, true).size(), 8);
/// ```
pub fn plan_f32(size: usize, inverse: bool) -> Plan<f32> {
    SINGLE.with_borrow_mut(|planner| planned(planner, size, inverse))
}

/// [`plan_f32`] in `f64`.
///
/// ```
/// assert_eq!(glassgrad_fft::plan_f64(8, true).size(), 8);
/// ```
pub fn plan_f64(size: usize, inverse: bool) -> Plan<f64> {
    DOUBLE.with_borrow_mut(|planner| planned(planner, size, inverse))
}

impl<E: FftNum> Plan<E> {
    /// The complex numbers of one transform.
    ///
    /// ```
    /// assert_eq!(glassgrad_fft::plan_f32(5, false).size(), 5);
    /// ```
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Transforms runs of `size` complex numbers, real and imaginary parts apart.
    ///
    /// ```
    /// let plan = glassgrad_fft::plan_f32(1, false);
    /// let (mut re, mut im) = ([0.0; 2], [0.0; 2]);
    /// plan.transform([&[1.0, 2.0], &[3.0, 4.0]], [&mut re, &mut im]);
    /// assert_eq!((re, im), ([1.0, 2.0], [3.0, 4.0]));
    /// ```
    ///
    /// # Panics
    /// If a length is no multiple of the size, or another than that of the others.
    pub fn transform(&self, [re, im]: [&[E]; 2], [to_re, to_im]: [&mut [E]; 2]) {
        let size = self.size();
        assert!([im.len(), to_re.len(), to_im.len()] == [re.len(); 3], "parts of {} numbers", re.len());
        if re.is_empty() {
            return;
        }
        assert!(size > 0 && re.len().is_multiple_of(size), "transforms of {size} complex numbers");
        let zero = Complex::new(E::zero(), E::zero());
        let (mut numbers, mut scratch) = (vec![zero; size], vec![zero; self.0.get_inplace_scratch_len()]);
        let parts = re.chunks_exact(size).zip(im.chunks_exact(size));
        let results = to_re.chunks_exact_mut(size).zip(to_im.chunks_exact_mut(size));
        for ((re, im), (to_re, to_im)) in parts.zip(results) {
            for (number, (re, im)) in numbers.iter_mut().zip(re.iter().zip(im)) {
                *number = Complex::new(*re, *im);
            }
            self.0.process_with_scratch(&mut numbers, &mut scratch);
            for (number, (re, im)) in numbers.iter().zip(to_re.iter_mut().zip(to_im)) {
                (*re, *im) = (number.re, number.im);
            }
        }
    }

    /// The first `size + 1` places of the transforms of runs of `2 · size` real numbers: one transform of half the length, of neighbours as
    /// real and imaginary part, whose even and odd parts are separated.
    ///
    /// ```
    /// let plan = glassgrad_fft::plan_f64(2, false);
    /// let (mut re, mut im) = ([0.0; 3], [0.0; 3]);
    /// plan.transform_real(&[1.0, 2.0, 3.0, 4.0], [&mut re, &mut im]);
    /// assert_eq!((re, im), ([10.0, -2.0, -2.0], [0.0, 2.0, 0.0]));
    /// ```
    ///
    /// # Panics
    /// If the plan is that of an inverse, or lengths do not fit.
    pub fn transform_real(&self, from: &[E], [to_re, to_im]: [&mut [E]; 2]) {
        let size = self.size();
        assert!(self.0.fft_direction() == rustfft::FftDirection::Forward, "the transform of real numbers");
        assert!(size > 0 && from.len().is_multiple_of(2 * size), "transforms of {} real numbers", 2 * size);
        let runs = from.len() / (2 * size);
        assert!(to_re.len() == runs * (size + 1) && to_im.len() == to_re.len(), "{runs} results");
        let zero = Complex::new(E::zero(), E::zero());
        let (mut numbers, mut scratch) = (vec![zero; size], vec![zero; self.0.get_inplace_scratch_len()]);
        let angle = |k: usize| -std::f64::consts::PI * k as f64 / size as f64;
        let number = |value: f64| E::from_f64(value).unwrap_or_else(E::zero);
        let turns: Vec<Complex<E>> =
            (0..=size / 2).map(|k| Complex::new(number(angle(k).cos()), number(angle(k).sin()))).collect();
        let half = number(0.5);
        let results = to_re.chunks_exact_mut(size + 1).zip(to_im.chunks_exact_mut(size + 1));
        for (from, (re, im)) in from.chunks_exact(2 * size).zip(results) {
            for (number, pair) in numbers.iter_mut().zip(from.chunks_exact(2)) {
                *number = Complex::new(pair[0], pair[1]);
            }
            self.0.process_with_scratch(&mut numbers, &mut scratch);
            let first = numbers[0];
            (re[0], im[0]) = (first.re + first.im, E::zero());
            (re[size], im[size]) = (first.re - first.im, E::zero());
            // Places k and size - k: Xₖ = Eₖ + exp(-πik/size) Oₖ, where even and odd parts E and O are those of the two numbers.
            for k in 1..=size / 2 {
                let (a, b) = (numbers[k], numbers[size - k].conj());
                let (even, odd) = ((a + b) * half, (a - b) * half);
                let turned = turns[k] * Complex::new(odd.im, -odd.re);
                let (low, high) = (even + turned, (even - turned).conj());
                (re[size - k], im[size - k]) = (high.re, high.im);
                (re[k], im[k]) = (low.re, low.im);
            }
        }
    }
}
