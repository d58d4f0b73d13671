//! Extrema and quantiles with their places, and descending orders.

use crate::error::Error;
use crate::expr::{Axes, Axis, Cumulation, Tensor};

/// How [`Tensor::quantile_by`] decides between the two elements that a quantile lies between.
///
/// ```
/// use glassgrad::{Tensor, operations::Quantile};
/// let x = Tensor::from([1.0, 2.0, 4.0, 8.0]);
/// assert_eq!(x.quantile_by(0.5, 0, Quantile::Higher).item().unwrap(), 4.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// Between both in proportion to the distances.
    Linear,
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The mean of both.
    Midpoint,
    /// The nearer one, and of equally near ones that at the even place.
    Nearest,
}

impl Tensor {
    /// The elements along an axis in descending order; NaN counts as largest.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([3.0, 1.0, 2.0]).sort_descending(0).to_string(), "[3, 2, 1]");
    /// ```
    #[track_caller]
    pub fn sort_descending(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let order = self.ordered("sort_descending", axis, true);
        if order.error().is_some() { order } else { self.take_along(&order, axis) }
    }

    /// The places of the elements along an axis in descending order, equal ones in the order in which they stand; NaN
    /// counts as largest.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([3.0, 1.0, 3.0]).argsort_descending(0).to_string(), "[0, 2, 1]");
    /// ```
    #[track_caller]
    pub fn argsort_descending(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        self.ordered("argsort_descending", axis, true)
    }

    /// The largest elements along an axis and the places where the first of them stand. The derivative is that of the
    /// element at the place.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (values, places) = Tensor::from([[3.0, 5.0, 5.0], [2.0, 0.0, 1.0]]).max_with_index(1);
    /// assert_eq!((values.to_string(), places.to_string()), ("[5, 2]".into(), "[1, 0]".into()));
    /// ```
    #[track_caller]
    pub fn max_with_index(&self, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let Axis(axis) = axis.into();
        let places = self.argmax(axis).composed_as("max_with_index", &[self]);
        (self.at_places("max_with_index", &places, axis), places)
    }

    /// The smallest elements along an axis and the places where the first of them stand. The derivative is that of the
    /// element at the place.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (values, places) = Tensor::from([[3.0, 5.0, 3.0], [2.0, 0.0, 1.0]]).min_with_index(1);
    /// assert_eq!((values.to_string(), places.to_string()), ("[3, 0]".into(), "[0, 1]".into()));
    /// ```
    #[track_caller]
    pub fn min_with_index(&self, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let Axis(axis) = axis.into();
        let places = self.argmin(axis).composed_as("min_with_index", &[self]);
        (self.at_places("min_with_index", &places, axis), places)
    }

    /// The `k`-th smallest elements along an axis, counted from 1, and their places.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (values, places) = Tensor::from([30.0, 10.0, 20.0]).kth_value(2, 0);
    /// assert_eq!((values.item().unwrap(), places.item().unwrap()), (20.0, 2.0));
    /// ```
    #[track_caller]
    pub fn kth_value(&self, k: usize, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let Axis(axis) = axis.into();
        let places = self.place_of_rank("kth_value", k.wrapping_sub(1), axis);
        (self.at_places("kth_value", &places, axis), places)
    }

    /// The lower medians along an axis, each an element, and their places; [`Tensor::median_over`] takes the mean of
    /// the two in the middle instead. NaN counts as largest.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (values, places) = Tensor::from([4.0, 1.0, 3.0, 2.0]).median_with_index(0);
    /// assert_eq!((values.item().unwrap(), places.item().unwrap()), (2.0, 3.0));
    /// ```
    #[track_caller]
    pub fn median_with_index(&self, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let Axis(axis) = axis.into();
        let places = match self.axis_from_front("median_with_index", axis) {
            Ok(along) => {
                let middle = self.shape()[along].wrapping_sub(1) / 2;
                self.place_of_rank("median_with_index", middle, axis)
            }
            Err(failed) => failed,
        };
        (self.at_places("median_with_index", &places, axis), places)
    }

    /// [`Tensor::quantile`] with a choice of what lies between two elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Quantile};
    /// let x = Tensor::from([10.0, 40.0, 20.0, 30.0]);
    /// assert_eq!(x.quantile_by(0.4, 0, Quantile::Lower).item().unwrap(), 20.0);
    /// assert_eq!(x.quantile_by(0.4, 0, Quantile::Midpoint).item().unwrap(), 25.0);
    /// ```
    #[track_caller]
    pub fn quantile_by(&self, q: f64, axis: impl Into<Axis>, between: Quantile) -> Tensor {
        let Axis(axis) = axis.into();
        let along = match self.axis_from_front("quantile_by", axis) {
            Ok(along) => along,
            Err(failed) => return failed,
        };
        let last = self.shape()[along].saturating_sub(1) as f64;
        let place = q * last;
        // The rounded place as a share again: at an element there is nothing to interpolate.
        let moved = match between {
            Quantile::Linear => place,
            Quantile::Lower => place.floor(),
            Quantile::Higher => place.ceil(),
            Quantile::Midpoint => (place.floor() + place.ceil()) / 2.0,
            Quantile::Nearest => place.round_ties_even(),
        };
        let at = if (0.0..=1.0).contains(&q) { moved } else { place };
        self.at_sorted_place("quantile_by", q, at, axis)
    }

    /// Several quantiles along an axis by linear interpolation, which stand along a new first axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([10.0, 40.0, 20.0, 30.0, 50.0]);
    /// assert_eq!(x.quantiles(&[0.0, 0.25, 1.0], 0).to_string(), "[10, 20, 50]");
    /// ```
    #[track_caller]
    pub fn quantiles(&self, shares: &[f64], axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let mut all = Vec::new();
        for share in shares {
            all.push(self.quantile(*share, axis));
        }
        Tensor::stack(all.iter().collect::<Vec<_>>(), 0).composed_as("quantiles", &[self])
    }

    /// The largest elements up to each place of an axis; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 3.0, 2.0, 4.0]).cummax(0).to_string(), "[1, 3, 3, 4]");
    /// ```
    #[track_caller]
    pub fn cummax(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        self.accumulated_by("cummax", axis, Cumulation::Max, |before, rest| before.maximum(rest))
    }

    /// The smallest elements up to each place of an axis; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([4.0, 3.0, 5.0, 1.0]).cummin(0).to_string(), "[4, 3, 3, 1]");
    /// ```
    #[track_caller]
    pub fn cummin(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        self.accumulated_by("cummin", axis, Cumulation::Min, |before, rest| before.minimum(rest))
    }

    /// Along an axis, the place of the element of a rank, counted from 0 in ascending order.
    #[track_caller]
    fn place_of_rank(&self, name: &'static str, rank: usize, axis: isize) -> Tensor {
        let along = match self.axis_from_front(name, axis) {
            Ok(along) => along,
            Err(failed) => return failed,
        };
        let size = self.shape()[along];
        if rank >= size {
            let message = format!("axis {axis} of size {size} has no element of rank {}", rank.wrapping_add(1));
            return Tensor::refused(Error::new(name, message), &[self]);
        }
        self.ordered(name, axis, false).part(along, rank, 1).squeeze(axis).composed_as(name, &[self])
    }

    /// Along an axis, which disappears, the elements at one place for each line.
    #[track_caller]
    fn at_places(&self, name: &str, places: &Tensor, axis: isize) -> Tensor {
        if places.error().is_some() {
            return places.clone();
        }
        match self.resolved(name, &Axes::from(axis)) {
            Ok(along) => {
                let values = self.take_along(&places.unsqueeze(along[0] as isize), axis).squeeze(axis);
                values.composed_as(name, &[self])
            }
            Err(failed) => failed,
        }
    }
}
