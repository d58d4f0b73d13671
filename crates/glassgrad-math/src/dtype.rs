//! The types of elements that a tensor can have.
//!
//! Four of them are computed in themselves: `f32`, `f64`, `i64` and `bool`. The other four are storage types, which are
//! computed in a wider type, [`DType::compute_type`]: `f16` and `bf16` in `f32`, `i32` and `u8` in `i64`.

mod convert;

use std::fmt;

#[doc(hidden)]
pub use convert::{bf16_from_f32, bf16_to_f32, f16_from_f32, f16_to_f32, round_to_odd};
pub use half::{bf16, f16};

/// The type of a tensor's elements.
///
/// ```
/// use glassgrad::{Tensor, dtype::DType};
/// assert_eq!((Tensor::zeros(2).dtype(), DType::default().to_string()), (DType::F32, "f32".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit floating point, the default.
    #[default]
    F32,
    /// 64-bit floating point.
    F64,
    /// 64-bit integers, for indices and counts.
    I64,
    /// Truth values, for masks.
    Bool,
    /// 16-bit floating point of IEEE 754 (binary16): 11 bits of precision, up to 65504.
    F16,
    /// 16-bit floating point with the exponents of `f32` (bfloat16): 8 bits of precision.
    BF16,
    /// 32-bit integers.
    I32,
    /// 8-bit unsigned integers, for bytes and pixels.
    U8,
}

impl DType {
    /// Whether it is a floating-point type: integers and booleans are not differentiable.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert!(DType::F32.is_float() && !DType::I64.is_float());
    /// ```
    #[inline]
    pub fn is_float(self) -> bool {
        match self {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => true,
            DType::U8 | DType::I32 | DType::I64 | DType::Bool => false,
        }
    }

    /// Machine epsilon: the distance from 1 to the next larger number, and 0 for integers and booleans.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::F64.epsilon(), DType::BF16.epsilon()), (f64::EPSILON, 0.0078125));
    /// ```
    #[inline]
    pub fn epsilon(self) -> f64 {
        match self {
            DType::F16 => f16::EPSILON.to_f64(),
            DType::BF16 => bf16::EPSILON.to_f64(),
            DType::F32 => f64::from(f32::EPSILON),
            DType::F64 => f64::EPSILON,
            DType::U8 | DType::I32 | DType::I64 | DType::Bool => 0.0,
        }
    }

    /// Whether the elements are integers; truth values are none.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert!(DType::U8.is_integer() && !DType::Bool.is_integer() && !DType::F16.is_integer());
    /// ```
    #[inline]
    pub fn is_integer(self) -> bool {
        match self {
            DType::U8 | DType::I32 | DType::I64 => true,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::Bool => false,
        }
    }

    /// The type that elements are computed in: `f32` for `f16` and `bf16`, `i64` for `i32` and `u8`, and every other type
    /// itself. Results are rounded, or wrapped, where they are stored: see `docs/decisions/0024-storage-types.md`.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::BF16.compute_type(), DType::U8.compute_type()), (DType::F32, DType::I64));
    /// assert_eq!(DType::F64.compute_type(), DType::F64);
    /// ```
    #[inline]
    pub fn compute_type(self) -> DType {
        match self {
            DType::F16 | DType::BF16 | DType::F32 => DType::F32,
            DType::F64 => DType::F64,
            DType::U8 | DType::I32 | DType::I64 => DType::I64,
            DType::Bool => DType::Bool,
        }
    }

    /// Whether elements are stored in this type and computed in another.
    #[doc(hidden)]
    #[inline]
    pub fn is_storage_only(self) -> bool {
        self.compute_type() != self
    }

    /// Whether every element of this type is one of another, so that a cast there loses nothing.
    #[doc(hidden)]
    pub fn is_exact_in(self, other: DType) -> bool {
        match self {
            DType::Bool => true,
            DType::U8 => other != DType::Bool,
            DType::I32 => matches!(other, DType::I32 | DType::I64 | DType::F64),
            DType::I64 => other == DType::I64,
            DType::F16 => matches!(other, DType::F16 | DType::F32 | DType::F64),
            DType::BF16 => matches!(other, DType::BF16 | DType::F32 | DType::F64),
            DType::F32 => matches!(other, DType::F32 | DType::F64),
            DType::F64 => other == DType::F64,
        }
    }

    /// A number of the compute type as elements of this type hold it: rounded, or wrapped.
    #[doc(hidden)]
    pub fn stored(self, number: f64) -> f64 {
        match self {
            DType::F16 => f16::from_f64_rounded(number).to_f64(),
            DType::BF16 => bf16::from_f64_rounded(number).to_f64(),
            DType::F32 => f64::from(number as f32),
            DType::F64 | DType::Bool => number,
            DType::I64 => number as i64 as f64,
            DType::I32 => f64::from(number as i64 as i32),
            DType::U8 => f64::from(number as i64 as u8),
        }
    }

    /// A number of this type as elements of another type hold it after a cast.
    #[doc(hidden)]
    #[inline]
    pub fn cast_number(self, number: f64, to: DType) -> f64 {
        match to {
            // From floating point to integers a cast saturates.
            DType::I32 if self.is_float() => f64::from(number as i32),
            DType::U8 if self.is_float() => f64::from(number as u8),
            DType::Bool => f64::from(u8::from(number != 0.0)),
            _ => to.stored(number),
        }
    }

    /// The type of an operation on elements of two types, by the lattice of JAX: the later one of bool, u8, i32, i64,
    /// f16 or bf16, f32 and f64. Integers beside floating-point numbers take on their type, whatever its width, as in
    /// PyTorch. Of `f16` and `bf16` neither contains the other, so both become `f32`.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!(DType::F32.promote(DType::F64), DType::F64);
    /// assert_eq!(DType::I64.promote(DType::F16), DType::F16);
    /// assert_eq!(DType::F16.promote(DType::BF16), DType::F32);
    /// ```
    pub fn promote(self, other: DType) -> DType {
        let rank = |dtype: DType| match dtype {
            DType::Bool => 0,
            DType::U8 => 1,
            DType::I32 => 2,
            DType::I64 => 3,
            DType::F16 | DType::BF16 => 4,
            DType::F32 => 5,
            DType::F64 => 6,
        };
        if rank(self) == rank(other) && self != other {
            return DType::F32;
        }
        if rank(self) < rank(other) { other } else { self }
    }

    /// The type of the results of a function that is defined for floating-point numbers: this type if it is one, and
    /// otherwise the default.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::F64.to_float(), DType::I64.to_float()), (DType::F64, DType::F32));
    /// ```
    #[inline]
    pub fn to_float(self) -> DType {
        if self.is_float() { self } else { DType::default() }
    }

    /// The type of numbers: this one, and integers for truth values.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::F32.to_number(), DType::Bool.to_number()), (DType::F32, DType::I64));
    /// ```
    #[inline]
    pub fn to_number(self) -> DType {
        if self == DType::Bool { DType::I64 } else { self }
    }

    /// The bytes of one element in memory.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::F32.bytes(), DType::Bool.bytes()), (4, 1));
    /// ```
    #[inline]
    pub fn bytes(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::U8 | DType::Bool => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I64 => "i64",
            DType::Bool => "bool",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I32 => "i32",
            DType::U8 => "u8",
        })
    }
}

/// A Rust type that can be an element of a tensor.
///
/// ```
/// use glassgrad::dtype::{DType, Element};
/// assert_eq!((i64::DTYPE, i64::from_f64(2.9), true.to_f64()), (DType::I64, 2, 1.0));
/// ```
pub trait Element: Copy + PartialEq + fmt::Debug + Send + Sync + 'static + sealed::Sealed {
    /// Its type as data.
    const DTYPE: DType;
    /// The element from a 64-bit number: rounded to the nearest, ties to even, among floating-point numbers; truncated and
    /// saturated among integers, as `as` does; non-zero is true.
    fn from_f64(value: f64) -> Self;
    /// The element as a 64-bit number.
    fn to_f64(self) -> f64;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i64 {}
    impl Sealed for bool {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for i32 {}
    impl Sealed for u8 {}
}

macro_rules! numeric_elements {
    ($($Type:ty => $dtype:ident),*) => {$(
        impl Element for $Type {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $Type
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}
numeric_elements!(f32 => F32, f64 => F64, i64 => I64, i32 => I32, u8 => U8);

/// Floating-point numbers of 16 bits, rounded once from 64 bits.
trait FromF64 {
    fn from_f64_rounded(value: f64) -> Self;
}

macro_rules! half_elements {
    ($($Type:ident => $dtype:ident, $from:ident, $to:ident);*) => {$(
        impl FromF64 for $Type {
            #[inline(always)]
            fn from_f64_rounded(value: f64) -> Self {
                $Type::from_bits($from(round_to_odd(value)))
            }
        }

        impl Element for $Type {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $Type::from_f64_rounded(value)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from($to(self.to_bits()))
            }
        }
    )*};
}
half_elements!(f16 => F16, f16_from_f32, f16_to_f32; bf16 => BF16, bf16_from_f32, bf16_to_f32);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value != 0.0
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
}
