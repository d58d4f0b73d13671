//! Products of elements, as trees of pairwise products.
//!
//! The usual rule for the derivative of a product, y/x, fails where an element is zero, and the product of all
//! others costs a square. A tree of pairwise products needs no rule of its own: the derivatives of a product of
//! two are right at zero, to every order, and so are those of the tree.

use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, Axis, Cumulation, Tensor};
use crate::shape::Shape;

/// The parts of an axis that one loop multiplies.
const PARTS: usize = 8;

/// The product of some factors as a tree of pairwise products.
fn tree(mut factors: Vec<Tensor>) -> Tensor {
    while factors.len() > 1 {
        factors = factors.chunks(2).map(|pair| pair.iter().skip(1).fold(pair[0].clone(), |a, b| a * b)).collect();
    }
    factors.remove(0)
}

impl Tensor {
    /// The product of all elements; that of none is 1. Its derivatives are right also where elements are zero.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// assert_eq!(Tensor::from([2.0, 3.0, 4.0]).prod().item().unwrap(), 24.0);
    /// let slope = grad(|x: &Tensor| x.prod())(&Tensor::from([2.0, 0.0, 3.0]));
    /// assert_eq!(slope.to_string(), "[0, 6, 0]");
    /// ```
    #[track_caller]
    pub fn prod(&self) -> Tensor {
        self.prod_over(self.all_axes())
    }

    /// The product over some axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.prod_over(0).to_string(), "[3, 8]");
    /// ```
    #[track_caller]
    pub fn prod_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        let resolved = match self.resolved("prod", &axes) {
            Ok(resolved) => resolved,
            Err(failed) => return failed,
        };
        if self.dtype() == DType::Bool {
            return self.not_multiplied("prod");
        }
        if self.dtype().is_storage_only() {
            return self.accumulated(|wide| wide.prod_over(axes));
        }
        let kept: Vec<usize> = (0..self.rank()).filter(|axis| !resolved.contains(axis)).collect();
        let sizes = |axes: &[usize]| Shape::from(axes.iter().map(|axis| self.shape()[*axis]).collect::<Vec<_>>());
        let (others, count) = (sizes(&kept), sizes(&resolved).elements());
        if count == 0 {
            return self.put_back(&Tensor::full(&others, 1.0, self.dtype()), &axes, &resolved);
        }
        // Factors that are multiplied stand along one axis: where it is, if the axes are neighbours, in front otherwise.
        let mut along = resolved.clone();
        along.sort_unstable();
        let are_neighbours = along.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let (factors, place) = match along.first() {
            Some(first) if are_neighbours => (self.clone(), *first),
            _ => (self.permute([&along[..], &kept[..]].concat()), 0),
        };
        let (before, after) = others.split_at(place);
        let mut factors = factors.reshape([before, &[count], after].concat());
        let mut rest: Option<Tensor> = None;
        let mut left = count;
        while left > 1 {
            // The first part times the second and so on, as a tree; what is left over is multiplied in the end.
            let parts = if left >= PARTS { PARTS } else { 2 };
            let length = left / parts;
            let part = |number: usize| factors.part(place, number * length, length);
            let over: Vec<Tensor> = (parts * length..left).map(|own| factors.part(place, own, 1)).collect();
            rest = rest.into_iter().chain(over).reduce(|product, own| product * own);
            factors = tree((0..parts).map(part).collect());
            left = length;
        }
        let whole = match rest {
            Some(rest) => factors * rest,
            None => factors,
        };
        self.put_back(&whole.reshape(others), &axes, &resolved)
    }

    /// The products of the elements up to each place of an axis. Its derivatives are right also at zeros.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 3.0, 4.0]).cumprod(0).to_string(), "[ 1,  2,  6, 24]");
    /// ```
    #[track_caller]
    pub fn cumprod(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let axis = match self.resolved("cumprod", &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return failed,
        };
        if self.dtype() == DType::Bool {
            return self.not_multiplied("cumprod");
        }
        if self.dtype().is_storage_only() {
            return self.accumulated(|wide| wide.cumprod(axis));
        }
        self.accumulated_by("cumprod", axis as isize, Cumulation::Product, |before, rest| before * rest)
    }

    /// The place of the first smallest element along an axis; NaN counts as smallest, as in [`Tensor::min_over`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([3.0, 1.0, 2.0, 1.0]).argmin(0).to_string(), "1");
    /// ```
    #[track_caller]
    pub fn argmin(&self, axis: impl Into<Axes>) -> Tensor {
        let axis = axis.into();
        match self.one_axis("argmin", &axis) {
            Ok(along) if self.shape()[along] == 0 => {
                Tensor::refused(Error::new("argmin", format!("axis {along} is empty")), &[self])
            }
            Ok(_) => match self.dtype() {
                DType::Bool => self.not().argmax(axis),
                // The smallest integer has no negative; -1 - n has one for every n.
                DType::I64 | DType::I32 | DType::U8 => (-self - 1).argmax(axis),
                DType::F16 | DType::BF16 | DType::F32 | DType::F64 => (-self).argmax(axis),
            },
            Err(failed) => failed,
        }
    }

    /// The elements of some neighbouring places of an axis.
    #[track_caller]
    pub(super) fn part(&self, axis: usize, start: usize, length: usize) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        self.part_of_axis(axis, start, length)
    }

    /// A reduction of elements of a storage type, taken in the compute type: floating-point results are rounded once, and
    /// integers stay as wide as they have become.
    #[track_caller]
    pub(super) fn accumulated(&self, reduce: impl FnOnce(Tensor) -> Tensor) -> Tensor {
        let reduced = reduce(self.cast(self.dtype().compute_type()));
        if self.is_float() { reduced.cast(self.dtype()) } else { reduced }
    }

    #[track_caller]
    fn not_multiplied(&self, operation: &str) -> Tensor {
        let error = Error::new(operation, "truth values are not multiplied");
        Tensor::refused(error.help("ask whether all hold with .all(), or cast them to numbers first"), &[self])
    }
}
