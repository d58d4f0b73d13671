//! Gradient descent on objectives that may contain gradient descents: nested differentiation in either mode.

use glassgrad::scalar::{Active, Dual, gradient};
use glassgrad::{Real, c};

/// The mode in which an objective is differentiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Forward,
    Reverse,
}

/// An objective of at most two numbers that depends on numbers `T` of an outer level, which `lift` makes constants.
pub(crate) trait Objective<T: Real> {
    fn at<U: Real>(&self, x: &[U], lift: impl Fn(T) -> U + Copy) -> U;

    fn gradient(&self, x: &[T], mode: Mode) -> Vec<T> {
        match mode {
            Mode::Reverse => gradient(|x| self.at(x, Active::constant), x),
            Mode::Forward => {
                let seeded: Vec<Dual<T, 2>> = x.iter().enumerate().map(|(k, x)| Dual::along(*x, k)).collect();
                self.at(&seeded, Dual::constant).tangents[..x.len()].to_vec()
            }
        }
    }
}

/// The largest gradient and the shortest step with which the descent ends.
const TOLERANCE: f64 = 1e-5;
/// The first step size; it doubles after ten successes and halves after a failure.
const FIRST_STEP: f64 = 1e-5;

/// A local minimum from a starting point, with the step-size control that the suite prescribes.
pub(crate) fn argmin<T: Real>(objective: &impl Objective<T>, start: &[T], mode: Mode) -> Vec<T> {
    let value = |x: &[T]| objective.at(x, |constant| constant);
    let norm = |x: &[T]| x.iter().map(|x| x.primal() * x.primal()).sum::<f64>().sqrt();
    let (mut x, mut best) = (start.to_vec(), value(start));
    let mut slope = objective.gradient(&x, mode);
    let (mut step, mut successes) = (FIRST_STEP, 0);
    loop {
        if norm(&slope) <= TOLERANCE {
            return x;
        }
        if successes == 10 {
            (step, successes) = (step * 2.0, 0);
            continue;
        }
        let next: Vec<T> = x.iter().zip(&slope).map(|(x, slope)| *x - c::<T>(step) * *slope).collect();
        let way: Vec<T> = x.iter().zip(&next).map(|(x, next)| *x - *next).collect();
        if norm(&way) <= TOLERANCE {
            return x;
        }
        let found = value(&next);
        if found.primal() < best.primal() {
            (x, best) = (next, found);
            slope = objective.gradient(&x, mode);
            successes += 1;
        } else {
            (step, successes) = (step / 2.0, 0);
        }
    }
}
