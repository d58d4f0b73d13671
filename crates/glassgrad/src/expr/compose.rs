//! What is composed from the core: reductions, products of matrices, softmax and its relatives. Where
//! the naive form fails, the stable one is here.

use super::create::IntoTensor;
use super::node::Tensor;
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::error::Error;
use crate::shape::Shape;
use crate::view::View;

/// The axes that a reduction runs over, and whether they stay with size 1. Negative ones count from the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    axes: Vec<isize>,
    keep: bool,
}

impl Axes {
    /// The same axes, which stay with size 1.
    pub fn keep(mut self) -> Axes {
        self.keep = true;
        self
    }

    /// The axes counted from the front, ascending.
    fn resolve(&self, operation: &str, tensor: &Tensor) -> Result<Vec<usize>, Error> {
        let rank = tensor.rank() as isize;
        let mut resolved = Vec::new();
        for axis in &self.axes {
            let from_front = if *axis < 0 { axis + rank } else { *axis };
            if !(0..rank).contains(&from_front) {
                return Err(Error::new(operation, format!("there is no axis {axis} in the shape {}", tensor.shape())));
            }
            resolved.push(from_front as usize);
        }
        resolved.sort_unstable();
        resolved.dedup();
        Ok(resolved)
    }
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Axes {
        Axes { axes: vec![axis], keep: false }
    }
}

impl From<i32> for Axes {
    fn from(axis: i32) -> Axes {
        Axes::from(axis as isize)
    }
}

impl From<usize> for Axes {
    fn from(axis: usize) -> Axes {
        Axes::from(axis as isize)
    }
}

impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Axes {
        Axes { axes: axes.to_vec(), keep: false }
    }
}

impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Axes {
        Axes { axes: axes.to_vec(), keep: false }
    }
}

/// The shape with some axes of size 1, or without them.
fn reduced(shape: &Shape, axes: &[usize], keep: bool) -> Shape {
    let sizes = shape.iter().enumerate().filter(|(axis, _)| keep || !axes.contains(axis));
    Shape::from(sizes.map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size }).collect::<Vec<_>>())
}

/// Sums and what follows from them.
impl Tensor {
    /// The axes of a reduction counted from the front, or the failure. No closure is called in between, as
    /// closures do not pass the caller's line on.
    #[track_caller]
    pub(crate) fn resolved(&self, operation: &str, axes: &Axes) -> Result<Vec<usize>, Tensor> {
        if self.error().is_some() {
            return Err(self.clone());
        }
        let origin = std::panic::Location::caller();
        axes.resolve(operation, self).map_err(|error| Tensor::refused_at(error, &[self], origin))
    }

    /// One axis counted from the front, or the failure.
    #[track_caller]
    pub(crate) fn axis_from_front(&self, operation: &str, axis: isize) -> Result<usize, Tensor> {
        Ok(self.resolved(operation, &Axes::from(axis))?[0])
    }

    /// Puts the axes that a reduction ran over back with size 1, if they are kept.
    #[track_caller]
    pub(crate) fn put_back(&self, result: &Tensor, axes: &Axes, resolved: &[usize]) -> Tensor {
        if result.error().is_some() {
            return result.clone();
        }
        result.reshape(reduced(self.shape(), resolved, axes.keep))
    }

    /// All axes.
    pub(crate) fn all_axes(&self) -> Axes {
        Axes { axes: (0..self.rank() as isize).collect(), keep: false }
    }

    /// The sum of all elements.
    #[track_caller]
    pub fn sum(&self) -> Tensor {
        self.sum_over(self.all_axes())
    }

    /// The sum over some axes.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::Axes};
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum_over(0).to_string(), "[4, 6]");
    /// assert_eq!(x.sum_over(Axes::from(-1).keep()).to_string(), "[[3],\n [7]]");
    /// ```
    #[track_caller]
    pub fn sum_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        match self.resolved("sum", &axes) {
            Ok(resolved) => {
                let sum = Tensor::contract(Einsum::sum(self.shape(), &resolved), &[self]);
                self.put_back(&sum, &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// The mean of all elements.
    #[track_caller]
    pub fn mean(&self) -> Tensor {
        self.mean_over(self.all_axes())
    }

    /// The mean over some axes.
    #[track_caller]
    pub fn mean_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        match self.resolved("mean", &axes) {
            Ok(_) if !self.is_float() => {
                let message = format!("it is defined for floating-point numbers, not for {}", self.dtype());
                let error = Error::new("mean", message).help("cast first, for example with .cast(DType::F32)");
                Tensor::refused(error, &[self])
            }
            Ok(resolved) => {
                let count = resolved.iter().fold(1, |count: usize, axis| count.saturating_mul(self.shape()[*axis]));
                let einsum = Einsum::sum(self.shape(), &resolved);
                let mean = match count {
                    // The mean of nothing is not a number.
                    0 => Tensor::full(einsum.output_shape(), f64::NAN, self.dtype()),
                    _ => Tensor::contract(einsum.scaled(1.0 / count as f64), &[self]),
                };
                self.put_back(&mean, &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// The variance over some axes: the mean of the squared distances from the mean.
    #[track_caller]
    pub fn var_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        let centred = self - self.mean_over(axes.clone().keep());
        centred.square().mean_over(axes)
    }

    /// The variance of all elements.
    #[track_caller]
    pub fn var(&self) -> Tensor {
        self.var_over(self.all_axes())
    }

    /// The standard deviation over some axes.
    #[track_caller]
    pub fn std_over(&self, axes: impl Into<Axes>) -> Tensor {
        self.var_over(axes).sqrt()
    }

    /// The standard deviation of all elements.
    #[track_caller]
    pub fn std(&self) -> Tensor {
        self.var().sqrt()
    }

    /// The largest element; equal ones share the derivative evenly.
    #[track_caller]
    pub fn max(&self) -> Tensor {
        self.reshape(self.shape().elements()).largest(0, false)
    }

    /// The largest elements over an axis.
    #[track_caller]
    pub fn max_over(&self, axis: impl Into<Axes>) -> Tensor {
        let axes = axis.into();
        match self.resolved("max", &axes) {
            Ok(resolved) => {
                let largest = match &resolved[..] {
                    [] => self.clone(),
                    [axis] => self.largest(*axis, false),
                    // Several axes become one, so that equal elements share evenly across all of them.
                    several => {
                        let kept: Vec<usize> = (0..self.rank()).filter(|axis| !several.contains(axis)).collect();
                        let count =
                            several.iter().fold(1, |count: usize, axis| count.saturating_mul(self.shape()[*axis]));
                        let shape: Vec<usize> = kept.iter().map(|axis| self.shape()[*axis]).chain([count]).collect();
                        self.permute(&[&kept[..], several].concat()).reshape(shape).largest(kept.len(), false)
                    }
                };
                self.put_back(&largest, &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// The smallest element; equal ones share the derivative evenly.
    #[track_caller]
    pub fn min(&self) -> Tensor {
        -(-self).max()
    }

    /// The smallest elements over an axis.
    #[track_caller]
    pub fn min_over(&self, axis: impl Into<Axes>) -> Tensor {
        -(-self).max_over(axis)
    }

    /// The place of the first largest element along an axis.
    #[track_caller]
    pub fn argmax(&self, axis: isize) -> Tensor {
        match self.resolved("argmax", &Axes::from(axis)) {
            Ok(resolved) => self.largest(resolved[0], true),
            Err(failed) => failed,
        }
    }

    /// The Euclidean length of all elements as one vector; its derivative at the origin is 0.
    #[track_caller]
    pub fn norm(&self) -> Tensor {
        self.norm_over(self.all_axes())
    }

    /// The Euclidean length over some axes.
    #[track_caller]
    pub fn norm_over(&self, axes: impl Into<Axes>) -> Tensor {
        let squares = self.square().sum_over(axes);
        squares.equal(0.0).choose(&squares.zeros_like(), &squares.sqrt())
    }

    /// ln Σ exp over some axes, without overflow.
    #[track_caller]
    pub fn logsumexp_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        let shift = self.shift_over(axes.clone().keep());
        let sum = (self - &shift).exp().sum_over(axes.clone()).ln();
        let shift = shift.reshape(if sum.error().is_some() { shift.shape().clone() } else { sum.shape().clone() });
        sum + shift
    }

    /// ln Σ exp of all elements, without overflow.
    #[track_caller]
    pub fn logsumexp(&self) -> Tensor {
        self.logsumexp_over(self.all_axes())
    }

    /// The largest elements as constants, or 0 where they are infinite.
    #[track_caller]
    fn shift_over(&self, axes: Axes) -> Tensor {
        let largest = self.stop_gradient().max_over(axes);
        largest.abs().lt(f64::INFINITY).choose(&largest, &largest.zeros_like())
    }

    /// exp(x) / Σ exp(x) along an axis.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Tensor {
        let axes = Axes::from(axis).keep();
        let weights = (self - self.shift_over(axes.clone())).exp();
        &weights / weights.sum_over(axes)
    }

    /// The logarithm of [`Tensor::softmax`], accurate where that is nearly 0 or 1.
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Tensor {
        let axes = Axes::from(axis).keep();
        let shifted = self - self.shift_over(axes.clone());
        &shifted - shifted.exp().sum_over(axes).ln()
    }
}

/// Products.
impl Tensor {
    /// A product in Einstein notation.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(Tensor::einsum("ij,jk->ik", &[&a, &a]).to_string(), "[[ 7, 10],\n [15, 22]]");
    /// assert_eq!(Tensor::einsum("ii->", &[&a]).item().unwrap(), 5.0); // trace
    /// assert_eq!(Tensor::einsum("ii->i", &[&a]).to_string(), "[1, 4]"); // diagonal
    /// let v = Tensor::from([5.0, 6.0]);
    /// assert_eq!(Tensor::einsum("i->ii", &[&v]).to_string(), "[[5, 0],\n [0, 6]]"); // diagonal matrix
    /// assert_eq!(Tensor::einsum("i->ij=3", &[&v]).to_string(), "[[5, 5, 5],\n [6, 6, 6]]"); // broadcast
    /// ```
    #[track_caller]
    pub fn einsum(notation: &str, operands: &[&Tensor]) -> Tensor {
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*failed).clone();
        }
        let shapes: Vec<&[usize]> = operands.iter().map(|operand| &**operand.shape()).collect();
        match Einsum::parse(notation, &shapes) {
            Ok(einsum) => Tensor::contract(einsum, operands),
            Err(error) => Tensor::refused(Error::new("einsum", error.to_string()), operands),
        }
    }

    /// A product in Einstein notation from lists of labels; an output label that no operand has is an error.
    #[track_caller]
    pub fn einsum_labels(operands: &[(&Tensor, &[Label])], output: &[Label]) -> Tensor {
        let tensors: Vec<&Tensor> = operands.iter().map(|(tensor, _)| *tensor).collect();
        if let Some(failed) = tensors.iter().find(|tensor| tensor.error().is_some()) {
            return (*failed).clone();
        }
        let count = operands.iter().flat_map(|(_, labels)| *labels).chain(output).max().map_or(0, |last| last + 1);
        let mut extents: Vec<Option<usize>> = vec![None; count];
        for (tensor, labels) in operands {
            if labels.len() != tensor.rank() {
                let message = format!("{} labels for the shape {}", labels.len(), tensor.shape());
                return Tensor::refused(Error::new("einsum", message), &tensors);
            }
            for (label, size) in labels.iter().zip(tensor.shape().iter()) {
                let known = *extents[*label].get_or_insert(*size);
                if known != *size {
                    let message = format!("label {label} has size {known} and size {size}");
                    return Tensor::refused(Error::new("einsum", message), &tensors);
                }
            }
        }
        if let Some(label) = output.iter().find(|label| extents[**label].is_none()) {
            let message = format!("label {label} of the output is in no operand");
            return Tensor::refused(Error::new("einsum", message), &tensors);
        }
        let extents = extents.into_iter().map(|extent| extent.unwrap_or(1)).collect();
        let einsum =
            Einsum::new(operands.iter().map(|(_, labels)| labels.to_vec()).collect(), output.to_vec(), extents);
        Tensor::contract(einsum, &tensors)
    }

    /// The product of matrices, of vectors, or of stacks of matrices whose leading axes broadcast.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.matmul(&Tensor::from([1.0, 1.0])).to_string(), "[3, 7]");
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        if let Some(failed) = [self, other].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        let origin = std::panic::Location::caller();
        let fail = |message: String| Tensor::refused_at(Error::new("matmul", message), &[self, other], origin);
        if self.rank() == 0 || other.rank() == 0 {
            return fail("numbers are multiplied with *".to_owned());
        }
        let (inner, rows) = (self.shape()[self.rank() - 1], other.shape()[other.rank().saturating_sub(2)]);
        if inner != rows {
            return fail(format!("{inner} columns meet {rows} rows"));
        }
        let leading = |tensor: &Tensor| Shape::from(&tensor.shape()[..tensor.rank().saturating_sub(2)]);
        let (left, right) = (leading(self), leading(other));
        let Some(batch) = left.broadcast(&right) else {
            return fail(format!("the leading axes {left} and {right} do not broadcast together"));
        };
        // Labels: the batch first, then row, inner and column.
        let mut extents = batch.to_vec();
        let mut label = |size: usize| {
            extents.push(size);
            extents.len() - 1
        };
        let (row, middle) = (label(if self.rank() > 1 { self.shape()[self.rank() - 2] } else { 1 }), label(inner));
        let column = label(if other.rank() > 1 { other.shape()[other.rank() - 1] } else { 1 });
        let mut batch_labels = |shape: &Shape| -> Vec<Label> {
            let missing = batch.rank() - shape.rank();
            let stretch =
                |(axis, size): (usize, &usize)| if *size == batch[missing + axis] { missing + axis } else { label(1) };
            shape.iter().enumerate().map(stretch).collect()
        };
        let (mut first, mut second) = (batch_labels(&left), batch_labels(&right));
        let mut output: Vec<Label> = (0..batch.rank()).collect();
        first.extend((self.rank() > 1).then_some(row).into_iter().chain([middle]));
        second.extend([middle].into_iter().chain((other.rank() > 1).then_some(column)));
        output.extend((self.rank() > 1).then_some(row).into_iter().chain((other.rank() > 1).then_some(column)));
        Tensor::contract(Einsum::new(vec![first, second], output, extents), &[self, other])
    }

    /// The sum of the products of corresponding elements.
    #[track_caller]
    pub fn inner(&self, other: &Tensor) -> Tensor {
        (self * other).sum()
    }

    /// All products of an element of one with an element of the other.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        let first: Vec<Label> = (0..self.rank()).collect();
        let second: Vec<Label> = (self.rank()..self.rank() + other.rank()).collect();
        let output: Vec<Label> = (0..self.rank() + other.rank()).collect();
        Tensor::einsum_labels(&[(self, &first), (other, &second)], &output)
    }

    /// The Kronecker product of two matrices.
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        let product = Tensor::einsum("ij,kl->ikjl", &[self, other]);
        if product.error().is_some() {
            return product;
        }
        let size = |axis: usize| self.shape()[axis] * other.shape()[axis];
        product.reshape([size(0), size(1)])
    }

    /// The sum of the diagonal of a matrix.
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        Tensor::einsum("ii->", &[self])
    }

    /// The diagonal of a matrix, or the diagonal matrix of a vector.
    #[track_caller]
    pub fn diag(&self) -> Tensor {
        Tensor::einsum(if self.rank() == 1 { "i->ii" } else { "ii->i" }, &[self])
    }
}

/// Axes.
impl Tensor {
    /// The axes in another order: axis k of the result is axis `order[k]`.
    #[track_caller]
    pub fn permute(&self, order: &[usize]) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.rank()) {
            let message = format!("{order:?} is no order of the axes of the shape {}", self.shape());
            return Tensor::refused(Error::new("permute", message), &[self]);
        }
        if self.dtype() == DType::Bool {
            return self.cast(DType::I64).permute(order).cast(DType::Bool);
        }
        Tensor::contract(Einsum::permutation(self.shape(), order), &[self])
    }

    /// The matrix with rows and columns exchanged; of more axes, the last two.
    #[track_caller]
    pub fn transpose(&self) -> Tensor {
        let rank = self.rank();
        if self.error().is_some() || rank < 2 {
            return self.clone();
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        self.permute(&order)
    }

    /// Tensors of one shape along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], axis: usize) -> Tensor {
        let mut expanded = Vec::new();
        for tensor in tensors {
            expanded.push(tensor.expand(axis));
        }
        Tensor::concatenate(&expanded.iter().collect::<Vec<_>>(), axis)
    }

    /// A new axis of size 1.
    #[track_caller]
    pub fn expand(&self, axis: usize) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if axis > self.rank() {
            let message = format!("the shape {} has no place for an axis {axis}", self.shape());
            return Tensor::refused(Error::new("expand", message), &[self]);
        }
        let mut shape = self.shape().to_vec();
        shape.insert(axis, 1);
        self.reshape(shape)
    }

    /// Zeros around: `before` and `after` each axis.
    #[track_caller]
    pub fn pad(&self, widths: &[(usize, usize)]) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if widths.len() != self.rank() {
            let message =
                format!("{} pairs of widths for the {} axes of the shape {}", widths.len(), self.rank(), self.shape());
            return Tensor::refused(Error::new("pad", message), &[self]);
        }
        let along: Vec<(isize, isize, usize)> = (self.shape().iter().zip(widths))
            .map(|(size, (before, after))| {
                let length = size.saturating_add(*before).saturating_add(*after);
                (0_isize.saturating_sub_unsigned(*before), 1, length)
            })
            .collect();
        self.read(View::strided(self.shape(), &along))
    }

    /// A number in the element type of this tensor.
    #[track_caller]
    pub fn literal(&self, number: impl IntoTensor) -> Tensor {
        number.into_tensor(self)
    }

    /// Whether the elements are floating-point numbers.
    pub fn is_float(&self) -> bool {
        self.dtype().is_float()
    }
}
