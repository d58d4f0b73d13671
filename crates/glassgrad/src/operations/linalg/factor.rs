//! Factorisations of one matrix, with the tests for singular ones and their messages.

use glassgrad_linalg::{GeneralEigen, Matrix, NoConvergence, Schur, Svd};

/// Up to how many roundings of its size a pivot may be off, and might be zero. Random matrices of a rank too low by
/// one have pivots of up to 20, regular ones of 10¹⁴.
pub(super) const NOISE: f64 = 32.0;

/// The factors of p·a = l·u by partial pivoting.
pub(super) struct Lu(glassgrad_linalg::Lu);

impl Lu {
    pub(super) fn of(matrix: &Matrix) -> Lu {
        Lu(glassgrad_linalg::Lu::of(matrix))
    }

    /// The factors of a matrix with no pivot that might as well be zero.
    pub(super) fn regular(matrix: &Matrix, epsilon: f64) -> Result<Lu, String> {
        let factors = Lu::of(matrix);
        match factors.vanishing_pivot(epsilon) {
            Some(place) => Err(format!("is singular: pivot {place} vanishes")),
            None => Ok(factors),
        }
    }

    /// l below the diagonal and u from it on upwards.
    pub(super) fn compact(&self) -> &Matrix {
        self.0.compact()
    }

    /// Row k of l·u is row `rows()[k]` of the matrix.
    pub(super) fn rows(&self) -> &[usize] {
        self.0.row_order()
    }

    /// The first pivot that cannot be told from the rounding errors of the sum that it is.
    fn vanishing_pivot(&self, epsilon: f64) -> Option<usize> {
        let at = |i: usize, j: usize| self.compact()[(i, j)].abs();
        self.pivots().position(|k| {
            let summed: f64 = (0..k).map(|j| at(k, j) * at(j, k)).sum();
            // A pivot that is not a number, behind an overflow, is of no use either.
            at(k, k).is_nan() || at(k, k) <= NOISE * epsilon * (summed + at(k, k))
        })
    }

    /// The places of the pivots.
    fn pivots(&self) -> std::ops::Range<usize> {
        0..self.compact().rows().min(self.compact().columns())
    }

    /// The factors of the determinant: the sign of the permutation, then the pivots until one is zero.
    pub(super) fn determinant_factors(&self) -> Vec<f64> {
        let mut factors = vec![if self.0.transpositions().is_multiple_of(2) { 1.0 } else { -1.0 }];
        for k in self.pivots() {
            factors.push(self.compact()[(k, k)]);
            // Behind a pivot of zero there are no factors.
            if self.compact()[(k, k)] == 0.0 {
                break;
            }
        }
        factors
    }

    /// The x with a·x = b.
    pub(super) fn solve(&self, b: &Matrix) -> Matrix {
        self.0.solve(b)
    }
}

/// The factors of a square matrix given row by row, as [`Lu`] has them: l and u row by row, the rows, and how many were
/// exchanged.
pub(crate) fn factored(size: usize, matrix: &[f64]) -> (Vec<f64>, Vec<usize>, usize) {
    let Lu(factors) = Lu::of(&Matrix::from_elements(size, size, matrix.to_vec()));
    (factors.compact().elements().to_vec(), factors.row_order().to_vec(), factors.transpositions())
}

/// What is said of a matrix whose decomposition does not converge.
fn endless(_: NoConvergence) -> String {
    "has a decomposition that does not converge".to_owned()
}

/// The factors of a = u·diag(s)·vᵀ, s descending.
pub(super) fn singular(matrix: &Matrix) -> Result<Svd, String> {
    Svd::of(matrix).map_err(endless)
}

/// The eigenvalues of a general matrix, and their vectors as columns.
pub(super) fn general_eigen(matrix: &Matrix) -> Result<GeneralEigen, String> {
    glassgrad_linalg::general_eigen(matrix).map_err(endless)
}

/// The factors t and z of a = z·t·zᵀ.
pub(super) fn real_schur(matrix: &Matrix) -> Result<Schur, String> {
    Schur::of(matrix).map_err(endless)
}

/// The eigenvalues of a symmetric matrix, ascending, and their vectors as columns.
pub(super) fn symmetric_eigen(matrix: &Matrix) -> Result<(Vec<f64>, Matrix), String> {
    glassgrad_linalg::symmetric_eigen(matrix).map_err(endless)
}
