//! The numbers that formulas are written in: literals, and the two machine types.
//!
//! Everything above this file is generic. [`Float`] names the base functions that only a machine
//! number can evaluate; the rows of the table in [`crate::ops`] build every other value from them.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use crate::special;

/// A type into which the literal numbers of a formula can be lifted.
pub trait Literal: Copy {
    /// The number `value` as a constant of this type: it depends on nothing.
    fn literal(value: f64) -> Self;
}

/// Lifts a literal into a formula.
///
/// Rust cannot make `1.0 - y` generic in `y`. On the right of an operator the type is inferred from
/// the left; where a literal stands first, name it once with `let c = T::literal;`.
///
/// ```
/// use glassgrad::{Real, c};
/// fn parabola<T: Real>(x: T) -> T {
///     x * x * c(3.0) - c(1.0)
/// }
/// assert_eq!(parabola(2.0_f64), 11.0);
/// assert_eq!(parabola(2.0_f32), 11.0);
/// ```
#[inline(always)]
pub fn c<T: Literal>(value: f64) -> T {
    T::literal(value)
}

macro_rules! machine_numbers {
    ($($name:ident => $inherent:ident),* ; via f64: $($wide:ident => $function:path),*) => {
        /// A machine number, `f32` or `f64`, with the base functions that table rows are built from.
        ///
        /// The transcendental ones come from the platform's mathematics library, the special ones
        /// are evaluated in `f64` and rounded once.
        pub trait Float:
            Literal
            + Debug
            + PartialOrd
            + Add<Output = Self>
            + Sub<Output = Self>
            + Mul<Output = Self>
            + Div<Output = Self>
            + Rem<Output = Self>
            + Neg<Output = Self>
        {
            $(#[doc = concat!("`", stringify!($inherent), "` of the standard library.")]
            fn $name(self) -> Self;)*
            $(#[doc = concat!("`", stringify!($wide), "`, evaluated in `f64`.")]
            fn $wide(self) -> Self;)*
            /// The polygamma function of an order, evaluated in `f64`; digamma is of order 0.
            fn polygamma(self, order: i32) -> Self;
            /// The derivative of sinc of an order, evaluated in `f64`.
            fn sinc_derivative(self, order: i32) -> Self;
            /// Integer power.
            fn powi(self, exponent: i32) -> Self;
            /// Real power.
            fn powf(self, exponent: Self) -> Self;
            /// Four-quadrant arctangent of `self / other`.
            fn atan2(self, other: Self) -> Self;
            /// Length of the vector `(self, other)` without overflow on the way.
            fn hypot(self, other: Self) -> Self;
        }

        machine_numbers!(@impl f32 { $($name => $inherent),* } { $($wide => $function),* });
        machine_numbers!(@impl f64 { $($name => $inherent),* } { $($wide => $function),* });
    };
    (@impl $float:ident { $($name:ident => $inherent:ident),* } { $($wide:ident => $function:path),* }) => {
        impl Literal for $float {
            #[inline(always)]
            fn literal(value: f64) -> Self {
                value as $float
            }
        }

        impl Float for $float {
            $(#[inline(always)]
            fn $name(self) -> Self {
                $float::$inherent(self)
            })*
            $(#[inline]
            fn $wide(self) -> Self {
                $function(f64::from(self)) as $float
            })*
            #[inline]
            fn polygamma(self, order: i32) -> Self {
                special::polygamma(order, f64::from(self)) as $float
            }
            #[inline]
            fn sinc_derivative(self, order: i32) -> Self {
                special::sinc_derivative(order, f64::from(self)) as $float
            }
            #[inline(always)]
            fn powi(self, exponent: i32) -> Self {
                $float::powi(self, exponent)
            }
            #[inline(always)]
            fn powf(self, exponent: Self) -> Self {
                $float::powf(self, exponent)
            }
            #[inline(always)]
            fn atan2(self, other: Self) -> Self {
                $float::atan2(self, other)
            }
            #[inline(always)]
            fn hypot(self, other: Self) -> Self {
                $float::hypot(self, other)
            }
        }
    };
}

machine_numbers! {
    sqrt => sqrt, cbrt => cbrt, exp => exp, exp2 => exp2, expm1 => exp_m1,
    ln => ln, log2 => log2, log10 => log10, log1p => ln_1p,
    sin => sin, cos => cos, tan => tan, asin => asin, acos => acos, atan => atan,
    sinh => sinh, cosh => cosh, tanh => tanh, asinh => asinh, acosh => acosh, atanh => atanh,
    abs => abs, floor => floor, ceil => ceil, round => round;
    via f64: erf => libm::erf, erfc => libm::erfc, lgamma => libm::lgamma
}
