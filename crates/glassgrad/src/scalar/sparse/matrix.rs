//! Sparse matrices in compressed rows and in compressed columns.

use super::Pattern;
use crate::algebra::c;
use crate::calculus::Triplets;
use crate::ops::Real;
use crate::scalar::Matrix;

/// A sparse matrix in compressed rows (CSR).
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix<T = f64> {
    /// The number of columns.
    pub columns: usize,
    /// Where each row starts in `indices` and `values`, and where the last one ends.
    pub starts: Vec<usize>,
    /// The column of each stored element, ascending within a row.
    pub indices: Vec<usize>,
    /// The stored elements.
    pub values: Vec<T>,
    /// How many sweeps it took.
    pub colors: usize,
}

/// A sparse matrix in compressed columns (CSC).
#[derive(Clone, Debug, PartialEq)]
pub struct SparseColumns<T = f64> {
    /// The number of rows.
    pub rows: usize,
    /// Where each column starts in `indices` and `values`, and where the last one ends.
    pub starts: Vec<usize>,
    /// The row of each stored element, ascending within a column.
    pub indices: Vec<usize>,
    /// The stored elements.
    pub values: Vec<T>,
}

impl<T: Real> SparseMatrix<T> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of stored elements.
    pub fn stored(&self) -> usize {
        self.values.len()
    }

    /// The stored elements of one row, as pairs of column and value.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let range = self.starts[row]..self.starts[row + 1];
        self.indices[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    /// One element; zero where none is stored.
    pub fn get(&self, row: usize, column: usize) -> T {
        let range = self.starts[row]..self.starts[row + 1];
        let found = self.indices[range.clone()].binary_search(&column);
        found.map_or_else(|_| c(0.0), |place| self.values[range.start + place])
    }

    /// The product with a vector.
    pub fn matvec(&self, vector: &[T]) -> Vec<T> {
        (0..self.rows()).map(|row| self.row(row).map(|(column, value)| value * vector[column]).sum()).collect()
    }

    /// The matrix with its zeros.
    pub fn to_dense(&self) -> Matrix<T> {
        let mut dense = Matrix::zeros(self.rows(), self.columns);
        for row in 0..self.rows() {
            for (column, value) in self.row(row) {
                dense[(row, column)] = value;
            }
        }
        dense
    }

    /// The positions that are stored.
    pub fn pattern(&self) -> Pattern {
        let rows = (0..self.rows()).map(|row| self.indices[self.starts[row]..self.starts[row + 1]].to_vec());
        Pattern::from_rows(self.columns, rows)
    }

    /// The same matrix with the positions of a pattern stored, also those that are structural zeros.
    ///
    /// ```
    /// use glassgrad::scalar::sparse_hessian;
    /// // x₀·x₁ has no second derivative on the diagonal; a factorisation wants it stored.
    /// let hessian = sparse_hessian(|x| x[0] * x[1], &[1.0, 2.0]);
    /// let stored = hessian.with_pattern(&hessian.pattern().with_diagonal());
    /// assert_eq!((hessian.stored(), stored.stored()), (2, 4));
    /// assert_eq!(hessian.to_dense(), stored.to_dense());
    /// ```
    ///
    /// # Panics
    /// If the pattern has another size, or does not contain a stored element.
    pub fn with_pattern(&self, pattern: &Pattern) -> Self {
        assert_eq!(
            (self.rows(), self.columns),
            (pattern.rows(), pattern.columns()),
            "the pattern has the size of another matrix"
        );
        let mut values = vec![c(0.0); pattern.stored()];
        for row in 0..self.rows() {
            for (column, value) in self.row(row) {
                let place = pattern.row(row).binary_search(&column);
                let place = place.unwrap_or_else(|_| panic!("the pattern lacks the stored element ({row}, {column})"));
                values[pattern.starts()[row] + place] = value;
            }
        }
        let (starts, indices) = (pattern.starts().to_vec(), pattern.indices().to_vec());
        SparseMatrix { columns: self.columns, starts, indices, values, colors: self.colors }
    }

    /// The same matrix without stored elements that are exactly zero at this point.
    pub fn without_zeros(&self) -> Self {
        let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in 0..self.rows() {
            for (column, value) in self.row(row).filter(|(_, value)| !value.is_exactly_zero()) {
                indices.push(column);
                values.push(value);
            }
            starts.push(indices.len());
        }
        SparseMatrix { columns: self.columns, starts, indices, values, colors: self.colors }
    }

    /// The matrix in compressed columns.
    ///
    /// ```
    /// use glassgrad::scalar::sparse_jacobian;
    /// let j = sparse_jacobian(|x, y| (y[0], y[1]) = (x[0] * x[1], 3.0 * x[0]), &[2.0, 5.0], 2).to_columns();
    /// assert_eq!((j.starts, j.indices, j.values), (vec![0, 2, 3], vec![0, 1, 0], vec![5.0, 3.0, 2.0]));
    /// ```
    pub fn to_columns(&self) -> SparseColumns<T> {
        let transposed = self.pattern().transpose();
        let mut next = transposed.starts().to_vec();
        let mut values = vec![c(0.0); self.stored()];
        for row in 0..self.rows() {
            for (column, value) in self.row(row) {
                values[next[column]] = value;
                next[column] += 1;
            }
        }
        let (starts, indices) = (transposed.starts().to_vec(), transposed.indices().to_vec());
        SparseColumns { rows: self.rows(), starts, indices, values }
    }
}

impl From<&Triplets> for SparseMatrix<f64> {
    /// Compressed rows of the derivative of a function of tensors. It took no sweep: the elements are those of its factors.
    fn from(triplets: &Triplets) -> Self {
        let pattern = Pattern::from(triplets);
        let values = triplets.entries.iter().map(|(_, _, value)| *value).collect();
        let (starts, indices) = (pattern.starts().to_vec(), pattern.indices().to_vec());
        SparseMatrix { columns: triplets.columns, starts, indices, values, colors: 0 }
    }
}

impl<T: Real> SparseColumns<T> {
    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of stored elements.
    pub fn stored(&self) -> usize {
        self.values.len()
    }

    /// The stored elements of one column, as pairs of row and value.
    pub fn column(&self, column: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let range = self.starts[column]..self.starts[column + 1];
        self.indices[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }
}
