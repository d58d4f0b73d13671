//! Host calls: operations of the user's own, which run on host memory whatever the target.

use std::panic::Location;

use crate::array::Array;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Custom;
use crate::shape::Shape;

/// Calls a custom operation, and checks that it returns what it promised.
pub(crate) fn call(
    custom: &Custom,
    inputs: &[Array],
    (shape, dtype): (&Shape, DType),
    origin: &'static Location<'static>,
) -> Result<Array, Error> {
    let fail = |message: String| Error::new(custom.0.name(), message).at(origin);
    let value = custom.0.value(inputs).map_err(fail)?;
    if value.shape() != shape || value.dtype() != dtype {
        let (promised, made) = (format!("{dtype}{shape}"), format!("{}{}", value.dtype(), value.shape()));
        return Err(fail(format!("it promised {promised} and made {made}")));
    }
    Ok(value)
}

/// The error for an integer that is not one of the classes.
pub(crate) fn no_class(operation: &str, class: i64, place: usize, shape: &Shape, classes: usize) -> Error {
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
