//! Running sums, and what else is accumulated along an axis.

use crate::diff::FusedRegion;
use crate::einsum::{Einsum, Label};
use crate::expr::{Axis, Cumulation, CumulativeKernel, FusedKernel, Tensor};
use crate::view::View;

/// The elements of a block that one product sums up, and the blocks from which on that is worth it.
const BLOCK: usize = 16;
const BLOCKS: usize = 4;

/// The kernel that accumulates along an axis from the first element on.
pub(super) fn kernel_of(of: Cumulation, axis: usize) -> FusedKernel {
    FusedKernel::Cumulative(CumulativeKernel { of, axis, reversed: false })
}

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
        let region = FusedRegion::new(&[self]);
        let sums = region.parameters[0].cumsum_by_rounds(axis);
        region.outputs(kernel_of(Cumulation::Sum, axis), vec![sums]).swap_remove(0)
    }

    /// The definition of [`Tensor::cumsum`].
    #[track_caller]
    fn cumsum_by_rounds(&self, axis: usize) -> Tensor {
        let size = self.shape()[axis];
        if self.is_float() && size > BLOCKS * BLOCK {
            return self.cumsum_in_blocks(axis);
        }
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

    /// The sums inside of blocks as a product with a triangular matrix of ones, and the sums of all blocks in front of each. Zeros
    /// of the matrix win over what is not finite: no sum contains elements behind it.
    #[track_caller]
    fn cumsum_in_blocks(&self, axis: usize) -> Tensor {
        let (shape, size) = (self.shape(), self.shape()[axis]);
        let count = size.div_ceil(BLOCK);
        let along = |start: isize, length: usize| {
            let mut along: Vec<(isize, isize, usize)> = shape.iter().map(|size| (0, 1, *size)).collect();
            along[axis] = (start, 1, length);
            along
        };
        let whole = match count * BLOCK == size {
            true => self.clone(),
            false => self.read(View::strided(shape, &along(0, count * BLOCK))),
        };
        let (before, after) = (&shape[..axis], &shape[axis + 1..]);
        let blocks = whole.reshape([before, &[count, BLOCK], after].concat());
        let ones: Vec<f64> = (0..BLOCK * BLOCK).map(|k| if k / BLOCK <= k % BLOCK { 1.0 } else { 0.0 }).collect();
        let triangle = Tensor::new(&ones, [BLOCK, BLOCK]).cast(self.dtype());
        // Element, sum, and the axes around.
        let rank = self.rank();
        let labels = |own: usize| -> Vec<Label> { (0..=axis).chain([own]).chain(axis + 1..rank).collect() };
        let (element, sum) = (rank, rank + 1);
        let mut extents = shape.to_vec();
        extents[axis] = count;
        extents.extend([BLOCK; 2]);
        let einsum = Einsum::new(vec![vec![element, sum], labels(element)], labels(sum), extents).strong_in(0, true);
        let inside = Tensor::contract_as("cumsum", einsum, &[&triangle, &blocks]);
        let totals = inside.part(axis + 1, BLOCK - 1, 1).reshape([before, &[count], after].concat());
        let mut shifted: Vec<(isize, isize, usize)> = totals.shape().iter().map(|size| (0, 1, *size)).collect();
        shifted[axis].0 = -1;
        let sums = totals.cumsum_by_rounds(axis);
        let in_front =
            sums.read(View::strided(totals.shape(), &shifted)).reshape([before, &[count, 1], after].concat());
        let sums = (inside + in_front).reshape([before, &[count * BLOCK], after].concat());
        if count * BLOCK == size { sums } else { sums.part(axis, 0, size) }
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

    /// [`Tensor::running`] as the definition of a kernel that some targets have.
    #[track_caller]
    pub(super) fn accumulated_by(
        &self,
        name: &str,
        axis: isize,
        cumulation: Cumulation,
        of: impl Fn(&Tensor, &Tensor) -> Tensor,
    ) -> Tensor {
        let along = match self.axis_from_front(name, axis) {
            Ok(along) => along,
            Err(failed) => return failed,
        };
        let region = FusedRegion::new(&[self]);
        let results = region.parameters[0].running(name, axis, of);
        region.outputs(kernel_of(cumulation, along), vec![results]).swap_remove(0).composed_as(name, &[self])
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
