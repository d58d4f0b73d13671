//! Special functions that neither the standard library nor `libm` has, in `f64`.
//!
//! Two families are here because they are closed under differentiation: the derivative of the
//! polygamma function of order n is the one of order n+1, and so it is with the derivatives of
//! sinc. A rule of the table can then name the next member, and every order is accurate, also at
//! the removable singularity of sinc where quotient formulas lose everything.

use std::f64::consts::PI;

/// B₂ₖ/(2k)! for k = 1, 2, …, with the Bernoulli numbers B₂ₖ: the coefficients of the asymptotic
/// series of the polygamma functions.
const BERNOULLI_OVER_FACTORIAL: [f64; 10] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
    -3_617.0 / 10_670_622_842_880_000.0,
    43_867.0 / 5_109_094_217_170_944_000.0,
    -174_611.0 / 802_857_662_698_291_200_000.0,
];

/// The polygamma function ψ⁽ⁿ⁾(x): digamma for n = 0, trigamma for n = 1, and so on.
///
/// Poles (zero and the negative integers) give NaN, except that even orders of derivative of the
/// digamma function diverge to the same side from both directions and give infinity.
pub fn polygamma(order: i32, x: f64) -> f64 {
    if order < 0 || x.is_nan() {
        return f64::NAN;
    }
    if x <= 0.0 {
        return polygamma_by_reflection(order, x);
    }
    if x.is_infinite() {
        return if order == 0 { f64::INFINITY } else { 0.0 };
    }
    // ψ⁽ⁿ⁾(x) = ψ⁽ⁿ⁾(x+1) - (-1)ⁿ n!/xⁿ⁺¹ moves the argument to where the asymptotic series holds.
    let n = f64::from(order);
    let threshold = 15.0 + n;
    let sign = if order % 2 == 0 { 1.0 } else { -1.0 };
    let factorial = factorial(order);
    let mut shifted = x;
    let mut sum = 0.0;
    while shifted < threshold {
        sum -= sign * factorial / shifted.powi(order + 1);
        shifted += 1.0;
    }
    sum + polygamma_asymptotic(order, shifted)
}

fn polygamma_asymptotic(order: i32, x: f64) -> f64 {
    let n = f64::from(order);
    let inverse_square = 1.0 / (x * x);
    if order == 0 {
        // ψ(x) ~ ln x - 1/(2x) - Σ B₂ₖ/(2k x²ᵏ)
        let mut sum = 0.0;
        let mut scaled = 1.0; // (2k-1)! / x²ᵏ
        for (index, coefficient) in BERNOULLI_OVER_FACTORIAL.iter().enumerate() {
            let k = index as f64 + 1.0;
            scaled *= if index == 0 { inverse_square } else { (2.0 * k - 1.0) * (2.0 * k - 2.0) * inverse_square };
            sum += coefficient * scaled;
        }
        return x.ln() - 0.5 / x - sum;
    }
    // (-1)ⁿ⁺¹ [ (n-1)!/xⁿ + n!/(2xⁿ⁺¹) + Σ B₂ₖ (2k+n-1)!/((2k)! x²ᵏ⁺ⁿ) ]
    let power = x.powi(-order);
    let mut sum = factorial(order - 1) * power + 0.5 * factorial(order) * power / x;
    let mut scaled = factorial(order - 1) * power; // (2k+n-1)! / x²ᵏ⁺ⁿ
    for (index, coefficient) in BERNOULLI_OVER_FACTORIAL.iter().enumerate() {
        let k = index as f64 + 1.0;
        scaled *= (2.0 * k + n - 1.0) * (2.0 * k + n - 2.0) * inverse_square;
        sum += coefficient * scaled;
    }
    if order % 2 == 0 { -sum } else { sum }
}

/// ψ⁽ⁿ⁾(x) = (-1)ⁿ ψ⁽ⁿ⁾(1-x) - dⁿ/dxⁿ π cot(πx), for x ≤ 0.
fn polygamma_by_reflection(order: i32, x: f64) -> f64 {
    if x == x.floor() {
        return if order % 2 == 1 { f64::INFINITY } else { f64::NAN };
    }
    // The derivatives of cot are polynomials in cot, because cot' = -(1 + cot²).
    let mut polynomial = vec![0.0, 1.0];
    for _ in 0..order {
        let mut derivative = vec![0.0; polynomial.len() + 1];
        for (degree, coefficient) in polynomial.iter().enumerate().skip(1) {
            derivative[degree - 1] -= degree as f64 * coefficient;
            derivative[degree + 1] -= degree as f64 * coefficient;
        }
        polynomial = derivative;
    }
    let fraction = x - x.floor(); // cot has period 1 in x; reducing first keeps its accuracy.
    let cotangent = 1.0 / (PI * fraction).tan();
    let derivative = polynomial.iter().rev().fold(0.0, |sum, coefficient| sum * cotangent + coefficient);
    let sign = if order % 2 == 0 { 1.0 } else { -1.0 };
    sign * polygamma(order, 1.0 - x) - PI.powi(order + 1) * derivative
}

fn factorial(n: i32) -> f64 {
    (2..=n).map(f64::from).product()
}

/// The n-th derivative of sinc(x) = sin(πx)/(πx), with sinc(0) = 1.
pub fn sinc_derivative(order: i32, x: f64) -> f64 {
    if order < 0 {
        return f64::NAN;
    }
    if x.is_infinite() {
        return 0.0;
    }
    let u = PI * x;
    PI.powi(order) * if u.abs() < f64::from(order).max(3.0) { sinc_series(order, u) } else { sinc_recurrence(order, u) }
}

/// dⁿ/duⁿ Σ (-1)ᵏ u²ᵏ/(2k+1)!, term by term.
fn sinc_series(order: i32, u: f64) -> f64 {
    let first = (order + 1) / 2; // Lower powers vanish under n derivatives.
    let exponent = 2 * first - order;
    // (-1)ᵏ (2k)!/((2k+1)! (2k-n)!) = (-1)ᵏ / ((2k+1) (2k-n)!)
    let sign = if first % 2 == 0 { 1.0 } else { -1.0 };
    let mut power = sign * u.powi(exponent);
    let mut sum = 0.0;
    for k in first..first + 40 + order {
        let term = power / f64::from(2 * k + 1);
        sum += term;
        if term.abs() <= f64::EPSILON * 0.01 * sum.abs() {
            break;
        }
        let degree = f64::from(2 * k - order);
        power *= -u * u / ((degree + 1.0) * (degree + 2.0));
    }
    sum
}

/// u gₙ + n gₙ₋₁ = sin(u + nπ/2), stable upwards while n < |u|.
fn sinc_recurrence(order: i32, u: f64) -> f64 {
    let (sine, cosine) = u.sin_cos();
    let mut g = sine / u;
    for n in 1..=order {
        let shifted_sine = [sine, cosine, -sine, -cosine][n as usize % 4];
        g = (shifted_sine - f64::from(n) * g) / u;
    }
    g
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        let error = (actual - expected).abs();
        assert!(error <= 4e-14 * expected.abs().max(1e-300), "{actual:e} is not {expected:e}");
    }

    #[test]
    fn polygamma_matches_known_constants() {
        assert_close(polygamma(0, 1.0), -0.577_215_664_901_532_9);
        assert_close(polygamma(0, 0.5), -1.963_510_026_021_423_5);
        assert_close(polygamma(1, 1.0), PI * PI / 6.0);
        assert_close(polygamma(1, 0.5), PI * PI / 2.0);
        assert_close(polygamma(2, 0.5), -16.828_796_644_234_32);
        assert_close(polygamma(4, 0.5), -771.474_249_826_667_2);
        assert_close(polygamma(0, 1e10), 23.025_850_929_890_456);
    }

    #[test]
    fn polygamma_reflects_to_negative_arguments() {
        // ψ⁽ⁿ⁾(x) = ψ⁽ⁿ⁾(x+1) - (-1)ⁿ n!/xⁿ⁺¹ ties negative arguments to positive ones.
        for order in 0..6 {
            let sign = if order % 2 == 0 { 1.0 } else { -1.0 };
            for x in [-0.3, -0.7, -0.01] {
                let stepped = polygamma(order, x + 1.0) - sign * factorial(order) / f64::powi(x, order + 1);
                let error = (polygamma(order, x) - stepped).abs();
                assert!(error <= 1e-11 * stepped.abs(), "order {order} at {x}: {error:e}");
            }
        }
        assert!(polygamma(0, -2.0).is_nan());
        assert_eq!(polygamma(1, -2.0), f64::INFINITY);
    }

    #[test]
    fn sinc_series_and_recurrence_agree_where_they_meet() {
        for order in 0..8 {
            let u = f64::from(order).max(3.0);
            let (series, recurrence) = (sinc_series(order, u), sinc_recurrence(order, u));
            assert!((series - recurrence).abs() < 2e-12, "order {order}: {series} {recurrence}");
        }
        assert_close(sinc_derivative(2, 0.0), -PI * PI / 3.0);
        assert_close(sinc_derivative(4, 0.0), PI.powi(4) / 5.0);
        assert_eq!(sinc_derivative(1, 0.0), 0.0);
    }
}
