//! Leaves: tensors from numbers, slices, nested arrays and ranges.

use super::memo::{self, Request};
use super::node::Tensor;
use crate::array::{Array, Buffer, OutOfMemory, Stored};
use crate::dtype::{DType, bf16, f16};
use crate::einsum::Einsum;
use crate::error::Error;
use crate::shape::Shape;

/// An element type that tensors are written in: those of `Tensor::from([1, 2])`, `Tensor::new`, `arange` and `linspace`. An
/// integer literal without a suffix is an `i64`, the type of indices. Slices and vectors of every element type are taken by
/// `Tensor::from(&elements[..])` and `Tensor::from_elements`.
///
/// ```
/// use glassgrad::{Tensor, dtype::DType};
/// assert_eq!(Tensor::from([1, 2]).dtype(), DType::I64);
/// assert_eq!(Tensor::from(&[1_u8, 2][..]).dtype(), DType::U8);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that literal tensors are written in",
    note = "`i32` and `u8` elements are taken by `Tensor::from(&elements[..])` and `Tensor::from_elements(vec, shape)`"
)]
pub trait LiteralElement: Stored {}
impl LiteralElement for f32 {}
impl LiteralElement for f64 {}
impl LiteralElement for i64 {}
impl LiteralElement for bool {}
impl LiteralElement for f16 {}
impl LiteralElement for bf16 {}

/// Elements in memory, as a leaf.
impl From<Array> for Tensor {
    #[track_caller]
    fn from(array: Array) -> Tensor {
        Tensor::leaf(array)
    }
}

impl Tensor {
    /// A tensor of a shape with these elements, row by row.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::new(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]).to_string(), "[[1, 2],\n [3, 4]]");
    /// ```
    #[track_caller]
    pub fn new<E: LiteralElement>(elements: &[E], shape: impl Into<Shape>) -> Tensor {
        Tensor::of_elements("new", elements.to_vec(), shape.into())
    }

    /// A tensor of a shape with these elements, row by row, which are moved into it. Unlike [`Tensor::new`] it takes every
    /// element type, `i32` and `u8` too.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType};
    /// let image = Tensor::from_elements(vec![0_u8, 127, 255, 64], [2, 2]);
    /// assert_eq!((image.dtype(), image.to_vec::<u8>().unwrap()), (DType::U8, vec![0, 127, 255, 64]));
    /// ```
    #[track_caller]
    pub fn from_elements<E: Stored>(elements: Vec<E>, shape: impl Into<Shape>) -> Tensor {
        Tensor::of_elements("from_elements", elements, shape.into())
    }

    #[track_caller]
    fn of_elements<E: Stored>(name: &str, elements: Vec<E>, shape: Shape) -> Tensor {
        if elements.len() != shape.elements() {
            let message = format!("{} elements do not fill the shape {shape}", elements.len());
            return Tensor::refused(Error::new(name, message), &[]);
        }
        Tensor::leaf(Array::new(shape, E::wrap(elements)))
    }

    /// A tensor with one value everywhere. It takes no memory until it is read. A value that the element type does not
    /// have, such as 0.5 or NaN among integers, is an error.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType};
    /// assert_eq!(Tensor::full([2], 7.0, DType::I64).to_vec::<i64>().unwrap(), [7, 7]);
    /// assert!(Tensor::full([2], 0.5, DType::I64).eval().is_err());
    /// ```
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Number, dtype: DType) -> Tensor {
        let shape = shape.into();
        let element = match value.element(dtype) {
            Ok(element) => element,
            Err(message) => return Tensor::refused(Error::new("full", message), &[]),
        };
        let value = element.get(0);
        // A product has a coefficient of 64 bits, which is not every integer.
        if dtype == DType::Bool || (dtype == DType::I64 && value.abs() >= MAX_EXACT_INTEGER) {
            return Tensor::leaf(Array::new(Shape::scalar(), element)).broadcast_to(shape);
        }
        let filled = memo::product(Request::Fill(value), &[&shape], || {
            Einsum::new(Vec::new(), (0..shape.rank()).collect(), shape.to_vec()).scaled(value)
        });
        Tensor::unbound(filled, dtype)
    }

    /// Zeros, 32-bit.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros(3).to_vec::<f32>().unwrap(), [0.0; 3]);
    /// ```
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>) -> Tensor {
        Tensor::full(shape, 0.0, DType::F32)
    }

    /// Ones, 32-bit.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::ones([2, 2]).sum().item().unwrap(), 4.0);
    /// ```
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>) -> Tensor {
        Tensor::full(shape, 1.0, DType::F32)
    }

    /// Zeros of the shape and type of another tensor.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType};
    /// let x = Tensor::from([1.5, 2.5]).zeros_like();
    /// assert_eq!((x.dtype(), x.to_string()), (DType::F64, "[0, 0]".into()));
    /// ```
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        Tensor::full(self.shape(), 0.0, self.dtype())
    }

    /// Ones of the shape and type of another tensor.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([4_i64, 5]).ones_like().to_vec::<i64>().unwrap(), [1, 1]);
    /// ```
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        Tensor::full(self.shape(), 1.0, self.dtype())
    }

    /// The identity matrix, 32-bit.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::eye(2).to_string(), "[[1, 0],\n [0, 1]]");
    /// ```
    #[track_caller]
    pub fn eye(size: usize) -> Tensor {
        Tensor::unbound(Einsum::unit(&[size]), DType::F32)
    }

    /// The numbers 0, 1, 2, … below `end`, in the type of `end`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::arange(4_i64).to_string(), "[0, 1, 2, 3]");
    /// ```
    #[track_caller]
    pub fn arange<E: LiteralElement>(end: E) -> Tensor {
        let count = end.to_f64().ceil().max(0.0) as usize;
        Tensor::computed("arange", E::DTYPE, count, |k| k as f64)
    }

    /// `count` numbers from `start` to `end`, both included, at equal distances.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 3).to_string(), "[  0, 0.5,   1]");
    /// ```
    #[track_caller]
    pub fn linspace<E: LiteralElement>(start: E, end: E, count: usize) -> Tensor {
        let (start, end) = (start.to_f64(), end.to_f64());
        let step = if count > 1 { (end - start) / (count - 1) as f64 } else { 0.0 };
        let place = |k: usize| if k > 0 && k + 1 == count { end } else { start + step * k as f64 };
        Tensor::computed("linspace", E::DTYPE, count, place)
    }

    /// A vector computed element by element, or an error if there is no memory for it.
    #[track_caller]
    fn computed(operation: &str, dtype: DType, count: usize, element: impl FnMut(usize) -> f64) -> Tensor {
        match Buffer::try_from_fn(dtype, count, element) {
            Ok(buffer) => Tensor::leaf(Array::new(Shape::from(count), buffer)),
            Err(error) => Tensor::refused(Error::new(operation, error.to_string()).help(OutOfMemory::REMEDY), &[]),
        }
    }

    /// The same value as a live variable: what is computed from it can be differentiated later with
    /// [`Tensor::backward`], as long as a handle to it is held.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from(3.0).variable();
    /// assert_eq!(x.square().backward().of(&x).item().unwrap(), 6.0);
    /// ```
    #[track_caller]
    pub fn variable(&self) -> Tensor {
        self.wrapped_at(std::panic::Location::caller())
    }
}

impl<E: LiteralElement> From<E> for Tensor {
    #[track_caller]
    fn from(number: E) -> Tensor {
        Tensor::new(&[number], ())
    }
}

impl<E: Stored> From<&[E]> for Tensor {
    #[track_caller]
    fn from(elements: &[E]) -> Tensor {
        Tensor::from_elements(elements.to_vec(), elements.len())
    }
}

impl<E: LiteralElement> From<Vec<E>> for Tensor {
    #[track_caller]
    fn from(elements: Vec<E>) -> Tensor {
        Tensor::leaf(Array::new(Shape::from(elements.len()), E::wrap(elements)))
    }
}

impl<E: LiteralElement, const N: usize> From<[E; N]> for Tensor {
    #[track_caller]
    fn from(elements: [E; N]) -> Tensor {
        Tensor::new(&elements, N)
    }
}

impl<E: LiteralElement, const M: usize, const N: usize> From<[[E; N]; M]> for Tensor {
    #[track_caller]
    fn from(rows: [[E; N]; M]) -> Tensor {
        Tensor::new(rows.as_flattened(), [M, N])
    }
}

impl<E: LiteralElement, const L: usize, const M: usize, const N: usize> From<[[[E; N]; M]; L]> for Tensor {
    #[track_caller]
    fn from(layers: [[[E; N]; M]; L]) -> Tensor {
        Tensor::new(layers.as_flattened().as_flattened(), [L, M, N])
    }
}

/// What can stand beside a tensor in an operation: a tensor, or a number of Rust. Numbers are weakly typed, as in JAX: they
/// take the type of the tensor beside them, and only their kind counts. A floating-point number beside integers makes
/// 32-bit floating-point numbers of them, and an integer beside truth values makes integers of them.
///
/// ```
/// use glassgrad::{Tensor, dtype::DType};
/// let x = Tensor::from([1.0_f32, 2.0]);
/// assert_eq!(x.pow(2).to_vec::<f32>().unwrap(), x.pow(Tensor::from(2.0_f32)).to_vec::<f32>().unwrap());
/// assert_eq!((&x * 2.0).dtype(), DType::F32);
/// assert_eq!((Tensor::from([1_i64, 2]) * 0.5).to_string(), "[0.5,   1]");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside a tensor",
    label = "neither a tensor nor a number",
    note = "operands are `Tensor`, `&Tensor`, `f32`, `f64`, `i32`, `i64`, `u32`, `usize` and `bool`"
)]
pub trait IntoTensor: Sized {
    /// The tensor itself, or the number in the element type of `beside` where that has numbers of its kind.
    fn into_tensor(self, beside: &Tensor) -> Tensor;

    /// The tensor itself, or the number in the element type of `target`, which keeps it; an error where the type has no
    /// such number.
    #[track_caller]
    fn into_values_of(self, target: &Tensor) -> Tensor {
        self.into_tensor(target)
    }
}

impl IntoTensor for &Tensor {
    fn into_tensor(self, _: &Tensor) -> Tensor {
        self.clone()
    }
}

impl IntoTensor for Tensor {
    fn into_tensor(self, _: &Tensor) -> Tensor {
        self
    }
}

impl IntoTensor for bool {
    #[track_caller]
    fn into_tensor(self, beside: &Tensor) -> Tensor {
        if beside.error().is_some() { beside.clone() } else { Tensor::from(self) }
    }
}

/// The largest magnitude up to which every integer is a 64-bit floating-point number.
const MAX_EXACT_INTEGER: f64 = (1_u64 << 53) as f64;

/// A number of Rust that an element of a tensor can be made of.
///
/// ```
/// use glassgrad::{array::Buffer, dtype::DType, expr::Number};
/// assert_eq!(i64::MAX.element(DType::I64), Ok(Buffer::I64(vec![i64::MAX])));
/// assert!(0.5.element(DType::I64).is_err() && f64::NAN.element(DType::I64).is_err());
/// ```
pub trait Number: Copy {
    /// One element of a type, or why the type has no such element. Floating-point types round.
    fn element(self, dtype: DType) -> Result<Buffer, String>;
}

/// Why an element type does not have a number, and what to do.
fn no_element(number: impl std::fmt::Display, dtype: DType) -> String {
    format!("the number {number} is no element of the type {dtype}")
}

macro_rules! float_numbers {
    ($($Number:ty),*) => {$(
        impl Number for $Number {
            fn element(self, dtype: DType) -> Result<Buffer, String> {
                let number = f64::from(self);
                let fits = match dtype {
                    DType::F16 | DType::BF16 | DType::F32 | DType::F64 => true,
                    DType::U8 => f64::from(number as u8) == number,
                    DType::I32 => f64::from(number as i32) == number,
                    // -2⁶³ is an integer of 64 bits, 2⁶³ is not.
                    DType::I64 => number.fract() == 0.0 && number >= i64::MIN as f64 && number < i64::MAX as f64,
                    DType::Bool => number == 0.0 || number == 1.0,
                };
                if !fits {
                    return Err(no_element(self, dtype));
                }
                Ok(Buffer::from_fn(dtype, 1, |_| number))
            }
        }
    )*};
}
float_numbers!(f64, f32);

macro_rules! integer_numbers {
    ($($Number:ty),*) => {$(
        impl Number for $Number {
            fn element(self, dtype: DType) -> Result<Buffer, String> {
                match dtype {
                    DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Ok(Buffer::from_fn(dtype, 1, |_| self as f64)),
                    DType::I32 => match i32::try_from(self) {
                        Ok(integer) => Ok(Buffer::I32(vec![integer])),
                        Err(_) => Err(no_element(self, dtype)),
                    },
                    DType::U8 => match u8::try_from(self) {
                        Ok(integer) => Ok(Buffer::U8(vec![integer])),
                        Err(_) => Err(no_element(self, dtype)),
                    },
                    DType::I64 => match i64::try_from(self) {
                        Ok(integer) => Ok(Buffer::I64(vec![integer])),
                        Err(_) => Err(no_element(self, dtype)),
                    },
                    DType::Bool if self == 0 || self == 1 => Ok(Buffer::Bool(vec![self == 1])),
                    DType::Bool => Err(no_element(self, dtype)),
                }
            }
        }
    )*};
}
integer_numbers!(i64, i32, u32, usize);

macro_rules! numbers_beside_tensors {
    ($kind:ident: $($Number:ty),*) => {$(
        impl IntoTensor for $Number {
            #[track_caller]
            fn into_tensor(self, beside: &Tensor) -> Tensor {
                number_of(self, beside.dtype().$kind(), beside)
            }

            #[track_caller]
            fn into_values_of(self, target: &Tensor) -> Tensor {
                number_of(self, target.dtype(), target)
            }
        }
    )*};
}
numbers_beside_tensors!(to_float: f64, f32);
numbers_beside_tensors!(to_number: i64, i32, u32, usize);

/// A number as a tensor of a type that follows from another tensor, whose failure is passed on.
#[track_caller]
fn number_of(number: impl Number, dtype: DType, beside: &Tensor) -> Tensor {
    if beside.error().is_some() {
        return beside.clone();
    }
    match number.element(dtype) {
        Ok(element) => Tensor::leaf(Array::new(Shape::scalar(), element)),
        Err(message) => {
            let error = Error::new("literal", message).help("cast the tensor to floating point first");
            Tensor::refused(error, &[beside])
        }
    }
}
