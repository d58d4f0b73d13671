//! Host calls: operations of the user's own, which run on host memory whatever the target.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::shape::Shape;

/// Host code as a function of arrays: what a program needs of an operation of the user's own.
pub trait HostFunction: fmt::Debug + Send + Sync {
    /// The name under which errors and explanations show it.
    fn name(&self) -> &str;
    /// The value, or why there is none.
    fn value(&self, inputs: &[Array]) -> Result<Array, String>;
    /// The value of operands where they lie, written to where the result lies. Nothing is written if there is no such way.
    fn value_into(&self, inputs: &[Operand<'_>], output: ElementsMut<'_>) -> Option<Result<(), String>>;
}

/// An operand where it lies: its shape, and its elements row by row.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The shape.
    pub shape: &'a Shape,
    /// The elements.
    pub elements: Elements<'a>,
}

/// The elements of an operand of a type that operations of the library compute with.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// 32-bit floating point.
    F32(&'a [f32]),
    /// 64-bit floating point.
    F64(&'a [f64]),
    /// 64-bit integers.
    I64(&'a [i64]),
    /// Any other type.
    Other,
}

/// The elements of a result, to be written.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// 32-bit floating point.
    F32(&'a mut [f32]),
    /// 64-bit floating point.
    F64(&'a mut [f64]),
    /// 64-bit integers.
    I64(&'a mut [i64]),
    /// Any other type.
    Other,
}

impl<'a> Elements<'a> {
    /// Those of a buffer.
    pub fn of(buffer: &'a Buffer) -> Elements<'a> {
        match buffer {
            Buffer::F32(elements) => Elements::F32(elements),
            Buffer::F64(elements) => Elements::F64(elements),
            Buffer::I64(elements) => Elements::I64(elements),
            Buffer::Bool(_) | Buffer::F16(_) | Buffer::BF16(_) | Buffer::I32(_) | Buffer::U8(_) => Elements::Other,
        }
    }

    /// Integers; empty if it has other elements.
    pub fn integers(self) -> &'a [i64] {
        match self {
            Elements::I64(elements) => elements,
            Elements::F32(_) | Elements::F64(_) | Elements::Other => &[],
        }
    }
}

impl<'a> ElementsMut<'a> {
    /// Those of a buffer.
    pub fn of(buffer: &'a mut Buffer) -> ElementsMut<'a> {
        match buffer {
            Buffer::F32(elements) => ElementsMut::F32(elements),
            Buffer::F64(elements) => ElementsMut::F64(elements),
            Buffer::I64(elements) => ElementsMut::I64(elements),
            Buffer::Bool(_) | Buffer::F16(_) | Buffer::BF16(_) | Buffer::I32(_) | Buffer::U8(_) => ElementsMut::Other,
        }
    }
}

/// A call of host code. Two calls are equal if they call one and the same operation.
#[derive(Clone, Debug)]
pub struct HostCall {
    function: Arc<dyn HostFunction>,
    /// The address of the operation, which `function` keeps alive.
    identity: usize,
}

impl PartialEq for HostCall {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl HostCall {
    /// A call of a function that owns the operation at this address.
    pub fn new(function: Arc<dyn HostFunction>, identity: usize) -> HostCall {
        HostCall { function, identity }
    }

    /// The name of the operation.
    pub fn name(&self) -> &str {
        self.function.name()
    }

    /// [`HostFunction::value_into`].
    pub fn value_into(&self, inputs: &[Operand<'_>], output: ElementsMut<'_>) -> Option<Result<(), String>> {
        self.function.value_into(inputs, output)
    }
}

/// Runs host code, and checks that it returns what it promised.
pub fn call(
    host: &HostCall,
    inputs: &[Array],
    promised: (&Shape, DType),
    origin: &'static Location<'static>,
) -> Result<Array, Error> {
    call_function(&*host.function, inputs, promised, origin)
}

/// [`call`] of a function that no program contains.
pub fn call_function(
    function: &dyn HostFunction,
    inputs: &[Array],
    (shape, dtype): (&Shape, DType),
    origin: &'static Location<'static>,
) -> Result<Array, Error> {
    let fail = |message: String| Error::new(function.name(), message).at(origin);
    let value = function.value(inputs).map_err(fail)?;
    if value.shape() != shape || value.dtype() != dtype {
        let (promised, made) = (format!("{dtype}{shape}"), format!("{}{}", value.dtype(), value.shape()));
        return Err(fail(format!("it promised {promised} and made {made}")));
    }
    Ok(value)
}

/// The error for an integer that is not one of the classes.
pub fn no_class(operation: &str, class: i64, place: usize, shape: &Shape, classes: usize) -> Error {
    let mut rest = place;
    let mut position: Vec<usize> = shape.iter().rev().map(|size| (rest % size, rest /= size).0).collect();
    position.reverse();
    let message = format!("class {class} at position {position:?} is not one of the {classes} classes");
    let help = match classes {
        0 => "there must be at least one class".to_owned(),
        _ => format!("classes are integers from 0 to {}", classes - 1),
    };
    Error::new(operation, message).help(help)
}
