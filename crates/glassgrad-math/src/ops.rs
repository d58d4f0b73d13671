//! The table of operations: one row states a function, its derivative, and where to test both.
//!
//! A row gives the value in terms of a machine number and the derivative as a formula in the
//! argument and the output. Methods, rules in every mode, the recording tape, the expression
//! language, the reference page and the tests are all generated from the row: adding an operation is
//! adding a row, and this is the only file that states a pointwise derivative.
//!
//! `(x)` marks a rule in the argument alone, `(x => y)` one that reuses the output. Rules that
//! reuse the output stay polynomial or rational in it, so that Taylor arithmetic can run them
//! order by order. `domain` is where the tests look, `kinks` are points of it that they avoid,
//! and `special` pins the value and the derivative at points where conventions or extremes decide.
//! Literals are written `c(1.0)`, because Rust cannot make `1.0 - y` generic. Values are expressions of calls, operators and
//! literals only, without blocks: executors that generate code translate the text of the row.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LN_10, PI};
use std::fmt;
use std::ops::Range;

use crate::algebra::{Float, Literal, c};

/// √(2/π), the slope of the tanh approximation of the Gaussian error linear unit.
const SQRT_2_OVER_PI: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
/// 1/√(2π), the peak of the normal density.
const NORMAL_PEAK: f64 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// Calls a macro with every row of the table.
#[doc(hidden)]
#[macro_export]
macro_rules! operations {
    ($callback:ident $($context:tt)*) => { $callback! { { $($context)* }
    literal c
    unary {
        /// Negation, -x.
        Neg neg(x) {
            value: -x, derivative: c(-1.0),
            domain: -2.0..2.0, kinks: [], special: [0.0 => (0.0, -1.0)]
        }
        /// Reciprocal, 1/x.
        Recip recip(x => y) {
            value: c(1.0) / x, derivative: -(y * y),
            domain: 0.3..3.0, kinks: [], special: [-2.0 => (-0.5, -0.25)]
        }
        /// Square, x².
        Square square(x) {
            value: x * x, derivative: c(2.0) * x,
            domain: -2.0..2.0, kinks: [], special: [0.0 => (0.0, 0.0)]
        }
        /// Square root; its derivative at 0 is infinite.
        Sqrt sqrt(x => y) {
            value: x.sqrt(), derivative: c(0.5) / y,
            domain: 0.2..4.0, kinks: [], special: [0.0 => (0.0, f64::INFINITY), 4.0 => (2.0, 0.25)]
        }
        /// Reciprocal square root, 1/√x.
        Rsqrt rsqrt(x => y) {
            value: c(1.0) / x.sqrt(), derivative: c(-0.5) * y * y * y,
            domain: 0.2..4.0, kinks: [], special: [4.0 => (0.5, -0.0625)]
        }
        /// Cube root, also of negative numbers.
        Cbrt cbrt(x => y) {
            value: x.cbrt(), derivative: c(1.0 / 3.0) / (y * y),
            domain: 0.3..8.0, kinks: [], special: [-8.0 => (-2.0, 1.0 / 12.0), 0.0 => (0.0, f64::INFINITY)]
        }
        /// Integer power xⁿ; x⁰ is 1 and flat everywhere.
        Powi powi(x; n: i32 = 3) {
            value: x.powi(n), derivative: if n == 0 { c(0.0) } else { c(f64::from(n)) * x.powi(n - 1) },
            domain: -2.0..2.0, kinks: [], special: [0.0 => (0.0, 0.0), -2.0 => (-8.0, 12.0)]
        }
        /// Real power xᵖ with a fixed exponent; x⁰ is 1 and flat everywhere.
        Powf powf(x; p: f64 = 2.5) {
            value: x.powf(c(p)), derivative: if p == 0.0 { c(0.0) } else { c(p) * x.powf(p - 1.0) },
            domain: 0.2..3.0, kinks: [], special: [0.0 => (0.0, 0.0), 4.0 => (32.0, 20.0)]
        }
        /// Exponential function eˣ.
        Exp exp(x => y) {
            value: x.exp(), derivative: y,
            domain: -2.0..2.0, kinks: [], special: [0.0 => (1.0, 1.0), -1000.0 => (0.0, 0.0)]
        }
        /// Power of two, 2ˣ.
        Exp2 exp2(x => y) {
            value: x.exp2(), derivative: c(LN_2) * y,
            domain: -2.0..2.0, kinks: [], special: [3.0 => (8.0, 8.0 * LN_2)]
        }
        /// eˣ - 1, accurate near 0.
        Expm1 expm1(x => y) {
            value: x.expm1(), derivative: y + c(1.0),
            domain: -2.0..2.0, kinks: [], special: [1e-20 => (1e-20, 1.0), -1000.0 => (-1.0, 0.0)]
        }
        /// Natural logarithm.
        Ln ln(x) {
            value: x.ln(), derivative: c(1.0) / x,
            domain: 0.2..4.0, kinks: [], special: [1.0 => (0.0, 1.0)]
        }
        /// Logarithm to base 2.
        Log2 log2(x) {
            value: x.log2(), derivative: c(1.0 / LN_2) / x,
            domain: 0.2..4.0, kinks: [], special: [8.0 => (3.0, 0.125 / LN_2)]
        }
        /// Logarithm to base 10.
        Log10 log10(x) {
            value: x.log10(), derivative: c(1.0 / LN_10) / x,
            domain: 0.2..4.0, kinks: [], special: [1.0 => (0.0, 1.0 / LN_10)]
        }
        /// ln(1 + x), accurate near 0.
        Log1p log1p(x) {
            value: x.log1p(), derivative: c(1.0) / (c(1.0) + x),
            domain: -0.7..3.0, kinks: [], special: [1e-20 => (1e-20, 1.0)]
        }
        /// Sine.
        Sin sin(x) {
            value: x.sin(), derivative: x.cos(),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.0, 1.0)]
        }
        /// Cosine.
        Cos cos(x) {
            value: x.cos(), derivative: -x.sin(),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (1.0, 0.0)]
        }
        /// Tangent.
        Tan tan(x => y) {
            value: x.tan(), derivative: c(1.0) + y * y,
            domain: -1.2..1.2, kinks: [], special: [0.0 => (0.0, 1.0)]
        }
        /// Inverse sine.
        Asin asin(x) {
            value: x.asin(), derivative: c(1.0) / ((c(1.0) - x) * (c(1.0) + x)).sqrt(),
            domain: -0.9..0.9, kinks: [], special: [0.0 => (0.0, 1.0), 1.0 => (PI / 2.0, f64::INFINITY)]
        }
        /// Inverse cosine.
        Acos acos(x) {
            value: x.acos(), derivative: c(-1.0) / ((c(1.0) - x) * (c(1.0) + x)).sqrt(),
            domain: -0.9..0.9, kinks: [], special: [0.0 => (PI / 2.0, -1.0)]
        }
        /// Inverse tangent.
        Atan atan(x) {
            value: x.atan(), derivative: c(1.0) / (c(1.0) + x * x),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.0, 1.0), 1e200 => (PI / 2.0, 0.0)]
        }
        /// Hyperbolic sine.
        Sinh sinh(x) {
            value: x.sinh(), derivative: x.cosh(),
            domain: -2.0..2.0, kinks: [], special: [0.0 => (0.0, 1.0)]
        }
        /// Hyperbolic cosine.
        Cosh cosh(x) {
            value: x.cosh(), derivative: x.sinh(),
            domain: -2.0..2.0, kinks: [], special: [0.0 => (1.0, 0.0)]
        }
        /// Hyperbolic tangent.
        Tanh tanh(x => y) {
            value: x.tanh(), derivative: c(1.0) - y * y,
            domain: -2.0..2.0, kinks: [], special: [0.0 => (0.0, 1.0), 1000.0 => (1.0, 0.0), -1000.0 => (-1.0, 0.0)]
        }
        /// Inverse hyperbolic sine.
        Asinh asinh(x) {
            value: x.asinh(), derivative: (c(1.0) + x * x).rsqrt(),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.0, 1.0)]
        }
        /// Inverse hyperbolic cosine.
        Acosh acosh(x) {
            value: x.acosh(), derivative: (x - c(1.0)).rsqrt() * (x + c(1.0)).rsqrt(),
            domain: 1.2..4.0, kinks: [], special: [1.0 => (0.0, f64::INFINITY)]
        }
        /// Inverse hyperbolic tangent.
        Atanh atanh(x) {
            value: x.atanh(), derivative: c(1.0) / ((c(1.0) - x) * (c(1.0) + x)),
            domain: -0.9..0.9, kinks: [], special: [0.0 => (0.0, 1.0)]
        }
        /// Logistic function 1/(1 + e⁻ˣ).
        Sigmoid sigmoid(x => y) {
            value: sigmoid(x), derivative: y * (c(1.0) - y),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.5, 0.25), 1000.0 => (1.0, 0.0), -1000.0 => (0.0, 0.0)]
        }
        /// ln(sigmoid(x)), accurate on both sides.
        LogSigmoid log_sigmoid(x) {
            value: -softplus(-x), derivative: (-x).sigmoid(),
            domain: -3.0..3.0, kinks: [], special: [1000.0 => (0.0, 0.0), -1000.0 => (-1000.0, 1.0)]
        }
        /// ln(1 + eˣ), a smooth ramp.
        Softplus softplus(x) {
            value: softplus(x), derivative: x.sigmoid(),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (LN_2, 0.5), 1000.0 => (1000.0, 1.0), -1000.0 => (0.0, 0.0)]
        }
        /// x/(1 + |x|).
        Softsign softsign(x) {
            value: x / (c(1.0) + x.abs()), derivative: (c(1.0) + x.abs()).square().recip(),
            domain: -3.0..3.0, kinks: [0.0], special: [0.0 => (0.0, 1.0), -2.0 => (-2.0 / 3.0, 1.0 / 9.0)]
        }
        /// Rectified linear unit max(x, 0); its derivative at 0 is 0.
        Relu relu(x) {
            value: larger(x, c(0.0)), derivative: T::select(x.greater(c(0.0)), || c(1.0), || c(0.0)),
            domain: -2.0..2.0, kinks: [0.0], special: [0.0 => (0.0, 0.0), -0.0 => (0.0, 0.0), 2.0 => (2.0, 1.0)]
        }
        /// max(x, 0) + slope·min(x, 0); its derivative at 0 is the slope.
        LeakyRelu leaky_relu(x; slope: f64 = 0.01) {
            value: choose(x > c(0.0), x, c(slope) * x),
            derivative: T::select(x.greater(c(0.0)), || c(1.0), || c(slope)),
            domain: -2.0..2.0, kinks: [0.0], special: [0.0 => (0.0, 0.01), -1.0 => (-0.01, 0.01)]
        }
        /// Exponential linear unit: x above 0, alpha·(eˣ - 1) up to 0.
        Elu elu(x; alpha: f64 = 1.0) {
            value: choose(x > c(0.0), x, c(alpha) * x.expm1()),
            derivative: T::select(x.greater(c(0.0)), || c(1.0), || c(alpha) * x.exp()),
            domain: -2.0..2.0, kinks: [0.0],
            special: [0.0 => (0.0, 1.0), -1000.0 => (-1.0, 0.0), 1000.0 => (1000.0, 1.0)]
        }
        /// Gaussian error linear unit x·Φ(x), with the exact normal distribution function.
        Gelu gelu(x) {
            value: x * normal_distribution(x),
            derivative: c(0.5) * (c(-FRAC_1_SQRT_2) * x).erfc() + c(NORMAL_PEAK) * x * (c(-0.5) * x * x).exp(),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.0, 0.5), 1000.0 => (1000.0, 1.0), -1000.0 => (0.0, 0.0)]
        }
        /// Gaussian error linear unit in the tanh approximation.
        GeluTanh gelu_tanh(x) {
            value: x * sigmoid(c(2.0 * SQRT_2_OVER_PI) * x * (c(1.0) + c(0.044715) * x * x)),
            // Beyond 100 the slope is exactly 0 or 1, but the cube of x and its derivatives overflow.
            derivative: T::select(x.abs().greater(c(100.0)), || x.step(0.0), || {
                let u = c(2.0 * SQRT_2_OVER_PI) * x * (c(1.0) + c(0.044715) * x * x);
                let s = u.sigmoid();
                s + c(2.0 * SQRT_2_OVER_PI) * x * s * (-u).sigmoid() * (c(1.0) + c(3.0 * 0.044715) * x * x)
            }),
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.0, 0.5), 1000.0 => (1000.0, 1.0), -1000.0 => (0.0, 0.0)]
        }
        /// Sigmoid linear unit x·sigmoid(x), also called swish.
        Silu silu(x) {
            value: x * sigmoid(x), derivative: { let s = x.sigmoid(); s + x * s * (-x).sigmoid() },
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.0, 0.5), 1000.0 => (1000.0, 1.0), -1000.0 => (0.0, 0.0)]
        }
        /// x·tanh(softplus(x)).
        Mish mish(x) {
            value: x * softplus(x).tanh(),
            derivative: { let t = x.softplus().tanh(); t + x * (c(1.0) - t * t) * x.sigmoid() },
            domain: -3.0..3.0, kinks: [], special: [0.0 => (0.0, 0.6), 1000.0 => (1000.0, 1.0), -1000.0 => (0.0, 0.0)]
        }
        /// Error function.
        Erf erf(x) {
            value: x.erf(), derivative: c(FRAC_2_SQRT_PI) * (-(x * x)).exp(),
            domain: -2.0..2.0, kinks: [], special: [0.0 => (0.0, FRAC_2_SQRT_PI), 1000.0 => (1.0, 0.0)]
        }
        /// Complementary error function 1 - erf(x), accurate where that difference vanishes.
        Erfc erfc(x) {
            value: x.erfc(), derivative: c(-FRAC_2_SQRT_PI) * (-(x * x)).exp(),
            domain: -2.0..2.0, kinks: [],
            special: [0.0 => (1.0, -FRAC_2_SQRT_PI), 10.0 => (2.088487583762545e-45, -FRAC_2_SQRT_PI * 3.720075976020836e-44)]
        }
        /// Logarithm of the absolute value of the gamma function.
        Lgamma lgamma(x) {
            value: x.lgamma(), derivative: x.digamma(),
            domain: 0.3..5.0, kinks: [], special: [1.0 => (0.0, -0.577_215_664_901_532_9)]
        }
        /// Digamma function, the derivative of lgamma.
        Digamma digamma(x) {
            value: x.polygamma(0), derivative: x.polygamma(1),
            domain: 0.3..5.0, kinks: [], special: [1.0 => (-0.577_215_664_901_532_9, PI * PI / 6.0)]
        }
        /// Polygamma function, the n-th derivative of digamma.
        Polygamma polygamma(x; n: i32 = 1) {
            value: x.polygamma(n), derivative: x.polygamma(n + 1),
            domain: 0.5..5.0, kinks: [], special: [0.5 => (PI * PI / 2.0, -16.828_796_644_234_32)]
        }
        /// sin(πx)/(πx), with sinc(0) = 1.
        Sinc sinc(x) {
            value: x.sinc_derivative(0), derivative: x.sinc_derivative(1),
            domain: -2.0..2.0, kinks: [], special: [0.0 => (1.0, 0.0), 0.5 => (2.0 / PI, -4.0 / PI)]
        }
        /// The n-th derivative of sinc, smooth through 0.
        SincDerivative sinc_derivative(x; n: i32 = 2) {
            value: x.sinc_derivative(n), derivative: x.sinc_derivative(n + 1),
            domain: -2.0..2.0, kinks: [], special: [0.0 => (-PI * PI / 3.0, 0.0)]
        }
        /// Absolute value; its derivative at 0 is 0.
        Abs abs(x) {
            value: x.abs(), derivative: x.sign(),
            domain: -2.0..2.0, kinks: [0.0], special: [0.0 => (0.0, 0.0), -0.0 => (0.0, 0.0), -3.0 => (3.0, -1.0)]
        }
        /// Sign: -1, 0 or 1, and flat everywhere.
        Sign sign(x) {
            value: sign(x), derivative: c(0.0),
            domain: -2.0..2.0, kinks: [0.0], special: [0.0 => (0.0, 0.0), -3.0 => (-1.0, 0.0)]
        }
        /// Hard threshold: 1 from the threshold upwards, 0 below, and flat everywhere.
        Step step(x; threshold: f64 = 0.0) {
            value: choose(x >= c(threshold), c(1.0), choose(x < c(threshold), c(0.0), x)), derivative: c(0.0),
            domain: -2.0..2.0, kinks: [0.0], special: [0.0 => (1.0, 0.0), -1.0 => (0.0, 0.0)]
        }
        /// Largest integer not above x; flat everywhere.
        Floor floor(x) {
            value: x.floor(), derivative: c(0.0),
            domain: -2.0..2.0, kinks: [-2.0, -1.0, 0.0, 1.0, 2.0], special: [0.0 => (0.0, 0.0), -0.5 => (-1.0, 0.0)]
        }
        /// Smallest integer not below x; flat everywhere.
        Ceil ceil(x) {
            value: x.ceil(), derivative: c(0.0),
            domain: -2.0..2.0, kinks: [-2.0, -1.0, 0.0, 1.0, 2.0], special: [0.0 => (0.0, 0.0), 0.5 => (1.0, 0.0)]
        }
        /// Nearest integer, halves away from 0 as in the standard library; flat everywhere.
        Round round(x) {
            value: x.round(), derivative: c(0.0),
            domain: -2.0..2.0, kinks: [-1.5, -0.5, 0.5, 1.5], special: [0.5 => (1.0, 0.0), -1.2 => (-1.0, 0.0)]
        }
    }
    arithmetic {
        /// Sum.
        Add add(a, b) {
            value: a + b, derivatives: [c(1.0), c(1.0)],
            domain: (-2.0..2.0, -2.0..2.0), kinks: [], special: [(1.0, 2.0) => (3.0, 1.0, 1.0)]
        }
        /// Difference.
        Sub sub(a, b) {
            value: a - b, derivatives: [c(1.0), c(-1.0)],
            domain: (-2.0..2.0, -2.0..2.0), kinks: [], special: [(1.0, 2.0) => (-1.0, 1.0, -1.0)]
        }
        /// Product.
        Mul mul(a, b) {
            value: a * b, derivatives: [b, a],
            domain: (-2.0..2.0, -2.0..2.0), kinks: [], special: [(0.0, 2.0) => (0.0, 2.0, 0.0)]
        }
        /// Quotient.
        Div div(a, b => y) {
            value: a / b, derivatives: [c(1.0) / b, -(y / b)],
            domain: (-2.0..2.0, 0.4..3.0), kinks: [], special: [(3.0, 2.0) => (1.5, 0.5, -0.75)]
        }
    }
    binary {
        /// Power with both arguments variable. x⁰ is flat in x also at 0, and 0ʸ is flat in y.
        Pow pow(a, b => y) {
            value: a.powf(b),
            derivatives: [
                T::select(a.equals(c(0.0)) & b.equals(c(0.0)), || c(0.0), || b * a.pow(b - c(1.0))),
                T::select(a.equals(c(0.0)), || c(0.0), || y * a.ln())
            ],
            domain: (0.3..3.0, -2.0..2.0), kinks: [],
            special: [(0.0, 0.0) => (1.0, 0.0, 0.0), (0.0, 2.0) => (0.0, 0.0, 0.0), (0.0, 1.0) => (0.0, 1.0, 0.0),
                (0.0, 0.5) => (0.0, f64::INFINITY, 0.0), (2.0, 3.0) => (8.0, 12.0, 8.0 * LN_2)]
        }
        /// Angle of the point (b, a), in all four quadrants.
        Atan2 atan2(a, b) {
            value: a.atan2(b), derivatives: [{ let r = a.hypot(b); b / r / r }, { let r = a.hypot(b); -(a / r / r) }],
            domain: (-2.0..2.0, 0.3..2.0), kinks: [],
            special: [(1.0, 0.0) => (PI / 2.0, 0.0, -1.0), (0.0, -2.0) => (PI, -0.5, 0.0)]
        }
        /// Length of the vector (a, b); its derivative at the origin is 0.
        Hypot hypot(a, b => y) {
            value: a.hypot(b),
            derivatives: [
                T::select(y.equals(c(0.0)), || c(0.0), || a / y),
                T::select(y.equals(c(0.0)), || c(0.0), || b / y)
            ],
            domain: (0.3..2.0, -2.0..2.0), kinks: [],
            special: [(0.0, 0.0) => (0.0, 0.0, 0.0), (3.0, 4.0) => (5.0, 0.6, 0.8)]
        }
        /// The larger of two numbers; equal ones share the derivative evenly, NaN wins.
        Max max(a, b) {
            value: larger(a, b), derivatives: [share(a.greater(b), a.less(b)), share(b.greater(a), b.less(a))],
            domain: (-2.0..2.0, -2.0..2.0), kinks: [0.0],
            special: [(1.0, 1.0) => (1.0, 0.5, 0.5), (2.0, 1.0) => (2.0, 1.0, 0.0)]
        }
        /// The smaller of two numbers; equal ones share the derivative evenly, NaN wins.
        Min min(a, b) {
            value: -larger(-a, -b), derivatives: [share(a.less(b), a.greater(b)), share(b.less(a), b.greater(a))],
            domain: (-2.0..2.0, -2.0..2.0), kinks: [0.0],
            special: [(1.0, 1.0) => (1.0, 0.5, 0.5), (2.0, 1.0) => (1.0, 0.0, 1.0)]
        }
        /// Remainder of the division with the sign of the dividend, as `%` in Rust.
        Rem rem(a, b => y) {
            value: a % b, derivatives: [c(1.0), -((a - y) / b).round()],
            domain: (0.1..0.9, 1.1..2.0), kinks: [],
            special: [(7.5, 2.0) => (1.5, 1.0, -3.0), (-3.5, 2.0) => (-1.5, 1.0, 1.0)]
        }
    }
    } };
}
#[doc(hidden)]
pub use crate::operations;

// These have one expression for both signs, so that loops over them need no branches.

#[inline(always)]
fn sigmoid<F: Float>(x: F) -> F {
    // The exponent is not positive, so nothing overflows.
    let e = (-x.abs()).exp();
    (if x >= c(0.0) { c(1.0) } else { e }) / (c::<F>(1.0) + e)
}

#[inline(always)]
fn softplus<F: Float>(x: F) -> F {
    larger(x, c(0.0)) + (-x.abs()).exp().log1p()
}

#[inline(always)]
fn normal_distribution<F: Float>(x: F) -> F {
    // erfc keeps the lower tail, which 1 + erf would round away.
    c::<F>(0.5) * (c::<F>(-FRAC_1_SQRT_2) * x).erfc()
}

#[inline(always)]
fn sign<F: Float>(x: F) -> F {
    if x > c(0.0) {
        c(1.0)
    } else if x < c(0.0) {
        c(-1.0)
    } else {
        x // Zero keeps its sign, NaN stays NaN.
    }
}

#[inline(always)]
fn choose<F: Float>(condition: bool, taken: F, otherwise: F) -> F {
    if condition { taken } else { otherwise }
}

#[inline(always)]
fn larger<F: Float>(a: F, b: F) -> F {
    if a > b {
        a
    } else if a <= b {
        b
    } else {
        a + b // One of them is NaN.
    }
}

/// The share of a derivative that falls to one of two competitors: all, none, or half of a tie.
fn share<T: Algebra>(wins: T::Mask, loses: T::Mask) -> T {
    T::select(wins, || c(1.0), || T::select(loses, || c(0.0), || c(0.5)))
}

/// A rule of one argument: a row of the table as a type.
pub trait Unary {
    /// The row's operation.
    const OPERATION: Operation;
    /// Whether the derivative formula mentions the output.
    const USES_OUTPUT: bool;
    /// The value at a machine number.
    fn value<F: Float>(x: F, parameter: f64) -> F;
    /// The derivative in terms of the argument `x` and the output `y`.
    fn derivative<T: Algebra>(x: T, y: T, parameter: f64) -> T;
}

/// A rule of two arguments: a row of the table as a type.
pub trait Binary {
    /// The row's operation.
    const OPERATION: Operation;
    /// Whether a derivative formula mentions the output.
    const USES_OUTPUT: bool;
    /// Whether the row is one of the four operators.
    const ARITHMETIC: bool;
    /// The value at machine numbers.
    fn value<F: Float>(a: F, b: F) -> F;
    /// The partial derivative in the first argument.
    fn first<T: Algebra>(a: T, b: T, y: T) -> T;
    /// The partial derivative in the second argument.
    fn second<T: Algebra>(a: T, b: T, y: T) -> T;
}

/// The parameter of a row, such as the slope of `leaky_relu`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The value that the tests use, and the expression language where none is given.
    pub default: f64,
    /// Whether only whole numbers make sense.
    pub integer: bool,
}

/// A point at which a row states its value and partial derivatives exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Special {
    /// The arguments, one or two.
    pub at: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// The partial derivatives there.
    pub partials: Vec<f64>,
}

/// What the table says about one operation, for tests and documentation.
#[derive(Clone, Debug)]
pub struct Row {
    /// The operation.
    pub operation: Operation,
    /// One sentence about it.
    pub summary: &'static str,
    /// Names of the arguments, as in the formulas.
    pub arguments: &'static [&'static str],
    /// The parameter, if it has one.
    pub parameter: Option<Parameter>,
    /// The interval of each argument on which the rule is tested.
    pub domain: Vec<Range<f64>>,
    /// Points of the domain (for two arguments: of their difference) where there is no derivative.
    pub kinks: Vec<f64>,
    /// Pinned points.
    pub special: Vec<Special>,
}

/// The arguments, the value and the partial derivatives of a pinned point.
type Pinned = (&'static [f64], f64, &'static [f64]);

impl Row {
    /// A row from what the table says; apart from the table's own code, which would repeat it for each row.
    fn new(
        operation: Operation,
        summary: &'static str,
        arguments: &'static [&'static str],
        domain: &[Range<f64>],
        kinks: &[f64],
        special: &[Pinned],
    ) -> Row {
        let pinned =
            |(at, value, partials): &Pinned| Special { at: at.to_vec(), value: *value, partials: partials.to_vec() };
        Row {
            operation,
            summary: summary.trim_ascii(),
            arguments,
            parameter: operation.parameter(),
            domain: domain.to_vec(),
            kinks: kinks.to_vec(),
            special: special.iter().map(pinned).collect(),
        }
    }
}

/// A visitor of the table, called once for every row with the rule as a type.
pub trait Visitor {
    /// Called for each row of one argument.
    fn unary<R: Unary>(&mut self, row: &Row);
    /// Called for each row of two arguments.
    fn binary<R: Binary>(&mut self, row: &Row);
}

macro_rules! define_operations {
    ({}
     literal $c:ident
     unary { $(#[doc = $doc:literal] $Name:ident $method:ident($x:ident $(=> $y:ident)? $(; $p:ident: $P:ident = $default:literal)?) {
        value: $value:expr, derivative: $derivative:expr, domain: $domain:expr, kinks: [$($kink:expr),*],
        special: [$($at:expr => ($special:expr, $slope:expr)),*] })* }
     $($section:ident { $(#[doc = $bdoc:literal] $BName:ident $bmethod:ident($a:ident, $b:ident $(=> $by:ident)?) {
        value: $bvalue:expr, derivatives: [$first:expr, $second:expr], domain: ($adomain:expr, $bdomain:expr), kinks: [$($bkink:expr),*],
        special: [$(($sa:expr, $sb:expr) => ($bspecial:expr, $sfirst:expr, $ssecond:expr)),*] })* })*
    ) => {
        /// An operation that a node of a graph can have: every row of the table, an input, a choice.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Operation {
            /// A leaf: an input of the computation.
            Input,
            /// A choice between two values by a comparison; only the chosen one is a parent.
            Where,
            $(#[doc = $doc] $Name,)*
            $($(#[doc = $bdoc] $BName,)*)*
        }

        impl Operation {
            /// Every row of the table, in its order.
            pub const ALL: &[Operation] = &[$(Operation::$Name,)* $($(Operation::$BName,)*)*];

            /// The name, which is also the method's and the expression language's.
            pub fn name(self) -> &'static str {
                match self {
                    Operation::Input => "input",
                    Operation::Where => "where",
                    $(Operation::$Name => stringify!($method),)*
                    $($(Operation::$BName => stringify!($bmethod),)*)*
                }
            }

            /// The names of the arguments and the value as the table states them, for executors that generate code;
            /// nothing for what is no row of the table.
            #[cfg(feature = "cuda")]
            #[doc(hidden)]
            pub fn written(self) -> Option<(&'static [&'static str], &'static str)> {
                match self {
                    Operation::Input | Operation::Where => None,
                    $(Operation::$Name => Some((&[stringify!($x)], stringify!($value))),)*
                    $($(Operation::$BName => Some((&[stringify!($a), stringify!($b)], stringify!($bvalue))),)*)*
                }
            }

            /// How many arguments the operation takes: none for an input, two for a choice.
            pub fn arity(self) -> usize {
                match self {
                    Operation::Input => 0,
                    $(Operation::$Name => 1,)*
                    Operation::Where $($(| Operation::$BName)*)* => 2,
                }
            }

            /// Applies an operation of one argument that is known only at run time; `None` if it takes another number.
            pub fn apply_unary<T: Algebra>(self, x: T, parameter: f64) -> Option<T> {
                match self {
                    $(Operation::$Name => Some(x.unary::<rule::$Name>(parameter)),)*
                    _ => None,
                }
            }

            /// Applies an operation of two arguments that is known only at run time; `None` if it takes another number.
            pub fn apply_binary<T: Algebra>(self, a: T, b: T) -> Option<T> {
                match self {
                    $($(Operation::$BName => Some(a.binary::<rule::$BName>(b)),)*)*
                    _ => None,
                }
            }

            /// The row of one argument for many machine numbers, one by one; nothing if it takes another number of
            /// arguments.
            pub fn run_unary<F: Float>(self, parameter: f64, x: &[F], y: &mut [F]) {
                let value: fn(F, f64) -> F = match self {
                    $(Operation::$Name => <rule::$Name as Unary>::value,)*
                    _ => return,
                };
                for (y, x) in y.iter_mut().zip(x) {
                    *y = value(*x, parameter);
                }
            }

            /// The row of two arguments for many machine numbers, one by one.
            pub fn run_binary<F: Float>(self, a: &[F], b: &[F], y: &mut [F]) {
                let value: fn(F, F) -> F = match self {
                    $($(Operation::$BName => <rule::$BName as Binary>::value,)*)*
                    _ => return,
                };
                for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
                    *y = value(*a, *b);
                }
            }

            /// The derivative formula of an operation of one argument, at run time.
            pub fn derivative<T: Algebra>(self, x: T, y: T, parameter: f64) -> Option<T> {
                match self {
                    $(Operation::$Name => Some(<rule::$Name as Unary>::derivative(x, y, parameter)),)*
                    _ => None,
                }
            }

            /// The two partial derivatives of an operation of two arguments, at run time.
            pub fn partials<T: Algebra>(self, a: T, b: T, y: T) -> Option<[T; 2]> {
                match self {
                    $($(Operation::$BName => Some([<rule::$BName as Binary>::first(a, b, y), <rule::$BName as Binary>::second(a, b, y)]),)*)*
                    _ => None,
                }
            }

            /// Value and partial derivatives of any row at once, which replay needs of every node. The second
            /// operand of a rule of one argument is its parameter.
            ///
            /// The four operators are inlined; the other rows stand apart, so that their code does not crowd
            /// the loop that the operators run in.
            #[inline(always)]
            #[doc(hidden)]
            pub fn renew<T: Real>(self, a: T, b: T) -> Option<(T, [T; 2])> {
                match self {
                    Operation::Input | Operation::Where => None,
                    $($(Operation::$BName if <rule::$BName as Binary>::ARITHMETIC => {
                        let y = a.binary::<rule::$BName>(b);
                        Some((y, [<rule::$BName as Binary>::first(a, b, y), <rule::$BName as Binary>::second(a, b, y)]))
                    })*)*
                    _ => self.renew_function(a, b),
                }
            }

            #[inline(never)]
            fn renew_function<T: Real>(self, a: T, b: T) -> Option<(T, [T; 2])> {
                match self {
                    $(Operation::$Name => {
                        let parameter = b.primal();
                        let y = a.unary::<rule::$Name>(parameter);
                        Some((y, [<rule::$Name as Unary>::derivative(a, y, parameter), b]))
                    })*
                    $($(Operation::$BName => {
                        let y = a.binary::<rule::$BName>(b);
                        Some((y, [<rule::$BName as Binary>::first(a, b, y), <rule::$BName as Binary>::second(a, b, y)]))
                    })*)*
                    _ => None,
                }
            }

            /// The parameter of the row, if it has one.
            pub fn parameter(self) -> Option<Parameter> {
                match self {
                    $($(Operation::$Name => Some(Parameter {
                        name: stringify!($p),
                        default: $default as f64,
                        integer: matches!(stringify!($P).as_bytes(), b"i32"),
                    }),)?)*
                    _ => None,
                }
            }
        }

        /// Shows every row of the table to a visitor.
        pub fn visit(visitor: &mut impl Visitor) {
            $(visitor.unary::<rule::$Name>(&Row::new(
                Operation::$Name,
                $doc,
                &[stringify!($x)],
                &[$domain],
                &[$($kink),*],
                &[$((&[$at], $special, &[$slope])),*],
            ));)*
            $($(visitor.binary::<rule::$BName>(&Row::new(
                Operation::$BName,
                $bdoc,
                &[stringify!($a), stringify!($b)],
                &[$adomain, $bdomain],
                &[$($bkink),*],
                &[$((&[$sa, $sb], $bspecial, &[$sfirst, $ssecond])),*],
            ));)*)*
        }

        /// The rows of the table as types.
        #[allow(unused_variables, clippy::redundant_closure_call)]
        pub mod rule {
            use super::*;
            $(
                #[doc = $doc]
                #[derive(Clone, Copy, Debug)]
                pub struct $Name;
                impl Unary for $Name {
                    const OPERATION: Operation = Operation::$Name;
                    const USES_OUTPUT: bool = define_operations!(@mentioned $($y)?);
                    #[inline(always)]
                    fn value<F: Float>($x: F, parameter: f64) -> F {
                        let $c = F::literal;
                        $(let $p = parameter as $P;)?
                        $value
                    }
                    #[inline(always)]
                    fn derivative<T: Algebra>($x: T, output: T, parameter: f64) -> T {
                        let $c = T::literal;
                        $(let $y = output;)?
                        $(let $p = parameter as $P;)?
                        $derivative
                    }
                }
            )*
            $($(
                #[doc = $bdoc]
                #[derive(Clone, Copy, Debug)]
                pub struct $BName;
                impl Binary for $BName {
                    const OPERATION: Operation = Operation::$BName;
                    const USES_OUTPUT: bool = define_operations!(@mentioned $($by)?);
                    const ARITHMETIC: bool = define_operations!(@arithmetic $section);
                    #[inline(always)]
                    fn value<F: Float>($a: F, $b: F) -> F {
                        let $c = F::literal;
                        $bvalue
                    }
                    #[inline(always)]
                    fn first<T: Algebra>($a: T, $b: T, output: T) -> T {
                        let $c = T::literal;
                        $(let $by = output;)?
                        $first
                    }
                    #[inline(always)]
                    fn second<T: Algebra>($a: T, $b: T, output: T) -> T {
                        let $c = T::literal;
                        $(let $by = output;)?
                        $second
                    }
                }
            )*)*
        }
    };
    (@mentioned) => { false };
    (@mentioned $y:ident) => { true };
    (@arithmetic arithmetic) => { true };
    (@arithmetic $other:ident) => { false };
}

operations!(define_operations);

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl Operation {
    /// The row of this name.
    ///
    /// ```
    /// use glassgrad::ops::Operation;
    /// assert_eq!(Operation::from_name("tanh"), Some(Operation::Tanh));
    /// assert_eq!(Operation::from_name("tanhh"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL.iter().copied().find(|operation| operation.name() == name)
    }
}

macro_rules! define_algebra {
    ({}
     literal $c:ident
     unary { $(#[doc = $doc:literal] $Name:ident $method:ident($x:ident $(=> $y:ident)? $(; $p:ident: $P:ident = $default:literal)?) $row:tt)* }
     arithmetic $arithmetic:tt
     binary { $(#[doc = $bdoc:literal] $BName:ident $bmethod:ident($a:ident, $b:ident $(=> $by:ident)?) $brow:tt)* }
    ) => {
        /// The copyable algebra in which derivative formulas are written.
        ///
        /// A type becomes an algebra by saying what it does with a rule of one and of two
        /// arguments; every function of the table is then a method of it. Machine numbers evaluate
        /// the rule, dual numbers differentiate it, tape variables record it, symbols write it down.
        pub trait Algebra:
            Literal
            + std::fmt::Debug
            + std::ops::Add<Output = Self>
            + std::ops::Sub<Output = Self>
            + std::ops::Mul<Output = Self>
            + std::ops::Div<Output = Self>
            + std::ops::Neg<Output = Self>
        {
            /// The outcome of a comparison: a `bool`, or a condition yet to be evaluated.
            type Mask: Copy
                + std::ops::BitAnd<Output = Self::Mask>
                + std::ops::BitOr<Output = Self::Mask>
                + std::ops::Not<Output = Self::Mask>;

            /// Applies a rule of one argument.
            fn unary<R: Unary>(self, parameter: f64) -> Self;
            /// Applies a rule of two arguments.
            fn binary<R: Binary>(self, other: Self) -> Self;
            /// Applies a rule whose second argument is a constant.
            #[inline(always)]
            fn with_constant<R: Binary>(self, constant: f64) -> Self {
                self.binary::<R>(Self::literal(constant))
            }
            /// Applies a rule whose first argument is a constant.
            #[inline(always)]
            fn after_constant<R: Binary>(self, constant: f64) -> Self {
                Self::literal(constant).binary::<R>(self)
            }
            /// Compares two numbers.
            fn compare(self, relation: Relation, other: Self) -> Self::Mask;
            /// Chooses by a condition. The branch not taken contributes nothing to any derivative.
            fn select(mask: Self::Mask, taken: impl FnOnce() -> Self, otherwise: impl FnOnce() -> Self) -> Self;

            /// Chooses between two numbers that both exist already. Engines that record override this,
            /// so that the selection itself becomes a node that can be inspected and replayed.
            #[inline]
            fn choose(left: Self, relation: Relation, right: Self, taken: Self, otherwise: Self) -> Self {
                Self::select(left.compare(relation, right), || taken, || otherwise)
            }

            /// Whether `self > other`.
            #[inline(always)]
            fn greater(self, other: Self) -> Self::Mask {
                self.compare(Relation::Greater, other)
            }
            /// Whether `self < other`.
            #[inline(always)]
            fn less(self, other: Self) -> Self::Mask {
                self.compare(Relation::Less, other)
            }
            /// Whether `self == other`.
            #[inline(always)]
            fn equals(self, other: Self) -> Self::Mask {
                self.compare(Relation::Equal, other)
            }

            $(#[doc = $doc]
            #[inline(always)]
            fn $method(self $(, $p: $P)?) -> Self {
                self.unary::<rule::$Name>(define_algebra!(@parameter $($p)?))
            })*
            $(#[doc = $bdoc]
            #[inline(always)]
            fn $bmethod(self, $b: Self) -> Self {
                self.binary::<rule::$BName>($b)
            })*
        }
    };
    (@parameter) => { 0.0 };
    (@parameter $p:ident) => { f64::from($p) };
}

// `neg` and `rem` would collide with the operators' own methods, and do: the operators win through
// the trait's name, the table's rows through `Algebra::`.
operations!(define_algebra);

/// The relation that a comparison tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

impl Relation {
    /// Every relation.
    pub const ALL: [Relation; 6] = [
        Relation::Less,
        Relation::LessOrEqual,
        Relation::Greater,
        Relation::GreaterOrEqual,
        Relation::Equal,
        Relation::NotEqual,
    ];

    /// Whether the relation holds.
    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterOrEqual => left >= right,
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
        }
    }

    /// The relation's sign, as in the expression language.
    pub fn symbol(self) -> &'static str {
        match self {
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Greater => ">",
            Relation::GreaterOrEqual => ">=",
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
        }
    }
}

/// A real number that engines compute with and user functions are generic over.
///
/// It adds to the [`Algebra`] of formulas what needs a value at hand: order, and the number itself.
///
/// ```
/// use glassgrad::Real;
/// fn rosenbrock<T: Real>(x: &[T]) -> T {
///     let valley = x[1] - x[0] * x[0];
///     T::literal(100.0) * valley * valley + (T::literal(1.0) - x[0]).square()
/// }
/// assert_eq!(rosenbrock(&[1.0_f64, 1.0]), 0.0);
/// ```
pub trait Real:
    Algebra<Mask = bool>
    + PartialOrd
    + std::ops::AddAssign
    + std::ops::SubAssign
    + std::ops::MulAssign
    + std::ops::DivAssign
    + std::iter::Sum
    + std::iter::Product
{
    /// Whether [`Real::is_entirely_finite`] looks at the number. Where derivatives are not known yet it cannot.
    const KNOWS_FINITENESS: bool = false;

    /// The number itself, without any derivative that travels with it.
    fn primal(self) -> f64;
    /// Whether the number and every derivative that travels with it are exactly zero.
    fn is_exactly_zero(self) -> bool;
    /// Whether the number and every derivative that travels with it are known to be finite, so that its product with an
    /// exact zero is one.
    #[inline(always)]
    fn is_entirely_finite(self) -> bool {
        false
    }

    /// The number limited to an interval; at a bound the derivative is 1/2.
    fn clip(self, low: f64, high: f64) -> Self {
        Algebra::min(Algebra::max(self, c(low)), c(high))
    }
}

macro_rules! machine_algebra {
    ($($float:ident),*) => {$(
        impl Algebra for $float {
            type Mask = bool;
            #[inline(always)]
            fn unary<R: Unary>(self, parameter: f64) -> Self {
                R::value(self, parameter)
            }
            #[inline(always)]
            fn binary<R: Binary>(self, other: Self) -> Self {
                R::value(self, other)
            }
            #[inline(always)]
            fn compare(self, relation: Relation, other: Self) -> bool {
                relation.holds(self, other)
            }
            #[inline(always)]
            fn select(mask: bool, taken: impl FnOnce() -> Self, otherwise: impl FnOnce() -> Self) -> Self {
                if mask { taken() } else { otherwise() }
            }
        }

        impl Real for $float {
            const KNOWS_FINITENESS: bool = true;

            #[inline(always)]
            fn primal(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn is_exactly_zero(self) -> bool {
                self == 0.0
            }
            #[inline(always)]
            fn is_entirely_finite(self) -> bool {
                self.is_finite()
            }
        }
    )*};
}
machine_algebra!(f32, f64);
