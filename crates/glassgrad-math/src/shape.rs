//! Shapes: the sizes of a tensor's axes.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

/// Per-axis data such as sizes and strides, stored inline for the usual ranks: it is copied with every node.
#[doc(hidden)]
pub type InlineVec<T> = SmallVec<[T; 5]>;

/// The sizes of the axes of a tensor. A number has the empty shape.
///
/// ```
/// use glassgrad::shape::Shape;
/// let matrix = Shape::from([2, 3]);
/// assert_eq!((matrix.rank(), matrix.elements(), matrix.to_string()), (2, 6, "[2, 3]".to_string()));
/// assert_eq!(matrix.broadcast(&Shape::from([3])), Some(matrix.clone()));
/// assert_eq!(matrix.broadcast(&Shape::from([2])), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(InlineVec<usize>);

impl Shape {
    /// The shape of a number.
    ///
    /// ```
    /// use glassgrad::shape::Shape;
    /// assert_eq!((Shape::scalar().rank(), Shape::scalar().elements()), (0, 1));
    /// ```
    #[inline]
    pub fn scalar() -> Self {
        Shape::from(&[][..])
    }

    /// The number of axes.
    ///
    /// ```
    /// use glassgrad::shape::Shape;
    /// assert_eq!(Shape::from([4, 5, 6]).rank(), 3);
    /// ```
    #[inline]
    pub fn rank(&self) -> usize {
        self.len()
    }

    /// The number of elements; saturates instead of overflowing, so that a limit can refuse it.
    ///
    /// ```
    /// use glassgrad::shape::Shape;
    /// assert_eq!(Shape::from([4, 5]).elements(), 20);
    /// ```
    #[inline]
    pub fn elements(&self) -> usize {
        self.iter().fold(1, |product: usize, size| product.saturating_mul(*size))
    }

    /// The distance in memory between neighbours along each axis, rows first.
    ///
    /// ```
    /// use glassgrad::shape::Shape;
    /// assert_eq!(Shape::from([4, 5, 6]).strides(), [30, 6, 1]);
    /// ```
    #[inline]
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1_usize; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(self[axis].max(1));
        }
        strides
    }

    /// The shape that two shapes broadcast to: aligned at the last axis, a size of 1 stretches.
    ///
    /// ```
    /// use glassgrad::shape::Shape;
    /// assert_eq!(Shape::from([4, 1]).broadcast(&Shape::from([3])), Some(Shape::from([4, 3])));
    /// ```
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other {
            return Some(self.clone());
        }
        let rank = self.rank().max(other.rank());
        let size = |shape: &Shape, axis: usize| (axis + shape.rank()).checked_sub(rank).map_or(1, |own| shape[own]);
        (0..rank)
            .map(|axis| match (size(self, axis), size(other, axis)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<Shape>>()
    }

    /// The axes of `self`, followed by those of `other`.
    ///
    /// ```
    /// use glassgrad::shape::Shape;
    /// assert_eq!(Shape::from([2]).followed_by(&[3, 4]), Shape::from([2, 3, 4]));
    /// ```
    #[inline]
    pub fn followed_by(&self, other: &[usize]) -> Shape {
        self.iter().chain(other).copied().collect()
    }
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.iter().map(usize::to_string).collect();
        write!(formatter, "[{}]", sizes.join(", "))
    }
}

impl From<Vec<usize>> for Shape {
    fn from(sizes: Vec<usize>) -> Self {
        Shape::from(&sizes[..])
    }
}

impl From<&[usize]> for Shape {
    #[inline]
    fn from(sizes: &[usize]) -> Self {
        Shape(InlineVec::from_slice(sizes))
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Self {
        Shape::from(&sizes[..])
    }
}

impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(sizes: &[usize; N]) -> Self {
        Shape::from(&sizes[..])
    }
}

impl From<()> for Shape {
    fn from((): ()) -> Self {
        Shape::scalar()
    }
}

impl From<usize> for Shape {
    fn from(size: usize) -> Self {
        Shape::from([size])
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(sizes: I) -> Self {
        Shape(sizes.into_iter().collect())
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}
