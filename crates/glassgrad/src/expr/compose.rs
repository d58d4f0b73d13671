//! What is composed from the core: reductions, products of matrices, softmax and its relatives. Where
//! the naive form fails, the stable one is here.

use std::collections::BTreeMap;

use super::axes::{Axes, Axis};
use super::create::IntoTensor;
use super::memo::{self, Request};
use super::node::Tensor;
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::error::Error;
use crate::shape::Shape;
use crate::view::View;

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
        let mut resolved = self.each_axis(operation, axes)?;
        resolved.sort_unstable();
        Ok(resolved)
    }

    /// Axes counted from the front in the order in which they are named, none of them twice, or the failure.
    #[track_caller]
    pub(crate) fn each_axis(&self, operation: &str, axes: &Axes) -> Result<Vec<usize>, Tensor> {
        if self.error().is_some() {
            return Err(self.clone());
        }
        let origin = std::panic::Location::caller();
        axes.resolve(operation, self).map_err(|error| Tensor::refused_at(error, &[self], origin))
    }

    /// One axis counted from the front, or the failure.
    #[track_caller]
    pub(crate) fn axis_from_front(&self, operation: &str, axis: impl Into<Axis>) -> Result<usize, Tensor> {
        Ok(self.resolved(operation, &Axes::from(axis.into()))?[0])
    }

    /// Puts the axes that a reduction ran over back with size 1, if they are kept.
    #[track_caller]
    pub(crate) fn put_back(&self, result: &Tensor, axes: &Axes, resolved: &[usize]) -> Tensor {
        if result.error().is_some() {
            return result.clone();
        }
        result.reshape(reduced(self.shape(), resolved, axes.are_kept()))
    }

    /// How many elements a reduction over these axes makes one of.
    fn count(&self, resolved: &[usize]) -> usize {
        resolved.iter().fold(1, |count: usize, axis| count.saturating_mul(self.shape()[*axis]))
    }

    /// All axes.
    pub(crate) fn all_axes(&self) -> Axes {
        Axes::all(self.rank())
    }

    /// The sum of all elements.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.sum().item().unwrap(), 11.0);
    /// ```
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
                let einsum =
                    memo::product(Request::Sum, &[self.shape(), &resolved], || Einsum::sum(self.shape(), &resolved));
                // The sum of truth values is how many hold; sums of narrow integers would wrap, so they are of 64 bits too.
                let counted = if self.is_float() { self.clone() } else { self.cast(DType::I64) };
                let sum = Tensor::contract_as("sum", einsum, &[&counted]);
                self.put_back(&sum, &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// The mean of all elements.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.mean().item().unwrap(), 2.75);
    /// ```
    #[track_caller]
    pub fn mean(&self) -> Tensor {
        self.mean_over(self.all_axes())
    }

    /// The mean over some axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.mean_over(0).to_string(), "[  2, 3.5]");
    /// ```
    #[track_caller]
    pub fn mean_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        match self.resolved("mean", &axes) {
            Ok(_) if !self.is_float() => self.cast(DType::default()).mean_over(axes),
            Ok(resolved) => {
                let einsum = Einsum::sum(self.shape(), &resolved);
                let mean = match self.count(&resolved) {
                    // The mean of nothing is not a number.
                    0 => Tensor::full(einsum.output_shape(), f64::NAN, self.dtype()),
                    count => Tensor::contract_as("mean", einsum.scaled(1.0 / count as f64), &[self]),
                };
                self.put_back(&mean, &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// The variance over some axes: the mean of the squared distances from the mean.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.var_over(1).to_string(), "[0.25,    1]");
    /// ```
    #[track_caller]
    pub fn var_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        let centred = self - self.mean_over(axes.clone().keep());
        centred.square().mean_over(axes).reported_as("var", &[self])
    }

    /// The variance of all elements.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 3.0, 6.0]).var().item().unwrap(), 3.5);
    /// ```
    #[track_caller]
    pub fn var(&self) -> Tensor {
        self.var_over(self.all_axes())
    }

    /// The standard deviation over some axes: the length of the distances from the mean, over the root of their
    /// number. Its derivative where all elements are equal is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.std_over(1).to_string(), "[0.5,   1]");
    /// ```
    #[track_caller]
    pub fn std_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        match self.resolved("std", &axes) {
            Ok(resolved) => {
                let centred = self - self.mean_over(axes.clone().keep());
                centred.norm_over(axes) / (self.count(&resolved) as f64).sqrt()
            }
            Err(failed) => failed,
        }
    }

    /// The standard deviation of all elements.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let equal = Tensor::from([2.0, 2.0]);
    /// assert_eq!(grad(Tensor::std)(&equal).to_string(), "[0, 0]");
    /// ```
    #[track_caller]
    pub fn std(&self) -> Tensor {
        self.std_over(self.all_axes())
    }

    /// The largest element; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// assert_eq!(grad(Tensor::max)(&Tensor::from([7.0, 1.0, 7.0])).to_string(), "[0.5,   0, 0.5]");
    /// ```
    #[track_caller]
    pub fn max(&self) -> Tensor {
        self.reshape(self.shape().elements()).largest(&[0])
    }

    /// The largest elements over an axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.max_over(0).to_string(), "[3, 5]");
    /// ```
    #[track_caller]
    pub fn max_over(&self, axis: impl Into<Axes>) -> Tensor {
        let axes = axis.into();
        match self.resolved("max", &axes) {
            Ok(mut resolved) => {
                resolved.sort_unstable();
                let largest = if resolved.is_empty() { self.clone() } else { self.largest(&resolved) };
                self.put_back(&largest, &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// The smallest element; equal ones share the derivative evenly.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([4_i64, -2, 9]).min().item().unwrap(), -2.0);
    /// ```
    #[track_caller]
    pub fn min(&self) -> Tensor {
        self.order_reversed().max().order_reversed().reported_as("min", &[self])
    }

    /// A bijection that reverses the order of all elements, and is its own inverse.
    #[track_caller]
    fn order_reversed(&self) -> Tensor {
        match self.dtype() {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => -self,
            // The smallest integer has no negative; -1 - n exists for every n, and wraps to 255 - n among bytes.
            DType::I64 | DType::I32 | DType::U8 => -self - 1,
            DType::Bool => self.not(),
        }
    }

    /// The smallest elements over an axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.min_over(-1).to_string(), "[1, 3]");
    /// ```
    #[track_caller]
    pub fn min_over(&self, axis: impl Into<Axes>) -> Tensor {
        self.order_reversed().max_over(axis).order_reversed().reported_as("min", &[self])
    }

    /// The place of the first largest element along an axis.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::Axes};
    /// let scores = Tensor::from([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]]);
    /// assert_eq!(scores.argmax(1).to_vec::<i64>().unwrap(), [1, 0]);
    /// assert_eq!(scores.argmax(Axes::from(1).keep()).shape().to_string(), "[2, 1]");
    /// ```
    #[track_caller]
    pub fn argmax(&self, axis: impl Into<Axes>) -> Tensor {
        let axes = axis.into();
        match self.one_axis("argmax", &axes) {
            Ok(along) => self.put_back(&self.largest_place(along), &axes, &[along]),
            Err(failed) => failed,
        }
    }

    /// The only axis of a reduction that takes one, counted from the front, or the failure.
    #[track_caller]
    pub(crate) fn one_axis(&self, operation: &str, axes: &Axes) -> Result<usize, Tensor> {
        match self.resolved(operation, axes)?[..] {
            [axis] => Ok(axis),
            ref several => {
                let message = format!("it takes one axis, not {}", several.len());
                let error =
                    Error::new(operation, message).help("flatten them first, with .flatten() or .flatten_axes(..)");
                Err(Tensor::refused(error, &[self]))
            }
        }
    }

    /// The Euclidean length of all elements as one vector; its derivative at the origin is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1e200; 4]).norm().item().unwrap(), 2e200);
    /// ```
    #[track_caller]
    pub fn norm(&self) -> Tensor {
        self.norm_over(self.all_axes())
    }

    /// The Euclidean length over some axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let points = Tensor::from([[3.0, 4.0], [5.0, 12.0]]);
    /// assert_eq!(points.norm_over(1).to_string(), "[ 5, 13]");
    /// ```
    #[track_caller]
    pub fn norm_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        match self.resolved("norm", &axes) {
            Ok(resolved) => {
                let scale = match self.count(&resolved) {
                    0 => Tensor::full((), 1.0, self.dtype()),
                    _ => self.magnitude_over(axes.clone().keep()),
                };
                let squares = (self / &scale).square().sum_over(axes.clone().keep());
                let length = squares.equal(0.0).choose(&squares.zeros_like(), &(squares.sqrt() * scale));
                self.put_back(&length, &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// The largest magnitudes as constants, or 1 where they are 0 or not finite. A length is measured in them, so
    /// that no square leaves the range of numbers; which unit is taken changes neither it nor its derivatives.
    #[track_caller]
    fn magnitude_over(&self, axes: Axes) -> Tensor {
        let largest = self.stop_gradient().abs().max_over(axes);
        largest.gt(0.0).and(&largest.lt(f64::INFINITY)).choose(&largest, &largest.ones_like())
    }

    /// ln Σ exp over some axes, without overflow.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1000.0, 1000.0], [0.0, f64::NEG_INFINITY]]);
    /// assert_eq!(x.logsumexp_over(1).to_vec::<f64>().unwrap(), [1000.0 + 2.0_f64.ln(), 0.0]);
    /// ```
    #[track_caller]
    pub fn logsumexp_over(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        match self.resolved("logsumexp", &axes) {
            // A sum of nothing is 0, also of exponentials.
            Ok(resolved) if self.count(&resolved) == 0 => self.exp().sum_over(axes).ln(),
            Ok(resolved) => {
                let shift = self.shift_over(axes.clone().keep());
                let sum = (self - &shift).exp().sum_over(axes.clone().keep()).ln();
                self.put_back(&(sum + shift), &axes, &resolved)
            }
            Err(failed) => failed,
        }
    }

    /// ln Σ exp of all elements, without overflow.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-1000.0; 2]).logsumexp().item().unwrap(), -1000.0 + 2.0_f64.ln());
    /// ```
    #[track_caller]
    pub fn logsumexp(&self) -> Tensor {
        self.logsumexp_over(self.all_axes())
    }

    /// The largest elements as constants, or 0 where they are infinite.
    #[track_caller]
    pub(crate) fn shift_over(&self, axes: Axes) -> Tensor {
        let largest = self.stop_gradient().max_over(axes);
        largest.abs().lt(f64::INFINITY).choose(&largest, &largest.zeros_like())
    }

    /// exp(x) / Σ exp(x) along an axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([900.0, 900.0]).softmax(0).to_string(), "[0.5, 0.5]");
    /// ```
    #[track_caller]
    pub fn softmax(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let axes = Axes::from(axis).keep();
        let weights = (self - self.shift_over(axes.clone())).exp();
        (&weights / weights.sum_over(axes)).reported_as("softmax", &[self])
    }

    /// The logarithm of [`Tensor::softmax`], accurate where that is nearly 0 or 1.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([0.0, -800.0]).log_softmax(-1).to_string(), "[   0, -800]");
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let axes = Axes::from(axis).keep();
        let shifted = self - self.shift_over(axes.clone());
        (&shifted - shifted.exp().sum_over(axes).ln()).reported_as("log_softmax", &[self])
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
    /// assert_eq!(Tensor::einsum("...ij->...ji", [Tensor::ones([4, 2, 3])]).shape().to_string(), "[4, 3, 2]"); // other axes
    /// ```
    #[track_caller]
    pub fn einsum(notation: &str, operands: impl IntoIterator<Item = impl AsRef<Tensor>>) -> Tensor {
        let list: Vec<_> = operands.into_iter().collect();
        Tensor::einsum_as("einsum", notation, &list.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    /// [`Tensor::einsum`] under the name that the user knows it by.
    #[track_caller]
    fn einsum_as(name: &str, notation: &str, operands: &[&Tensor]) -> Tensor {
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*failed).clone();
        }
        let shapes: Vec<&[usize]> = operands.iter().map(|operand| &**operand.shape()).collect();
        match Einsum::parse(notation, &shapes) {
            Ok(einsum) => Tensor::contract_as(name, einsum, operands),
            Err(error) => Tensor::refused(Error::new(name, error.to_string()), operands),
        }
    }

    /// A product in Einstein notation from lists of labels; an output label that no operand has is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (a, v) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([1.0, 10.0]));
    /// assert_eq!(Tensor::einsum_labels(&[(&a, &[0, 1]), (&v, &[1])], &[0]).to_string(), "[21, 43]");
    /// ```
    #[track_caller]
    pub fn einsum_labels(operands: &[(&Tensor, &[Label])], output: &[Label]) -> Tensor {
        Tensor::einsum_labels_as("einsum", operands, output)
    }

    #[track_caller]
    fn einsum_labels_as(name: &str, operands: &[(&Tensor, &[Label])], output: &[Label]) -> Tensor {
        let tensors: Vec<&Tensor> = operands.iter().map(|(tensor, _)| *tensor).collect();
        if let Some(failed) = tensors.iter().find(|tensor| tensor.error().is_some()) {
            return (*failed).clone();
        }
        let mut sizes: BTreeMap<Label, usize> = BTreeMap::new();
        for (tensor, labels) in operands {
            if labels.len() != tensor.rank() {
                let message = format!("{} labels for the shape {}", labels.len(), tensor.shape());
                return Tensor::refused(Error::new(name, message), &tensors);
            }
            for (label, size) in labels.iter().zip(tensor.shape().iter()) {
                let known = *sizes.entry(*label).or_insert(*size);
                if known != *size {
                    let message = format!("label {label} has size {known} and size {size}");
                    return Tensor::refused(Error::new(name, message), &tensors);
                }
            }
        }
        if let Some(label) = output.iter().find(|label| !sizes.contains_key(label)) {
            let message = format!("label {label} of the output is in no operand");
            return Tensor::refused(Error::new(name, message), &tensors);
        }
        // The labels of the user may be any numbers; those of an einsum are places in the list of sizes.
        let places: BTreeMap<Label, Label> = sizes.keys().copied().zip(0..).collect();
        let renumbered = |labels: &[Label]| labels.iter().map(|label| places[label]).collect::<Vec<_>>();
        let inputs = operands.iter().map(|(_, labels)| renumbered(labels)).collect();
        let einsum = Einsum::new(inputs, renumbered(output), sizes.into_values().collect());
        Tensor::contract_as(name, einsum, &tensors)
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
        let einsum = memo::product(Request::MatrixProduct, &[self.shape(), other.shape()], || {
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
                let stretch = |(axis, size): (usize, &usize)| {
                    if *size == batch[missing + axis] { missing + axis } else { label(1) }
                };
                shape.iter().enumerate().map(stretch).collect()
            };
            let (mut first, mut second) = (batch_labels(&left), batch_labels(&right));
            let mut output: Vec<Label> = (0..batch.rank()).collect();
            first.extend((self.rank() > 1).then_some(row).into_iter().chain([middle]));
            second.extend([middle].into_iter().chain((other.rank() > 1).then_some(column)));
            output.extend((self.rank() > 1).then_some(row).into_iter().chain((other.rank() > 1).then_some(column)));
            Einsum::new(vec![first, second], output, extents)
        });
        Tensor::contract_as("matmul", einsum, &[self, other])
    }

    /// The sum of the products of corresponding elements.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0]).inner(&Tensor::from([3.0, 4.0])).item().unwrap(), 11.0);
    /// ```
    #[track_caller]
    pub fn inner(&self, other: &Tensor) -> Tensor {
        (self * other).sum().reported_as("inner", &[self, other])
    }

    /// All products of an element of one with an element of the other.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]).outer(&Tensor::from([3.0, 4.0]));
    /// assert_eq!(x.to_string(), "[[3, 4],\n [6, 8]]");
    /// ```
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        let first: Vec<Label> = (0..self.rank()).collect();
        let second: Vec<Label> = (self.rank()..self.rank() + other.rank()).collect();
        let output: Vec<Label> = (0..self.rank() + other.rank()).collect();
        Tensor::einsum_labels_as("outer", &[(self, &first), (other, &second)], &output)
    }

    /// The Kronecker product of two matrices.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0]]).kron(&Tensor::from([[1.0], [10.0]]));
    /// assert_eq!(x.to_string(), "[[ 1,  2],\n [10, 20]]");
    /// ```
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        let product = Tensor::einsum_as("kron", "ij,kl->ikjl", &[self, other]);
        if product.error().is_some() {
            return product;
        }
        let size = |axis: usize| self.shape()[axis] * other.shape()[axis];
        product.reshape([size(0), size(1)])
    }

    /// The sum of the diagonal of a matrix.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 5.0]]);
    /// assert_eq!(x.trace().item().unwrap(), 6.0);
    /// ```
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        if let Some(failed) = self.not_square("trace") {
            return failed;
        }
        Tensor::einsum_as("trace", "ii->", &[self])
    }

    /// The diagonal of a matrix, or the diagonal matrix of a vector.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]).diag();
    /// assert_eq!(x.to_string(), "[[1, 0],\n [0, 2]]");
    /// assert_eq!(x.diag().to_string(), "[1, 2]");
    /// ```
    #[track_caller]
    pub fn diag(&self) -> Tensor {
        if self.rank() == 1 {
            return Tensor::einsum_as("diag", "i->ii", &[self]);
        }
        if let Some(failed) = self.not_square("diag") {
            return failed;
        }
        Tensor::einsum_as("diag", "ii->i", &[self])
    }

    /// The error for anything but a square matrix.
    #[track_caller]
    fn not_square(&self, operation: &str) -> Option<Tensor> {
        match self.shape()[..] {
            _ if self.error().is_some() => Some(self.clone()),
            [rows, columns] if rows == columns => None,
            _ => {
                let message = format!("a square matrix is needed, and the shape is {}", self.shape());
                let help = "for the diagonal of other shapes use .diagonal(0)";
                Some(Tensor::refused(Error::new(operation, message).help(help), &[self]))
            }
        }
    }
}

/// Axes.
impl Tensor {
    /// The axes in another order: axis k of the result is axis `order[k]`.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::zeros([2, 3, 4]);
    /// assert_eq!(x.permute([-1, 0, 1]).shape().to_string(), "[4, 2, 3]");
    /// ```
    #[track_caller]
    pub fn permute(&self, order: impl Into<Axes>) -> Tensor {
        let order = match self.each_axis("permute", &order.into()) {
            Ok(order) => order,
            Err(failed) => return failed,
        };
        if order.len() != self.rank() {
            let message = format!("{order:?} is no order of the axes of the shape {}", self.shape());
            return Tensor::refused(Error::new("permute", message), &[self]);
        }
        if self.dtype() == DType::Bool {
            return self.cast(DType::I64).permute(&order).cast(DType::Bool);
        }
        let turned =
            memo::product(Request::Permute, &[self.shape(), &order], || Einsum::permutation(self.shape(), &order));
        Tensor::contract(turned, &[self])
    }

    /// The matrix with rows and columns exchanged; of more axes, the last two.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 2.0], [3.0, 4.0]]).transpose().to_string(), "[[1, 3],\n [2, 4]]");
    /// ```
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
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (a, b) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    /// assert_eq!(Tensor::stack(&[&a, &b], 1).to_string(), "[[1, 3],\n [2, 4]]");
    /// ```
    #[track_caller]
    pub fn stack(tensors: impl IntoIterator<Item = impl AsRef<Tensor>>, axis: impl Into<Axis>) -> Tensor {
        let list: Vec<_> = tensors.into_iter().collect();
        let tensors: Vec<&Tensor> = list.iter().map(AsRef::as_ref).collect();
        let axis = axis.into();
        let mut unsqueezed = Vec::new();
        for tensor in &tensors {
            unsqueezed.push(tensor.unsqueeze(axis));
        }
        Tensor::concatenate(&unsqueezed, axis).reported_as("stack", &tensors)
    }

    /// A new axis of size 1 at this place, which the result has then: `expand_dims` in NumPy and JAX.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::from([1.0, 2.0]);
    /// assert_eq!((x.unsqueeze(1) - x.unsqueeze(0)).to_string(), "[[ 0, -1],\n [ 1,  0]]");
    /// assert_eq!(Tensor::zeros([2, 3]).unsqueeze(-1).shape().to_string(), "[2, 3, 1]");
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, axis: impl Into<Axis>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let axis = axis.into();
        let Some(place) = axis.counted_from_front(self.rank() + 1) else {
            let message = format!("the shape {} has no place for an axis {}", self.shape(), axis.0);
            return Tensor::refused(Error::new("unsqueeze", message), &[self]);
        };
        let mut shape = self.shape().to_vec();
        shape.insert(place, 1);
        self.reshape(shape)
    }

    /// Zeros around: `before` and `after` each axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0]).pad(&[(1, 2)]).to_string(), "[0, 1, 2, 0, 0]");
    /// ```
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
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// use glassgrad::dtype::DType;
    /// assert_eq!(Tensor::from([1.0_f32]).literal(0.5).dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn literal(&self, number: impl IntoTensor) -> Tensor {
        number.into_values_of(self)
    }

    /// Whether the elements are floating-point numbers.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert!(Tensor::from(0.5).is_float() && !Tensor::from(true).is_float());
    /// ```
    pub fn is_float(&self) -> bool {
        self.dtype().is_float()
    }
}
