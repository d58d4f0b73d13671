//! The sizes of a new shape, of which one may follow from the others.

use crate::shape::Shape;

/// What [`Tensor::reshape`](crate::Tensor::reshape) takes: a shape, or sizes of which one is -1 and follows from the others.
/// Arrays, slices and lists of any integers are sizes, and so are tuples of integers of different types.
///
/// ```
/// use glassgrad::{Tensor, expr::Sizes, shape::Shape};
/// let x = Tensor::zeros([2, 3, 4]);
/// assert_eq!(x.reshape([2, -1]).shape(), &Shape::from([2, 12]));
/// let batch: usize = 6;
/// assert_eq!(x.reshape((batch, -1)).shape(), &Shape::from([6, 4]));
/// assert_eq!(Sizes::from(vec![6_usize, 4]), Sizes::from([6, 4]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Known(Shape),
    /// At least one size is negative.
    Inferred(Vec<isize>),
}

/// One of [`Sizes`].
///
/// ```
/// use glassgrad::expr::Size;
/// assert_eq!((Size::from(3_usize), Size::from(-1)), (Size(3), Size(-1)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub isize);

impl Sizes {
    /// The shape that this many elements fill, or why there is none.
    pub(super) fn resolve(self, elements: usize) -> Result<Shape, String> {
        let sizes = match self.0 {
            Kind::Known(shape) if shape.elements() == elements => return Ok(shape),
            Kind::Known(shape) => return Err(format!("{elements} elements do not fill the shape {shape}")),
            Kind::Inferred(sizes) => sizes,
        };
        if sizes.iter().any(|size| *size < -1) {
            return Err(format!("sizes are not negative, but for one that is -1: {sizes:?}"));
        }
        if sizes.iter().filter(|size| **size < 0).count() > 1 {
            return Err(format!("only one size can follow from the others: {sizes:?}"));
        }
        let known =
            sizes.iter().filter(|size| **size >= 0).fold(1, |all: usize, size| all.saturating_mul(*size as usize));
        if known == 0 || !elements.is_multiple_of(known) {
            return Err(format!("no size in place of -1 makes {sizes:?} of {elements} elements"));
        }
        Ok(sizes.iter().map(|size| if *size < 0 { elements / known } else { *size as usize }).collect())
    }
}

/// Sizes that are numbers of any type.
fn sizes<S: Into<Size>>(sizes: impl IntoIterator<Item = S>) -> Sizes {
    let sizes: Vec<isize> = sizes.into_iter().map(|size| size.into().0).collect();
    match sizes.iter().any(|size| *size < 0) {
        true => Sizes(Kind::Inferred(sizes)),
        false => Sizes(Kind::Known(sizes.into_iter().map(|size| size as usize).collect())),
    }
}

macro_rules! sizes_from_shapes {
    ($($(const $N:ident)? $Shape:ty),*) => {$(
        impl$(<const $N: usize>)? From<$Shape> for Sizes {
            fn from(shape: $Shape) -> Sizes {
                Sizes(Kind::Known(shape.into()))
            }
        }
    )*};
}
sizes_from_shapes!(Shape, &Shape, (), usize, Vec<usize>, &[usize], const N [usize; N], const N &[usize; N]);

impl From<&Vec<usize>> for Sizes {
    fn from(shape: &Vec<usize>) -> Sizes {
        Sizes::from(&shape[..])
    }
}

impl From<usize> for Size {
    fn from(size: usize) -> Size {
        // No shape has this many elements, which is reported where the size is used.
        Size(isize::try_from(size).unwrap_or(isize::MAX))
    }
}

macro_rules! sizes_from_signed {
    ($($Integer:ty),*) => {$(
        impl From<$Integer> for Size {
            fn from(size: $Integer) -> Size {
                Size(isize::try_from(size).unwrap_or(isize::MAX))
            }
        }
        impl From<$Integer> for Sizes {
            fn from(size: $Integer) -> Sizes {
                sizes([size])
            }
        }
        impl<const N: usize> From<[$Integer; N]> for Sizes {
            fn from(all: [$Integer; N]) -> Sizes {
                sizes(all)
            }
        }
        impl<const N: usize> From<&[$Integer; N]> for Sizes {
            fn from(all: &[$Integer; N]) -> Sizes {
                sizes(*all)
            }
        }
        impl From<&[$Integer]> for Sizes {
            fn from(all: &[$Integer]) -> Sizes {
                sizes(all.iter().copied())
            }
        }
        impl From<Vec<$Integer>> for Sizes {
            fn from(all: Vec<$Integer>) -> Sizes {
                sizes(all)
            }
        }
    )*};
}
sizes_from_signed!(i32, i64, isize);

macro_rules! sizes_from_tuples {
    ($(($($Size:ident $size:ident),*))*) => {$(
        impl<$($Size: Into<Size>),*> From<($($Size,)*)> for Sizes {
            fn from(($($size,)*): ($($Size,)*)) -> Sizes {
                sizes([$($size.into()),*])
            }
        }
    )*};
}
sizes_from_tuples!((A a) (A a, B b) (A a, B b, C c) (A a, B b, C c, D d) (A a, B b, C c, D d, E e));
