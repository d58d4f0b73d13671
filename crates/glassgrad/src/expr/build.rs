//! Checked construction of nodes: shapes and types are decided here, and nowhere else.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Logic;
use super::axes::{Axes, Axis};
use super::memo::{self, Request};
use super::node::{Inputs, Op, Tensor};
use super::sizes::Sizes;
use crate::array::Array;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::error::Error;
use crate::formula::Formula;
use crate::interning::Shared;
use crate::ops::{Operation, Relation};
use crate::shape::Shape;
use crate::view::View;

/// Tensors stretched to their common shape; those that have it are borrowed.
pub(crate) type Aligned<'t> = SmallVec<[Cow<'t, Tensor>; 3]>;

pub(crate) fn references<'a>(aligned: &'a Aligned<'_>) -> SmallVec<[&'a Tensor; 3]> {
    aligned.iter().map(|tensor| &**tensor).collect()
}

impl Tensor {
    /// A leaf with a value.
    #[track_caller]
    pub(crate) fn leaf(value: Array) -> Tensor {
        Tensor::leaf_at(value, Location::caller())
    }

    /// [`Tensor::leaf`] for closures, which do not pass the caller's line on.
    pub(crate) fn leaf_at(value: Array, origin: &'static Location<'static>) -> Tensor {
        let (shape, dtype) = (value.shape().clone(), value.dtype());
        Tensor::make(Op::Leaf, Inputs::default(), shape, dtype, Some(value), origin)
    }

    /// A leaf without a value: the argument of a function that is being transformed.
    #[track_caller]
    pub(crate) fn placeholder(shape: Shape, dtype: DType) -> Tensor {
        Tensor::placeholder_at(shape, dtype, Location::caller())
    }

    /// [`Tensor::placeholder`] for closures, which do not pass the caller's line on.
    pub(crate) fn placeholder_at(shape: Shape, dtype: DType, origin: &'static Location<'static>) -> Tensor {
        Tensor::make(Op::Placeholder, Inputs::default(), shape, dtype, None, origin)
    }

    /// A tensor that could not be. Reading it, or anything made from it, returns this error.
    #[track_caller]
    pub(crate) fn refused(error: Error, operands: &[&Tensor]) -> Tensor {
        Tensor::refused_at(error, operands, Location::caller())
    }

    /// [`Tensor::refused`] for closures, which do not pass the caller's line on.
    pub(crate) fn refused_at(error: Error, operands: &[&Tensor], origin: &'static Location<'static>) -> Tensor {
        let error = error.with_operands(operands.iter().map(|operand| operand.describe()).collect()).at(origin);
        Tensor::make(Op::Failed(error), Inputs::default(), Shape::scalar(), DType::F32, None, origin)
    }

    /// The result of a composed operation: an error names the operation and the operands that the user gave, not those of a part.
    #[track_caller]
    pub(crate) fn reported_as(self, operation: &str, operands: &[&Tensor]) -> Tensor {
        match self.error() {
            Some(error) if operands.iter().all(|operand| operand.error().is_none()) => {
                Tensor::refused(error.clone().renamed(operation), operands)
            }
            _ => self,
        }
    }

    /// A node of these inputs, or the error of the first that failed.
    #[track_caller]
    pub(crate) fn node(op: Op, inputs: &[&Tensor], shape: Shape, dtype: DType) -> Tensor {
        Tensor::node_at(op, inputs, shape, dtype, Location::caller())
    }

    /// [`Tensor::node`] for passes: what they make from a node can fail when it is read, and then the line of the
    /// user that made that node is to blame.
    pub(crate) fn node_at(
        op: Op,
        inputs: &[&Tensor],
        shape: Shape,
        dtype: DType,
        origin: &'static Location<'static>,
    ) -> Tensor {
        if let Some(failed) = inputs.iter().find(|input| input.error().is_some()) {
            return (*failed).clone();
        }
        let inputs: Inputs = inputs.iter().map(|input| Arc::clone(&input.0)).collect();
        Tensor::make(op, inputs, shape, dtype, None, origin)
    }

    /// The product of operands in Einstein notation with sizes.
    #[track_caller]
    pub(crate) fn contract(einsum: impl Into<Shared<Einsum>>, operands: &[&Tensor]) -> Tensor {
        Tensor::contract_as("einsum", einsum, operands)
    }

    /// [`Tensor::contract`] under the name that the user knows it by.
    #[track_caller]
    pub(crate) fn contract_as(name: &str, einsum: impl Into<Shared<Einsum>>, operands: &[&Tensor]) -> Tensor {
        let einsum = einsum.into();
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*failed).clone();
        }
        if einsum.is_identity() {
            return operands[0].clone();
        }
        let Some(dtype) = operands.first().map(|operand| operand.dtype()) else {
            return Tensor::unbound(einsum, DType::F32);
        };
        if operands.iter().any(|operand| operand.dtype() != dtype) {
            let promoted = Tensor::cast_all(operands, Tensor::common_type(operands));
            return Tensor::contract_as(name, einsum, &references(&promoted));
        }
        if dtype == DType::Bool {
            let error = Error::new(name, "truth values are no numbers");
            return Tensor::refused(error.help("cast them first, for example with .cast(DType::I64)"), operands);
        }
        let shape = einsum.output_shape();
        Tensor::node(Op::Einsum(einsum), operands, shape, dtype)
    }

    /// A product of no operands: zeros, ones and unit tensors of a type.
    #[track_caller]
    pub(crate) fn unbound(einsum: impl Into<Shared<Einsum>>, dtype: DType) -> Tensor {
        let einsum = einsum.into();
        let shape = einsum.output_shape();
        Tensor::make(Op::Einsum(einsum), Inputs::default(), shape, dtype, None, Location::caller())
    }

    /// The tensor stretched to a shape by the rules of broadcasting.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let rows = Tensor::from([1.0, 2.0]).broadcast_to([2, 2]);
    /// assert_eq!(rows.to_string(), "[[1, 2],\n [1, 2]]");
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        if self.error().is_some() || *self.shape() == shape {
            return self.clone();
        }
        if self.shape().broadcast(&shape).as_ref() != Some(&shape) {
            return Tensor::refused(
                Error::new("broadcast_to", format!("the shape {} does not stretch to {shape}", self.shape())),
                &[self],
            );
        }
        if self.dtype() == DType::Bool {
            return self.cast(DType::I64).broadcast_to(shape).cast(DType::Bool);
        }
        let stretched =
            memo::product(Request::Broadcast, &[self.shape(), &shape], || Einsum::broadcast(self.shape(), &shape));
        Tensor::contract(stretched, &[self])
    }

    /// All tensors stretched to their common shape.
    #[track_caller]
    pub(crate) fn aligned<'t>(operation: &str, tensors: &[&'t Tensor]) -> Result<Aligned<'t>, Tensor> {
        if let Some(failed) = tensors.iter().find(|tensor| tensor.error().is_some()) {
            return Err((*failed).clone());
        }
        let Some((first, others)) = tensors.split_first() else { return Ok(Aligned::new()) };
        if others.iter().all(|tensor| tensor.shape() == first.shape()) {
            return Ok(tensors.iter().map(|tensor| Cow::Borrowed(*tensor)).collect());
        }
        let mut shape = Shape::scalar();
        for tensor in tensors {
            let Some(common) = shape.broadcast(tensor.shape()) else {
                let shapes: Vec<String> = tensors.iter().map(|tensor| tensor.shape().to_string()).collect();
                let error =
                    Error::new(operation, format!("the shapes {} do not broadcast together", shapes.join(" and ")));
                return Err(Tensor::refused(error, tensors));
            };
            shape = common;
        }
        // A loop and no closure, which would not pass the caller's line on.
        let mut aligned = Aligned::new();
        for tensor in tensors {
            aligned.push(Cow::Owned(tensor.broadcast_to(&shape)));
        }
        Ok(aligned)
    }

    /// A formula of table rows, element by element.
    #[track_caller]
    pub(crate) fn map_formula(name: &str, formula: Shared<Formula>, inputs: &[&Tensor]) -> Tensor {
        let aligned = match Tensor::aligned(name, inputs) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        let dtype = aligned[0].dtype();
        if !dtype.is_float() || aligned.iter().any(|input| input.dtype() != dtype) {
            let promoted = Tensor::cast_all(inputs, Tensor::common_type(inputs).to_float());
            return Tensor::map_formula(name, formula, &references(&promoted));
        }
        let shape = aligned[0].shape().clone();
        Tensor::node(Op::Map(formula), &references(&aligned), shape, dtype)
    }

    /// A row of the table with one argument, and its parameter.
    #[track_caller]
    pub(crate) fn unary(&self, operation: Operation, parameter: f64) -> Tensor {
        match self.integer_row(operation) {
            Some(result) => result,
            None => Tensor::map_formula(operation.name(), memo::row(operation, parameter), &[self]),
        }
    }

    /// A row of the table with two arguments.
    #[track_caller]
    pub(crate) fn binary(&self, operation: Operation, other: &Tensor) -> Tensor {
        match self.integer_row_of_two(operation, other) {
            Some(result) => result,
            None => Tensor::map_formula(operation.name(), memo::row(operation, 0.0), &[self, other]),
        }
    }

    /// The sum of tensors, broadcast together.
    #[track_caller]
    pub(crate) fn add_all(name: &str, tensors: &[&Tensor]) -> Tensor {
        let aligned = match Tensor::aligned(name, tensors) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        let dtype = aligned[0].dtype();
        if aligned.iter().any(|tensor| tensor.dtype() != dtype) {
            // Cast and then broadcast: the transposes add up in the wider type.
            let promoted = Tensor::cast_all(tensors, Tensor::common_type(tensors));
            return Tensor::add_all(name, &references(&promoted));
        }
        if dtype == DType::Bool {
            return Tensor::refused(
                Error::new(name, "truth values are no numbers")
                    .help("cast them first, for example with .cast(DType::I64)"),
                tensors,
            );
        }
        if let [only] = &aligned[..] {
            return Tensor::clone(only);
        }
        let shape = aligned[0].shape().clone();
        Tensor::node(Op::Add, &references(&aligned), shape, dtype)
    }

    /// The product of two tensors element by element, broadcast together, as one einsum.
    #[track_caller]
    pub(crate) fn multiply(&self, other: &Tensor) -> Tensor {
        if let Some(failed) = [self, other].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        let Some(shape) = self.shape().broadcast(other.shape()) else {
            let message = format!("the shapes {} and {} do not broadcast together", self.shape(), other.shape());
            return Tensor::refused(Error::new("mul", message), &[self, other]);
        };
        let einsum = memo::product(Request::Multiply, &[self.shape(), other.shape()], || {
            let mut extents = shape.to_vec();
            let operands = [self, other].map(|operand| {
                let mut labels = Einsum::broadcast(operand.shape(), &shape).operands.remove(0);
                for (label, size) in labels.iter_mut().zip(operand.shape().iter()) {
                    // An axis that is stretched gets a label of its own, of size 1.
                    if *label >= shape.rank() {
                        extents.push(*size);
                        *label = extents.len() - 1;
                    }
                }
                labels
            });
            Einsum::new(operands.to_vec(), (0..shape.rank()).collect(), extents)
        });
        Tensor::contract_as("mul", einsum, &[self, other])
    }

    /// The tensor times a number that comes from a rule.
    #[track_caller]
    pub(crate) fn scaled(&self, factor: f64) -> Tensor {
        if factor == 1.0 {
            return self.clone();
        }
        let name = if factor == -1.0 { "neg" } else { "mul" };
        let scaled = memo::product(Request::Scale(factor), &[self.shape()], || {
            Einsum::elementwise(self.shape(), 1).scaled(factor)
        });
        Tensor::contract_as(name, scaled, &[self])
    }

    /// The elements in another type. Among floating-point types they are rounded to the nearest, ties to even; from floating
    /// point to integers they are truncated and saturate; from integers to narrower ones they wrap.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType};
    /// assert_eq!(Tensor::from([1.9, -1.9]).cast(DType::I64).to_vec::<i64>().unwrap(), [1, -1]);
    /// assert_eq!(Tensor::from([1.003, 300.0]).cast(DType::BF16).to_string(), "[  1, 300]");
    /// ```
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        if self.error().is_some() || self.dtype() == dtype {
            return self.clone();
        }
        Tensor::node(Op::Cast, &[self], self.shape().clone(), dtype)
    }

    /// The same elements in another shape, of which one size may be -1: it follows from the others. Sizes of different
    /// types are a tuple.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::arange(6.0_f64).reshape([2, 3]);
    /// assert_eq!(x.to_string(), "[[0, 1, 2],\n [3, 4, 5]]");
    /// assert_eq!(x.reshape([-1, 2]).shape().to_string(), "[3, 2]");
    /// assert_eq!(x.reshape((x.shape()[0], -1)).shape().to_string(), "[2, 3]");
    /// assert!(x.reshape([4]).item().unwrap_err().to_string().starts_with("reshape: 6 elements do not fill the shape [4]"));
    /// ```
    #[track_caller]
    pub fn reshape(&self, sizes: impl Into<Sizes>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let shape = match sizes.into().resolve(self.shape().elements()) {
            Ok(shape) => shape,
            Err(message) => return Tensor::refused(Error::new("reshape", message), &[self]),
        };
        if *self.shape() == shape {
            return self.clone();
        }
        Tensor::node(Op::Reshape, &[self], shape, self.dtype())
    }

    /// The elements that a view of this tensor's shape reads.
    #[track_caller]
    pub(crate) fn read(&self, view: View) -> Tensor {
        if self.error().is_some() || view.is_identity() {
            return self.clone();
        }
        let shape = view.output.clone();
        Tensor::node(Op::ReadView(view.into()), &[self], shape, self.dtype())
    }

    /// The transpose of [`Tensor::read`]: these elements added up where the view would read them.
    #[track_caller]
    pub(crate) fn spread(&self, view: View) -> Tensor {
        if self.error().is_some() || view.is_identity() {
            return self.clone();
        }
        if let Some(back) = view.transposed() {
            return self.read(back);
        }
        let shape = view.input.clone();
        Tensor::node(Op::ScatterView(view.into()), &[self], shape, self.dtype())
    }

    /// `length` places of an axis from `start` on.
    #[track_caller]
    pub(crate) fn part_of_axis(&self, axis: usize, start: usize, length: usize) -> Tensor {
        let mut along: Vec<(isize, isize, usize)> = self.shape().iter().map(|size| (0, 1, *size)).collect();
        along[axis] = (start as isize, 1, length);
        self.read(View::strided(self.shape(), &along))
    }

    /// Tensors one after another along an axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (a, b) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0]));
    /// assert_eq!(Tensor::concatenate(&[&a, &b], 0).to_string(), "[1, 2, 3]");
    /// ```
    #[track_caller]
    pub fn concatenate(tensors: impl IntoIterator<Item = impl AsRef<Tensor>>, axis: impl Into<Axis>) -> Tensor {
        let list: Vec<_> = tensors.into_iter().collect();
        Tensor::concatenate_list(&list.iter().map(AsRef::as_ref).collect::<Vec<_>>(), axis.into())
    }

    #[track_caller]
    fn concatenate_list(tensors: &[&Tensor], axis: Axis) -> Tensor {
        let Some(first) = tensors.first() else {
            return Tensor::refused(Error::new("concatenate", "there is nothing to join"), &[]);
        };
        if let Some(failed) = tensors.iter().find(|tensor| tensor.error().is_some()) {
            return (*failed).clone();
        }
        let Some(axis) = axis.counted_from_front(first.rank()) else {
            let message = format!("there is no axis {} in the shape {}", axis.0, first.shape());
            return Tensor::refused(Error::new("concatenate", message), tensors);
        };
        let others = |tensor: &Tensor| -> Vec<usize> {
            tensor.shape().iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, size)| *size).collect()
        };
        if let Some(other) =
            tensors.iter().find(|tensor| tensor.rank() != first.rank() || others(tensor) != others(first))
        {
            let message = format!("the shapes {} and {} differ beside axis {axis}", first.shape(), other.shape());
            return Tensor::refused(Error::new("concatenate", message), tensors);
        }
        if tensors.iter().any(|tensor| tensor.dtype() != first.dtype()) {
            let promoted = Tensor::cast_all(tensors, Tensor::common_type(tensors));
            return Tensor::concatenate_list(&references(&promoted), axis.into());
        }
        if tensors.len() == 1 {
            return (*first).clone();
        }
        let mut shape = first.shape().to_vec();
        shape[axis] = tensors.iter().fold(0, |total: usize, tensor| total.saturating_add(tensor.shape()[axis]));
        Tensor::node(Op::Concatenate(axis), tensors, shape.into(), first.dtype())
    }

    /// Entries along an axis by a tensor of indices, whose axes take the place of that axis: `take` in NumPy and JAX,
    /// and for a vector of indices `index_select` in PyTorch. What PyTorch calls `gather` is [`Tensor::take_along`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let table = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let rows = table.take(&Tensor::from([2_i64, 0]), 0);
    /// assert_eq!(rows.to_string(), "[[5, 6],\n [1, 2]]");
    /// ```
    #[track_caller]
    pub fn take(&self, indices: &Tensor, axis: impl Into<Axis>) -> Tensor {
        match self.axis_from_front("take", axis) {
            Ok(axis) => self.gather_at(indices, axis, Location::caller()),
            Err(failed) => failed,
        }
    }

    pub(crate) fn gather_at(&self, indices: &Tensor, axis: usize, origin: &'static Location<'static>) -> Tensor {
        if let Some(failed) = [self, indices].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        let indices = &*indices.as_indices();
        if indices.dtype() != DType::I64 {
            let message = format!("indices must be integers, not {}", indices.dtype());
            let error = Error::new("take", message).help("cast them with .cast(DType::I64)");
            return Tensor::refused_at(error, &[self, indices], origin);
        }
        let shape: Vec<usize> = self.shape()[..axis]
            .iter()
            .chain(indices.shape().iter())
            .chain(&self.shape()[axis + 1..])
            .copied()
            .collect();
        Tensor::node_at(Op::Gather(axis), &[self, indices], shape.into(), self.dtype(), origin)
    }

    /// The transpose of [`Tensor::take`]: adds these entries up along an axis of `size` places, where
    /// the indices say.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let counts = Tensor::from([1_i64, 1, 1]).scatter_add(&Tensor::from([2_i64, 0, 2]), 0, 4);
    /// assert_eq!(counts.to_string(), "[1, 0, 2, 0]");
    /// ```
    #[track_caller]
    pub fn scatter_add(&self, indices: &Tensor, axis: impl Into<Axis>, size: usize) -> Tensor {
        match axis.into() {
            // Where indices without axes put a number, a new axis arises, also behind the last one.
            Axis(axis) if axis >= 0 => self.scatter_add_at(indices, axis as usize, size, Location::caller()),
            axis => match self.axis_from_front("scatter_add", axis) {
                Ok(axis) => self.scatter_add_at(indices, axis, size, Location::caller()),
                Err(failed) => failed,
            },
        }
    }

    pub(crate) fn scatter_add_at(
        &self,
        indices: &Tensor,
        axis: usize,
        size: usize,
        origin: &'static Location<'static>,
    ) -> Tensor {
        if let Some(failed) = [self, indices].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        let indices = &*indices.as_indices();
        let rank = indices.rank();
        let fits = axis.saturating_add(rank) <= self.rank() && self.shape()[axis..axis + rank] == **indices.shape();
        if !fits || indices.dtype() != DType::I64 {
            let message = format!(
                "from axis {axis} on, the shape {} must be that of the indices, {} of type i64",
                self.shape(),
                indices.shape()
            );
            return Tensor::refused_at(Error::new("scatter_add", message), &[self, indices], origin);
        }
        let shape: Vec<usize> =
            self.shape()[..axis].iter().chain([&size]).chain(&self.shape()[axis + rank..]).copied().collect();
        Tensor::node_at(Op::ScatterAdd(axis), &[self, indices], shape.into(), self.dtype(), origin)
    }

    /// The elements in reverse order along some axes.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0, 2.0, 3.0]).flip(&[0]).to_string(), "[3, 2, 1]");
    /// ```
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = match self.resolved("flip", &axes.into()) {
            Ok(axes) if axes.is_empty() => return self.clone(),
            Ok(axes) => axes,
            Err(failed) => return failed,
        };
        let along: Vec<(isize, isize, usize)> = (self.shape().iter().enumerate())
            .map(|(axis, size)| if axes.contains(&axis) { (*size as isize - 1, -1, *size) } else { (0, 1, *size) })
            .collect();
        self.read(View::strided(self.shape(), &along))
    }

    /// A comparison element by element, as truth values.
    ///
    /// ```
    /// use glassgrad::{Tensor, ops::Relation};
    /// let (a, b) = (Tensor::from([1.0, 2.0]), Tensor::from([2.0, 2.0]));
    /// assert_eq!(a.compare(Relation::Equal, &b).to_vec::<bool>().unwrap(), [false, true]);
    /// ```
    #[track_caller]
    pub fn compare(&self, relation: Relation, other: &Tensor) -> Tensor {
        let aligned = match Tensor::aligned("compare", &[self, other]) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        if self.dtype() != other.dtype() {
            // No result has this type, so that integers and floating-point numbers meet where both are exact.
            let dtype = match (self.is_float(), other.is_float()) {
                (true, true) | (false, false) => self.dtype().promote(other.dtype()),
                (true, false) | (false, true) => DType::F64,
            };
            return self.cast(dtype).compare(relation, &other.cast(dtype));
        }
        let shape = aligned[0].shape().clone();
        Tensor::node(Op::Compare(relation), &references(&aligned), shape, DType::Bool)
    }

    #[track_caller]
    pub(crate) fn logic(logic: Logic, name: &str, inputs: &[&Tensor]) -> Tensor {
        let aligned = match Tensor::aligned(name, inputs) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        if let Some(other) = aligned.iter().find(|input| input.dtype() != DType::Bool) {
            let message = format!("it combines truth values, not {}", other.dtype());
            return Tensor::refused(Error::new(name, message), inputs);
        }
        let shape = aligned[0].shape().clone();
        Tensor::node(Op::Logic(logic), &references(&aligned), shape, DType::Bool)
    }

    /// `taken` where these truth values hold, `otherwise` elsewhere. The branch not taken contributes
    /// exactly zero to every derivative, also where its own is infinite or NaN.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let ramp = |x: &Tensor| x.gt(0.0).choose(&x.ln(), &x.zeros_like()).sum();
    /// let slope = grad(ramp)(&Tensor::from([0.0, 2.0]));
    /// assert_eq!(slope.to_vec::<f64>().unwrap(), [0.0, 0.5]);
    /// ```
    #[track_caller]
    pub fn choose(&self, taken: &Tensor, otherwise: &Tensor) -> Tensor {
        let aligned = match Tensor::aligned("choose", &[self, taken, otherwise]) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        if aligned[0].dtype() != DType::Bool {
            let message = format!("the condition must be truth values, not {}", self.dtype());
            return Tensor::refused(Error::new("choose", message), &[self, taken, otherwise]);
        }
        if taken.dtype() != otherwise.dtype() {
            let promoted = Tensor::cast_all(&[taken, otherwise], taken.dtype().promote(otherwise.dtype()));
            return self.choose(&promoted[0], &promoted[1]);
        }
        let (shape, dtype) = (aligned[1].shape().clone(), aligned[1].dtype());
        Tensor::node(Op::Select, &references(&aligned), shape, dtype)
    }

    /// The largest element along some axes, in ascending order, which disappear.
    #[track_caller]
    pub(crate) fn largest(&self, axes: &[usize]) -> Tensor {
        self.along_filled_axes("max", axes, Op::Max(axes.to_vec()), self.dtype())
    }

    /// The place of the first largest element along an axis, which disappears.
    #[track_caller]
    pub(crate) fn largest_place(&self, axis: usize) -> Tensor {
        self.along_filled_axes("argmax", &[axis], Op::ArgMax(axis), DType::I64)
    }

    /// An operation that makes one element of all along some axes, of which there must be some.
    #[track_caller]
    fn along_filled_axes(&self, name: &str, axes: &[usize], op: Op, dtype: DType) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let missing = axes.iter().find(|axis| **axis >= self.rank());
        let empty = axes.iter().find(|axis| self.shape().get(**axis) == Some(&0));
        let wrong = match (missing, empty) {
            (Some(axis), _) => Some(format!("there is no axis {axis} in the shape {}", self.shape())),
            (None, Some(axis)) => Some(format!("axis {axis} is empty")),
            (None, None) => None,
        };
        if let Some(message) = wrong {
            return Tensor::refused(Error::new(name, message), &[self]);
        }
        let kept = (0..self.rank()).filter(|axis| !axes.contains(axis));
        let shape: Shape = kept.map(|axis| self.shape()[axis]).collect();
        Tensor::node(op, &[self], shape, dtype)
    }

    /// Along a new last axis of `size` classes, 1 at the class that each integer names and 0 elsewhere. Reading it is an
    /// error if an integer is not one of 0, 1, …, `size` - 1.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType};
    /// let classes = Tensor::from([1_i64, 0]);
    /// assert_eq!(classes.one_hot(3, DType::F32).to_string(), "[[0, 1, 0],\n [1, 0, 0]]");
    /// ```
    #[track_caller]
    pub fn one_hot(&self, size: usize, dtype: DType) -> Tensor {
        self.one_hot_as("one_hot", size, dtype)
    }

    /// [`Tensor::one_hot`] under the name of the operation that the user called.
    #[track_caller]
    pub(crate) fn one_hot_as(&self, operation: &'static str, size: usize, dtype: DType) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        let classes = &*self.as_indices();
        if classes.dtype() != DType::I64 {
            let message = format!("the classes must be integers, not {}", self.dtype());
            return Tensor::refused(Error::new(operation, message), &[self]);
        }
        Tensor::node(Op::OneHot(operation), &[classes], self.shape().followed_by(&[size]), dtype)
    }

    /// The same value, through which no derivative passes.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// // The derivative of c·x with c = x: the constant, and not 2x.
    /// let slope = grad(|x: &Tensor| x.stop_gradient() * x)(&Tensor::from(5.0));
    /// assert_eq!(slope.item().unwrap(), 5.0);
    /// ```
    #[track_caller]
    pub fn stop_gradient(&self) -> Tensor {
        Tensor::node(Op::StopGradient, &[self], self.shape().clone(), self.dtype())
    }

    /// The same value as a variable to differentiate by, which counts as made where this tensor was.
    pub(crate) fn wrapped(&self) -> Tensor {
        self.wrapped_at(self.origin())
    }

    /// The same value as a variable to differentiate by.
    pub(crate) fn wrapped_at(&self, origin: &'static Location<'static>) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        self.flush();
        let inputs = Inputs::from_iter([Arc::clone(&self.0)]);
        Tensor::make(Op::Variable, inputs, self.shape().clone(), self.dtype(), None, origin)
    }
}
