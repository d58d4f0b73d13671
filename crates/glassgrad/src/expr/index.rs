//! Slices as in NumPy: places, ranges with steps, from the front or from the end.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::node::Tensor;
use crate::error::Error;
use crate::shape::Shape;
use crate::view::View;

/// What a slice takes of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One place, and the axis disappears. Negative places count from the end.
    At(isize),
    /// A range of places, with a step; a negative step runs backwards.
    Range(Option<isize>, Option<isize>, isize),
    /// A new axis of size 1.
    NewAxis,
    /// All axes that the other entries leave.
    Rest,
}

impl Index {
    /// The same range with a step; a negative one runs backwards.
    pub fn step(self, step: isize) -> Index {
        match self {
            Index::Range(start, end, _) => Index::Range(start, end, step),
            other => other,
        }
    }
}

/// An entry of a slice: `s(2)`, `s(1..)`, `s(..-1)`, `s(..).step(2)`.
pub fn s(index: impl Into<Index>) -> Index {
    index.into()
}

impl From<isize> for Index {
    fn from(place: isize) -> Index {
        Index::At(place)
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

macro_rules! ranges {
    ($($Integer:ty),*) => {$(
        impl From<Range<$Integer>> for Index {
            fn from(range: Range<$Integer>) -> Index {
                Index::Range(Some(range.start as isize), Some(range.end as isize), 1)
            }
        }
        impl From<RangeInclusive<$Integer>> for Index {
            fn from(range: RangeInclusive<$Integer>) -> Index {
                // One past -1 is the end itself.
                let end = *range.end() as isize + 1;
                Index::Range(Some(*range.start() as isize), (end != 0).then_some(end), 1)
            }
        }
        impl From<RangeFrom<$Integer>> for Index {
            fn from(range: RangeFrom<$Integer>) -> Index {
                Index::Range(Some(range.start as isize), None, 1)
            }
        }
        impl From<RangeTo<$Integer>> for Index {
            fn from(range: RangeTo<$Integer>) -> Index {
                Index::Range(None, Some(range.end as isize), 1)
            }
        }
        impl From<RangeToInclusive<$Integer>> for Index {
            fn from(range: RangeToInclusive<$Integer>) -> Index {
                let end = range.end as isize + 1;
                Index::Range(None, (end != 0).then_some(end), 1)
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
        Index::Range(start, end, step) => {
            let clamped = |place: isize| (if place < 0 { place + signed } else { place }).clamp(0, signed);
            let (low, high) = (start.map_or(0, clamped), end.map_or(signed, clamped));
            let extent = (high - low).max(0) as usize;
            let length = extent.div_ceil(step.unsigned_abs());
            // A backward range starts at its upper end.
            let start = if step < 0 { high - 1 } else { low };
            // A step behind which no other place lies may be any.
            let step = if length > 1 { step } else { 1 };
            Ok(Taken { start: if length > 0 { start } else { 0 }, step, length, kept: true })
        }
        Index::NewAxis | Index::Rest => Err("this entry names no axis".to_owned()),
    }
}
