//! Functions of one regular matrix, with rules in products alone, so that derivatives are written in terms of `inv(X)`.
//!
//! The functions of the same names in `operations/` take stacks of matrices, singular ones too, and their rules lead through
//! decompositions that have no place in a formula. Their values are used here.

use crate::array::Array;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::expr::{CustomOp, Rule, Tensor};
use crate::lang::matrix::Function;
use crate::shape::Shape;

/// `inv`, `det` or `logdet` of one matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfMatrix(pub(super) Function);

/// The function of a matrix.
pub(super) fn of_matrix(function: Function, matrix: &Tensor) -> Tensor {
    Tensor::custom(OfMatrix(function), &[matrix])
}

/// The function that an operation in the graph computes, if it is one of these.
pub(super) fn function_of(operation: &dyn CustomOp) -> Option<Function> {
    let known = [Function::Inverse, Function::Determinant, Function::LogDeterminant];
    known.into_iter().find(|function| operation.meaning() == OfMatrix(*function).meaning())
}

impl CustomOp for OfMatrix {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        let shape = match self.0 {
            Function::Inverse => inputs[0].shape().clone(),
            _ => Shape::scalar(),
        };
        Ok((shape, inputs[0].dtype()))
    }

    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let matrix = Tensor::leaf(inputs[0].clone());
        let value = match self.0 {
            Function::Inverse => matrix.inv(),
            Function::Determinant => matrix.det(),
            _ => matrix.logdet(),
        };
        value.eval().map_err(|error| error.to_string())
    }

    /// d X⁻¹ = -X⁻¹ dX X⁻¹, d det X = det X · tr(X⁻¹ dX), and d log det X = tr(X⁻¹ dX).
    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        let size = inputs[0].shape()[0];
        let function = self.0;
        Rule::Pullback(Box::new(move |g| {
            let (i, j, k, l) = (0, 1, 2, 3);
            let extents = vec![size; 4];
            vec![Some(match function {
                Function::Inverse => {
                    let einsum = Einsum::new(vec![vec![k, i], vec![k, l], vec![j, l]], vec![i, j], extents);
                    Tensor::contract(einsum.scaled(-1.0), &[output, g, output])
                }
                Function::Determinant => {
                    let einsum = Einsum::new(vec![vec![], vec![], vec![j, i]], vec![i, j], extents);
                    Tensor::contract(einsum, &[g, output, &of_matrix(Function::Inverse, &inputs[0])])
                }
                _ => {
                    let einsum = Einsum::new(vec![vec![], vec![j, i]], vec![i, j], extents);
                    Tensor::contract(einsum, &[g, &of_matrix(Function::Inverse, &inputs[0])])
                }
            })]
        }))
    }

    fn key(&self) -> Option<String> {
        Some("of one regular matrix".to_owned())
    }
}
