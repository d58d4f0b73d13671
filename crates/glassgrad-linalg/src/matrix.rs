//! Matrices of `f64`, row by row.

use std::ops::{Index, IndexMut, Range};

use crate::gemm::{View, ViewMut, multiply_add};

/// A matrix of `f64`, row-major.
///
/// ```
/// use glassgrad_linalg::Matrix;
/// let a = Matrix::from_fn(2, 3, |i, j| (3 * i + j) as f64);
/// assert_eq!(a.row(1), [3.0, 4.0, 5.0]);
/// assert_eq!(a.product(&a.transposed()).row(0), [5.0, 14.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    elements: Vec<f64>,
}

impl Matrix {
    /// The matrix whose element in row i and column j is `element(i, j)`.
    pub fn from_fn(rows: usize, columns: usize, mut element: impl FnMut(usize, usize) -> f64) -> Matrix {
        let mut elements = Vec::with_capacity(rows * columns);
        for i in 0..rows {
            elements.extend((0..columns).map(|j| element(i, j)));
        }
        Matrix { rows, columns, elements }
    }

    /// The matrix with these elements, row by row.
    ///
    /// # Panics
    /// If their number is not `rows · columns`.
    pub fn from_elements(rows: usize, columns: usize, elements: Vec<f64>) -> Matrix {
        assert_eq!(elements.len(), rows * columns, "a matrix of {rows} rows and {columns} columns");
        Matrix { rows, columns, elements }
    }

    /// The matrix with one number throughout.
    pub fn full(rows: usize, columns: usize, number: f64) -> Matrix {
        Matrix { rows, columns, elements: vec![number; rows * columns] }
    }

    /// The matrix of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix::full(rows, columns, 0.0)
    }

    /// The identity, or its first columns or rows.
    pub fn identity(rows: usize, columns: usize) -> Matrix {
        Matrix::from_fn(rows, columns, |i, j| f64::from(u8::from(i == j)))
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All elements, row by row.
    pub fn elements(&self) -> &[f64] {
        &self.elements
    }

    /// The elements of a row.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.elements[i * self.columns..][..self.columns]
    }

    pub(crate) fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.elements[i * self.columns..][..self.columns]
    }

    /// Two rows, `i` before `j`.
    pub(crate) fn two_rows_mut(&mut self, i: usize, j: usize) -> (&mut [f64], &mut [f64]) {
        let (before, after) = self.elements.split_at_mut(j * self.columns);
        (&mut before[i * self.columns..][..self.columns], &mut after[..self.columns])
    }

    /// The rows before `i`, and the others.
    pub(crate) fn split_rows_mut(&mut self, i: usize) -> (&mut [f64], &mut [f64]) {
        self.elements.split_at_mut(i * self.columns)
    }

    pub(crate) fn elements_mut(&mut self) -> &mut [f64] {
        &mut self.elements
    }

    /// The elements of a column.
    pub fn column(&self, j: usize) -> impl Iterator<Item = f64> {
        (0..self.rows).map(move |i| self[(i, j)])
    }

    /// The transpose.
    pub fn transposed(&self) -> Matrix {
        const TILE: usize = 16;
        let mut result = Matrix::zeros(self.columns, self.rows);
        for (i0, j0) in (0..self.rows).step_by(TILE).flat_map(|i| (0..self.columns).step_by(TILE).map(move |j| (i, j)))
        {
            for i in i0..self.rows.min(i0 + TILE) {
                for j in j0..self.columns.min(j0 + TILE) {
                    result.elements[j * self.rows + i] = self.elements[i * self.columns + j];
                }
            }
        }
        result
    }

    /// The product with another matrix.
    ///
    /// # Panics
    /// If the other matrix does not have as many rows as this one has columns.
    pub fn product(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows, "the inner sizes of a product of matrices");
        let mut result = Matrix::zeros(self.rows, other.columns);
        let (a, b) = (self.view(0..self.rows, 0..self.columns), other.view(0..other.rows, 0..other.columns));
        multiply_add(result.view_mut(0..self.rows, 0..other.columns), 1.0, a, b);
        result
    }

    /// The matrix with every element replaced by a function of it and of that of another matrix.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn zip_with(&self, other: &Matrix, combine: impl Fn(f64, f64) -> f64) -> Matrix {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns), "the shapes of two matrices");
        let elements = self.elements.iter().zip(&other.elements).map(|(a, b)| combine(*a, *b)).collect();
        Matrix { elements, ..*self }
    }

    /// Whether no element is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        self.elements.iter().all(|element| element.is_finite())
    }

    /// The largest magnitude of an element; NaN if one is NaN.
    pub fn max_norm(&self) -> f64 {
        self.elements.iter().fold(0.0, |most: f64, element| {
            let magnitude = element.abs();
            if magnitude > most || magnitude.is_nan() { magnitude } else { most }
        })
    }

    /// The matrix divided by the power of two that brings its largest element near 1, and that power: squares on the way
    /// then neither overflow nor vanish.
    pub(crate) fn balanced(&self) -> (Matrix, f64) {
        let largest = self.max_norm();
        let exponent = if largest > 0.0 { largest.log2().floor().clamp(-1000.0, 1000.0) } else { 0.0 };
        let scale = exponent.exp2();
        let elements = self.elements.iter().map(|element| element / scale).collect();
        (Matrix { elements, ..*self }, scale)
    }

    /// A block of the matrix.
    pub(crate) fn view(&self, rows: Range<usize>, columns: Range<usize>) -> View<'_> {
        View::new(&self.elements, self.columns, rows, columns)
    }

    /// A block of the matrix, to be changed.
    pub(crate) fn view_mut(&mut self, rows: Range<usize>, columns: Range<usize>) -> ViewMut<'_> {
        ViewMut::new(&mut self.elements, self.columns, rows, columns)
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        debug_assert!(i < self.rows && j < self.columns);
        &self.elements[i * self.columns + j]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        debug_assert!(i < self.rows && j < self.columns);
        &mut self.elements[i * self.columns + j]
    }
}
