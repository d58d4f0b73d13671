//! Numerical, symbolic and automatic differentiation of one function, side by side.
//!
//! The function is the fourth iterate of the logistic map, l₁ = x and lₙ₊₁ = 4 lₙ (1 - lₙ), with
//! which Baydin et al. compare the three ways:
//!
//! - *Finite differences* need a step h. A large one misses the curvature, a small one loses digits
//!   to cancellation, and the best one still loses half of the digits (a third, if central).
//! - *Symbolic* differentiation is exact, but the expression swells: it more than doubles with every iterate.
//! - *Automatic* differentiation is exact too, and costs a fixed number of operations per operation.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 02_three_ways_to_differentiate`; it writes the error
//! against h into `target/pictures`, or into the folder given as an argument.

mod picture;

use glassgrad::scalar::{Tape, derivative, gradient};
use glassgrad::{Real, c};
use picture::{Corner, Panel, Point, logarithmic, save};

/// The logistic map, iterated: a program, not a formula.
fn logistic<T: Real>(x: T, iterates: usize) -> T {
    (1..iterates).fold(x, |l, _| c::<T>(4.0) * l * (c::<T>(1.0) - l))
}

/// The derivative of l₄ as a computer-algebra system writes it down.
fn symbolic_derivative(x: f64) -> f64 {
    let (a, b, d) = (1.0 - x, 1.0 - 2.0 * x, 1.0 - 8.0 * x + 8.0 * x * x);
    128.0 * x * a * (-8.0 + 16.0 * x) * b * b * d + 64.0 * a * b * b * d * d
        - 64.0 * x * b * b * d * d
        - 256.0 * x * a * b * d * d
}

fn main() {
    let x = 0.2;
    let exact = symbolic_derivative(x);
    let function = |x| logistic(x, 4);
    let error = |approximation: f64| (approximation - exact).abs() / exact.abs();

    let forwards = derivative(|x| logistic(x, 4), x);
    let in_reverse = gradient(|x| logistic(x[0], 4), &[x])[0];
    println!("the derivative of the fourth logistic iterate at x = {x}");
    println!("  symbolic            {exact:.16}");
    println!("  automatic, forward  {forwards:.16}   relative error {:.1e}", error(forwards));
    println!("  automatic, reverse  {in_reverse:.16}   relative error {:.1e}", error(in_reverse));
    assert!(error(forwards) < 8.0 * f64::EPSILON && error(in_reverse) < 8.0 * f64::EPSILON);

    let steps: Vec<f64> = (4..=64).map(|quarter| 10.0_f64.powf(-0.25 * f64::from(quarter))).collect();
    let one_sided = |h: f64| (function(x + h) - function(x)) / h;
    let central = |h: f64| (function(x + h) - function(x - h)) / (2.0 * h);
    println!("\n  step h    one-sided error   central error");
    for h in steps.iter().skip(4).step_by(8) {
        println!("  {:<9} {:<17.1e} {:.1e}", format!("{h:.0e}"), error(one_sided(*h)), error(central(*h)));
    }

    // An error of exactly zero has no logarithm; half the last bit stands for it.
    let curve = |difference: &dyn Fn(f64) -> f64| -> Vec<Point> {
        steps.iter().map(|h| (*h, error(difference(*h)).max(0.5 * f64::EPSILON))).collect()
    };
    let (one_sided, central) = (curve(&one_sided), curve(&central));
    let least = |curve: &[Point]| curve.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    println!("  at best   {:<17.1e} {:.1e}", least(&one_sided), least(&central));
    assert!(least(&one_sided) > 1e-11, "no one-sided difference comes near the rounding error");
    assert!(least(&central) < least(&one_sided));
    // A tenth of the step leaves a tenth of the truncation error, or a hundredth if central.
    let gain = |curve: &[Point]| (curve[8].1 / curve[12].1).log10();
    assert!((gain(&one_sided) - 1.0).abs() < 0.1 && (gain(&central) - 2.0).abs() < 0.1);

    expression_swell(x);

    let automatic = steps.iter().map(|h| (*h, error(forwards).max(0.5 * f64::EPSILON))).collect();
    let panel = Panel::new(
        "Error of a derivative against the step",
        logarithmic("step h", 1e-16..1e-1),
        logarithmic("relative error", 1e-17..1e1),
    );
    let panel = panel
        .legend_at(Corner::UpperMiddle)
        .line("one-sided difference", one_sided)
        .line("central difference", central)
        .line("automatic, without a step", automatic);
    save("02_three_ways_to_differentiate", &[panel]);
}

/// Counts the operations of the derivative as an expression without sharing, and as a tape.
fn expression_swell(x: f64) {
    // lₙ₊₁ = 4 l (1 - l) mentions lₙ twice, its derivative 4 (l' (1 - l) + l (-l')) mentions both twice.
    let (mut value, mut derivative) = (0_u64, 0_u64);
    println!("\n  iterate   operations of the tape   of the derivative as an expression");
    for n in 1..=16 {
        let tape = Tape::new();
        logistic(tape.input(x), n);
        assert_eq!(tape.len(), 1 + 3 * (n - 1), "an input, and three operations for each iteration");
        if n.is_power_of_two() {
            println!("  {n:<9} {:<24} {derivative}", tape.len() - 1);
        }
        assert!(n < 16 || derivative > 1_000_000, "sixteen iterates need a million operations as one expression");
        (value, derivative) = (2 * value + 3, 2 * derivative + 2 * value + 6);
    }
}
