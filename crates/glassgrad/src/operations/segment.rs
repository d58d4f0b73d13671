//! Reductions of the elements that indices put together: segments along the first axis, and scattering with a
//! reduction.

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axis, CustomOp, IntoTensor, Rule, Tensor};
use crate::shape::Shape;

use super::indexing::integers;

/// How [`Tensor::scatter_reduce`] makes one element of several.
///
/// ```
/// use glassgrad::{Tensor, operations::Reduction};
/// let (x, i) = (Tensor::from([1.0, 1.0]), Tensor::from([0_i64, 0, 1]));
/// let most = x.scatter_reduce(&i, &Tensor::from([5.0, 3.0, 0.0]), 0, Reduction::Max, true);
/// assert_eq!(most.to_string(), "[5, 1]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The largest; equal ones share the derivative evenly.
    Max,
    /// The smallest; equal ones share the derivative evenly.
    Min,
}

impl Tensor {
    /// For each of `count` segments, the sum of the entries along the first axis whose index names it.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let sums = Tensor::from([1.0, 2.0, 4.0]).segment_sum(&Tensor::from([0_i64, 2, 2]), 3);
    /// assert_eq!(sums.to_string(), "[1, 0, 6]");
    /// ```
    #[track_caller]
    pub fn segment_sum(&self, segments: &Tensor, count: usize) -> Tensor {
        match self.segmented("segment_sum", segments) {
            Some(failed) => failed,
            None => self.scatter_add(segments, 0, count).composed_as("segment_sum", &[self, segments]),
        }
    }

    /// For each of `count` segments, the mean of the entries along the first axis whose index names it; 0 if there are
    /// none.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let means = Tensor::from([1.0, 2.0, 4.0]).segment_mean(&Tensor::from([0_i64, 2, 2]), 3);
    /// assert_eq!(means.to_string(), "[1, 0, 3]");
    /// ```
    #[track_caller]
    pub fn segment_mean(&self, segments: &Tensor, count: usize) -> Tensor {
        if let Some(failed) = self.segmented("segment_mean", segments) {
            return failed;
        }
        if let Some(failed) = Tensor::not_float("segment_mean", &[self]) {
            return failed;
        }
        let mean = self.scatter_add(segments, 0, count) / self.members(segments, count).maximum(1.0);
        mean.composed_as("segment_mean", &[self, segments])
    }

    /// For each of `count` segments, the largest of the entries along the first axis whose index names it, or -∞ if
    /// there are none. Equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let most = Tensor::from([1.0, 2.0, 4.0]).segment_max(&Tensor::from([0_i64, 2, 2]), 3);
    /// assert_eq!(most.to_string(), "[   1, -inf,    4]");
    /// ```
    #[track_caller]
    pub fn segment_max(&self, segments: &Tensor, count: usize) -> Tensor {
        let name = "segment_max";
        if let Some(failed) = self.segmented(name, segments) {
            return failed;
        }
        if let Some(failed) = Tensor::not_float(name, &[self]) {
            return failed;
        }
        // Which entries are largest is found in host code; their mean is the largest, with the right derivative.
        let largest = Tensor::custom(SegmentMax { count }, &[&self.stop_gradient(), segments]);
        let chosen = self.equal(largest.take(segments, 0)).or(&self.is_nan());
        let ties = chosen.cast(self.dtype()).scatter_add(segments, 0, count);
        let sum = chosen.choose(self, &self.zeros_like()).scatter_add(segments, 0, count);
        let mean = sum / ties.maximum(1.0);
        largest.equal(f64::NEG_INFINITY).choose(&largest, &mean).composed_as(name, &[self, segments])
    }

    /// For each of `count` segments, the smallest of the entries along the first axis whose index names it, or ∞ if
    /// there are none. Equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let least = Tensor::from([1.0, 2.0, 4.0]).segment_min(&Tensor::from([0_i64, 2, 2]), 3);
    /// assert_eq!(least.to_string(), "[  1, inf,   2]");
    /// ```
    #[track_caller]
    pub fn segment_min(&self, segments: &Tensor, count: usize) -> Tensor {
        if let Some(failed) = Tensor::not_float("segment_min", &[self]) {
            return failed;
        }
        (-(-self).segment_max(segments, count)).composed_as("segment_min", &[self, segments])
    }

    /// The same tensor with values reduced into it at the places of [`Tensor::take_along`]: `scatter_reduce` in
    /// PyTorch. If `include_self` does not hold, elements that values are put to do not count themselves.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Reduction};
    /// let (x, i) = (Tensor::from([10.0, 20.0]), Tensor::from([0_i64, 0]));
    /// let values = Tensor::from([1.0, 3.0]);
    /// assert_eq!(x.scatter_reduce(&i, &values, 0, Reduction::Sum, true).to_string(), "[14, 20]");
    /// assert_eq!(x.scatter_reduce(&i, &values, 0, Reduction::Mean, false).to_string(), "[ 2, 20]");
    /// ```
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        indices: &Tensor,
        values: impl IntoTensor,
        axis: impl Into<Axis>,
        reduction: Reduction,
        include_self: bool,
    ) -> Tensor {
        let Axis(axis) = axis.into();
        let name = "scatter_reduce";
        let values = values.into_values_of(self);
        if let Some(failed) = Tensor::not_float(name, &[self, &values]) {
            return failed;
        }
        let (lines, values_by_line) = match self.lines_and_values(name, indices, &values, axis) {
            Ok(found) => found,
            Err(failed) => return failed,
        };
        let count = lines.table.shape().elements();
        let (places, added) = (lines.places.flatten(), values_by_line.flatten());
        let own_places = Tensor::arange(count as i64);
        let (segments, entries) = match include_self {
            true => (Tensor::concatenate([&own_places, &places], 0), Tensor::concatenate([&lines.table, &added], 0)),
            false => (places.clone(), added),
        };
        let reduced = match reduction {
            Reduction::Sum => entries.segment_sum(&segments, count),
            Reduction::Mean => entries.segment_mean(&segments, count),
            Reduction::Max => entries.segment_max(&segments, count),
            Reduction::Min => entries.segment_min(&segments, count),
        };
        let reached = if include_self { None } else { Some(entries.members(&places, count).gt(0.0)) };
        let table = reached.map_or(reduced.clone(), |reached| reached.choose(&reduced, &lines.table));
        lines.whole(&table, self).composed_as(name, &[self, indices, &values])
    }

    /// How many entries each segment has, with as many axes as these entries.
    #[track_caller]
    fn members(&self, segments: &Tensor, count: usize) -> Tensor {
        let ones = Tensor::full(segments.shape(), 1.0, self.dtype()).scatter_add(segments, 0, count);
        let mut shape = vec![1; self.rank()];
        shape[0] = count;
        ones.reshape(shape)
    }

    /// The error for indices that are not one for each entry of the first axis.
    #[track_caller]
    fn segmented(&self, name: &str, segments: &Tensor) -> Option<Tensor> {
        if let Some(failed) = [self, segments].into_iter().find(|tensor| tensor.error().is_some()) {
            return Some(failed.clone());
        }
        if segments.dtype() == DType::I64 && self.rank() > 0 && **segments.shape() == self.shape()[..1] {
            return None;
        }
        let message = format!(
            "it takes one i64 for each entry of the first axis of {}, not {}",
            self.shape(),
            segments.describe()
        );
        Some(Tensor::refused(Error::new(name, message), &[self, segments]))
    }
}

/// The largest entry of each segment. It has no derivative.
#[derive(Clone, Copy, Debug)]
struct SegmentMax {
    count: usize,
}

impl CustomOp for SegmentMax {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        "segment_max"
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((Shape::from(self.count).followed_by(&inputs[0].shape()[1..]), inputs[0].dtype()))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let (entries, segments) = (&inputs[0], integers(&inputs[1]));
        let shape = Shape::from(self.count).followed_by(&entries.shape()[1..]);
        let row = shape[1..].iter().product::<usize>();
        let mut largest = vec![f64::NEG_INFINITY; shape.elements()];
        for (entry, segment) in segments.iter().enumerate() {
            let segment = usize::try_from(*segment).ok().filter(|segment| *segment < self.count);
            let segment = segment.ok_or_else(|| format!("{} is none of {} segments", segments[entry], self.count))?;
            for place in 0..row {
                let number = entries.buffer().get(entry * row + place);
                let most = &mut largest[segment * row + place];
                // NaN is kept once it is met.
                if number > *most || number.is_nan() {
                    *most = number;
                }
            }
        }
        Ok(Array::new(shape, Buffer::from_fn(entries.dtype(), largest.len(), |place| largest[place])))
    }

    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|_| vec![None, None]))
    }
}
