//! The vocabulary of rules: parts, triangles and diagonals of stacks of matrices.

use std::ops::Range;

use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::expr::{Index, Tensor, s};
use crate::shape::Shape;

/// Some rows of each matrix.
#[track_caller]
pub(super) fn rows(matrix: &Tensor, range: Range<usize>) -> Tensor {
    matrix.slice(&[Index::Rest, s(range), s(..)])
}

/// Some columns of each matrix.
#[track_caller]
pub(super) fn columns(matrix: &Tensor, range: Range<usize>) -> Tensor {
    matrix.slice(&[Index::Rest, s(range)])
}

/// The matrices on top of one another.
#[track_caller]
pub(super) fn above(parts: &[&Tensor]) -> Tensor {
    Tensor::concatenate(parts, parts[0].rank() - 2)
}

/// The matrices beside one another.
#[track_caller]
pub(super) fn beside(parts: &[&Tensor]) -> Tensor {
    Tensor::concatenate(parts, parts[0].rank() - 1)
}

/// Ones where a relation of row and column holds, and zeros elsewhere.
#[track_caller]
fn pattern(rows: usize, columns: usize, dtype: DType, holds: impl Fn(usize, usize) -> bool) -> Tensor {
    let one = |k: usize| f64::from(u8::from(holds(k / columns, k % columns)));
    Tensor::leaf(Array::new(Shape::from([rows, columns]), Buffer::from_fn(dtype, rows * columns, one)))
}

/// Ones on the diagonal, for any number of rows and columns.
#[track_caller]
pub(super) fn identity(rows: usize, columns: usize, dtype: DType) -> Tensor {
    pattern(rows, columns, dtype, |i, j| i == j)
}

/// (a + aᵀ)/2.
#[track_caller]
pub(super) fn symmetric_part(matrix: &Tensor) -> Tensor {
    (matrix + matrix.transpose()).scaled(0.5)
}

/// The labels of a stack's diagonals and of the matrices that they belong to, with sizes.
fn diagonal_labels(leading: &[usize], size: usize) -> (Vec<Label>, Vec<Label>, Vec<usize>) {
    let last = leading.len();
    let extents = leading.iter().copied().chain([size]).collect();
    ((0..=last).collect(), (0..=last).chain([last]).collect(), extents)
}

/// The diagonal of each square matrix.
#[track_caller]
pub(super) fn diagonal(matrix: &Tensor) -> Tensor {
    let (leading, size) = (&matrix.shape()[..matrix.rank() - 2], matrix.shape()[matrix.rank() - 1]);
    let (vector, square, extents) = diagonal_labels(leading, size);
    Tensor::contract(Einsum::new(vec![square], vector, extents), &[matrix])
}

/// The diagonal matrix of each vector.
#[track_caller]
pub(super) fn diagonal_matrix(vector: &Tensor) -> Tensor {
    let (leading, size) = (&vector.shape()[..vector.rank() - 1], vector.shape()[vector.rank() - 1]);
    let (vector_labels, square, extents) = diagonal_labels(leading, size);
    Tensor::contract(Einsum::new(vec![vector_labels], square, extents), &[vector])
}

/// Each vector as a matrix of one row.
#[track_caller]
pub(super) fn as_row(vector: &Tensor) -> Tensor {
    vector.unsqueeze(vector.rank().saturating_sub(1))
}

/// Each vector as a matrix of one column.
#[track_caller]
pub(super) fn as_column(vector: &Tensor) -> Tensor {
    vector.unsqueeze(vector.rank())
}

/// The only row of each matrix, as a vector.
#[track_caller]
pub(super) fn only_row(matrix: &Tensor) -> Tensor {
    matrix.slice(&[Index::Rest, s(0), s(..)])
}

/// The only element of each matrix.
#[track_caller]
pub(super) fn only_element(matrix: &Tensor) -> Tensor {
    matrix.slice(&[Index::Rest, s(0), s(0)])
}

/// 1/x where a condition holds, and exactly zero elsewhere in every order.
#[track_caller]
pub(super) fn reciprocal_where(condition: &Tensor, x: &Tensor) -> Tensor {
    condition.choose(&x.recip(), &x.zeros_like())
}
