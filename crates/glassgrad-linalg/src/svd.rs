//! Singular value decomposition.

use crate::NoConvergence;
use crate::bidiagonal::{bidiagonalise, iterate};
use crate::householder::Reflections;
use crate::matrix::Matrix;
use crate::qr;
use crate::rotations::Rotated;
use crate::simd::vectorized;

/// The factors of a = u·diag(s)·vᵀ. u and v have as many columns as there are singular values: the smaller side of a.
///
/// ```
/// use glassgrad_linalg::{Matrix, Svd};
/// let svd = Svd::of(&Matrix::from_fn(2, 3, |i, j| if i == j { -4.0 + i as f64 } else { 0.0 })).unwrap();
/// assert_eq!(svd.s, [4.0, 3.0]);
/// assert_eq!((svd.u.columns(), svd.v.rows()), (2, 3));
/// ```
#[derive(Clone, Debug)]
pub struct Svd {
    /// Orthonormal columns.
    pub u: Matrix,
    /// The singular values, descending.
    pub s: Vec<f64>,
    /// Orthonormal columns.
    pub v: Matrix,
}

impl Svd {
    /// Decomposes a matrix.
    ///
    /// # Errors
    /// If the iteration does not converge, as with numbers that are not finite.
    pub fn of(matrix: &Matrix) -> Result<Svd, NoConvergence> {
        if matrix.rows() < matrix.columns() {
            let Svd { u, s, v } = Svd::of(&matrix.transposed())?;
            return Ok(Svd { u: v, s, v: u });
        }
        let (balanced, scale) = matrix.balanced();
        let mut svd = match matrix.rows() == matrix.columns() {
            true => square(balanced)?,
            // The triangle of a QR factorisation has the same singular values.
            false => {
                let (m, n) = (matrix.rows(), matrix.columns());
                let (reflections, r) = qr::factored(balanced);
                let Svd { u: inner, s, v } = square(r)?;
                let mut u = Matrix::from_fn(m, n, |i, j| if i < n { inner[(i, j)] } else { 0.0 });
                reflections.apply(&mut u);
                Svd { u, s, v }
            }
        };
        svd.s.iter_mut().for_each(|s| *s *= scale);
        Ok(svd)
    }

    /// v·diag(1/s)·uᵀ without the singular values up to `tolerance` times the largest one.
    pub fn pseudoinverse(&self, tolerance: f64) -> Matrix {
        let least = tolerance * self.s.first().copied().unwrap_or(0.0);
        let inverse = |s: f64| if s > least { 1.0 / s } else { 0.0 };
        let weighted = Matrix::from_fn(self.v.rows(), self.s.len(), |i, j| self.v[(i, j)] * inverse(self.s[j]));
        weighted.product(&self.u.transposed())
    }
}

/// The decomposition of a square matrix.
fn square(matrix: Matrix) -> Result<Svd, NoConvergence> {
    let n = matrix.rows();
    let (mut left, mut right) = (Reflections::new(n, n, 0), Reflections::new(n, n.saturating_sub(1), 1));
    let (mut d, mut e) = vectorized(
        #[inline(always)]
        || bidiagonalise(matrix, &mut left, &mut right),
    );
    let rotated = |reflections: &Reflections| {
        let mut basis = Matrix::identity(n, n);
        reflections.apply(&mut basis);
        // Rotations of columns are rotations of rows of the transpose, whose elements are contiguous.
        Rotated::new(basis.transposed())
    };
    let (mut u, mut v) = (rotated(&left), rotated(&right));
    iterate(&mut d, &mut e, &mut u, &mut v)?;
    let (u, v) = (u.into_matrix(), v.into_matrix());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| d[*j].abs().total_cmp(&d[*i].abs()));
    // The sign of a singular value goes to its left vector.
    let signed = |value: f64, d: f64| if d.is_sign_negative() { -value } else { value };
    Ok(Svd {
        s: order.iter().map(|k| d[*k].abs()).collect(),
        u: Matrix::from_fn(n, n, |i, j| signed(u[(order[j], i)], d[order[j]])),
        v: Matrix::from_fn(n, n, |i, j| v[(order[j], i)]),
    })
}
