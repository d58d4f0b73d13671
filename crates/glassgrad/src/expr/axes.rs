//! Axes as arguments: one or several, from the front or, if they are negative, from the end.

use super::node::Tensor;
use crate::error::Error;

/// One axis; a negative one counts from the end. Any integer of Rust is one, signed or not.
///
/// ```
/// use glassgrad::{Tensor, expr::Axis};
/// let x = Tensor::ones([2, 3]);
/// assert_eq!((Axis::from(-1), Axis::from(1_usize)), (Axis(-1), Axis(1)));
/// assert_eq!(x.unsqueeze(-1).shape(), x.unsqueeze(x.rank()).shape());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis(pub isize);

impl Axis {
    /// The axis of a shape of this rank counted from the front, if there is one.
    pub(super) fn counted_from_front(self, rank: usize) -> Option<usize> {
        let from_front = if self.0 < 0 { self.0.checked_add(rank as isize)? } else { self.0 };
        usize::try_from(from_front).ok().filter(|axis| *axis < rank)
    }
}

/// The axes that a reduction runs over, and whether they stay with size 1. Negative ones count from the end.
///
/// ```
/// use glassgrad::{Tensor, expr::Axes};
/// let x = Tensor::ones([2, 3, 4]);
/// assert_eq!(x.sum_over([0, -1]).to_string(), "[8, 8, 8]");
/// assert_eq!(x.mean_over(Axes::from(2).keep()).shape().to_string(), "[2, 3, 1]");
/// let axes = vec![0_usize, 1];
/// assert_eq!(x.max_over(&axes).shape(), x.max_over(axes).shape());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    axes: Vec<isize>,
    keep: bool,
}

impl Axes {
    /// The axes of a tensor of this rank.
    pub(super) fn all(rank: usize) -> Axes {
        Axes { axes: (0..rank as isize).collect(), keep: false }
    }

    /// The axes as they were given.
    #[cfg(feature = "fft")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Axis> {
        self.axes.iter().copied().map(Axis)
    }

    /// Whether the axes stay with size 1.
    pub(super) fn are_kept(&self) -> bool {
        self.keep
    }

    /// The same axes, which stay with size 1.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::Axes};
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.max_over(Axes::from(1).keep()).shape().to_string(), "[2, 1]");
    /// ```
    pub fn keep(mut self) -> Axes {
        self.keep = true;
        self
    }

    /// The axes counted from the front, in the order in which they are named, none of them twice.
    pub(super) fn resolve(&self, operation: &str, tensor: &Tensor) -> Result<Vec<usize>, Error> {
        let mut resolved = Vec::new();
        for axis in &self.axes {
            let Some(from_front) = Axis(*axis).counted_from_front(tensor.rank()) else {
                return Err(Error::new(operation, format!("there is no axis {axis} in the shape {}", tensor.shape())));
            };
            if resolved.contains(&from_front) {
                let message = format!("axis {axis} of the shape {} is named twice", tensor.shape());
                return Err(Error::new(operation, message));
            }
            resolved.push(from_front);
        }
        Ok(resolved)
    }
}

impl From<Axis> for Axes {
    fn from(axis: Axis) -> Axes {
        Axes { axes: vec![axis.0], keep: false }
    }
}

/// Several axes of which each is one.
fn several<A: Into<Axis>>(axes: impl IntoIterator<Item = A>) -> Axes {
    Axes { axes: axes.into_iter().map(|axis| axis.into().0).collect(), keep: false }
}

macro_rules! axes_from {
    ($($Integer:ty),*) => {$(
        impl From<$Integer> for Axis {
            fn from(axis: $Integer) -> Axis {
                // An axis beyond all numbers is beyond all shapes, which is reported where it is used.
                Axis(isize::try_from(axis).unwrap_or(isize::MAX))
            }
        }
        impl From<$Integer> for Axes {
            fn from(axis: $Integer) -> Axes {
                Axes::from(Axis::from(axis))
            }
        }
        impl<const N: usize> From<[$Integer; N]> for Axes {
            fn from(axes: [$Integer; N]) -> Axes {
                several(axes)
            }
        }
        impl<const N: usize> From<&[$Integer; N]> for Axes {
            fn from(axes: &[$Integer; N]) -> Axes {
                several(*axes)
            }
        }
        impl From<&[$Integer]> for Axes {
            fn from(axes: &[$Integer]) -> Axes {
                several(axes.iter().copied())
            }
        }
        impl From<Vec<$Integer>> for Axes {
            fn from(axes: Vec<$Integer>) -> Axes {
                several(axes)
            }
        }
        impl From<&Vec<$Integer>> for Axes {
            fn from(axes: &Vec<$Integer>) -> Axes {
                several(axes.iter().copied())
            }
        }
    )*};
}
axes_from!(isize, i32, i64, usize);
