//! Products over chosen axes.

use crate::einsum::Label;
use crate::error::Error;
use crate::expr::{Axes, Axis, Tensor};

impl Tensor {
    /// The sum of products over pairs of axes, `axes[k]` of this tensor with `other_axes[k]` of the other: the remaining
    /// axes of the first, then those of the second.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (a, b) = (Tensor::ones([2, 3, 4]), Tensor::ones([4, 3, 5]));
    /// assert_eq!(a.tensordot(&b, [1, 2], [1, 0]).shape().to_string(), "[2, 5]");
    /// ```
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, axes: impl Into<Axes>, other_axes: impl Into<Axes>) -> Tensor {
        let (mine, theirs) =
            match (self.each_axis("tensordot", &axes.into()), other.each_axis("tensordot", &other_axes.into())) {
                (Ok(mine), Ok(theirs)) => (mine, theirs),
                (Err(failed), _) | (_, Err(failed)) => return failed,
            };
        if mine.len() != theirs.len() {
            let message = format!("{} axes of the first are paired with {} of the second", mine.len(), theirs.len());
            return Tensor::refused(Error::new("tensordot", message), &[self, other]);
        }
        let first: Vec<Label> = (0..self.rank()).collect();
        let partner = |axis: usize| theirs.iter().position(|their| *their == axis).map(|pair| mine[pair]);
        let second: Vec<Label> = (0..other.rank()).map(|axis| partner(axis).unwrap_or(self.rank() + axis)).collect();
        let kept = |labels: &[Label]| labels.iter().copied().filter(|label| !mine.contains(label)).collect::<Vec<_>>();
        let output = [kept(&first), kept(&second)].concat();
        Tensor::einsum_labels(&[(self, &first), (other, &second)], &output).composed_as("tensordot", &[self, other])
    }

    /// The bilinear map Σᵢⱼ xᵢ·weight[o, i, j]·yⱼ of the last axes; the axes before are those of both.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (x, y) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    /// let weight = Tensor::from([[[1.0, 0.0], [0.0, 1.0]]]);
    /// assert_eq!(x.bilinear(&y, &weight).to_string(), "[11]");
    /// ```
    #[track_caller]
    pub fn bilinear(&self, y: &Tensor, weight: &Tensor) -> Tensor {
        let operands = [self, y, weight];
        if let Some(failed) = operands.into_iter().find(|operand| operand.error().is_some()) {
            return failed.clone();
        }
        if self.rank() == 0 || y.rank() != self.rank() || weight.rank() != 3 {
            let message = format!(
                "it takes [.., i], [.., j] and a weight [o, i, j], not the shapes {}, {} and {}",
                self.shape(),
                y.shape(),
                weight.shape()
            );
            return Tensor::refused(Error::new("bilinear", message), &operands);
        }
        let lead: Vec<Label> = (3..self.rank() + 2).collect();
        let with = |label: Label| [&lead[..], &[label]].concat();
        let labelled = [(self, &with(1)[..]), (y, &with(2)), (weight, &[0, 1, 2])];
        Tensor::einsum_labels(&labelled, &with(0)).composed_as("bilinear", &operands)
    }

    /// The sum of a diagonal of two axes, `offset` places above the main one; the other axes stay.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.trace_over(1, 0, 1).item().unwrap(), 8.0);
    /// ```
    #[track_caller]
    pub fn trace_over(&self, offset: isize, first: impl Into<Axis>, second: impl Into<Axis>) -> Tensor {
        let (Axis(first), Axis(second)) = (first.into(), second.into());
        self.diagonal_over(offset, first, second).sum_over(-1).composed_as("trace_over", &[self])
    }

    /// A diagonal of two axes, `offset` places above the main one, as the last axis; the other axes stay.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::ones([2, 3, 4]).diagonal_over(0, 0, 2).shape().to_string(), "[3, 2]");
    /// ```
    #[track_caller]
    pub fn diagonal_over(&self, offset: isize, first: impl Into<Axis>, second: impl Into<Axis>) -> Tensor {
        let (Axis(first), Axis(second)) = (first.into(), second.into());
        match self.each_axis("diagonal_over", &Axes::from([first, second])) {
            Ok(pair) => {
                let others = (0..self.rank()).filter(|axis| !pair.contains(axis));
                let order: Vec<usize> = others.chain(pair.iter().copied()).collect();
                self.permute(&order).diagonal(offset).composed_as("diagonal_over", &[self])
            }
            Err(failed) => failed,
        }
    }
}
