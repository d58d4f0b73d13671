//! Special functions of each element that are no rows of the table. Each is closed under differentiation with elementary
//! functions, so that derivatives of every order exist; parameters are constants.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use crate::algebra::Float;
use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{CustomOp, Rule, Tensor};
use crate::shape::Shape;

impl Tensor {
    /// The inverse of [`Tensor::erf`]; ±∞ at ±1, and NaN beyond.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([-0.5, 0.0, 0.999]);
    /// assert!(x.erfinv().erf().all_close(&x, 1e-15, 1e-15).item().unwrap() == 1.0);
    /// ```
    #[track_caller]
    pub fn erfinv(&self) -> Tensor {
        self.special(Special::Erfinv)
    }

    /// The Bessel function Jₙ of the first kind.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([0.0]).bessel_j(0).item().unwrap(), 1.0);
    /// ```
    #[track_caller]
    pub fn bessel_j(&self, n: i32) -> Tensor {
        self.special(Special::BesselJ(n))
    }

    /// The modified Bessel function Iₙ of the first kind.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert!((Tensor::from([1.0]).bessel_i(0).item().unwrap() - 1.2660658777520084).abs() < 1e-15);
    /// ```
    #[track_caller]
    pub fn bessel_i(&self, n: i32) -> Tensor {
        self.special(Special::BesselI(n))
    }

    /// The Hurwitz zeta function Σ (k + x)⁻ˢ over k from 0 on, for an exponent s above 1 and positive x. At 1 it is
    /// Riemann's.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let basel = Tensor::from([1.0]).zeta(2.0).item().unwrap();
    /// assert!((basel - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-15);
    /// ```
    #[track_caller]
    pub fn zeta(&self, s: f64) -> Tensor {
        if s.is_nan() || s <= 1.0 {
            return Tensor::refused(Error::new("zeta", format!("the exponent must be above 1, not {s}")), &[self]);
        }
        self.special(Special::Zeta(s))
    }

    /// The regularized lower incomplete gamma function P(a, x): the distribution function of a gamma variate of
    /// concentration a and rate 1.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert!((Tensor::from([2.0]).gammainc(1.0).item().unwrap() - (1.0 - (-2.0_f64).exp())).abs() < 1e-15);
    /// ```
    #[track_caller]
    pub fn gammainc(&self, a: f64) -> Tensor {
        match self.positive_parameters("gammainc", &[a]) {
            Some(failed) => failed,
            None => self.special(Special::GammaInc { a, upper: false }),
        }
    }

    /// The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurate where it is small.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert!((Tensor::from([50.0]).gammaincc(1.0).item().unwrap() / (-50.0_f64).exp() - 1.0).abs() < 1e-13);
    /// ```
    #[track_caller]
    pub fn gammaincc(&self, a: f64) -> Tensor {
        match self.positive_parameters("gammaincc", &[a]) {
            Some(failed) => failed,
            None => self.special(Special::GammaInc { a, upper: true }),
        }
    }

    /// The regularized incomplete beta function I(x; a, b): the distribution function of a beta variate.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert!((Tensor::from([0.25]).betainc(2.0, 1.0).item().unwrap() - 0.0625).abs() < 1e-15);
    /// ```
    #[track_caller]
    pub fn betainc(&self, a: f64, b: f64) -> Tensor {
        match self.positive_parameters("betainc", &[a, b]) {
            Some(failed) => failed,
            None => self.special(Special::BetaInc { a, b }),
        }
    }

    #[track_caller]
    fn special(&self, function: Special) -> Tensor {
        match Tensor::not_float(function.name(), &[self]) {
            Some(failed) => failed,
            None => Tensor::custom(function, &[self]),
        }
    }

    #[track_caller]
    fn positive_parameters(&self, name: &str, parameters: &[f64]) -> Option<Tensor> {
        let wrong = parameters.iter().find(|parameter| !(**parameter > 0.0 && parameter.is_finite()))?;
        Some(Tensor::refused(Error::new(name, format!("parameters are positive numbers, not {wrong}")), &[self]))
    }
}

/// A function of one number.
#[derive(Clone, Copy, Debug)]
enum Special {
    Erfinv,
    BesselJ(i32),
    BesselI(i32),
    Zeta(f64),
    GammaInc { a: f64, upper: bool },
    BetaInc { a: f64, b: f64 },
}

impl Special {
    fn of(self, x: f64) -> f64 {
        match self {
            Special::Erfinv => erfinv(x),
            Special::BesselJ(n) => libm::jn(n, x),
            Special::BesselI(n) => bessel_i(n, x),
            Special::Zeta(s) => zeta(s, x),
            Special::GammaInc { a, upper } => gammainc(a, x, upper),
            Special::BetaInc { a, b } => betainc(a, b, x),
        }
    }
}

impl CustomOp for Special {
    fn name(&self) -> &'static str {
        match self {
            Special::Erfinv => "erfinv",
            Special::BesselJ(_) => "bessel_j",
            Special::BesselI(_) => "bessel_i",
            Special::Zeta(_) => "zeta",
            Special::GammaInc { upper: false, .. } => "gammainc",
            Special::GammaInc { upper: true, .. } => "gammaincc",
            Special::BetaInc { .. } => "betainc",
        }
    }

    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let x = inputs[0].buffer();
        Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(x.dtype(), x.len(), |k| self.of(x.get(k)))))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], y: &'r Tensor) -> Rule<'r> {
        let (function, x) = (*self, &inputs[0]);
        Rule::Pullback(Box::new(move |g| {
            let slope = match function {
                Special::Erfinv => y.square().exp() / FRAC_2_SQRT_PI,
                Special::BesselJ(n) => (x.bessel_j(n.saturating_sub(1)) - x.bessel_j(n.saturating_add(1))) * 0.5,
                Special::BesselI(n) => (x.bessel_i(n.saturating_sub(1)) + x.bessel_i(n.saturating_add(1))) * 0.5,
                Special::Zeta(s) => x.zeta(s + 1.0) * -s,
                Special::GammaInc { a, upper } => {
                    let density = (x.full_like(a - 1.0).xlogy(x) - x - Float::lgamma(a)).exp();
                    if upper { -density } else { density }
                }
                Special::BetaInc { a, b } => {
                    (x.full_like(a - 1.0).xlogy(x) + x.full_like(b - 1.0).xlog1py(-x) - log_beta(a, b)).exp()
                }
            };
            vec![Some(g * slope)]
        }))
    }

    fn batched(&self, inputs: &[Tensor], _: &[bool]) -> Option<Tensor> {
        Some(Tensor::custom(*self, &[&inputs[0]]))
    }
}

fn log_beta(a: f64, b: f64) -> f64 {
    Float::lgamma(a) + Float::lgamma(b) - Float::lgamma(a + b)
}

/// A first guess that is good in the tails, then Halley's method on the smaller one of erf and erfc.
fn erfinv(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 1.0 {
        return f64::NAN;
    }
    if x.abs() == 1.0 {
        return x * f64::INFINITY;
    }
    // S. Winitzki's approximation of the error function, solved for its argument.
    const SHAPE: f64 = 0.147;
    let log = (-x * x).ln_1p();
    let half = 2.0 / (PI * SHAPE) + log / 2.0;
    let mut y = ((half * half - log / SHAPE).sqrt() - half).max(0.0).sqrt();
    let target = x.abs();
    for _ in 0..4 {
        // Above ½ the complement keeps the digits; 1 - |x| is exact there.
        let error = if target < 0.5 { Float::erf(y) - target } else { (1.0 - target) - Float::erfc(y) };
        let step = error / (FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    if x < 0.0 { -y } else { y }
}

/// Σ (x/2)²ᵏ⁺ⁿ/(k! (k+n)!): all terms have one sign, so the sum is accurate wherever it does not overflow.
fn bessel_i(n: i32, x: f64) -> f64 {
    let order = n.unsigned_abs();
    if x.is_nan() {
        return x;
    }
    let half = x.abs() / 2.0;
    if half == 0.0 {
        return if order == 0 { 1.0 } else { 0.0 };
    }
    // The value overflows long before 2000.
    if half > 1000.0 {
        return if x < 0.0 && order % 2 == 1 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let mut term = (f64::from(order) * half.ln() - Float::lgamma(f64::from(order) + 1.0)).exp();
    let mut sum = term;
    for k in 1..10_000_u32 {
        term *= half / f64::from(k) * (half / (f64::from(k) + f64::from(order)));
        sum += term;
        if term <= f64::EPSILON * 0.1 * sum {
            break;
        }
    }
    if x < 0.0 && order % 2 == 1 { -sum } else { sum }
}

/// B₂ₖ/(2k)! for k from 1 on.
const BERNOULLI_OVER_FACTORIAL: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
    -3_617.0 / 10_670_622_842_880_000.0,
];

/// The first terms one by one, and the rest by the formula of Euler and Maclaurin.
fn zeta(s: f64, x: f64) -> f64 {
    /// How many terms are added up, so that the asymptotic series is exact to rounding.
    const TERMS: i32 = 16;
    if x.is_nan() || x <= 0.0 {
        return if x == 0.0 { f64::INFINITY } else { f64::NAN };
    }
    let head: f64 = (0..TERMS).map(|k| (x + f64::from(k)).powf(-s)).sum();
    let end = x + f64::from(TERMS);
    let power = end.powf(-s);
    let mut tail = power * end / (s - 1.0) + power / 2.0;
    // s(s+1)…(s+2k-2)·end^(-s-2k+1)
    let mut factor = s * power / end;
    for (k, coefficient) in BERNOULLI_OVER_FACTORIAL.iter().enumerate() {
        tail += coefficient * factor;
        let next = s + 2.0 * k as f64;
        factor *= (next + 1.0) * (next + 2.0) / (end * end);
    }
    head + tail
}

/// P(a, x) or Q(a, x): the series up to a + 1, the continued fraction beyond, and the complement for the other.
fn gammainc(a: f64, x: f64, upper: bool) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    let from_lower = |lower: f64| if upper { 1.0 - lower } else { lower };
    if x == 0.0 || x == f64::INFINITY {
        return from_lower(if x == 0.0 { 0.0 } else { 1.0 });
    }
    let front = (a * x.ln() - x - Float::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > f64::EPSILON * 0.1 * sum {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return from_lower(front * sum);
    }
    let value = front
        * continued_fraction(x + 1.0 - a, |k| {
            let k = f64::from(k);
            (-k * (k - a), x + 2.0 * k + 1.0 - a)
        });
    if upper { value } else { 1.0 - value }
}

/// I(x; a, b) by its continued fraction, on the side of the mean where it converges quickly.
fn betainc(a: f64, b: f64, x: f64) -> f64 {
    if !(0.0..=1.0).contains(&x) {
        return f64::NAN;
    }
    if x == 0.0 || x == 1.0 {
        return x;
    }
    let front = (a * x.ln() + b * (-x).ln_1p() - log_beta(a, b)).exp();
    let fraction = |a: f64, b: f64, x: f64| {
        continued_fraction(1.0, |k| {
            let m = f64::from(k / 2);
            let numerator = match k % 2 {
                0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
                _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
            };
            (numerator, 1.0)
        })
    };
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

/// 1/(b₀ + a₁/(b₁ + a₂/(b₂ + …))) by Lentz's method; the function gives aₖ and bₖ for k from 1 on.
fn continued_fraction(first: f64, terms: impl Fn(u32) -> (f64, f64)) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut value = away(first);
    let (mut c, mut d) = (value, 0.0);
    for k in 1..100_000 {
        let (a, b) = terms(k);
        d = 1.0 / away(b + a * d);
        c = away(b + a / c);
        let change = c * d;
        value *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    1.0 / value
}
