//! Beyond the gradient: any order, large sparse Hessians, nested and complex derivatives.
//!
//! - *Taylor series of an order chosen at run time* make Householder's root finders one formula,
//!   x + d · (1/f)⁽ᵈ⁻¹⁾ / (1/f)⁽ᵈ⁾. For d = 1 it is Newton's method, for d = 2 Halley's, and each order
//!   more makes the error shrink with one power more.
//! - *Sparse Hessians* cost as many sweeps as the pattern has colours, not as many as there are
//!   variables. Newton's method on a chain of fifty variables needs three.
//! - *Nested derivatives* keep their levels apart by type, so that none is taken for another.
//! - *Complex functions* of the ecosystem's `num_complex` differentiate unchanged.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 10_higher_orders`.

use glassgrad::scalar::{Active, Dual, SparseMatrix, derivative, derivatives, gradient, hessian, sparse_hessian};
use glassgrad::{Real, c};
use num_complex::Complex;

fn main() {
    householders_methods();
    newton_on_a_long_valley();
    nested_derivatives();
    complex_derivatives();
}

/// The polynomial on which Newton demonstrated his method in 1669.
fn cubic<T: Real>(x: T) -> T {
    x * x * x - c::<T>(2.0) * x - c::<T>(5.0)
}

fn householders_methods() {
    const ROOT: f64 = 2.094_551_481_542_326_6;
    println!("x³ - 2x - 5 = 0 from x = 3: error after each step, and the last order of convergence seen");
    let mut steps_needed = Vec::new();
    for (order, name) in [(1, "Newton"), (2, "Halley"), (3, "Householder")] {
        let mut x: f64 = 3.0;
        let mut errors = vec![x - ROOT];
        while errors[errors.len() - 1].abs() > 1e-14 {
            let d = derivatives(|x| cubic(x).recip(), x, order);
            x += order as f64 * d[order - 1] / d[order];
            errors.push(x - ROOT);
        }
        // In error ≈ constant · (error before)ᵖ the power p shows in two ratios; the last error is rounding.
        let logarithm: Vec<f64> = errors[..errors.len() - 1].iter().map(|error| error.abs().ln()).collect();
        let [.., first, second, third] = logarithm[..] else { panic!("three errors make two ratios") };
        let power = (third - second) / (second - first);
        let shown: Vec<String> = errors.iter().map(|error| format!("{:.0e}", error.abs())).collect();
        println!("  {name:<12} {:<42} {power:.2}", shown.join("  "));
        assert!((power - (order + 1) as f64).abs() < 0.4, "order {order} converges with power {}", order + 1);
        steps_needed.push(errors.len() - 1);
    }
    assert!(steps_needed.is_sorted_by(|fewer, more| fewer > more), "a higher order needs fewer steps");
}

/// Rosenbrock's valley in many dimensions: each variable accumulates only its neighbours.
fn rosenbrock<T: Real>(x: &[T]) -> T {
    let terms = x.windows(2).map(|pair| {
        let (here, next) = (pair[0], pair[1]);
        c::<T>(100.0) * (next - here.square()).square() + (c::<T>(1.0) - here).square()
    });
    terms.sum()
}

/// Solves H x = b for a symmetric positive definite matrix with three diagonals, by elimination.
fn solve_tridiagonal(matrix: &SparseMatrix, right: &[f64]) -> Vec<f64> {
    let element =
        |row: usize, column: usize| matrix.row(row).find(|(at, _)| *at == column).map_or(0.0, |(_, value)| value);
    let count = right.len();
    let (mut diagonal, mut x) = (vec![element(0, 0)], vec![right[0]]);
    for k in 1..count {
        let factor = element(k, k - 1) / diagonal[k - 1];
        diagonal.push(element(k, k) - factor * element(k - 1, k));
        x.push(right[k] - factor * x[k - 1]);
    }
    x[count - 1] /= diagonal[count - 1];
    for k in (0..count - 1).rev() {
        x[k] = (x[k] - element(k, k + 1) * x[k + 1]) / diagonal[k];
    }
    x
}

fn newton_on_a_long_valley() {
    let mut x = vec![2.0; 50];
    println!("\nNewton's method on Rosenbrock's valley with 50 variables");
    for step in 0.. {
        let g = gradient(|x| rosenbrock(x), &x);
        let length = g.iter().map(|g| g * g).sum::<f64>().sqrt();
        let curvature = sparse_hessian(|x| rosenbrock(x), &x);
        if step == 0 {
            println!("  the Hessian has {} of 2500 elements, from {} colors", curvature.stored(), curvature.colors);
            assert_eq!((curvature.stored(), curvature.colors), (3 * 50 - 2, 3));
            assert_eq!(curvature.to_dense(), hessian(|x| rosenbrock(x), &x), "the same as without sparsity");
        }
        println!("  step {step}: value {:>12.5e}, length of the gradient {length:.1e}", rosenbrock(&x));
        if length < 1e-10 {
            break;
        }
        assert!(step < 20, "Newton's method converges in a few steps");
        let towards = solve_tridiagonal(&curvature, &g);
        x.iter_mut().zip(towards).for_each(|(x, towards)| *x -= towards);
    }
    assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-9), "the minimum is at (1, ..., 1)");
}

/// d/dx (x · d/dy (x + y)) is 1. An engine that confuses the two perturbations answers 2.
fn nested_derivatives() {
    let forwards = derivative(|x| x * derivative(|y| Dual::constant(x) + y, x), 3.0);
    let in_reverse = gradient(|x| x[0] * gradient(|y| Active::constant(x[0]) + y[0], &[x[0]])[0], &[3.0])[0];
    let mixed = gradient(|x| x[0] * derivative(|y| Dual::constant(x[0]) + y, x[0]), &[3.0])[0];
    println!("\nd/dx (x · d/dy (x + y)) = {forwards} forwards, {in_reverse} in reverse, {mixed} forwards in reverse");
    assert_eq!((forwards, in_reverse, mixed), (1.0, 1.0, 1.0));
    // Three levels: the third derivative of x⁴ is 24 x.
    let third = derivative(|x| derivative(|x| derivative(|x| x.powi(4), x), x), 2.0);
    assert_eq!(third, 48.0);
}

/// A function of a complex variable, written for the traits of `num_complex` alone.
fn wave<F: num_traits::Float>(z: Complex<F>) -> Complex<F> {
    (z * z).exp() / (z + z.sin())
}

fn complex_derivatives() {
    let z = Complex::new(0.8, -0.3);
    let w = wave(Complex::new(Dual::<f64, 2>::along(z.re, 0), Dual::along(z.im, 1)));
    let [by_real, by_imaginary] = [0, 1].map(|k| Complex::new(w.re.tangents[k], w.im.tangents[k]));
    // The quotient rule by hand.
    let exact = wave(z) * (z * 2.0 - (z.cos() + 1.0) / (z + z.sin()));
    println!("\nf(z) = exp(z²)/(z + sin z) at {z}: f' = {by_real:.12}, by hand {exact:.12}");
    assert!((by_real - exact).norm() < 1e-13 * exact.norm());
    // The equations of Cauchy and Riemann: a step along the imaginary axis is i times one along the real axis.
    assert!((by_imaginary - Complex::<f64>::i() * by_real).norm() < 1e-13 * exact.norm());
}
