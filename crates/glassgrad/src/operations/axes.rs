//! Axes joined, divided and moved.

use crate::error::Error;
use crate::expr::{Axes, Axis, Tensor};

impl Tensor {
    /// The axes from one to another, both included, joined to one.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).flatten_axes(1, -1).shape().to_string(), "[2, 12]");
    /// ```
    #[track_caller]
    pub fn flatten_axes(&self, first: impl Into<Axis>, last: impl Into<Axis>) -> Tensor {
        let (Axis(first), Axis(last)) = (first.into(), last.into());
        let (first, last) =
            match (self.axis_from_front("flatten_axes", first), self.axis_from_front("flatten_axes", last)) {
                (Ok(first), Ok(last)) => (first, last),
                (Err(failed), _) | (_, Err(failed)) => return failed,
            };
        if first > last {
            let message = format!("axis {first} does not stand before axis {last}");
            return Tensor::refused(Error::new("flatten_axes", message), &[self]);
        }
        let joined = self.shape()[first..=last].iter().product::<usize>();
        self.reshape([&self.shape()[..first], &[joined], &self.shape()[last + 1..]].concat())
    }

    /// One axis divided into several of these sizes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 12]).unflatten(1, &[3, 4]).shape().to_string(), "[2, 3, 4]");
    /// ```
    #[track_caller]
    pub fn unflatten(&self, axis: impl Into<Axis>, sizes: &[usize]) -> Tensor {
        let Axis(axis) = axis.into();
        match self.axis_from_front("unflatten", axis) {
            Ok(axis) => {
                let shape = [&self.shape()[..axis], sizes, &self.shape()[axis + 1..]].concat();
                self.reshape(shape).composed_as("unflatten", &[self])
            }
            Err(failed) => failed,
        }
    }

    /// Several axes moved to other places, the others in their order: `from[k]` becomes `to[k]`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).move_axes([0, 1], [-1, 0]).shape().to_string(), "[3, 4, 2]");
    /// ```
    #[track_caller]
    pub fn move_axes(&self, from: impl Into<Axes>, to: impl Into<Axes>) -> Tensor {
        let (from, to) = match (self.each_axis("move_axes", &from.into()), self.each_axis("move_axes", &to.into())) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(failed), _) | (_, Err(failed)) => return failed,
        };
        if from.len() != to.len() {
            let message = format!("{} axes are moved to {} places", from.len(), to.len());
            return Tensor::refused(Error::new("move_axes", message), &[self]);
        }
        let mut others = (0..self.rank()).filter(|axis| !from.contains(axis));
        let source = |place: usize| to.iter().position(|to| *to == place).map(|pair| from[pair]);
        let order: Vec<usize> = (0..self.rank()).filter_map(|place| source(place).or_else(|| others.next())).collect();
        self.permute(&order)
    }
}
