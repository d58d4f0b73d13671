//! Sorting, and what follows from it: a gather by the permutation that sorts, whose derivative follows the elements.
//!
//! The permutation is stable: of equal elements the first comes first, and each keeps the derivative of the place
//! that it takes. NaN stands after all numbers.

use std::panic::Location;

use crate::diff::FusedRegion;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, Axis, FusedKernel, Op, Tensor};

impl Tensor {
    /// The places of the elements along an axis in ascending order, equal ones in the order in which they stand, NaN
    /// last.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([3.0, 1.0, f64::NAN, 1.0]).argsort(0).to_string(), "[1, 3, 0, 2]");
    /// ```
    #[track_caller]
    pub fn argsort(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        self.ordered("argsort", axis, false)
    }

    /// The elements along an axis in ascending order, NaN last; [`Tensor::sort_descending`] is the other way round.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let x = Tensor::from([3.0, 1.0, 2.0]);
    /// assert_eq!(x.sort(0).to_string(), "[1, 2, 3]");
    /// let weights = Tensor::from([10.0, 20.0, 30.0]);
    /// assert_eq!(grad(|x: &Tensor| x.sort(0).inner(&weights))(&x).to_string(), "[30, 10, 20]");
    /// ```
    #[track_caller]
    pub fn sort(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let order = self.ordered("sort", axis, false);
        if order.error().is_some() { order } else { self.take_along(&order, axis) }
    }

    /// The `k` largest elements along an axis in descending order, and their places; of equal elements the first
    /// comes first, and NaN counts as largest, as in [`Tensor::max_over`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (values, places) = Tensor::from([3.0, 5.0, 1.0, 5.0]).top_k(3, 0);
    /// assert_eq!((values.to_string(), places.to_string()), ("[5, 5, 3]".into(), "[1, 3, 0]".into()));
    /// ```
    #[track_caller]
    pub fn top_k(&self, k: usize, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let Axis(axis) = axis.into();
        let along = match self.resolved("top_k", &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return (failed.clone(), failed),
        };
        let size = self.shape()[along];
        if k > size {
            let message = format!("the {k} largest are asked for on axis {axis}, which has size {size}");
            let failed = Tensor::refused(Error::new("top_k", message), &[self]);
            return (failed.clone(), failed);
        }
        let region = FusedRegion::new(&[&self.axis_to_last(along)]);
        let lines = &region.parameters[0];
        let last = lines.rank() - 1;
        let order = lines.ordered("top_k", last as isize, true).part(last, 0, k);
        let places = region.outputs(FusedKernel::TopK(k), vec![order]).swap_remove(0).last_axis_to(along);
        (self.take_along(&places, axis), places)
    }

    /// The median of all elements: that in the middle, or the mean of the two in the middle. NaN if one is NaN, or if
    /// there are none.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let x = Tensor::from([1.0, 4.0, 2.0, 3.0]);
    /// assert_eq!(x.median().item().unwrap(), 2.5);
    /// assert_eq!(grad(|x: &Tensor| x.median())(&x).to_string(), "[  0,   0, 0.5, 0.5]");
    /// ```
    #[track_caller]
    pub fn median(&self) -> Tensor {
        self.reshape(self.shape().elements()).interpolated("median", 0.5, 0)
    }

    /// The medians over an axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[3.0, 1.0, 2.0], [6.0, 6.0, 9.0]]).median_over(1).to_string(), "[2, 6]");
    /// ```
    #[track_caller]
    pub fn median_over(&self, axis: impl Into<Axes>) -> Tensor {
        self.kept_quantile("median", 0.5, &axis.into())
    }

    /// The number below which a share `q` of the elements along an axis lies, between two of them by linear
    /// interpolation: `q` = 0 is the smallest, 1 the largest.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([10.0, 40.0, 20.0, 30.0, 50.0]);
    /// assert_eq!(x.quantile(0.25, 0).item().unwrap(), 20.0);
    /// assert_eq!(x.quantile(0.9, 0).item().unwrap(), 46.0);
    /// ```
    #[track_caller]
    pub fn quantile(&self, q: f64, axis: impl Into<Axes>) -> Tensor {
        self.kept_quantile("quantile", q, &axis.into())
    }

    #[track_caller]
    fn kept_quantile(&self, name: &str, q: f64, axes: &Axes) -> Tensor {
        match self.one_axis(name, axes) {
            Ok(along) => self.put_back(&self.interpolated(name, q, along as isize), axes, &[along]),
            Err(failed) => failed,
        }
    }

    #[track_caller]
    fn interpolated(&self, name: &str, q: f64, axis: isize) -> Tensor {
        match self.axis_from_front(name, axis) {
            Ok(along) => self.at_sorted_place(name, q, q * self.shape()[along].saturating_sub(1) as f64, axis),
            Err(failed) => failed,
        }
    }

    /// What stands at a place of the sorted elements, by linear interpolation, for a share `q` of them.
    #[track_caller]
    pub(super) fn at_sorted_place(&self, name: &str, q: f64, position: f64, axis: isize) -> Tensor {
        let axis = match self.resolved(name, &Axes::from(axis)) {
            Ok(resolved) => resolved[0],
            Err(failed) => return failed,
        };
        if !self.is_float() {
            let message = format!("it is defined for floating-point numbers, not for {}", self.dtype());
            let error = Error::new(name, message).help("cast first, for example with .cast(DType::F64)");
            return Tensor::refused(error, &[self]);
        }
        if !(0.0..=1.0).contains(&q) {
            return Tensor::refused(Error::new(name, format!("the share {q} is not between 0 and 1")), &[self]);
        }
        let mut shape = self.shape().to_vec();
        let size = shape.remove(axis);
        if size == 0 {
            return Tensor::full(shape, f64::NAN, self.dtype());
        }
        let sorted = self.sort(axis as isize);
        let at = |place: usize| sorted.part(axis, place, 1).reshape(&shape[..]);
        let (below, weight) = (position.floor() as usize, position.fract());
        // A weight of zero must not meet an infinite neighbour.
        let between = match weight {
            0.0 => at(below),
            _ => at(below) * (1.0 - weight) + at(below + 1) * weight,
        };
        // NaN stands last, and there alone one has to look for it.
        let last = at(size - 1);
        last.not_equal(&last).choose(&last, &between)
    }

    /// The permutation that sorts along an axis.
    #[track_caller]
    pub(super) fn ordered(&self, name: &'static str, axis: isize, descending: bool) -> Tensor {
        match self.resolved(name, &Axes::from(axis)) {
            Ok(resolved) => {
                let lines = self.axis_to_last(resolved[0]);
                let shape = lines.shape().clone();
                let order =
                    Tensor::node_at(Op::ArgSort { descending }, &[&lines], shape, DType::I64, Location::caller());
                order.last_axis_to(resolved[0])
            }
            Err(failed) => failed,
        }
    }
}
