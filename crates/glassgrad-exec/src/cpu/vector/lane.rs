//! One lane of a vector: a machine number whose base functions have neither branches nor calls.
//!
//! The rows of the table are generic over [`Float`]. Evaluated in lanes, a row becomes a loop that the compiler turns
//! into vector instructions: no formula is stated twice. Base functions for which there is no such form are the
//! platform's.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use super::functions::{double, single};
use super::sincos;
use crate::algebra::{Float, Literal};

/// A machine number; `FUSED` says whether multiply-adds round once, `NEAR` whether powers of e are asked for only where they and
/// their reciprocals are normal numbers.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Lane<F, const FUSED: bool, const NEAR: bool>(pub(super) F);

macro_rules! lanes {
    ($Float:ident, $module:ident, $sin:ident, $cos:ident) => {
        impl<const FUSED: bool, const NEAR: bool> Literal for Lane<$Float, FUSED, NEAR> {
            #[inline(always)]
            fn literal(value: f64) -> Self {
                Lane(value as $Float)
            }
        }

        lanes!(@operators $Float, Add add +, Sub sub -, Mul mul *, Div div /, Rem rem %);

        impl<const FUSED: bool, const NEAR: bool> Neg for Lane<$Float, FUSED, NEAR> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Lane(-self.0)
            }
        }

        impl<const FUSED: bool, const NEAR: bool> Float for Lane<$Float, FUSED, NEAR> {
            lanes!(@own FUSED: exp2 $module::exp2, expm1 $module::expm1, ln $module::ln,
                log2 $module::log2, log1p $module::log1p, tanh $module::tanh, atan $module::atan, erf $module::erf, erfc $module::erfc,
                sin sincos::$sin, cos sincos::$cos);
            lanes!(@platform $Float: sqrt, cbrt, log10, tan, asin, acos, sinh, cosh, asinh, acosh, atanh, abs,
                floor, ceil, round, lgamma);

            #[inline(always)]
            fn exp(self) -> Self {
                Lane(if NEAR { $module::near_exp::<FUSED>(self.0) } else { $module::exp::<FUSED>(self.0) })
            }
            #[inline(always)]
            fn polygamma(self, order: i32) -> Self {
                Lane(Float::polygamma(self.0, order))
            }
            #[inline(always)]
            fn sinc_derivative(self, order: i32) -> Self {
                Lane(Float::sinc_derivative(self.0, order))
            }
            #[inline(always)]
            fn powi(self, exponent: i32) -> Self {
                Lane(Float::powi(self.0, exponent))
            }
            #[inline(always)]
            fn powf(self, exponent: Self) -> Self {
                Lane(Float::powf(self.0, exponent.0))
            }
            #[inline(always)]
            fn atan2(self, other: Self) -> Self {
                Lane(Float::atan2(self.0, other.0))
            }
            #[inline(always)]
            fn hypot(self, other: Self) -> Self {
                Lane(Float::hypot(self.0, other.0))
            }
        }
    };
    (@operators $Float:ident, $($Trait:ident $method:ident $sign:tt),*) => {$(
        impl<const FUSED: bool, const NEAR: bool> $Trait for Lane<$Float, FUSED, NEAR> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Lane(self.0 $sign other.0)
            }
        }
    )*};
    (@own $FUSED:ident: $($name:ident $module:ident::$function:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            Lane($module::$function::<$FUSED>(self.0))
        }
    )*};
    (@platform $Float:ident: $($name:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            Lane(Float::$name(self.0))
        }
    )*};
}
lanes!(f32, single, short_sin, short_cos);
lanes!(f64, double, sin, cos);
