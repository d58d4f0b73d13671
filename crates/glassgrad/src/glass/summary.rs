//! An array in a few numbers.

use std::fmt;

use serde_json::{Value, json};

use crate::array::Array;
use crate::dtype::DType;
use crate::trace::{json_number, short};

/// An array in a few numbers: the only element, or the range and the mean of those that are finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many elements there are.
    pub elements: usize,
    /// How many of them are NaN or infinite.
    pub not_finite: usize,
    /// How many are exactly zero.
    pub zeros: usize,
    /// The smallest finite element.
    pub smallest: f64,
    /// The largest finite element.
    pub largest: f64,
    /// The mean of the finite elements.
    pub mean: f64,
    /// The only element, if there is only one.
    pub only: Option<f64>,
    is_bool: bool,
}

impl Summary {
    /// The summary of an array.
    ///
    /// ```
    /// use glassgrad::{Tensor, glass::Summary};
    /// let array = Tensor::from([1.0, 3.0, f64::NAN]).eval().unwrap();
    /// assert_eq!(Summary::of(&array).to_string(), "1 … 3, mean 2, 1 of 3 not finite");
    /// ```
    pub fn of(array: &Array) -> Summary {
        let elements = array.buffer().len();
        let numbers = || (0..elements).map(|place| array.buffer().get(place));
        let finite = || numbers().filter(|number| number.is_finite());
        let count = finite().count();
        Summary {
            elements,
            not_finite: elements - count,
            zeros: numbers().filter(|number| *number == 0.0).count(),
            smallest: finite().fold(f64::INFINITY, f64::min),
            largest: finite().fold(f64::NEG_INFINITY, f64::max),
            mean: finite().sum::<f64>() / count as f64,
            only: (elements == 1).then(|| array.buffer().get(0)),
            is_bool: array.dtype() == DType::Bool,
        }
    }

    /// The summary as JSON: a number, or an object.
    pub fn to_json(&self) -> Value {
        match self.only {
            Some(number) => json_number(number),
            None => json!({
                "smallest": json_number(self.smallest),
                "largest": json_number(self.largest),
                "mean": json_number(self.mean),
                "zeros": self.zeros,
                "not_finite": self.not_finite,
            }),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { elements, not_finite, zeros, smallest, largest, mean, only, is_bool } = self;
        match only {
            Some(number) if *is_bool => return write!(formatter, "{}", *number != 0.0),
            Some(number) => return formatter.write_str(&short(*number)),
            None if *elements == 0 => return formatter.write_str("empty"),
            None if *is_bool => return write!(formatter, "{} of {elements} true", elements - zeros),
            None if not_finite == elements => return write!(formatter, "all {elements} not finite"),
            None if smallest == largest => write!(formatter, "all {}", short(*largest))?,
            None => write!(formatter, "{} … {}, mean {}", short(*smallest), short(*largest), short(*mean))?,
        }
        if *not_finite > 0 {
            write!(formatter, ", {not_finite} of {elements} not finite")?;
        }
        Ok(())
    }
}
