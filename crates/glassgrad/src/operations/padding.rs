//! Padding that repeats what is inside, and cropping.

use crate::error::Error;
use crate::expr::Tensor;

/// What [`Tensor::pad_by`] puts around a tensor.
///
/// ```
/// use glassgrad::{Tensor, operations::Padding};
/// let x = Tensor::from([1.0, 2.0, 3.0]);
/// assert_eq!(x.pad_by(&[(2, 1)], Padding::Reflect).to_string(), "[3, 2, 1, 2, 3, 2]");
/// assert_eq!(x.pad_by(&[(2, 1)], Padding::Replicate).to_string(), "[1, 1, 1, 2, 3, 3]");
/// assert_eq!(x.pad_by(&[(2, 1)], Padding::Circular).to_string(), "[2, 3, 1, 2, 3, 1]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Zeros.
    Zeros,
    /// The elements in reverse order, without the one at the edge: `reflect` in NumPy and PyTorch.
    Reflect,
    /// The elements in reverse order, with the one at the edge: `symmetric` in NumPy.
    Symmetric,
    /// The element at the edge: `edge` in NumPy, `replicate` in PyTorch.
    Replicate,
    /// The elements from the other end: `wrap` in NumPy, `circular` in PyTorch.
    Circular,
}

/// The longest axis that padding makes, so that a slip of the pen is an error and not a crash.
const LONGEST: usize = 1 << 28;

impl Tensor {
    /// The tensor with elements `before` and `after` each axis; negative widths crop.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Padding};
    /// let x = Tensor::from([1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.pad_by(&[(-1, 2)], Padding::Zeros).to_string(), "[2, 3, 4, 0, 0]");
    /// ```
    #[track_caller]
    pub fn pad_by(&self, widths: &[(isize, isize)], padding: Padding) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let origin = std::panic::Location::caller();
        let fail = |message: String| Tensor::refused_at(Error::new("pad_by", message), &[self], origin);
        if widths.len() != self.rank() {
            return fail(format!("{} pairs of widths for the {} axes of {}", widths.len(), self.rank(), self.shape()));
        }
        let mut padded = self.clone();
        for (axis, (before, after)) in widths.iter().enumerate() {
            let size = self.shape()[axis];
            let length = (size as isize).saturating_add(*before).saturating_add(*after);
            if !(0..=LONGEST as isize).contains(&length) {
                return fail(format!("widths of {before} and {after} do not fit axis {axis}, which has size {size}"));
            }
            if size == 0 && length > 0 && padding != Padding::Zeros {
                return fail(format!("axis {axis} is empty: there is nothing to repeat"));
            }
            padded = padded.padded_axis(axis, *before, length as usize, padding);
        }
        padded
    }

    #[track_caller]
    fn padded_axis(&self, axis: usize, before: isize, length: usize, padding: Padding) -> Tensor {
        let size = self.shape()[axis];
        if before == 0 && length == size {
            return self.clone();
        }
        if padding == Padding::Zeros {
            let mut along: Vec<(isize, isize, usize)> = self.shape().iter().map(|size| (0, 1, *size)).collect();
            along[axis] = (-before, 1, length);
            return self.read(crate::view::View::strided(self.shape(), &along));
        }
        let size = size as isize;
        let source = |place: isize| match padding {
            Padding::Replicate | Padding::Zeros => place.clamp(0, size - 1),
            Padding::Circular => place.rem_euclid(size),
            // Back and forth: the period is twice the size, without or with the elements at the edges twice.
            Padding::Reflect if size == 1 => 0,
            Padding::Reflect => {
                let folded = place.rem_euclid(2 * (size - 1));
                folded.min(2 * (size - 1) - folded)
            }
            Padding::Symmetric => {
                let folded = place.rem_euclid(2 * size);
                folded.min(2 * size - 1 - folded)
            }
        };
        let places: Vec<i64> = (0..length as isize).map(|place| source(place - before) as i64).collect();
        self.take(&Tensor::from(places), axis)
    }
}
