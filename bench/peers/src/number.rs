//! The number that every workload is written in, and how each library provides it.
//!
//! Operations between a number and a constant are separate methods, because the libraries record
//! them more cheaply than an operation between two numbers: each implementation below uses the
//! library's own operator with an `f64`.

use std::ops::{Add, Mul, Sub};

/// A copyable number with the few functions that the workloads need.
pub(crate) trait Number: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// `self + constant`.
    fn plus(self, constant: f64) -> Self;
    /// `self * constant`.
    fn times(self, constant: f64) -> Self;
    /// `constant - self`.
    fn subtracted_from(self, constant: f64) -> Self;
    /// The exponential function.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The number itself, without derivatives.
    fn value(self) -> f64;
}

/// A number that carries tangents, for forward mode.
pub(crate) trait Tangents: Number {
    /// How many it carries.
    const LANES: usize;
    /// A number that moves in no direction.
    fn fixed(value: f64) -> Self;
    /// A number that moves with unit speed in one direction.
    fn along(value: f64, lane: usize) -> Self;
    /// The derivative in one direction.
    fn tangent(self, lane: usize) -> f64;
}

macro_rules! number {
    ([$($generics:tt)*] $Type:ty {
        plus: $plus:expr, times: $times:expr, subtracted_from: $subtracted:expr,
        exp: $exp:expr, ln: $ln:expr, value: $value:expr $(,)?
    }) => {
        impl<$($generics)*> Number for $Type {
            #[inline(always)]
            fn plus(self, constant: f64) -> Self {
                ($plus)(self, constant)
            }
            #[inline(always)]
            fn times(self, constant: f64) -> Self {
                ($times)(self, constant)
            }
            #[inline(always)]
            fn subtracted_from(self, constant: f64) -> Self {
                ($subtracted)(constant, self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                ($exp)(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                ($ln)(self)
            }
            #[inline(always)]
            fn value(self) -> f64 {
                ($value)(self)
            }
        }
    };
}

number!([] f64 {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: f64::exp, ln: f64::ln, value: |x| x,
});

number!(['t] glassgrad::scalar::Var<'t> {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: glassgrad::scalar::Var::exp, ln: glassgrad::scalar::Var::ln, value: glassgrad::scalar::Var::value,
});

number!(['t] glassgrad::scalar::Active<'t> {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: glassgrad::scalar::Active::exp, ln: glassgrad::scalar::Active::ln, value: glassgrad::scalar::Active::value,
});

number!([] echidna::Reverse<f64> {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: num_traits::Float::exp, ln: num_traits::Float::ln, value: |x: Self| echidna::Scalar::value(&x),
});

number!([] echidna::BReverse<f64> {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: num_traits::Float::exp, ln: num_traits::Float::ln, value: |x: Self| echidna::Scalar::value(&x),
});

number!([] ad_trait::reverse_ad::adr::adr {
    plus: |x, c| x + ad_trait::F64(c), times: |x, c| x * ad_trait::F64(c),
    subtracted_from: <Self as ad_trait::AD>::sub_l_scalar,
    exp: ad_trait::nalgebra::ComplexField::exp, ln: ad_trait::nalgebra::ComplexField::ln,
    value: |x: Self| ad_trait::AD::to_constant(&x),
});

number!([const N: usize] glassgrad::scalar::Dual<f64, N> {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: glassgrad::scalar::Dual::exp, ln: glassgrad::scalar::Dual::ln, value: |x: Self| x.value,
});

number!([const N: usize] echidna::DualVec<f64, N> {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: num_traits::Float::exp, ln: num_traits::Float::ln, value: |x: Self| x.re,
});

number!([const N: usize] ad_trait::forward_ad::adfn::adfn<N> {
    plus: |x, c| x + ad_trait::F64(c), times: |x, c| x * ad_trait::F64(c),
    subtracted_from: <Self as ad_trait::AD>::sub_l_scalar,
    exp: ad_trait::nalgebra::ComplexField::exp, ln: ad_trait::nalgebra::ComplexField::ln,
    value: |x: Self| ad_trait::AD::to_constant(&x),
});

// num-dual has no `f64 - DualVec`; negation and addition of a constant is its cheapest spelling.
number!([const N: usize] num_dual::DualSVec64<N> {
    plus: Add::add, times: Mul::mul, subtracted_from: |c: f64, x: Self| -x + c,
    exp: |x: Self| num_dual::DualNum::exp(&x), ln: |x: Self| num_dual::DualNum::ln(&x), value: |x: Self| x.re,
});

number!([] autodiff::FT<f64> {
    plus: Add::add, times: Mul::mul, subtracted_from: Sub::sub,
    exp: num_traits::Float::exp, ln: num_traits::Float::ln, value: |x: Self| x.x,
});

macro_rules! tangents {
    ([$($generics:tt)*] $Type:ty {
        lanes: $lanes:expr, fixed: $fixed:expr, along: $along:expr, tangent: $tangent:expr $(,)?
    }) => {
        impl<$($generics)*> Tangents for $Type {
            const LANES: usize = $lanes;
            #[inline]
            fn fixed(value: f64) -> Self {
                ($fixed)(value)
            }
            #[inline]
            fn along(value: f64, lane: usize) -> Self {
                ($along)(value, lane)
            }
            #[inline]
            fn tangent(self, lane: usize) -> f64 {
                ($tangent)(self, lane)
            }
        }
    };
}

tangents!([const N: usize] glassgrad::scalar::Dual<f64, N> {
    lanes: N, fixed: Self::constant, along: Self::along, tangent: |x: Self, lane| x.tangents[lane],
});

tangents!([const N: usize] echidna::DualVec<f64, N> {
    lanes: N, fixed: Self::constant, along: Self::with_tangent, tangent: |x: Self, lane| x.eps[lane],
});

tangents!([const N: usize] ad_trait::forward_ad::adfn::adfn<N> {
    lanes: N, fixed: Self::new_constant,
    along: |x, lane| Self::new(x, std::array::from_fn(|k| if k == lane { 1.0 } else { 0.0 })),
    tangent: |x: Self, lane: usize| ad_trait::forward_ad::adfn::adfn::tangent(&x)[lane],
});

tangents!([const N: usize] num_dual::DualSVec64<N> {
    lanes: N, fixed: Self::from_re, along: |x, lane| Self::from_re(x).derivative(lane),
    tangent: |x: Self, lane| x.eps.0.map_or(0.0, |tangents| tangents[lane]),
});

tangents!([] autodiff::FT<f64> {
    lanes: 1, fixed: |x: f64| Self::cst(x), along: |x: f64, _| Self::var(x), tangent: |x: Self, _| x.deriv(),
});
