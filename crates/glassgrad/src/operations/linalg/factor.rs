//! What faer does for one matrix: sequentially, so that results do not depend on a number of threads.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::svd::ComputeSvdVectors;
use faer::linalg::{cholesky, evd, householder, lu, matmul, qr, svd};
use faer::perm::PermRef;
use faer::{Accum, Conj, Mat, Par};

/// Up to how many roundings of its size a pivot may be off, and might be zero. Random matrices of a rank too low by
/// one have pivots of up to 20, regular ones of 10¹⁴.
pub(super) const NOISE: f64 = 32.0;

/// The product of two matrices.
pub(super) fn product(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut result = Mat::zeros(a.nrows(), b.ncols());
    matmul::matmul(result.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    result
}

/// The factors of p·a = l·u by partial pivoting, l below the diagonal and u from it on upwards.
pub(super) struct Lu {
    pub(super) compact: Mat<f64>,
    /// Row k of l·u is row `rows[k]` of the matrix.
    pub(super) rows: Vec<usize>,
    places: Vec<usize>,
    transpositions: usize,
}

impl Lu {
    pub(super) fn of(matrix: &Mat<f64>) -> Lu {
        let (m, n) = matrix.shape();
        let (mut compact, mut rows, mut places) = (matrix.clone(), vec![0; m], vec![0; m]);
        let scratch =
            lu::partial_pivoting::factor::lu_in_place_scratch::<usize, f64>(m, n, Par::Seq, Default::default());
        let (info, _) = lu::partial_pivoting::factor::lu_in_place(
            compact.as_mut(),
            &mut rows,
            &mut places,
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Default::default(),
        );
        Lu { compact, rows, places, transpositions: info.transposition_count }
    }

    /// The factors of a matrix with no pivot that might as well be zero.
    pub(super) fn regular(matrix: &Mat<f64>, epsilon: f64) -> Result<Lu, String> {
        let factors = Lu::of(matrix);
        match factors.vanishing_pivot(epsilon) {
            Some(place) => Err(format!("is singular: pivot {place} vanishes")),
            None => Ok(factors),
        }
    }

    /// The first pivot that cannot be told from the rounding errors of the sum that it is.
    fn vanishing_pivot(&self, epsilon: f64) -> Option<usize> {
        let at = |i: usize, j: usize| self.compact[(i, j)].abs();
        self.pivots().position(|k| {
            let summed: f64 = (0..k).map(|j| at(k, j) * at(j, k)).sum();
            // A pivot that is not a number, as faer leaves it behind one of zero, vanishes too.
            at(k, k).is_nan() || at(k, k) <= NOISE * epsilon * (summed + at(k, k))
        })
    }

    /// The places of the pivots.
    fn pivots(&self) -> std::ops::Range<usize> {
        0..self.compact.nrows().min(self.compact.ncols())
    }

    /// The factors of the determinant: the sign of the permutation, then the pivots until one is zero.
    pub(super) fn determinant_factors(&self) -> Vec<f64> {
        let mut factors = vec![if self.transpositions.is_multiple_of(2) { 1.0 } else { -1.0 }];
        for k in self.pivots() {
            factors.push(self.compact[(k, k)]);
            // Behind a pivot of zero there are no factors.
            if self.compact[(k, k)] == 0.0 {
                break;
            }
        }
        factors
    }

    /// The x with a·x = b.
    pub(super) fn solve(&self, b: &Mat<f64>) -> Mat<f64> {
        let mut x = b.clone();
        let scratch = lu::partial_pivoting::solve::solve_in_place_scratch::<usize, f64>(b.nrows(), b.ncols(), Par::Seq);
        lu::partial_pivoting::solve::solve_in_place(
            self.compact.as_ref(),
            self.compact.as_ref(),
            PermRef::new_checked(&self.rows, &self.places, b.nrows()),
            x.as_mut(),
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(scratch)),
        );
        x
    }
}

/// The factors of a square matrix given row by row, as [`Lu`] has them: l and u row by row, the rows, and how many were
/// exchanged.
pub(crate) fn factored(size: usize, matrix: &[f64]) -> (Vec<f64>, Vec<usize>, usize) {
    let Lu { compact, rows, transpositions, .. } = Lu::of(&Mat::from_fn(size, size, |i, j| matrix[i * size + j]));
    let elements = (0..size * size).map(|k| compact[(k / size, k % size)]).collect();
    (elements, rows, transpositions)
}

/// The lower triangle l with l·lᵀ = a, or the place of the first pivot that is not positive.
pub(super) fn cholesky_factor(matrix: &Mat<f64>) -> Result<Mat<f64>, usize> {
    let n = matrix.nrows();
    let mut factor = matrix.clone();
    let scratch = cholesky::llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default());
    let stack = &mut MemBuffer::new(scratch);
    let done = cholesky::llt::factor::cholesky_in_place(
        factor.as_mut(),
        Default::default(),
        Par::Seq,
        MemStack::new(stack),
        Default::default(),
    );
    match done {
        Ok(_) => Ok(Mat::from_fn(n, n, |i, j| if j <= i { factor[(i, j)] } else { 0.0 })),
        Err(cholesky::llt::factor::LltError::NonPositivePivot { index }) => Err(index),
    }
}

/// The matrix over a power of two that brings its largest element near 1, and that power: squares on the way then
/// neither overflow nor vanish.
fn balanced(matrix: &Mat<f64>) -> (Mat<f64>, f64) {
    let largest = matrix.norm_max();
    let exponent = if largest > 0.0 { largest.log2().floor().clamp(-1000.0, 1000.0) } else { 0.0 };
    let scale = exponent.exp2();
    (Mat::from_fn(matrix.nrows(), matrix.ncols(), |i, j| matrix[(i, j)] / scale), scale)
}

/// The orthonormal columns q with a = q·r, where r is an upper triangle without negative numbers on its diagonal.
pub(super) fn orthonormal_columns(matrix: &Mat<f64>) -> Mat<f64> {
    let (m, n) = matrix.shape();
    let (mut factor, _) = balanced(matrix);
    let block = qr::no_pivoting::factor::recommended_block_size::<f64>(m, n);
    let mut coefficients = Mat::zeros(block, n);
    let scratch = qr::no_pivoting::factor::qr_in_place_scratch::<f64>(m, n, block, Par::Seq, Default::default());
    qr::no_pivoting::factor::qr_in_place(
        factor.as_mut(),
        coefficients.as_mut(),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    );
    // The reflections apply to unit vectors with the signs of r's diagonal, which thereby becomes positive.
    let mut columns = Mat::from_fn(m, n, |i, j| if i == j { 1.0_f64.copysign(factor[(j, j)]) } else { 0.0 });
    let scratch = householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<f64>(m, block, n);
    householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
        factor.as_ref(),
        coefficients.as_ref(),
        Conj::No,
        columns.as_mut(),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
    );
    columns
}

/// What is said of a matrix whose decomposition does not converge.
const ENDLESS: &str = "has a decomposition that does not converge";

/// The factors of a = u·diag(s)·vᵀ, s descending.
pub(super) struct Singular {
    pub(super) u: Mat<f64>,
    pub(super) s: Diag<f64>,
    pub(super) v: Mat<f64>,
}

impl Singular {
    pub(super) fn of(matrix: &Mat<f64>) -> Result<Singular, String> {
        let ((m, n), (balanced, scale)) = (matrix.shape(), balanced(matrix));
        let size = m.min(n);
        let (mut u, mut s, mut v) = (Mat::zeros(m, size), Diag::zeros(size), Mat::zeros(n, size));
        let thin = ComputeSvdVectors::Thin;
        let scratch = svd::svd_scratch::<f64>(m, n, thin, thin, Par::Seq, Default::default());
        svd::svd(
            balanced.as_ref(),
            s.as_mut(),
            Some(u.as_mut()),
            Some(v.as_mut()),
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Default::default(),
        )
        .map_err(|_| ENDLESS.to_owned())?;
        (0..size).for_each(|k| s[k] *= scale);
        Ok(Singular { u, s, v })
    }

    /// v·diag(1/s)·uᵀ without the singular values that are zero to working precision.
    pub(super) fn pseudoinverse(&self, epsilon: f64) -> Mat<f64> {
        let (m, n) = (self.u.nrows(), self.v.nrows());
        let mut result = Mat::zeros(n, m);
        let scratch = svd::pseudoinverse_from_svd_scratch::<f64>(m, n, Par::Seq);
        svd::pseudoinverse_from_svd_with_tolerance(
            result.as_mut(),
            self.s.as_ref(),
            self.u.as_ref(),
            self.v.as_ref(),
            0.0,
            epsilon * m.max(n) as f64,
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(scratch)),
        );
        result
    }
}

/// The eigenvalues of a symmetric matrix, ascending, and their vectors as columns.
pub(super) fn symmetric_eigen(matrix: &Mat<f64>) -> Result<(Diag<f64>, Mat<f64>), String> {
    let (n, (balanced, scale)) = (matrix.nrows(), balanced(matrix));
    let (mut values, mut vectors) = (Diag::zeros(n), Mat::zeros(n, n));
    let scratch = evd::self_adjoint_evd_scratch::<f64>(n, evd::ComputeEigenvectors::Yes, Par::Seq, Default::default());
    evd::self_adjoint_evd(
        balanced.as_ref(),
        values.as_mut(),
        Some(vectors.as_mut()),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    )
    .map_err(|_| ENDLESS.to_owned())?;
    (0..n).for_each(|k| values[k] *= scale);
    Ok((values, vectors))
}
