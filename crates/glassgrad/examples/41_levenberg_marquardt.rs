//! Least squares by the crate `levenberg-marquardt` with exact Jacobians.
//!
//! `LeastSquares` makes a problem of that crate from [`Residuals`], which are written once, over any number; the Jacobian is
//! accumulated forwards or in reverse, whichever needs fewer sweeps. The example fits a damped oscillation to a noisy measurement,
//! and a circle to points on an arc.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 41_levenberg_marquardt`.

mod random;

use glassgrad::Real;
use glassgrad::scalar::adapters::{LeastSquares, Residuals};
use levenberg_marquardt::LevenbergMarquardt;
use random::Random;

/// y(t) = a·exp(-b·t)·cos(c·t + d), measured at times t.
struct Oscillation {
    times: Vec<f64>,
    measured: Vec<f64>,
}

fn oscillation<T: Real>(x: &[T], time: f64) -> T {
    let t = T::literal(time);
    x[0] * (-x[1] * t).exp() * (x[2] * t + x[3]).cos()
}

impl Residuals for Oscillation {
    fn count(&self) -> usize {
        self.times.len()
    }

    fn evaluate<T: Real>(&self, x: &[T], results: &mut [T]) {
        for ((result, time), measured) in results.iter_mut().zip(&self.times).zip(&self.measured) {
            *result = oscillation(x, *time) - T::literal(*measured);
        }
    }
}

/// The distances of points from a circle with centre (x₀, x₁) and radius x₂.
struct Circle(Vec<[f64; 2]>);

impl Residuals for Circle {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn evaluate<T: Real>(&self, x: &[T], results: &mut [T]) {
        for (result, point) in results.iter_mut().zip(&self.0) {
            *result = (x[0] - T::literal(point[0])).hypot(x[1] - T::literal(point[1])) - x[2];
        }
    }
}

fn main() {
    let mut random = Random::new(4);
    let truth = [2.0, 0.3, 4.0, 0.5];
    let times: Vec<f64> = (0..60).map(|k| 0.1 * f64::from(k)).collect();
    let measured = times.iter().map(|time| oscillation(&truth, *time) + 0.02 * random.normal()).collect();
    let problem = LeastSquares::new(Oscillation { times, measured }, vec![1.0, 0.1, 3.7, 0.0]);
    let (solved, report) = LevenbergMarquardt::new().minimize(problem);
    let found = solved.parameters();
    println!("oscillation: {found:.3?} after {} evaluations", report.number_of_evaluations);
    assert!(report.termination.was_successful());
    assert!(found.iter().zip(truth).all(|(found, truth)| (found - truth).abs() < 0.05), "{found:?}");

    let angles = (0..20).map(|k| 0.08 * f64::from(k));
    let points = angles.map(|angle| [3.0 + 2.0 * angle.cos(), -1.0 + 2.0 * angle.sin()]).collect();
    let (solved, report) = LevenbergMarquardt::new().minimize(LeastSquares::new(Circle(points), vec![0.0, 0.0, 1.0]));
    println!("circle: {:.6?}, objective {:.1e}", solved.parameters(), report.objective_function);
    assert!(solved.parameters().iter().zip([3.0, -1.0, 2.0]).all(|(a, b)| (a - b).abs() < 1e-6));
}
