//! Numbers of about 105 bits, as the sum of two machine numbers, with the functions of the table: the judge of kernels.

use std::f64::consts;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A sum of two machine numbers, the second of which is at most half a unit in the last place of the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precise {
    pub(crate) high: f64,
    pub(crate) low: f64,
}

const LN_2: Precise = Precise { high: consts::LN_2, low: 2.319046813846299e-17 };
const TWO_OVER_SQRT_PI: Precise = Precise { high: consts::FRAC_2_SQRT_PI, low: 1.533545961316588e-17 };
const SQRT_HALF: Precise = Precise { high: consts::FRAC_1_SQRT_2, low: -4.833646656726457e-17 };
const HALF_PI: [f64; 4] = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32];

fn exact_sum(a: f64, b: f64) -> Precise {
    let high = a + b;
    let back = high - a;
    Precise { high, low: (a - (high - back)) + (b - back) }
}

fn exact_product(a: f64, b: f64) -> Precise {
    let high = a * b;
    Precise { high, low: a.mul_add(b, -high) }
}

/// The number itself.
pub(crate) fn precise(number: f64) -> Precise {
    Precise { high: number, low: 0.0 }
}

impl Add for Precise {
    type Output = Precise;
    fn add(self, other: Precise) -> Precise {
        let (highs, lows) = (exact_sum(self.high, other.high), exact_sum(self.low, other.low));
        let sum = exact_sum(highs.high, highs.low + lows.high);
        exact_sum(sum.high, sum.low + lows.low)
    }
}

impl Neg for Precise {
    type Output = Precise;
    fn neg(self) -> Precise {
        Precise { high: -self.high, low: -self.low }
    }
}

impl Sub for Precise {
    type Output = Precise;
    fn sub(self, other: Precise) -> Precise {
        self + -other
    }
}

impl Mul for Precise {
    type Output = Precise;
    fn mul(self, other: Precise) -> Precise {
        let product = exact_product(self.high, other.high);
        exact_sum(product.high, product.low + (self.high * other.low + self.low * other.high))
    }
}

impl Div for Precise {
    type Output = Precise;
    fn div(self, other: Precise) -> Precise {
        let first = self.high / other.high;
        if first == 0.0 || !first.is_finite() || !other.high.is_finite() {
            return precise(first);
        }
        let rest = self - other * precise(first);
        let second = rest.high / other.high;
        let rest = rest - other * precise(second);
        exact_sum(first, second) + precise(rest.high / other.high)
    }
}

impl Precise {
    fn scaled(self, exponent: i32) -> Precise {
        // In two steps, since the power itself may be beyond the largest or below the smallest number.
        let half = exponent / 2;
        let (one, other) = (2.0_f64.powi(half), 2.0_f64.powi(exponent - half));
        Precise { high: self.high * one * other, low: self.low * one * other }
    }

    pub(crate) fn abs(self) -> Precise {
        if self.high < 0.0 { -self } else { self }
    }

    pub(crate) fn sqrt(self) -> Precise {
        if self.high <= 0.0 {
            return precise(self.high.sqrt());
        }
        // A scale of even exponent keeps squares in range.
        let exponent = (self.high.log2() / 2.0).floor() as i32;
        let own = self.scaled(-2 * exponent);
        let root = precise(own.high.sqrt());
        let root = root + (own - root * root) / (root + root);
        root.scaled(exponent)
    }

    /// e^r - 1 for |r| ≤ 0.4: the series at r/512, doubled nine times.
    fn small_expm1(self) -> Precise {
        let r = self.scaled(-9);
        let mut sum = precise(0.0);
        for k in (1..=12).rev() {
            sum = r * (precise(1.0) + sum) / precise(f64::from(k));
        }
        for _ in 0..9 {
            sum = sum * (sum + precise(2.0));
        }
        sum
    }

    pub(crate) fn exp(self) -> Precise {
        if self.high < -800.0 {
            return precise(0.0);
        }
        let n = (self.high / LN_2.high).round();
        let r = self - LN_2 * precise(n);
        (precise(1.0) + r.small_expm1()).scaled(n as i32)
    }

    pub(crate) fn exp2(self) -> Precise {
        if self.high < -1200.0 {
            return precise(0.0);
        }
        let n = self.high.round();
        (precise(1.0) + ((self - precise(n)) * LN_2).small_expm1()).scaled(n as i32)
    }

    pub(crate) fn expm1(self) -> Precise {
        // The scale by 512 would drop bits of numbers near the smallest, which are their own result.
        if self.high.abs() < 1e-200 {
            return self;
        }
        if self.high.abs() < 0.3 { self.small_expm1() } else { self.exp() - precise(1.0) }
    }

    pub(crate) fn log1p(self) -> Precise {
        if self.high.abs() < 1e-200 {
            return self;
        }
        // One step of Newton's method; twice, for the digits of the platform's function are few.
        let step = |y: Precise| y + (self - y.expm1()) / (self + precise(1.0));
        step(step(precise(self.high.ln_1p())))
    }

    pub(crate) fn ln(self) -> Precise {
        if self.high <= 0.0 {
            return precise(self.high.ln());
        }
        let exponent = if (0.6..1.6).contains(&self.high) { 0 } else { self.high.log2().round() as i32 };
        LN_2 * precise(f64::from(exponent)) + (self.scaled(-exponent) - precise(1.0)).log1p()
    }

    pub(crate) fn log2(self) -> Precise {
        if self.high <= 0.0 {
            return precise(self.high.log2());
        }
        self.ln() / LN_2
    }

    /// The sine of this and this many quarter turns.
    fn turned(self, quarters: i64) -> Precise {
        let n = (self.high / HALF_PI[0]).round();
        let r = HALF_PI.iter().fold(self, |rest, part| rest - exact_product(n, *part));
        let quadrant = (n as i64 + quarters).rem_euclid(4);
        // Both series, by their highest terms first.
        let square = r * r;
        let first = if quadrant % 2 == 0 { 1.0 } else { 0.0 };
        let mut sum = precise(0.0);
        for k in (1..=15).rev() {
            let k = 2.0 * f64::from(k) + first;
            sum = -square * (precise(1.0) + sum) / precise(k * (k - 1.0));
        }
        let value = if quadrant % 2 == 0 { r * (precise(1.0) + sum) } else { precise(1.0) + sum };
        if quadrant < 2 { value } else { -value }
    }

    pub(crate) fn sin(self) -> Precise {
        if self.high.abs() < 1e-200 { self } else { self.turned(0) }
    }

    pub(crate) fn cos(self) -> Precise {
        self.turned(1)
    }

    pub(crate) fn atan(self) -> Precise {
        // Beyond 1 by the reciprocal, whose arctangent makes up for a quarter turn.
        if self.high.abs() > 1.0 {
            let quarter = Precise { high: std::f64::consts::FRAC_PI_2, low: 6.123233995736766e-17 };
            let rest = (precise(1.0) / self.abs()).atan();
            return if self.high > 0.0 { quarter - rest } else { rest - quarter };
        }
        if self.high.abs() < 1e-100 {
            return self;
        }
        // By the difference of angles: what the platform's function lacks is as small as its error.
        let near = precise(self.high.atan());
        let (sine, cosine) = (near.sin(), near.cos());
        near + (self * cosine - sine) / (cosine + self * sine)
    }

    pub(crate) fn tanh(self) -> Precise {
        if self.high.abs() > 60.0 {
            return precise(self.high.signum());
        }
        let t = (self + self).expm1();
        t / (t + precise(2.0))
    }

    pub(crate) fn sigmoid(self) -> Precise {
        let e = (-self.abs()).exp();
        (if self.high >= 0.0 { precise(1.0) } else { e }) / (precise(1.0) + e)
    }

    pub(crate) fn softplus(self) -> Precise {
        let above = if self.high > 0.0 { self } else { precise(0.0) };
        above + (-self.abs()).exp().log1p()
    }

    pub(crate) fn erf(self) -> Precise {
        let x = self.abs();
        if x.high > 2.0 {
            let value = precise(1.0) - x.upper_tail();
            return if self.high < 0.0 { -value } else { value };
        }
        // 2/√π·e^(-x²)·Σ 2ⁿx²ⁿ⁺¹/(2n + 1)!!, whose terms are all of one sign.
        let square = self * self;
        let mut sum = precise(1.0);
        for n in (1..=80).rev() {
            sum = precise(1.0) + precise(2.0) * square * sum / precise(f64::from(2 * n + 1));
        }
        TWO_OVER_SQRT_PI * (-square).exp() * self * sum
    }

    /// erfc for arguments from 2 on, as a continued fraction.
    fn upper_tail(self) -> Precise {
        let mut below = self;
        for k in (1..=200).rev() {
            below = self + precise(f64::from(k) / 2.0) / below;
        }
        (-(self * self)).exp() * TWO_OVER_SQRT_PI / (below + below)
    }

    pub(crate) fn erfc(self) -> Precise {
        match self.high {
            x if x > 30.0 => precise(0.0),
            x if x > 2.0 => self.upper_tail(),
            x if x < -10.0 => precise(2.0),
            _ => precise(1.0) - self.erf(),
        }
    }

    /// The distribution function of the normal distribution.
    pub(crate) fn normal(self) -> Precise {
        (-self * SQRT_HALF).erfc() / precise(2.0)
    }
}
