//! Slices as in NumPy: places, ranges with steps, from the front or from the end.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::node::Tensor;
use crate::error::Error;
use crate::shape::Shape;
use crate::view::View;

/// What a slice takes of one axis.
///
/// ```
/// use glassgrad::{Tensor, expr::{Index, s}};
/// let x = Tensor::zeros([2, 3, 4]);
/// assert_eq!(x.slice(&[Index::Rest, s(0), Index::NewAxis]).shape().to_string(), "[2, 3, 1]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One place, and the axis disappears. Negative places count from the end.
    At(isize),
    /// From a place, to before another, by a step, as `start:stop:step` in NumPy: a negative step runs backwards, from
    /// the last place if there is no start, to the first if there is no stop.
    Range(Option<isize>, Option<isize>, isize),
    /// A new axis of size 1.
    NewAxis,
    /// All axes that the other entries leave.
    Rest,
}

impl Index {
    /// The same range with a step; a negative one runs backwards, from the start down to before the stop.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::{Index, s}};
    /// let x = Tensor::arange(5_i64);
    /// assert_eq!(x.slice(&[s(1..).step(2)]).to_string(), "[1, 3]");
    /// assert_eq!(x.slice(&[s(..).step(-2)]).to_string(), "[4, 2, 0]");
    /// assert_eq!(x.slice(&[s(3..).step(-1)]).to_string(), "[3, 2, 1, 0]");
    /// assert_eq!(x.slice(&[Index::Range(Some(3), Some(0), -1)]).to_string(), "[3, 2, 1]");
    /// ```
    pub fn step(self, step: isize) -> Index {
        match self {
            Index::Range(start, end, _) => Index::Range(start, end, step),
            other => other,
        }
    }
}

/// An entry of a slice: `s(2)`, `s(1..)`, `s(..-1)`, `s(..).step(2)`.
///
/// ```
/// use glassgrad::expr::{Index, s};
/// assert_eq!(s(-1), Index::At(-1));
/// assert_eq!(s(2..), Index::Range(Some(2), None, 1));
/// ```
pub fn s(index: impl Into<Index>) -> Index {
    index.into()
}

impl From<isize> for Index {
    fn from(place: isize) -> Index {
        Index::At(place)
    }
}

impl From<usize> for Index {
    fn from(place: usize) -> Index {
        Index::At(bound(place))
    }
}

impl From<i32> for Index {
    fn from(place: i32) -> Index {
        Index::At(place as isize)
    }
}

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index::Range(None, None, 1)
    }
}

/// A bound of a range as a place. No axis is longer than `isize::MAX`, so what is larger means its end.
fn bound<T: TryInto<isize>>(place: T) -> isize {
    place.try_into().unwrap_or(isize::MAX)
}

/// The bound after an inclusive one; one past -1 is the end itself.
fn after(place: isize) -> Option<isize> {
    (place != -1).then(|| place.saturating_add(1))
}

macro_rules! ranges {
    ($($Integer:ty),*) => {$(
        impl From<Range<$Integer>> for Index {
            fn from(range: Range<$Integer>) -> Index {
                Index::Range(Some(bound(range.start)), Some(bound(range.end)), 1)
            }
        }
        impl From<RangeInclusive<$Integer>> for Index {
            fn from(range: RangeInclusive<$Integer>) -> Index {
                Index::Range(Some(bound(*range.start())), after(bound(*range.end())), 1)
            }
        }
        impl From<RangeFrom<$Integer>> for Index {
            fn from(range: RangeFrom<$Integer>) -> Index {
                Index::Range(Some(bound(range.start)), None, 1)
            }
        }
        impl From<RangeTo<$Integer>> for Index {
            fn from(range: RangeTo<$Integer>) -> Index {
                Index::Range(None, Some(bound(range.end)), 1)
            }
        }
        impl From<RangeToInclusive<$Integer>> for Index {
            fn from(range: RangeToInclusive<$Integer>) -> Index {
                Index::Range(None, after(bound(range.end)), 1)
            }
        }
    )*};
}
ranges!(isize, i32, usize);

/// One axis of a slice that was understood: the first place, the step, how many places, whether it stays.
struct Taken {
    start: isize,
    step: isize,
    length: usize,
    kept: bool,
}

impl Tensor {
    /// A part of the tensor, by an entry for each of its first axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::s};
    /// let x = Tensor::arange(12.0).reshape([3, 4]);
    /// assert_eq!(x.slice(&[s(1)]).to_string(), "[4, 5, 6, 7]");
    /// assert_eq!(x.slice(&[s(..), s(-1)]).to_string(), "[ 3,  7, 11]");
    /// assert_eq!(x.slice(&[s(..2), s(..).step(-2)]).to_string(), "[[3, 1],\n [7, 5]]");
    /// ```
    #[track_caller]
    pub fn slice(&self, indices: &[Index]) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let origin = std::panic::Location::caller();
        let error = |message: String| Tensor::refused_at(Error::new("slice", message), &[self], origin);
        let named = indices.iter().filter(|index| matches!(index, Index::At(_) | Index::Range(..))).count();
        if named > self.rank() {
            return error(format!("{named} entries for the {} axes of the shape {}", self.rank(), self.shape()));
        }
        let mut entries: Vec<Index> = indices.to_vec();
        let whole = Index::Range(None, None, 1);
        let missing = self.rank() - named;
        match entries.iter().position(|index| *index == Index::Rest) {
            Some(place) => drop(entries.splice(place..=place, std::iter::repeat_n(whole, missing))),
            None => entries.extend(std::iter::repeat_n(whole, missing)),
        }
        let mut taken = Vec::new();
        let mut shape = Vec::new();
        for entry in entries {
            let axis = taken.len();
            if entry == Index::NewAxis {
                shape.push(1);
                continue;
            }
            if axis >= self.rank() {
                return error("an ellipsis stands twice".to_owned());
            }
            match take(entry, self.shape()[axis], axis) {
                Ok(one) => {
                    if one.kept {
                        shape.push(one.length);
                    }
                    taken.push(one);
                }
                Err(message) => return error(message),
            }
        }
        let along: Vec<(isize, isize, usize)> = taken.iter().map(|one| (one.start, one.step, one.length)).collect();
        self.read(View::strided(self.shape(), &along)).reshape(Shape::from(shape))
    }
}

fn take(entry: Index, size: usize, axis: usize) -> Result<Taken, String> {
    let signed = size as isize;
    match entry {
        Index::At(place) => {
            let from_front = if place < 0 { place + signed } else { place };
            if !(0..signed).contains(&from_front) {
                return Err(format!("place {place} is not on axis {axis}, which has size {size}"));
            }
            Ok(Taken { start: from_front, step: 1, length: 1, kept: false })
        }
        Index::Range(_, _, 0) => Err(format!("the step of axis {axis} is 0")),
        Index::Range(start, stop, step) => {
            // As `slice.indices` of Python: the first place, and the one before which the range ends.
            let (lowest, highest) = if step < 0 { (-1, signed - 1) } else { (0, signed) };
            let clamped = |place: isize| (if place < 0 { place + signed } else { place }).clamp(lowest, highest);
            let (first, last) = if step < 0 { (highest, lowest) } else { (lowest, highest) };
            let (start, stop) = (start.map_or(first, clamped), stop.map_or(last, clamped));
            let extent = if step < 0 { start - stop } else { stop - start };
            let length = (extent.max(0) as usize).div_ceil(step.unsigned_abs());
            // A step that leads to no other place may be any.
            let step = if length > 1 { step } else { 1 };
            Ok(Taken { start: if length > 0 { start } else { 0 }, step, length, kept: true })
        }
        Index::NewAxis | Index::Rest => Err("this entry names no axis".to_owned()),
    }
}
