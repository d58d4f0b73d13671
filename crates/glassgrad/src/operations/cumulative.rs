//! Running sums, and what else is accumulated along an axis.

use crate::expr::{Axis, Tensor};
use crate::view::View;

impl Tensor {
    /// Along an axis, the sum of all elements up to each place.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let x = Tensor::from([1.0, 2.0, 3.0]);
    /// assert_eq!(x.cumsum(0).to_string(), "[1, 3, 6]");
    /// assert_eq!(grad(|x: &Tensor| x.cumsum(0).sum())(&x).to_string(), "[3, 2, 1]");
    /// ```
    #[track_caller]
    pub fn cumsum(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let axis = match self.axis_from_front("cumsum", axis) {
            Ok(axis) => axis,
            Err(failed) => return failed,
        };
        if self.dtype().is_storage_only() {
            return self.accumulated(|wide| wide.cumsum(axis));
        }
        let size = self.shape()[axis];
        let mut sums = self.clone();
        // After k rounds each place holds the sum of the last 2ᵏ elements: fewer roundings than one by one.
        let mut reach = 1;
        while reach < size {
            let mut along: Vec<(isize, isize, usize)> = self.shape().iter().map(|size| (0, 1, *size)).collect();
            along[axis].0 = -(reach as isize);
            sums = &sums + sums.read(View::strided(self.shape(), &along));
            reach *= 2;
        }
        sums
    }

    /// Along an axis, ln Σ exp of all elements up to each place, without overflow.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let sums = Tensor::from([1000.0, 1000.0]).logcumsumexp(0);
    /// assert_eq!(sums.to_vec::<f64>().unwrap(), [1000.0, 1000.0 + 2.0_f64.ln()]);
    /// ```
    #[track_caller]
    pub fn logcumsumexp(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        self.running("logcumsumexp", axis, |before, rest| before.logaddexp(rest))
    }

    /// An associative operation accumulated along an axis in as many rounds as the size has binary digits.
    #[track_caller]
    pub(super) fn running(&self, name: &str, axis: isize, of: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
        let axis = match self.axis_from_front(name, axis) {
            Ok(axis) => axis,
            Err(failed) => return failed,
        };
        // After a round each place holds the result of the last 2, 4, 8, … elements up to it.
        let size = self.shape()[axis];
        let mut results = self.clone();
        let mut shift = 1;
        while shift < size {
            let (before, rest) = (results.part(axis, 0, size - shift), results.part(axis, shift, size - shift));
            results = Tensor::concatenate([&results.part(axis, 0, shift), &of(&before, &rest)], axis);
            shift = shift.saturating_mul(2);
        }
        results.composed_as(name, &[self])
    }
}
