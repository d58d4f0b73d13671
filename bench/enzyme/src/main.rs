//! Gradients by `std::autodiff` (Enzyme) beside tapes and compiled tapes, of the same functions in one process:
//! `bench/run enzyme`.
//!
//! Enzyme differentiates the machine-independent code of the plain function, so that its gradient is compiled like a hand-written
//! one; it is the bound for what a recording can reach. Results are compared to 1e-12 before anything is timed.

#![feature(autodiff)]

use std::autodiff::autodiff_reverse;
use std::hint::black_box;
use std::time::Instant;

use glassgrad::scalar::{Active, CompiledTape, Derivative, Recorded, Var, Workspace};
use glassgrad::{Real, c};

/// A gradient by Enzyme: the point, the gradient to add to, and the seed of the result.
type ByEnzyme = fn(&[f64], &mut [f64], f64) -> f64;

#[autodiff_reverse(rosenbrock_gradient, Duplicated, Active)]
fn rosenbrock_value(x: &[f64]) -> f64 {
    rosenbrock(x)
}

#[autodiff_reverse(log_sum_exp_gradient, Duplicated, Active)]
fn log_sum_exp_value(x: &[f64]) -> f64 {
    log_sum_exp(x)
}

#[autodiff_reverse(determinant_gradient, Duplicated, Active)]
fn determinant_value(x: &[f64]) -> f64 {
    determinant(x)
}

fn rosenbrock<T: Real>(x: &[T]) -> T {
    let mut sum = c(0.0);
    for pair in x.windows(2) {
        let valley = pair[1] - pair[0] * pair[0];
        let distance = c::<T>(1.0) - pair[0];
        sum += valley * valley * c(100.0) + distance * distance;
    }
    sum
}

/// The shift depends on the values alone: as a constant it changes no derivative.
fn log_sum_exp<T: Real>(x: &[T]) -> T {
    let shift = x.iter().map(|x| x.primal()).fold(f64::NEG_INFINITY, f64::max);
    let mut sum = c(0.0);
    for x in x {
        sum += (*x - c(shift)).exp();
    }
    sum.ln() + c(shift)
}

/// The determinant of a square matrix by expansion by minors; columns that are left are bits.
fn determinant<T: Real>(matrix: &[T]) -> T {
    fn minor<T: Real>(matrix: &[T], size: usize, row: usize, columns: u32) -> T {
        if row == size {
            return c(1.0);
        }
        let (mut sum, mut sign) = (c(0.0), 1.0);
        for column in (0..size).filter(|column| columns & (1 << column) != 0) {
            let term = matrix[row * size + column] * minor(matrix, size, row + 1, columns & !(1 << column));
            sum += term * c(sign);
            sign = -sign;
        }
        sum
    }
    let size = matrix.len().isqrt();
    minor(matrix, size, 0, (1 << size) - 1)
}

fn main() {
    println!("| function | f64 | Enzyme | × f64 | compiled tape | × f64 | tape | × f64 |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for n in [100, 10_000] {
        let x: Vec<f64> = (0..n).map(|k| 0.5 + 0.3 * f64::from(k).sin()).collect();
        row(&format!("Rosenbrock, n = {n}"), &x, |x| rosenbrock(x), |x| rosenbrock(x), rosenbrock_value, rosenbrock_gradient);
    }
    for n in [100, 10_000] {
        let x: Vec<f64> = (0..n).map(|k| 3.0 * (0.7 * f64::from(k)).sin()).collect();
        row(&format!("log-sum-exp, n = {n}"), &x, |x| log_sum_exp(x), |x| log_sum_exp(x), log_sum_exp_value, log_sum_exp_gradient);
    }
    let x: Vec<f64> = (0..49).map(|k| (1.7 * f64::from(k)).sin()).collect();
    row("determinant by minors, 7 × 7", &x, |x| determinant(x), |x| determinant(x), determinant_value, determinant_gradient);
}

fn row(
    name: &str,
    x: &[f64],
    function: impl for<'t> Fn(&[Var<'t>]) -> Var<'t>,
    active: impl for<'t> Fn(&[Active<'t>]) -> Active<'t>,
    plain: fn(&[f64]) -> f64,
    enzyme: ByEnzyme,
) {
    let compiled = CompiledTape::new(&Recorded::new(&function, x), Derivative::Gradient).expect("the machine is supported");
    let (mut results, mut gradient) = (vec![0.0; compiled.results()], vec![0.0; x.len()]);
    let mut workspace = Workspace::new();
    enzyme(x, &mut gradient, 1.0);
    compiled.evaluate(x, &mut results).expect("there are no guards");
    let expected = workspace.value_and_gradient(&active, x).1.to_vec();
    for (engine, found) in [("Enzyme", &gradient[..]), ("the compiled tape", &results[1..])] {
        let agree = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + b.abs()));
        assert!(agree, "{name}: {engine} disagrees with the tape");
    }
    let [mut value, mut by_enzyme, mut by_code, mut by_tape] = [f64::INFINITY; 4];
    // By turns, so that a busy moment of the machine does not fall on one of them alone.
    for _ in 0..20 {
        value = value.min(seconds(|| _ = black_box(plain(black_box(x)))));
        by_enzyme = by_enzyme.min(seconds(|| {
            gradient.fill(0.0);
            black_box(enzyme(black_box(x), &mut gradient, 1.0));
        }));
        by_code = by_code.min(seconds(|| compiled.evaluate(black_box(x), &mut results).expect("there are no guards")));
        by_tape = by_tape.min(seconds(|| _ = black_box(workspace.value_and_gradient(&active, black_box(x)))));
    }
    let cell = |seconds: f64| format!("{:.3} µs | {:.2}", seconds * 1e6, seconds / value);
    println!("| {name} | {:.3} µs | {} | {} | {} |", value * 1e6, cell(by_enzyme), cell(by_code), cell(by_tape));
}

/// Seconds of one call, over as many as take two milliseconds.
fn seconds(mut call: impl FnMut()) -> f64 {
    let mut count = 1;
    loop {
        let start = Instant::now();
        (0..count).for_each(|_| call());
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed > 2e-3 {
            return elapsed / f64::from(count);
        }
        count *= 2;
    }
}
