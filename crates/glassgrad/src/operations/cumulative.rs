//! Running sums.

use crate::expr::Tensor;
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
    pub fn cumsum(&self, axis: isize) -> Tensor {
        let axis = match self.axis_from_front("cumsum", axis) {
            Ok(axis) => axis,
            Err(failed) => return failed,
        };
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
}
