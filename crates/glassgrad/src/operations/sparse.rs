//! Sparse matrices times dense ones: the entries that are not zero, with their rows and columns.
//!
//! A product gathers rows of the dense factor, scales them, and adds them up where the rows of the entries say. Both
//! derivatives and all orders follow from the rules of these parts: that by the entries reads only where entries are.

use crate::Tree;
use crate::array::{Array, Buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::shape::Shape;

/// A sparse matrix: a tree whose differentiable leaf is the vector of its entries. Entries at the same place add up.
///
/// ```
/// use glassgrad::{Tensor, grad, operations::SparseMatrix};
/// // [[1, 0, 2], [0, 3, 0]]
/// let matrix = SparseMatrix::from_csr(&[0, 2, 3], &[0, 2, 1], Tensor::from([1.0, 2.0, 3.0]), 3);
/// let x = Tensor::from([[1.0], [10.0], [100.0]]);
/// assert_eq!(matrix.matmul(&x).to_string(), "[[201],\n [ 30]]");
/// let slope = grad(|matrix: &SparseMatrix| matrix.matmul(&x).sum())(&matrix);
/// assert_eq!(slope.values.to_string(), "[  1, 100,  10]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct SparseMatrix {
    /// The entries.
    pub values: Tensor,
    /// The row of each entry.
    pub rows: Tensor,
    /// The column of each entry.
    pub columns: Tensor,
    /// How many rows and columns there are.
    #[tree(static)]
    pub size: (usize, usize),
}

impl SparseMatrix {
    /// From coordinates (COO): the row and the column of each entry, in any order.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::SparseMatrix};
    /// let matrix = SparseMatrix::from_coo(&[1, 0], &[0, 1], Tensor::from([5.0, 7.0]), [2, 2]);
    /// assert_eq!(matrix.to_dense().to_string(), "[[0, 7],\n [5, 0]]");
    /// ```
    #[track_caller]
    pub fn from_coo(rows: &[usize], columns: &[usize], values: Tensor, size: [usize; 2]) -> SparseMatrix {
        let count = values.shape().first().copied().unwrap_or(0);
        let outside = |places: &[usize], size: usize| places.iter().find(|place| **place >= size).copied();
        let wrong = if values.error().is_none() && (values.rank() != 1 || rows.len() != count || columns.len() != count)
        {
            let (rows, columns) = (rows.len(), columns.len());
            Some(format!(
                "{rows} rows and {columns} columns do not name the places of values of the shape {}",
                values.shape()
            ))
        } else if let Some(row) = outside(rows, size[0]) {
            Some(format!("there is no row {row} in a matrix of {} rows", size[0]))
        } else {
            let column = outside(columns, size[1]);
            column.map(|column| format!("there is no column {column} in a matrix of {} columns", size[1]))
        };
        let integers = |places: &[usize]| {
            let elements = places.iter().map(|place| *place as i64).collect();
            Tensor::leaf(Array::new(Shape::from(places.len()), Buffer::I64(elements)))
        };
        let values = match wrong {
            Some(message) => Tensor::refused(Error::new("from_coo", message), &[&values]),
            None => values,
        };
        SparseMatrix { values, rows: integers(rows), columns: integers(columns), size: (size[0], size[1]) }
    }

    /// From compressed rows (CSR): where the entries of each row begin, with their number at the end, and the column of each
    /// entry.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::SparseMatrix};
    /// let matrix = SparseMatrix::from_csr(&[0, 0, 2], &[0, 1], Tensor::from([5.0, 7.0]), 2);
    /// assert_eq!(matrix.to_dense().to_string(), "[[0, 0],\n [5, 7]]");
    /// ```
    #[track_caller]
    pub fn from_csr(starts: &[usize], columns: &[usize], values: Tensor, width: usize) -> SparseMatrix {
        let rows = starts.len().saturating_sub(1);
        let ascending = starts.first() == Some(&0) && starts.is_sorted() && starts.last() == Some(&columns.len());
        if !ascending {
            let message = format!("the starts of rows must ascend from 0 to the number of entries, {}", columns.len());
            let values = Tensor::refused(Error::new("from_csr", message), &[&values]);
            return SparseMatrix::from_coo(&[], &[], values, [rows, width]);
        }
        let row_of = (0..rows).flat_map(|row| std::iter::repeat_n(row, starts[row + 1] - starts[row]));
        SparseMatrix::from_coo(&row_of.collect::<Vec<_>>(), columns, values, [rows, width])
    }

    /// The product with a dense matrix `[columns, n]` or a vector of as many elements as there are columns.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::SparseMatrix};
    /// let turn = SparseMatrix::from_coo(&[0, 1], &[1, 0], Tensor::from([1.0, 1.0]), [2, 2]);
    /// assert_eq!(turn.matmul(&Tensor::from([3.0, 4.0])).to_string(), "[4, 3]");
    /// ```
    #[track_caller]
    pub fn matmul(&self, dense: &Tensor) -> Tensor {
        if let Some(failed) = [&self.values, dense].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        if !matches!(dense.rank(), 1 | 2) || dense.shape()[0] != self.size.1 {
            let (rows, columns) = self.size;
            let message =
                format!("a sparse matrix of {rows} rows and {columns} columns meets the shape {}", dense.shape());
            return Tensor::refused(Error::new("matmul", message), &[&self.values, dense]);
        }
        let read = dense.take(&self.columns, 0);
        let values = if dense.rank() == 2 { self.values.unsqueeze(1) } else { self.values.clone() };
        (values * read).scatter_add(&self.rows, 0, self.size.0).composed_as("matmul", &[&self.values, dense])
    }

    /// The matrix with rows and columns exchanged.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::SparseMatrix};
    /// let matrix = SparseMatrix::from_coo(&[0], &[1], Tensor::from([5.0]), [1, 2]);
    /// assert_eq!(matrix.transpose().to_dense().to_string(), "[[0],\n [5]]");
    /// ```
    pub fn transpose(&self) -> SparseMatrix {
        let (rows, columns) = self.size;
        SparseMatrix {
            values: self.values.clone(),
            rows: self.columns.clone(),
            columns: self.rows.clone(),
            size: (columns, rows),
        }
    }

    /// The same matrix with its zeros.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::SparseMatrix};
    /// let twice = SparseMatrix::from_coo(&[0, 0], &[1, 1], Tensor::from([5.0, 1.0]), [1, 2]);
    /// assert_eq!(twice.to_dense().to_string(), "[[0, 6]]");
    /// ```
    #[track_caller]
    pub fn to_dense(&self) -> Tensor {
        let (rows, columns) = self.size;
        let places = &self.rows * columns + &self.columns;
        let elements = rows.saturating_mul(columns);
        self.values.scatter_add(&places, 0, elements).reshape([rows, columns]).composed_as("to_dense", &[&self.values])
    }

    /// The element type of the entries.
    ///
    /// ```
    /// use glassgrad::{Tensor, dtype::DType, operations::SparseMatrix};
    /// assert_eq!(SparseMatrix::from_coo(&[], &[], Tensor::zeros(0), [2, 2]).dtype(), DType::F32);
    /// ```
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }
}
