//! Sparse Jacobians and Hessians: the pattern is read off the tape, columns that do not meet share
//! a color, and one sweep serves all columns of a color.
//!
//! [`sparse_jacobian`] and [`sparse_hessian`] do everything at once. For many matrices of one pattern, [`Compression`]
//! holds the [`Pattern`] and its [`Coloring`], which do not depend on the point.

mod coloring;
mod matrix;
mod pattern;

use crate::algebra::c;
use crate::ops::Real;
use crate::scalar::{Dual, Mode, Recorded, Var};
use coloring::Kind;

pub use coloring::Coloring;
pub use matrix::{SparseColumns, SparseMatrix};
pub use pattern::Pattern;

/// How many colors of a Hessian are computed in one recording.
const LANES: usize = 8;

/// A pattern with its coloring: what the matrices of one function at many points have in common.
///
/// ```
/// use glassgrad::scalar::{Mode, Recorded, sparse::Compression};
/// let mut recorded = Recorded::several(|x, y| for k in 0..3 { y[k] = x[k + 1] * x[k]; }, &[1.0, 2.0, 3.0, 4.0], 3);
/// let compression = Compression::jacobian(&recorded, Mode::Auto);
/// assert_eq!(compression.coloring().count(), 2);
/// let first = compression.jacobian_of(&recorded);
/// recorded.replay(&[4.0, 3.0, 2.0, 1.0]).unwrap();
/// let second = compression.jacobian_of(&recorded);
/// assert_eq!((first.get(0, 0), second.get(0, 0)), (2.0, 3.0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    pattern: Pattern,
    coloring: Coloring,
}

impl Compression {
    /// The pattern of the Jacobian of a recording, and its coloring.
    pub fn jacobian<T: Real>(recorded: &Recorded<T>, mode: Mode) -> Self {
        let pattern = Pattern::jacobian(recorded);
        let coloring = Coloring::jacobian(&pattern, mode);
        Compression { pattern, coloring }
    }

    /// The pattern of the Hessian of a recording's first result, and its star coloring.
    pub fn hessian<T: Real>(recorded: &Recorded<T>) -> Self {
        let pattern = Pattern::hessian(recorded);
        let coloring = Coloring::star(&pattern);
        Compression { pattern, coloring }
    }

    /// A pattern and a coloring that belong together, as those of a larger pattern that contains the derivative's.
    ///
    /// # Panics
    /// If the coloring has not a color for each line of the pattern.
    pub fn new(pattern: Pattern, coloring: Coloring) -> Self {
        let lines = if coloring.is_by_rows() { pattern.rows() } else { pattern.columns() };
        assert_eq!(coloring.color_of().len(), lines, "the coloring belongs to another pattern");
        if let Kind::Star { direct } = &coloring.kind {
            assert_eq!(direct.len(), pattern.stored(), "the coloring belongs to another pattern");
        }
        Compression { pattern, coloring }
    }

    /// The positions that are stored.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The lines that share sweeps.
    pub fn coloring(&self) -> &Coloring {
        &self.coloring
    }

    /// The Jacobian of a recording at its present inputs.
    ///
    /// # Panics
    /// If the recording has other numbers of inputs and results, or the coloring is that of a Hessian.
    pub fn jacobian_of<T: Real>(&self, recorded: &Recorded<T>) -> SparseMatrix<T> {
        assert_eq!(
            (recorded.outputs().len(), recorded.inputs().len()),
            (self.pattern.rows(), self.pattern.columns()),
            "the pattern is that of a function with other numbers of results and inputs"
        );
        let seeds = self.seeds();
        match &self.coloring.kind {
            Kind::Columns => self.decompress(&recorded.jvps(&seeds)),
            Kind::Rows => self.decompress(&recorded.vjps(&seeds)),
            Kind::Star { .. } => panic!("a star coloring compresses Hessians, not Jacobians"),
        }
    }

    /// One vector for each color, with a 1 at its lines: directions of tangents if columns are colored or for a Hessian, weights
    /// of results if rows are. Any engine can multiply them, also one of tensors.
    ///
    /// ```
    /// use glassgrad::scalar::{Mode, SparseMatrix, sparse::{Coloring, Compression}};
    /// use glassgrad::{Tensor, calculus, expr::s, jvp};
    /// let f = |x: &Tensor| x.slice(&[s(1..5)]) * x.slice(&[s(0..4)]);
    /// let x = Tensor::from([1.0, 2.0, 3.0, 4.0, 5.0]).cast(glassgrad::dtype::DType::F64);
    /// // The pattern once, from the derivative at a point, and then two products instead of five at any point.
    /// let at_x = SparseMatrix::from(&calculus::jacobian(f).at(&x).unwrap().triplets().unwrap());
    /// let pattern = at_x.without_zeros().pattern();
    /// let coloring = Coloring::jacobian(&pattern, Mode::Forward);
    /// let compression = Compression::new(pattern, coloring);
    /// let products: Vec<Vec<f64>> = compression
    ///     .seeds::<f64>()
    ///     .iter()
    ///     .map(|seed| jvp(f, &x, &Tensor::new(seed, 5)).1.to_vec().unwrap())
    ///     .collect();
    /// let jacobian = compression.decompress(&products);
    /// assert_eq!((products.len(), jacobian.stored(), jacobian.get(3, 4)), (2, 8, 4.0));
    /// ```
    pub fn seeds<T: Real>(&self) -> Vec<Vec<T>> {
        let lines =
            |color: usize| self.coloring.color_of.iter().map(move |line| c(if *line == color { 1.0 } else { 0.0 }));
        (0..self.coloring.count()).map(|color| lines(color).collect()).collect()
    }

    /// The matrix whose products with the [seeds](Compression::seeds) these are.
    ///
    /// # Panics
    /// If there is not a product for each color, with a number for each line of the other side.
    pub fn decompress<T: Real>(&self, products: &[Vec<T>]) -> SparseMatrix<T> {
        let Coloring { kind, color_of, .. } = &self.coloring;
        let length = if *kind == Kind::Rows { self.pattern.columns() } else { self.pattern.rows() };
        assert_eq!(products.len(), self.coloring.count(), "decompress needs a product for each color");
        for product in products {
            assert_eq!(product.len(), length, "decompress needs a number for each line of the other side");
        }
        self.expand(|row, column, position| match kind {
            Kind::Columns => products[color_of[column]][row],
            Kind::Rows => products[color_of[row]][column],
            // A star coloring guarantees that one of the two mirror images stands alone.
            Kind::Star { direct } if direct[position] => products[color_of[column]][row],
            Kind::Star { .. } => products[color_of[row]][column],
        })
    }

    /// The Hessian of a function at a point.
    ///
    /// # Panics
    /// If the function has another number of inputs, or the coloring is that of a Jacobian.
    pub fn hessian_of<T: Real>(
        &self,
        function: impl for<'t> Fn(&[Var<'t, Dual<T, LANES>>]) -> Var<'t, Dual<T, LANES>>,
        x: &[T],
    ) -> SparseMatrix<T> {
        assert_eq!(x.len(), self.pattern.rows(), "the pattern is that of a function with another number of inputs");
        let Coloring { kind, color_of, .. } = &self.coloring;
        assert!(
            matches!(kind, Kind::Star { .. }),
            "the Hessian needs a star coloring, and this one is that of a Jacobian"
        );
        let colors = self.coloring.count();
        let mut tape = crate::scalar::Tape::new();
        let mut compressed: Vec<Vec<T>> = vec![vec![c(0.0); x.len()]; colors];
        for start in (0..colors).step_by(LANES) {
            let seeded: Vec<_> =
                x.iter().zip(color_of).map(|(x, color)| Dual::along(*x, color.wrapping_sub(start))).collect();
            let recorded = Recorded::on(tape, &function, &seeded);
            for (row, partial) in recorded.gradient().into_iter().enumerate() {
                for (lane, curvature) in partial.tangents.into_iter().enumerate().take(colors - start) {
                    compressed[start + lane][row] = curvature;
                }
            }
            tape = recorded.into_tape();
        }
        self.decompress(&compressed)
    }

    fn expand<T: Real>(&self, element: impl Fn(usize, usize, usize) -> T) -> SparseMatrix<T> {
        let (starts, indices) = (self.pattern.starts().to_vec(), self.pattern.indices().to_vec());
        let rows =
            (0..self.pattern.rows()).flat_map(|row| self.pattern.row(row).iter().map(move |column| (row, *column)));
        let values = rows.enumerate().map(|(position, (row, column))| element(row, column, position)).collect();
        SparseMatrix { columns: self.pattern.columns(), starts, indices, values, colors: self.coloring.count() }
    }
}

/// The Jacobian of a function with `results` results, compressed: it costs as many sweeps as the
/// pattern needs colors, by columns forwards or by rows in reverse; see [`Coloring::jacobian`] for the choice.
///
/// ```
/// use glassgrad::scalar::sparse_jacobian;
/// // A difference operator: every column meets only its neighbours.
/// let n = 1000;
/// let x: Vec<f64> = (0..n).map(|k| k as f64).collect();
/// let jacobian = sparse_jacobian(|x, y| for k in 1..x.len() { y[k] = x[k].square() - x[k - 1]; }, &x, n);
/// assert_eq!((jacobian.stored(), jacobian.colors), (2 * (n - 1), 2));
/// assert_eq!(jacobian.row(7).collect::<Vec<_>>(), [(6, -1.0), (7, 14.0)]);
/// ```
pub fn sparse_jacobian<T: Real>(
    function: impl for<'t> FnOnce(&[Var<'t, T>], &mut [Var<'t, T>]),
    x: &[T],
    results: usize,
) -> SparseMatrix<T> {
    let recorded = Recorded::several(function, x, results);
    Compression::jacobian(&recorded, Mode::Auto).jacobian_of(&recorded)
}

/// The Hessian of a function, compressed: symmetric columns are colored so that every element can
/// be read directly, from itself or from its mirror image, and eight colors are computed at once.
///
/// ```
/// use glassgrad::scalar::sparse_hessian;
/// // An arrowhead: dense first row and column, diagonal otherwise. Two colors suffice.
/// let hessian = sparse_hessian(|x| x.iter().map(|xk| x[0] * *xk * *xk).sum(), &[1.0; 500]);
/// assert_eq!((hessian.stored(), hessian.colors), (3 * 499 + 1, 2));
/// ```
pub fn sparse_hessian<T: Real>(
    function: impl for<'t> Fn(&[Var<'t, Dual<T, LANES>>]) -> Var<'t, Dual<T, LANES>>,
    x: &[T],
) -> SparseMatrix<T> {
    let constants: Vec<_> = x.iter().map(|x| Dual::constant(*x)).collect();
    let compression = Compression::hessian(&Recorded::new(&function, &constants));
    compression.hessian_of(function, x)
}
