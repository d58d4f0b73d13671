//! Checked construction of nodes: shapes and types are decided here, and nowhere else.

use std::panic::Location;
use std::sync::Arc;

use super::node::{Logic, Node, Op, Tensor};
use crate::algebra::Literal;
use crate::array::Array;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::error::Error;
use crate::formula::{Formula, Node as FormulaNode, Symbols};
use crate::ops::{Operation, Relation};
use crate::shape::Shape;
use crate::view::View;

impl Tensor {
    /// A leaf with a value.
    #[track_caller]
    pub(crate) fn leaf(value: Array) -> Tensor {
        let (shape, dtype) = (value.shape().clone(), value.dtype());
        Tensor::make(Op::Leaf, Vec::new(), shape, dtype, Some(value), Location::caller())
    }

    /// A leaf without a value: the argument of a function that is being transformed.
    #[track_caller]
    pub(crate) fn placeholder(shape: Shape, dtype: DType) -> Tensor {
        Tensor::make(Op::Placeholder, Vec::new(), shape, dtype, None, Location::caller())
    }

    /// A tensor that could not be. Reading it, or anything made from it, returns this error.
    #[track_caller]
    pub(crate) fn refused(error: Error, operands: &[&Tensor]) -> Tensor {
        Tensor::refused_at(error, operands, Location::caller())
    }

    /// [`Tensor::refused`] for closures, which do not pass the caller's line on.
    pub(crate) fn refused_at(error: Error, operands: &[&Tensor], origin: &'static Location<'static>) -> Tensor {
        let error = error.with_operands(operands.iter().map(|operand| operand.describe()).collect()).at(origin);
        Tensor::make(Op::Failed(error), Vec::new(), Shape::scalar(), DType::F32, None, origin)
    }

    /// A node of these inputs, or the failure of the first that failed.
    #[track_caller]
    pub(crate) fn node(op: Op, inputs: &[&Tensor], shape: Shape, dtype: DType) -> Tensor {
        Tensor::node_at(op, inputs, shape, dtype, Location::caller())
    }

    /// [`Tensor::node`] for rules, which know the user's line and are not called from there.
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
        let inputs: Vec<Arc<Node>> = inputs.iter().map(|input| Arc::clone(&input.0)).collect();
        let tensor = Tensor::make(op, inputs, shape, dtype, None, origin);
        tensor.compute_if_overdue();
        tensor
    }

    /// The product of operands in Einstein notation with sizes.
    #[track_caller]
    pub(crate) fn contract(einsum: Einsum, operands: &[&Tensor]) -> Tensor {
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*failed).clone();
        }
        if einsum.is_identity() {
            return operands[0].clone();
        }
        let Some(dtype) = operands.first().map(|operand| operand.dtype()) else {
            return Tensor::unbound(einsum, DType::F32);
        };
        if let Some(other) = operands.iter().find(|operand| operand.dtype() != dtype) {
            return Tensor::mixed("einsum", operands, dtype, other.dtype());
        }
        if dtype == DType::Bool {
            return Tensor::refused(
                Error::new("einsum", "truth values are not multiplied").help("cast them to numbers first"),
                operands,
            );
        }
        let shape = einsum.output_shape();
        Tensor::node(Op::Einsum(einsum), operands, shape, dtype)
    }

    /// A product of no operands: zeros, ones and unit tensors of a type.
    #[track_caller]
    pub(crate) fn unbound(einsum: Einsum, dtype: DType) -> Tensor {
        let shape = einsum.output_shape();
        Tensor::make(Op::Einsum(einsum), Vec::new(), shape, dtype, None, Location::caller())
    }

    #[track_caller]
    pub(crate) fn mixed(operation: &str, operands: &[&Tensor], first: DType, second: DType) -> Tensor {
        let error = Error::new(operation, format!("the element types {first} and {second} do not mix"));
        Tensor::refused(error.help(format!("cast one of them, for example with .cast(DType::{second:?})")), operands)
    }

    /// The tensor stretched to a shape by the rules of broadcasting.
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
        Tensor::contract(Einsum::broadcast(self.shape(), &shape), &[self])
    }

    /// All tensors stretched to their common shape.
    #[track_caller]
    pub(crate) fn aligned(operation: &str, tensors: &[&Tensor]) -> Result<Vec<Tensor>, Tensor> {
        if let Some(failed) = tensors.iter().find(|tensor| tensor.error().is_some()) {
            return Err((*failed).clone());
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
        Ok(tensors.iter().map(|tensor| tensor.broadcast_to(&shape)).collect())
    }

    /// A formula of table rows, element by element.
    #[track_caller]
    pub(crate) fn map_formula(name: &str, formula: Formula, inputs: &[&Tensor]) -> Tensor {
        let aligned = match Tensor::aligned(name, inputs) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        let dtype = aligned[0].dtype();
        if let Some(other) = aligned.iter().find(|input| input.dtype() != dtype) {
            return Tensor::mixed(name, inputs, dtype, other.dtype());
        }
        if !dtype.is_float() {
            let error = Error::new(name, format!("it is defined for floating-point numbers, not for {dtype}"));
            return Tensor::refused(error.help("cast first, for example with .cast(DType::F32)"), inputs);
        }
        let shape = aligned[0].shape().clone();
        Tensor::node(Op::Map(formula), &aligned.iter().collect::<Vec<_>>(), shape, dtype)
    }

    /// A row of the table with one argument, and its parameter.
    #[track_caller]
    pub(crate) fn unary(&self, operation: Operation, parameter: f64) -> Tensor {
        let nodes = vec![FormulaNode::Variable(0), FormulaNode::Unary(operation, 0, parameter)];
        Tensor::map_formula(operation.name(), Formula { nodes, outputs: vec![1] }, &[self])
    }

    /// A row of the table with two arguments.
    #[track_caller]
    pub(crate) fn binary(&self, operation: Operation, other: &Tensor) -> Tensor {
        let nodes = vec![FormulaNode::Variable(0), FormulaNode::Variable(1), FormulaNode::Binary(operation, 0, 1)];
        Tensor::map_formula(operation.name(), Formula { nodes, outputs: vec![2] }, &[self, other])
    }

    /// The sum of tensors, broadcast together.
    #[track_caller]
    pub(crate) fn add_all(name: &str, tensors: &[&Tensor]) -> Tensor {
        let aligned = match Tensor::aligned(name, tensors) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        let dtype = aligned[0].dtype();
        if let Some(other) = aligned.iter().find(|tensor| tensor.dtype() != dtype) {
            return Tensor::mixed(name, tensors, dtype, other.dtype());
        }
        if dtype == DType::Bool {
            return Tensor::refused(
                Error::new(name, "truth values are not added").help("cast them to numbers first"),
                tensors,
            );
        }
        if let [only] = &aligned[..] {
            return only.clone();
        }
        let shape = aligned[0].shape().clone();
        Tensor::node(Op::Add, &aligned.iter().collect::<Vec<_>>(), shape, dtype)
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
        let mut extents = shape.to_vec();
        let mut operands = Vec::new();
        for operand in [self, other] {
            let mut labels = Einsum::broadcast(operand.shape(), &shape).operands.remove(0);
            for (label, size) in labels.iter_mut().zip(operand.shape().iter()) {
                // An axis that is stretched gets a label of its own, of size 1.
                if *label >= shape.rank() {
                    extents.push(*size);
                    *label = extents.len() - 1;
                }
            }
            operands.push(labels);
        }
        Tensor::contract(Einsum::new(operands, (0..shape.rank()).collect(), extents), &[self, other])
    }

    /// The tensor times a number that comes from a rule.
    #[track_caller]
    pub(crate) fn scaled(&self, factor: f64) -> Tensor {
        if factor == 1.0 {
            return self.clone();
        }
        Tensor::contract(Einsum::elementwise(self.shape(), 1).scaled(factor), &[self])
    }

    /// The elements in another type. From floating point to integers they are truncated.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        if self.error().is_some() || self.dtype() == dtype {
            return self.clone();
        }
        Tensor::node(Op::Cast, &[self], self.shape().clone(), dtype)
    }

    /// The same elements in another shape.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::arange(6.0_f64).reshape([2, 3]);
    /// assert_eq!(x.to_string(), "[[0, 1, 2],\n [3, 4, 5]]");
    /// assert!(x.reshape([4]).item().unwrap_err().to_string().starts_with("reshape: 6 elements do not fill the shape [4]"));
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        if self.error().is_some() || *self.shape() == shape {
            return self.clone();
        }
        if self.shape().elements() != shape.elements() {
            let message = format!("{} elements do not fill the shape {shape}", self.shape().elements());
            return Tensor::refused(Error::new("reshape", message), &[self]);
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
        Tensor::node(Op::Read(view), &[self], shape, self.dtype())
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
        Tensor::node(Op::Spread(view), &[self], shape, self.dtype())
    }

    /// `length` places of an axis from `start` on.
    #[track_caller]
    pub(crate) fn part_of_axis(&self, axis: usize, start: usize, length: usize) -> Tensor {
        let mut along: Vec<(isize, isize, usize)> = self.shape().iter().map(|size| (0, 1, *size)).collect();
        along[axis] = (start as isize, 1, length);
        self.read(View::strided(self.shape(), &along))
    }

    /// Tensors one after another along an axis.
    #[track_caller]
    pub fn concatenate(tensors: &[&Tensor], axis: usize) -> Tensor {
        let Some(first) = tensors.first() else {
            return Tensor::refused(Error::new("concatenate", "there is nothing to join"), &[]);
        };
        if let Some(failed) = tensors.iter().find(|tensor| tensor.error().is_some()) {
            return (*failed).clone();
        }
        if axis >= first.rank() {
            let message = format!("there is no axis {axis} in the shape {}", first.shape());
            return Tensor::refused(Error::new("concatenate", message), tensors);
        }
        let others = |tensor: &Tensor| -> Vec<usize> {
            tensor.shape().iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, size)| *size).collect()
        };
        if let Some(other) =
            tensors.iter().find(|tensor| tensor.rank() != first.rank() || others(tensor) != others(first))
        {
            let message = format!("the shapes {} and {} differ beside axis {axis}", first.shape(), other.shape());
            return Tensor::refused(Error::new("concatenate", message), tensors);
        }
        if let Some(other) = tensors.iter().find(|tensor| tensor.dtype() != first.dtype()) {
            return Tensor::mixed("concatenate", tensors, first.dtype(), other.dtype());
        }
        if tensors.len() == 1 {
            return (*first).clone();
        }
        let mut shape = first.shape().to_vec();
        shape[axis] = tensors.iter().fold(0, |total: usize, tensor| total.saturating_add(tensor.shape()[axis]));
        Tensor::node(Op::Concatenate(axis), tensors, shape.into(), first.dtype())
    }

    /// Entries along an axis by a tensor of indices, whose axes take the place of that axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let table = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let rows = table.gather(&Tensor::from([2_i64, 0]), 0);
    /// assert_eq!(rows.to_string(), "[[5, 6],\n [1, 2]]");
    /// ```
    #[track_caller]
    pub fn gather(&self, indices: &Tensor, axis: usize) -> Tensor {
        if let Some(failed) = [self, indices].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        if axis >= self.rank() {
            let message = format!("there is no axis {axis} in the shape {}", self.shape());
            return Tensor::refused(Error::new("gather", message), &[self, indices]);
        }
        if indices.dtype() != DType::I64 {
            let message = format!("indices must be i64, not {}", indices.dtype());
            return Tensor::refused(Error::new("gather", message), &[self, indices]);
        }
        let shape: Vec<usize> = self.shape()[..axis]
            .iter()
            .chain(indices.shape().iter())
            .chain(&self.shape()[axis + 1..])
            .copied()
            .collect();
        Tensor::node(Op::Gather(axis), &[self, indices], shape.into(), self.dtype())
    }

    /// The transpose of [`Tensor::gather`]: adds these entries up along an axis of `size` places, where
    /// the indices say.
    #[track_caller]
    pub fn scatter_add(&self, indices: &Tensor, axis: usize, size: usize) -> Tensor {
        if let Some(failed) = [self, indices].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        let rank = indices.rank();
        let fits = axis.saturating_add(rank) <= self.rank() && self.shape()[axis..axis + rank] == **indices.shape();
        if !fits || indices.dtype() != DType::I64 {
            let message = format!(
                "from axis {axis} on, the shape {} must be that of the indices, {} of type i64",
                self.shape(),
                indices.shape()
            );
            return Tensor::refused(Error::new("scatter_add", message), &[self, indices]);
        }
        let shape: Vec<usize> =
            self.shape()[..axis].iter().chain([&size]).chain(&self.shape()[axis + rank..]).copied().collect();
        Tensor::node(Op::ScatterAdd(axis), &[self, indices], shape.into(), self.dtype())
    }

    /// The elements in reverse order along some axes.
    #[track_caller]
    pub fn flip(&self, axes: &[usize]) -> Tensor {
        if self.error().is_some() || axes.is_empty() {
            return self.clone();
        }
        if let Some(axis) = axes.iter().find(|axis| **axis >= self.rank()) {
            let message = format!("there is no axis {axis} in the shape {}", self.shape());
            return Tensor::refused(Error::new("flip", message), &[self]);
        }
        let along: Vec<(isize, isize, usize)> = (self.shape().iter().enumerate())
            .map(|(axis, size)| if axes.contains(&axis) { (*size as isize - 1, -1, *size) } else { (0, 1, *size) })
            .collect();
        self.read(View::strided(self.shape(), &along))
    }

    /// A comparison element by element, as truth values.
    #[track_caller]
    pub fn compare(&self, relation: Relation, other: &Tensor) -> Tensor {
        let aligned = match Tensor::aligned("compare", &[self, other]) {
            Ok(aligned) => aligned,
            Err(failed) => return failed,
        };
        if aligned[0].dtype() != aligned[1].dtype() {
            return Tensor::mixed("compare", &[self, other], self.dtype(), other.dtype());
        }
        let shape = aligned[0].shape().clone();
        Tensor::node(Op::Compare(relation), &[&aligned[0], &aligned[1]], shape, DType::Bool)
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
        Tensor::node(Op::Logic(logic), &aligned.iter().collect::<Vec<_>>(), shape, DType::Bool)
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
        if aligned[1].dtype() != aligned[2].dtype() {
            return Tensor::mixed("choose", &[self, taken, otherwise], taken.dtype(), otherwise.dtype());
        }
        let (shape, dtype) = (aligned[1].shape().clone(), aligned[1].dtype());
        Tensor::node(Op::Select, &aligned.iter().collect::<Vec<_>>(), shape, dtype)
    }

    /// The largest element along an axis, which disappears, or the place of the first such element.
    #[track_caller]
    pub(crate) fn largest(&self, axis: usize, place: bool) -> Tensor {
        let name = if place { "argmax" } else { "max" };
        if self.error().is_some() {
            return self.clone();
        }
        if axis >= self.rank() {
            return Tensor::refused(
                Error::new(name, format!("there is no axis {axis} in the shape {}", self.shape())),
                &[self],
            );
        }
        if self.shape()[axis] == 0 {
            return Tensor::refused(Error::new(name, format!("axis {axis} is empty")), &[self]);
        }
        let mut shape = self.shape().to_vec();
        shape.remove(axis);
        let (op, dtype) = if place { (Op::LargestPlace(axis), DType::I64) } else { (Op::Largest(axis), self.dtype()) };
        Tensor::node(op, &[self], shape.into(), dtype)
    }

    /// Along a new last axis of `size` places, 1 at the place that each integer names and 0 elsewhere.
    #[track_caller]
    pub fn one_hot(&self, size: usize, dtype: DType) -> Tensor {
        if self.error().is_some() {
            return self.clone();
        }
        if self.dtype() != DType::I64 {
            let message = format!("the places must be i64, not {}", self.dtype());
            return Tensor::refused(Error::new("one_hot", message), &[self]);
        }
        Tensor::node(Op::OneHot, &[self], self.shape().followed_by(&[size]), dtype)
    }

    /// The same value, through which no derivative passes.
    #[track_caller]
    pub fn stop_gradient(&self) -> Tensor {
        Tensor::node(Op::Stop, &[self], self.shape().clone(), self.dtype())
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
        self.settle();
        let inputs = vec![Arc::clone(&self.0)];
        Tensor::make(Op::Variable, inputs, self.shape().clone(), self.dtype(), None, origin)
    }
}

/// The partial derivative of a formula in one input, as a formula or a number.
///
/// If the formula is a single row of the table, the derivative reuses its output, which then is an
/// input of its own behind the others.
pub(crate) fn partial(formula: &Formula, arity: usize, input: usize) -> Partial {
    let symbols = Symbols::new();
    let inputs: Vec<_> = (0..=arity).map(|k| symbols.variable(&format!("x{k}"))).collect();
    let output = inputs[arity];
    let root = formula.outputs[0];
    let is_variable = |node: usize| matches!(formula.nodes[node], FormulaNode::Variable(_));
    let symbol = |node: usize| match formula.nodes[node] {
        FormulaNode::Variable(variable) => inputs[variable],
        _ => crate::formula::Symbol::literal(0.0),
    };
    let slope = match formula.nodes[root] {
        FormulaNode::Unary(operation, x, parameter) if is_variable(x) => {
            operation.derivative(symbol(x), output, parameter)
        }
        FormulaNode::Binary(operation, a, b) if is_variable(a) && is_variable(b) && a != b => {
            let partials = operation.partials(symbol(a), symbol(b), output);
            let slot = usize::from(formula.nodes[b] == FormulaNode::Variable(input));
            partials.map(|partials| partials[slot])
        }
        _ => None,
    };
    let slope = slope.unwrap_or_else(|| formula.derivative(&inputs[..arity], input)[0].1);
    match slope.to_formula() {
        None => Partial::Number(slope.as_number().unwrap_or(0.0)),
        Some(formula) => {
            let mut formula = formula.trimmed();
            let inputs: Vec<usize> =
                (0..=arity).filter(|k| formula.nodes.contains(&FormulaNode::Variable(*k))).collect();
            for node in &mut formula.nodes {
                if let FormulaNode::Variable(variable) = node {
                    *variable = inputs.iter().position(|input| input == variable).unwrap_or(0);
                }
            }
            Partial::Formula { formula, inputs }
        }
    }
}

/// A partial derivative of a formula.
pub(crate) enum Partial {
    /// It is the same everywhere.
    Number(f64),
    /// A formula of some of the inputs, by their numbers; the number behind the last is the output.
    Formula { formula: Formula, inputs: Vec<usize> },
}
