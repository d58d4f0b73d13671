//! The numeric traits of the ecosystem, so that generic code written for `num_traits::Float` and
//! `num_complex::Complex` differentiates too.

use std::num::FpCategory;

use num_traits::{Float, Num, NumCast, One, ToPrimitive, Zero};

use crate::algebra::c;
use crate::ops::{Algebra, Real, Relation};
use crate::scalar::{Active, Dual, Taylor, Var};

macro_rules! ecosystem_traits {
    ([$($generics:tt)*] $Type:ty) => {
        impl<$($generics)*> Zero for $Type {
            fn zero() -> Self {
                c(0.0)
            }
            fn is_zero(&self) -> bool {
                self.primal() == 0.0
            }
        }

        impl<$($generics)*> One for $Type {
            fn one() -> Self {
                c(1.0)
            }
        }

        impl<$($generics)*> Num for $Type {
            type FromStrRadixErr = <f64 as Num>::FromStrRadixErr;
            fn from_str_radix(text: &str, radix: u32) -> Result<Self, Self::FromStrRadixErr> {
                f64::from_str_radix(text, radix).map(c)
            }
        }

        impl<$($generics)*> ToPrimitive for $Type {
            fn to_i64(&self) -> Option<i64> {
                self.primal().to_i64()
            }
            fn to_u64(&self) -> Option<u64> {
                self.primal().to_u64()
            }
            fn to_f64(&self) -> Option<f64> {
                Some(self.primal())
            }
        }

        impl<$($generics)*> NumCast for $Type {
            fn from<U: ToPrimitive>(number: U) -> Option<Self> {
                number.to_f64().map(c)
            }
        }

        impl<$($generics)*> Float for $Type {
            ecosystem_traits!(@constant nan => f64::NAN, infinity => f64::INFINITY, neg_infinity => f64::NEG_INFINITY,
                neg_zero => -0.0, min_value => f64::MIN, min_positive_value => f64::MIN_POSITIVE, max_value => f64::MAX,
                epsilon => f64::EPSILON);
            ecosystem_traits!(@query is_nan bool, is_infinite bool, is_finite bool, is_normal bool, classify FpCategory,
                is_sign_positive bool, is_sign_negative bool);
            ecosystem_traits!(@function floor floor, ceil ceil, round round, abs abs, signum sign, recip recip, sqrt sqrt,
                exp exp, exp2 exp2, ln ln, log2 log2, log10 log10, cbrt cbrt, sin sin, cos cos, tan tan, asin asin,
                acos acos, atan atan, exp_m1 expm1, ln_1p log1p, sinh sinh, cosh cosh, tanh tanh, asinh asinh,
                acosh acosh, atanh atanh);

            fn trunc(self) -> Self {
                Algebra::choose(self, Relation::Less, c(0.0), Algebra::ceil(self), Algebra::floor(self))
            }
            fn fract(self) -> Self {
                self - Float::trunc(self)
            }
            fn mul_add(self, factor: Self, summand: Self) -> Self {
                self * factor + summand
            }
            fn powi(self, exponent: i32) -> Self {
                Algebra::powi(self, exponent)
            }
            fn powf(self, exponent: Self) -> Self {
                Algebra::pow(self, exponent)
            }
            fn log(self, base: Self) -> Self {
                Algebra::ln(self) / Algebra::ln(base)
            }
            fn max(self, other: Self) -> Self {
                Algebra::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                Algebra::min(self, other)
            }
            fn abs_sub(self, other: Self) -> Self {
                Algebra::relu(self - other)
            }
            fn hypot(self, other: Self) -> Self {
                Algebra::hypot(self, other)
            }
            fn atan2(self, other: Self) -> Self {
                Algebra::atan2(self, other)
            }
            fn sin_cos(self) -> (Self, Self) {
                (Algebra::sin(self), Algebra::cos(self))
            }
            fn integer_decode(self) -> (u64, i16, i8) {
                Float::integer_decode(self.primal())
            }
        }
    };
    (@constant $($name:ident => $value:expr),*) => {
        $(fn $name() -> Self {
            c($value)
        })*
    };
    (@query $($name:ident $Result:ty),*) => {
        $(fn $name(self) -> $Result {
            self.primal().$name()
        })*
    };
    (@function $($name:ident $row:ident),*) => {
        $(fn $name(self) -> Self {
            Algebra::$row(self)
        })*
    };
}

ecosystem_traits!([T: Real, const N: usize] Dual<T, N>);
ecosystem_traits!(['t, T: Real] Var<'t, T>);
ecosystem_traits!(['t, T: Real] Active<'t, T>);
ecosystem_traits!(['p, T: Real] Taylor<'p, T>);

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use crate::scalar::{Dual, Tape, derivatives};

    #[test]
    fn complex_functions_of_a_real_variable_differentiate() {
        // |exp(i x)·(2 + i x)|² = 4 + x², so its derivative is 2x.
        let squared_modulus = |x| {
            let z = Complex::new(Dual::constant(0.0), x).exp() * Complex::new(Dual::constant(2.0), x);
            z.norm_sqr()
        };
        let result = squared_modulus(Dual::variable(0.7_f64));
        assert!((result.tangent() - 1.4).abs() < 1e-14);
    }

    #[test]
    fn the_cauchy_riemann_equations_hold_on_the_tape() {
        let tape = Tape::new();
        let (x, y) = (tape.input(0.3_f64), tape.input(-0.4));
        let z = Complex::new(x, y);
        let w = (z * z + z.sin()) / (z + Complex::new(x * 0.0 + 2.0, y * 0.0));
        let (re, im) = (tape.reverse(w.re), tape.reverse(w.im));
        assert!((re.of(x) - im.of(y)).abs() < 1e-14);
        assert!((re.of(y) + im.of(x)).abs() < 1e-14);
    }

    #[test]
    fn taylor_series_of_complex_functions() {
        // Re exp((1+i)x) = eˣ cos x has the derivatives 1, 1, 0, -2, -4 at 0.
        let d = derivatives(|x| (Complex::new(x, x)).exp().re, 0.0_f64, 4);
        for (d, exact) in d.iter().zip([1.0, 1.0, 0.0, -2.0, -4.0]) {
            assert!((d - exact).abs() < 1e-13);
        }
    }
}
