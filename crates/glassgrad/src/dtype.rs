//! The types of elements that a tensor can have.

use std::fmt;

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
}

impl DType {
    /// Whether derivatives exist: only floating-point numbers have neighbours.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert!(DType::F32.is_float() && !DType::I64.is_float());
    /// ```
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// The type of an operation on elements of two types: the later one of bool, i64, f32 and f64. Integers beside
    /// floating-point numbers take on their type, whatever its width, as in PyTorch and JAX.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!(DType::F32.promote(DType::F64), DType::F64);
    /// assert_eq!(DType::I64.promote(DType::F32), DType::F32);
    /// ```
    pub fn promote(self, other: DType) -> DType {
        let rank = |dtype: DType| match dtype {
            DType::Bool => 0,
            DType::I64 => 1,
            DType::F32 => 2,
            DType::F64 => 3,
        };
        if rank(self) < rank(other) { other } else { self }
    }

    /// The type of the results of a function that is defined for floating-point numbers: this type if it is one, and
    /// otherwise the default.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::F64.to_float(), DType::I64.to_float()), (DType::F64, DType::F32));
    /// ```
    pub fn to_float(self) -> DType {
        if self.is_float() { self } else { DType::default() }
    }

    /// The type of numbers: this one, and integers for truth values.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::F32.to_number(), DType::Bool.to_number()), (DType::F32, DType::I64));
    /// ```
    pub fn to_number(self) -> DType {
        if self == DType::Bool { DType::I64 } else { self }
    }

    /// The bytes of one element in memory.
    ///
    /// ```
    /// use glassgrad::dtype::DType;
    /// assert_eq!((DType::F32.bytes(), DType::Bool.bytes()), (4, 1));
    /// ```
    pub fn bytes(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::Bool => 1,
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
    /// The element from a 64-bit number, rounded or truncated as `as` does; non-zero is true.
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
numeric_elements!(f32 => F32, f64 => F64, i64 => I64);

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
