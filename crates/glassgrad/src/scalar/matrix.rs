//! A small dense matrix whose every element is a number of any engine.

use std::fmt;
use std::ops::{Add, Index, IndexMut, Mul, Sub};

use crate::algebra::c;
use crate::ops::{Algebra, Real};

/// A matrix in row-major order. With [`Var`](crate::scalar::Var) elements every element is a node
/// of the tape, and every operation inside a product can be inspected.
///
/// ```
/// use glassgrad::scalar::{Matrix, Tape};
/// let tape = Tape::new();
/// let a = Matrix::from_rows([[1.0, 2.0], [3.0, 4.0]]).map(|x| tape.input(x));
/// let b = Matrix::from_rows([[5.0], [6.0]]).map(|x| tape.input(x));
/// let loss = a.matmul(&b).sum();
/// assert_eq!(loss.value(), 56.0);
/// let adjoints = tape.reverse(loss);
/// assert_eq!(a.map(|x| adjoints.of(x)), Matrix::from_rows([[5.0, 6.0], [5.0, 6.0]]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    rows: usize,
    columns: usize,
    elements: Vec<T>,
}

impl<T: Copy> Matrix<T> {
    /// A matrix whose element in row i and column j is `element(i, j)`.
    pub fn from_fn(rows: usize, columns: usize, mut element: impl FnMut(usize, usize) -> T) -> Self {
        let elements = (0..rows * columns).map(|k| element(k / columns, k % columns)).collect();
        Matrix { rows, columns, elements }
    }

    /// A matrix with these rows.
    pub fn from_rows<const M: usize, const N: usize>(rows: [[T; N]; M]) -> Self {
        Matrix { rows: M, columns: N, elements: rows.as_flattened().to_vec() }
    }

    /// A matrix with these elements, row by row.
    ///
    /// # Panics
    /// If their number is not that of the matrix.
    pub fn from_elements(rows: usize, columns: usize, elements: Vec<T>) -> Self {
        assert!(elements.len() == rows * columns, "{} elements for a {rows}×{columns} matrix", elements.len());
        Matrix { rows, columns, elements }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.elements[row * self.columns..(row + 1) * self.columns]
    }

    /// All elements, row by row.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// Applies a function to every element.
    pub fn map<U>(&self, function: impl FnMut(T) -> U) -> Matrix<U> {
        Matrix {
            rows: self.rows,
            columns: self.columns,
            elements: self.elements.iter().copied().map(function).collect(),
        }
    }

    /// Combines two matrices of one shape element by element.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn zip<U: Copy, V>(&self, other: &Matrix<U>, mut function: impl FnMut(T, U) -> V) -> Matrix<V> {
        assert!(
            self.rows == other.rows && self.columns == other.columns,
            "cannot combine a {}×{} matrix with a {}×{} one element by element",
            self.rows,
            self.columns,
            other.rows,
            other.columns
        );
        let elements = self.elements.iter().zip(&other.elements).map(|(a, b)| function(*a, *b)).collect();
        Matrix { rows: self.rows, columns: self.columns, elements }
    }

    /// The matrix with rows and columns exchanged.
    pub fn transpose(&self) -> Self {
        Matrix::from_fn(self.columns, self.rows, |i, j| self[(j, i)])
    }
}

impl<T: Real> Matrix<T> {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Matrix::from_fn(rows, columns, |_, _| c(0.0))
    }

    /// The matrix product.
    ///
    /// # Panics
    /// If the number of columns of the first is not the number of rows of the second.
    pub fn matmul(&self, other: &Self) -> Self {
        assert!(
            self.columns == other.rows,
            "cannot multiply a {}×{} matrix with a {}×{} one: {} columns meet {} rows",
            self.rows,
            self.columns,
            other.rows,
            other.columns,
            self.columns,
            other.rows
        );
        Matrix::from_fn(self.rows, other.columns, |i, j| (0..self.columns).map(|k| self[(i, k)] * other[(k, j)]).sum())
    }

    /// Adds a row to every row, as the bias of a layer.
    ///
    /// # Panics
    /// If `row` is not one row of as many columns.
    pub fn add_row(&self, row: &Self) -> Self {
        assert!(
            row.rows == 1 && row.columns == self.columns,
            "cannot add a {}×{} matrix to each row of a {}×{} one",
            row.rows,
            row.columns,
            self.rows,
            self.columns
        );
        Matrix::from_fn(self.rows, self.columns, |i, j| self[(i, j)] + row[(0, j)])
    }

    /// The sum of all elements.
    pub fn sum(&self) -> T {
        self.elements.iter().copied().sum()
    }

    /// Hyperbolic tangent of every element.
    pub fn tanh(&self) -> Self {
        self.map(Algebra::tanh)
    }

    /// Rectified linear unit of every element.
    pub fn relu(&self) -> Self {
        self.map(Algebra::relu)
    }

    /// Exponential of every element.
    pub fn exp(&self) -> Self {
        self.map(Algebra::exp)
    }
}

impl<T> Index<(usize, usize)> for Matrix<T> {
    type Output = T;
    fn index(&self, (row, column): (usize, usize)) -> &T {
        assert!(
            row < self.rows && column < self.columns,
            "no element ({row}, {column}) in a {}×{} matrix",
            self.rows,
            self.columns
        );
        &self.elements[row * self.columns + column]
    }
}

impl<T> IndexMut<(usize, usize)> for Matrix<T> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut T {
        assert!(
            row < self.rows && column < self.columns,
            "no element ({row}, {column}) in a {}×{} matrix",
            self.rows,
            self.columns
        );
        &mut self.elements[row * self.columns + column]
    }
}

macro_rules! elementwise {
    ($($Trait:ident $method:ident $operator:tt),*) => {$(
        impl<T: Real> $Trait for &Matrix<T> {
            type Output = Matrix<T>;
            /// Element by element.
            fn $method(self, other: Self) -> Matrix<T> {
                self.zip(other, |a, b| a $operator b)
            }
        }
    )*};
}
elementwise!(Add add +, Sub sub -, Mul mul *);

impl<T: fmt::Display> fmt::Display for Matrix<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.elements.chunks(self.columns.max(1)) {
            let row: Vec<String> = row.iter().map(ToString::to_string).collect();
            writeln!(formatter, "[{}]", row.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Tape;

    #[test]
    fn the_backward_pass_of_a_product_is_two_products() {
        let tape = Tape::new();
        let (left, right) =
            (Matrix::from_fn(2, 3, |i, j| (i + 2 * j) as f64), Matrix::from_fn(3, 2, |i, j| (3 * i) as f64 - j as f64));
        let (a, b) = (left.map(|x| tape.input(x)), right.map(|x| tape.input(x)));
        let product = a.matmul(&b);
        let adjoint = Matrix::from_fn(2, 2, |i, j| (1 + i + j) as f64);
        let mut sweep = crate::scalar::Sweep::new();
        let seeds: Vec<_> = product.elements().iter().zip(adjoint.elements()).map(|(v, w)| ((*v).into(), *w)).collect();
        tape.reverse_into(&seeds, &mut sweep);
        assert_eq!(a.map(|x| sweep.of(x)), adjoint.matmul(&right.transpose()));
        assert_eq!(b.map(|x| sweep.of(x)), left.transpose().matmul(&adjoint));
    }

    #[test]
    fn empty_matrices_multiply() {
        let empty = Matrix::<f64>::zeros(2, 0).matmul(&Matrix::zeros(0, 3));
        assert_eq!(empty, Matrix::zeros(2, 3));
        assert_eq!(Matrix::<f64>::zeros(0, 0).sum(), 0.0);
    }

    #[test]
    #[should_panic(expected = "cannot multiply a 2×3 matrix with a 2×3 one: 3 columns meet 2 rows")]
    fn a_shape_mismatch_names_the_shapes() {
        let a = Matrix::<f64>::zeros(2, 3);
        let _ = a.matmul(&a);
    }
}
