//! How an operation on one matrix becomes one on stacks of matrices.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use glassgrad_linalg::Matrix;

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Custom, CustomOp, Rule, Tensor, references};
use crate::shape::Shape;

/// The line of the user that asked.
pub(super) type Origin = &'static Location<'static>;

/// An operation on matrices with one matrix as its result; what has several packs them into one.
pub(super) trait MatrixOperation: Clone + fmt::Debug + Send + Sync + 'static {
    /// The name under which errors and pictures show it.
    fn name(&self) -> &'static str;
    /// Rows and columns of the result from those of the inputs, or why there is none.
    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String>;
    /// The result, or why there is none, as the predicate of a sentence about the matrix. Numbers were rounded to
    /// a multiple of `epsilon` of their size. It is not asked for results without elements.
    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String>;
    /// How it is differentiated; the tensors may be stacks.
    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r>;

    /// Whether the result can be computed. Otherwise it is NaN throughout: decompositions of what is not finite
    /// may not end.
    fn is_defined(&self, inputs: &[Matrix]) -> bool {
        inputs[0].is_finite()
    }

    /// What it computes, if operations of other names compute the same.
    fn meaning(&self) -> String {
        format!("{self:?}")
    }

    /// The result as a product of one input with what does not depend on it, if it is one.
    fn as_product(&self, _inputs: &[Tensor], _input: usize, _origin: Origin) -> Option<Tensor> {
        None
    }

    /// The result for many examples.
    fn batched(&self, inputs: &[Tensor], with_axis: &[bool], origin: Origin) -> Tensor {
        self.as_one_stack(inputs, with_axis, origin)
    }

    /// The result for many examples, each of which is one more matrix of the stack.
    fn as_one_stack(&self, inputs: &[Tensor], with_axis: &[bool], origin: Origin) -> Tensor {
        let inputs = with_the_axis(inputs, with_axis);
        self.clone().on(&inputs.iter().collect::<Vec<_>>(), origin)
    }

    /// The operation applied to stacks whose leading axes broadcast.
    fn on(self, inputs: &[&Tensor], origin: Origin) -> Tensor {
        apply(Custom(Arc::new(Stacked { operation: self, origin })), inputs, origin)
    }
}

// What follows up to the implementation of `CustomOp` is compiled once, not once for each operation.

/// Inputs that all have the axis of examples.
fn with_the_axis(inputs: &[Tensor], with_axis: &[bool]) -> Vec<Tensor> {
    let size = inputs.iter().zip(with_axis).find(|(_, has)| **has).map_or(0, |(input, _)| input.shape()[0]);
    let spread = |(input, has): (&Tensor, &bool)| match has {
        true => input.clone(),
        false => input.broadcast_to(Shape::from(size).followed_by(input.shape())),
    };
    inputs.iter().zip(with_axis).map(spread).collect()
}

/// The node of an operation on stacks whose leading axes broadcast.
fn apply(operation: Custom, inputs: &[&Tensor], origin: Origin) -> Tensor {
    let leading = |input: &Tensor| Shape::from(&input.shape()[..input.rank().saturating_sub(2)]);
    let promoted = Tensor::cast_all(inputs, Tensor::common_type(inputs).to_float());
    let inputs = &references(&promoted)[..];
    let batch = inputs.iter().try_fold(Shape::scalar(), |shape: Shape, input| shape.broadcast(&leading(input)));
    let stretched: Vec<Tensor> = match batch {
        Some(batch) if inputs.iter().all(|input| input.error().is_none() && input.rank() >= 2) => inputs
            .iter()
            .map(|input| input.broadcast_to(batch.followed_by(&input.shape()[input.rank() - 2..])))
            .collect(),
        // The operation reports the error.
        _ => inputs.iter().map(|input| (*input).clone()).collect(),
    };
    Tensor::custom_node_at(operation, &stretched.iter().collect::<Vec<_>>(), origin)
}

/// The shape of a result from those of its matrices, as [`MatrixOperation::shape`] gives it.
type ShapeOf<'a> = &'a dyn Fn(&[(usize, usize)]) -> Result<(usize, usize), String>;

/// The result for one matrix of each stack and the precision of its elements; none where the operation is not defined.
type Compute<'a> = &'a dyn Fn(&[Matrix], f64) -> Result<Option<Matrix>, String>;

/// The shape and element type of stacks of results.
fn stacked_output(shape: ShapeOf<'_>, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
    let sizes = inputs.iter().map(|input| matrix_sizes(input)).collect::<Result<Vec<_>, String>>()?;
    let dtype = inputs[0].dtype();
    let batch = |input: &Tensor| Shape::from(&input.shape()[..input.rank() - 2]);
    let first = batch(inputs[0]);
    if let Some(other) = inputs.iter().map(|input| batch(input)).find(|batch| *batch != first) {
        return Err(format!("the leading axes {first} and {other} do not broadcast together"));
    }
    let (rows, columns) = shape(&sizes)?;
    Ok((first.followed_by(&[rows, columns]), dtype))
}

/// The results for all matrices of stacks; NaN throughout where there is none.
fn stacked_value(shape: ShapeOf<'_>, compute: Compute<'_>, inputs: &[Array]) -> Result<Array, String> {
    let sizes: Vec<(usize, usize)> = inputs.iter().map(|input| last_two(input.shape())).collect();
    let (rows, columns) = shape(&sizes)?;
    let (dtype, batch) = (inputs[0].dtype(), Shape::from(&inputs[0].shape()[..inputs[0].shape().rank() - 2]));
    let shape = batch.followed_by(&[rows, columns]);
    let mut elements: Vec<f64> = Vec::with_capacity(shape.elements());
    let count = if rows * columns == 0 { 0 } else { batch.elements() };
    for number in 0..count {
        let matrix = |(input, (rows, columns)): (&Array, &(usize, usize))| {
            let start = number * rows * columns;
            Matrix::from_fn(*rows, *columns, |i, j| input.buffer().get(start + i * columns + j))
        };
        let matrices: Vec<Matrix> = inputs.iter().zip(&sizes).map(matrix).collect();
        let result = compute(&matrices, dtype.epsilon());
        match result.map_err(|predicate| format!("{} {predicate}", subject(&batch, number)))? {
            Some(result) => elements.extend_from_slice(result.elements()),
            None => elements.extend(std::iter::repeat_n(f64::NAN, rows * columns)),
        }
    }
    Ok(Array::new(shape, Buffer::from_fn(dtype, elements.len(), |k| elements[k])))
}

/// An operation on matrices, applied to each matrix of a stack.
#[derive(Clone, Debug)]
struct Stacked<M> {
    operation: M,
    origin: Origin,
}

impl<M: MatrixOperation> CustomOp for Stacked<M> {
    fn key(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    fn name(&self) -> &str {
        self.operation.name()
    }

    fn meaning(&self) -> Option<String> {
        Some(self.operation.meaning())
    }

    fn as_product(&self, inputs: &[Tensor], input: usize) -> Option<Tensor> {
        self.operation.as_product(inputs, input, self.origin)
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        stacked_output(&|sizes| self.operation.shape(sizes), inputs)
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let operation = &self.operation;
        let compute = |matrices: &[Matrix], epsilon: f64| match operation.is_defined(matrices) {
            true => operation.compute(matrices, epsilon).map(Some),
            false => Ok(None),
        };
        stacked_value(&|sizes| operation.shape(sizes), &compute, inputs)
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        self.operation.rule(inputs, output)
    }

    fn batched(&self, inputs: &[Tensor], with_axis: &[bool]) -> Option<Tensor> {
        Some(self.operation.batched(inputs, with_axis, self.origin))
    }
}

/// A matrix of a batch, as the subject of a sentence.
fn subject(batch: &Shape, number: usize) -> String {
    if batch.rank() == 0 {
        return "the matrix".to_owned();
    }
    let index = batch.iter().zip(batch.strides()).map(|(size, stride)| number / stride % size);
    format!("matrix {} of the batch {batch}", Shape::from(index.collect::<Vec<_>>()))
}

fn last_two(shape: &[usize]) -> (usize, usize) {
    (shape[shape.len() - 2], shape[shape.len() - 1])
}

/// The rows and columns of a stack of matrices, or why it is none.
fn matrix_sizes(tensor: &Tensor) -> Result<(usize, usize), String> {
    if tensor.rank() < 2 {
        return Err(format!("it needs a matrix or a stack of them, not the shape {}", tensor.shape()));
    }
    if !tensor.is_float() {
        let message = format!("it is defined for floating-point numbers, not for {}", tensor.dtype());
        return Err(message + "; cast first, for example with .cast(DType::F32)");
    }
    Ok(last_two(tensor.shape()))
}

/// The size of a square matrix, or why it is none.
pub(super) fn square((rows, columns): (usize, usize)) -> Result<usize, String> {
    if rows == columns {
        Ok(rows)
    } else {
        Err(format!("it needs square matrices, not {rows} rows by {columns} columns"))
    }
}

/// The rows and columns of what an operation is asked to take, or the failure.
pub(super) fn sizes(name: &str, tensor: &Tensor, origin: Origin) -> Result<(usize, usize), Tensor> {
    if tensor.error().is_some() {
        return Err(tensor.clone());
    }
    matrix_sizes(tensor).map_err(|message| Tensor::refused_at(Error::new(name, message), &[tensor], origin))
}

/// The size of the square matrices that an operation is asked to take, or the failure.
pub(super) fn square_size(name: &str, tensor: &Tensor, origin: Origin) -> Result<usize, Tensor> {
    let sizes = sizes(name, tensor, origin)?;
    square(sizes).map_err(|message| Tensor::refused_at(Error::new(name, message), &[tensor], origin))
}
