//! The real Schur form of a general matrix: Householder reduction to Hessenberg form and the implicitly shifted QR
//! iteration of Francis (Golub and Van Loan, section 7.5).

use crate::NoConvergence;
use crate::householder::reflection;
use crate::matrix::Matrix;

/// The iteration needs about two steps for an eigenvalue.
const STEPS_PER_VALUE: usize = 60;
/// After this many iterations for one eigenvalue an exceptional shift breaks a cycle.
const EXCEPTIONAL: usize = 10;

/// a = z·t·zᵀ with an orthogonal z and a t that is upper triangular but for blocks of two rows on its diagonal, each of which
/// has a pair of conjugate eigenvalues.
///
/// ```
/// use glassgrad_linalg::{Matrix, Schur};
/// let a = Matrix::from_fn(2, 2, |i, j| [[1.0, 2.0], [3.0, 2.0]][i][j]);
/// let values = Schur::of(&a).unwrap().eigenvalues();
/// let mut real: Vec<f64> = values.iter().map(|value| value.0).collect();
/// real.sort_by(f64::total_cmp);
/// assert!((real[0] + 1.0).abs() < 1e-14 && (real[1] - 4.0).abs() < 1e-14);
/// ```
#[derive(Clone, Debug)]
pub struct Schur {
    /// The quasi-triangular factor.
    pub t: Matrix,
    /// The orthogonal factor.
    pub z: Matrix,
}

impl Schur {
    /// The form of a square matrix.
    ///
    /// # Errors
    /// If the iteration does not converge, as with numbers that are not finite.
    ///
    /// # Panics
    /// If the matrix is not square.
    pub fn of(matrix: &Matrix) -> Result<Schur, NoConvergence> {
        let n = matrix.rows();
        assert_eq!(n, matrix.columns(), "eigenvalues of a square matrix");
        if !matrix.is_finite() {
            return Err(NoConvergence);
        }
        let (balanced, scale) = matrix.balanced();
        let mut form = Schur { t: balanced, z: Matrix::identity(n, n) };
        form.reduce_to_hessenberg();
        form.iterate()?;
        form.t.elements_mut().iter_mut().for_each(|element| *element *= scale);
        Ok(form)
    }

    /// The eigenvalues in the order of the diagonal, as real and imaginary parts; of a pair, the one with the positive
    /// imaginary part comes first.
    pub fn eigenvalues(&self) -> Vec<(f64, f64)> {
        let n = self.t.rows();
        let mut values = Vec::with_capacity(n);
        let mut k = 0;
        while k < n {
            if k + 1 < n && self.t[(k + 1, k)] != 0.0 {
                let (re, im) = self.pair(k);
                values.extend([(re, im), (re, -im)]);
                k += 2;
            } else {
                values.push((self.t[(k, k)], 0.0));
                k += 1;
            }
        }
        values
    }

    /// Real part and positive imaginary part of the eigenvalues of a block of two rows.
    fn pair(&self, k: usize) -> (f64, f64) {
        let [a, b, c, d] = self.block(k);
        let half = (a - d) / 2.0;
        ((a + d) / 2.0, (-(half * half + b * c)).max(0.0).sqrt())
    }

    fn block(&self, k: usize) -> [f64; 4] {
        let t = &self.t;
        [t[(k, k)], t[(k, k + 1)], t[(k + 1, k)], t[(k + 1, k + 1)]]
    }

    /// Applies the reflection 1 - τ·v·vᵀ of the rows and columns from `start` on, to the form and to z.
    fn reflect(&mut self, start: usize, v: &[f64], factor: f64) {
        if factor == 0.0 {
            return;
        }
        let (n, rows) = (self.t.rows(), start..start + v.len());
        for j in 0..n {
            let sum: f64 = rows.clone().zip(v).map(|(i, v)| v * self.t[(i, j)]).sum();
            rows.clone().zip(v).for_each(|(i, v)| self.t[(i, j)] -= factor * sum * v);
        }
        for matrix in [&mut self.t, &mut self.z] {
            for i in 0..n {
                let sum: f64 = rows.clone().zip(v).map(|(j, v)| v * matrix[(i, j)]).sum();
                rows.clone().zip(v).for_each(|(j, v)| matrix[(i, j)] -= factor * sum * v);
            }
        }
    }

    fn reduce_to_hessenberg(&mut self) {
        let n = self.t.rows();
        for k in 0..n.saturating_sub(2) {
            let mut v: Vec<f64> = (k + 1..n).map(|i| self.t[(i, k)]).collect();
            let (factor, beta) = reflection(&mut v);
            self.reflect(k + 1, &v, factor);
            self.t[(k + 1, k)] = beta;
            (k + 2..n).for_each(|i| self.t[(i, k)] = 0.0);
        }
    }

    /// Deflates one eigenvalue or one pair after another from the end.
    fn iterate(&mut self) -> Result<(), NoConvergence> {
        let mut end = self.t.rows();
        let mut steps = 0;
        while end > 0 {
            let start = self.start_of_block(end);
            match end - start {
                1 => (end, steps) = (start, 0),
                2 => {
                    self.split(start);
                    (end, steps) = (start, 0);
                }
                _ if steps == STEPS_PER_VALUE => return Err(NoConvergence),
                _ => {
                    steps += 1;
                    self.francis_step(start, end, steps.is_multiple_of(EXCEPTIONAL));
                }
            }
        }
        Ok(())
    }

    /// Where the unreduced block that ends before `end` begins; the element left of it is set to zero.
    fn start_of_block(&mut self, end: usize) -> usize {
        for k in (1..end).rev() {
            let neighbours = self.t[(k - 1, k - 1)].abs() + self.t[(k, k)].abs();
            // Beside two zeros, as in a permutation, the whole matrix is the measure.
            let size = if neighbours == 0.0 { self.t.max_norm() } else { neighbours };
            if self.t[(k, k - 1)].abs() <= f64::EPSILON * size {
                self.t[(k, k - 1)] = 0.0;
                return k;
            }
        }
        0
    }

    /// One double step with the eigenvalues of the last two rows of the block as shifts: the first column of
    /// t² - (s₁ + s₂)·t + s₁·s₂ begins a bulge of three rows, which is chased down.
    fn francis_step(&mut self, start: usize, end: usize, is_exceptional: bool) {
        let [a, b, c, d] = self.block(end - 2);
        let (sum, product) = if is_exceptional {
            let size = self.t[(end - 1, end - 2)].abs() + self.t[(end - 2, end - 3)].abs();
            (1.5 * size, size * size)
        } else {
            (a + d, a * d - b * c)
        };
        let [a, b, c, d] = self.block(start);
        let mut bulge = vec![a * a + b * c - sum * a + product, c * (a + d - sum), c * self.t[(start + 2, start + 1)]];
        for k in start..end - 1 {
            let size = bulge.len();
            let (factor, beta) = reflection(&mut bulge);
            self.reflect(k, &bulge, factor);
            if k > start {
                self.t[(k, k - 1)] = beta;
                (1..size).for_each(|below| self.t[(k + below, k - 1)] = 0.0);
            }
            bulge = (k + 1..(k + 4).min(end)).map(|i| self.t[(i, k)]).collect();
        }
    }

    /// Makes a block of two rows with real eigenvalues triangular.
    fn split(&mut self, k: usize) {
        let [a, b, c, d] = self.block(k);
        let half = (a - d) / 2.0;
        let discriminant = half * half + b * c;
        if discriminant < 0.0 {
            return;
        }
        // The eigenvector of the value that is computed without cancellation: (value - d, c).
        let mut vector = [half + discriminant.sqrt().copysign(half), c];
        let (factor, _) = reflection(&mut vector);
        self.reflect(k, &vector, factor);
        self.t[(k + 1, k)] = 0.0;
    }
}

/// Eigenvalues and eigenvectors of a general matrix, as [`general_eigen`] gives them.
#[derive(Clone, Debug)]
pub struct GeneralEigen {
    /// Real and imaginary part of each value.
    pub values: Vec<(f64, f64)>,
    /// The real parts of the vectors, which are columns.
    pub re: Matrix,
    /// The imaginary parts of the vectors.
    pub im: Matrix,
}

/// The eigenvalues of a general matrix by ascending real and then descending imaginary part, and their vectors. Those have the
/// length 1, and their largest element is real and positive.
///
/// ```
/// use glassgrad_linalg::{Matrix, general_eigen};
/// let turn = Matrix::from_fn(2, 2, |i, j| [[0.0, -1.0], [1.0, 0.0]][i][j]);
/// assert_eq!(general_eigen(&turn).unwrap().values, [(0.0, 1.0), (0.0, -1.0)]);
/// ```
///
/// # Errors
/// If the iteration does not converge, as with numbers that are not finite.
///
/// # Panics
/// If the matrix is not square.
pub fn general_eigen(matrix: &Matrix) -> Result<GeneralEigen, NoConvergence> {
    let n = matrix.rows();
    let (balanced, scale) = matrix.balanced();
    let form = Schur::of(&balanced)?;
    let values = form.eigenvalues();
    let mut columns: Vec<Vec<(f64, f64)>> = Vec::with_capacity(n);
    for (k, value) in values.iter().enumerate() {
        // The vector of the second of a pair is the conjugate one.
        let column = match value.1 < 0.0 {
            true => columns[k - 1].iter().map(|(re, im)| (*re, -im)).collect(),
            false => normalised(&form, &form.triangular_vector(k, *value)),
        };
        columns.push(column);
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| values[*i].0.total_cmp(&values[*j].0).then(values[*j].1.total_cmp(&values[*i].1)));
    let re = Matrix::from_fn(n, n, |i, j| columns[order[j]][i].0);
    let im = Matrix::from_fn(n, n, |i, j| columns[order[j]][i].1);
    let scaled = |k: &usize| (values[*k].0 * scale, values[*k].1 * scale);
    Ok(GeneralEigen { values: order.iter().map(scaled).collect(), re, im })
}

type Complex = (f64, f64);

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn minus(a: Complex, b: Complex) -> Complex {
    (a.0 - b.0, a.1 - b.1)
}

/// a/b, scaled so that no square leaves the range of numbers.
fn over(a: Complex, b: Complex) -> Complex {
    let size = b.0.abs().max(b.1.abs());
    let b = (b.0 / size, b.1 / size);
    let square = b.0 * b.0 + b.1 * b.1;
    let quotient = times(a, (b.0, -b.1));
    (quotient.0 / square / size, quotient.1 / square / size)
}

impl Schur {
    /// The eigenvector of t for a value on its diagonal in row k, or for the first of a pair in rows k and k + 1, by back
    /// substitution.
    fn triangular_vector(&self, k: usize, value: Complex) -> Vec<Complex> {
        let (n, t) = (self.t.rows(), &self.t);
        let mut y = vec![(0.0, 0.0); n];
        let mut row = k;
        if value.1 == 0.0 {
            y[k] = (1.0, 0.0);
        } else {
            // The vector of the block itself: (a - λ)·y₀ + b·y₁ = 0.
            let [a, b, c, d] = self.block(k);
            (y[k], y[k + 1]) = match b.abs() >= c.abs() {
                true => ((b, 0.0), (value.0 - a, value.1)),
                false => ((value.0 - d, value.1), (c, 0.0)),
            };
        }
        // A pivot that vanishes beside the matrix belongs to an equal eigenvalue; a small one stands for it.
        let smallest = f64::EPSILON * t.max_norm().max(f64::MIN_POSITIVE);
        let pivot = |found: Complex, smallest: f64| match found.0.abs() + found.1.abs() < smallest {
            true => (smallest, 0.0),
            false => found,
        };
        while row > 0 {
            row -= 1;
            let known = |i: usize, y: &[Complex]| {
                (row + 1..n).fold((0.0, 0.0), |sum, j| minus(sum, times((t[(i, j)], 0.0), y[j])))
            };
            if row > 0 && t[(row, row - 1)] != 0.0 {
                // Two rows at once, by the rule of Cramer.
                let (top, bottom) = (row - 1, row);
                let (right_top, right_bottom) = (known(top, &y), known(bottom, &y));
                let [a, b, c, d] = self.block(top);
                let (a, d) = (minus((a, 0.0), value), minus((d, 0.0), value));
                let determinant = pivot(minus(times(a, d), (b * c, 0.0)), smallest * smallest);
                y[top] = over(minus(times(right_top, d), times((b, 0.0), right_bottom)), determinant);
                y[bottom] = over(minus(times(a, right_bottom), times((c, 0.0), right_top)), determinant);
                row = top;
            } else {
                y[row] = over(known(row, &y), pivot(minus((t[(row, row)], 0.0), value), smallest));
            }
            // Vectors of nearly equal values grow without bound.
            let size = y.iter().fold(0.0_f64, |size, y| size.max(y.0.abs()).max(y.1.abs()));
            if size > 1e100 {
                y.iter_mut().for_each(|y| *y = (y.0 / size, y.1 / size));
            }
        }
        y
    }
}

/// z·y with length 1 and a real positive largest element.
fn normalised(form: &Schur, y: &[Complex]) -> Vec<Complex> {
    let n = y.len();
    let element = |i: usize| {
        (0..n).fold((0.0, 0.0), |sum: Complex, j| (sum.0 + form.z[(i, j)] * y[j].0, sum.1 + form.z[(i, j)] * y[j].1))
    };
    let vector: Vec<Complex> = (0..n).map(element).collect();
    let size = |v: &Complex| v.0.hypot(v.1);
    let largest = vector.iter().copied().max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or((1.0, 0.0));
    let scaled: Vec<Complex> = vector.iter().map(|v| over(*v, largest)).collect();
    let length = scaled.iter().map(|v| v.0 * v.0 + v.1 * v.1).sum::<f64>().sqrt();
    scaled.iter().map(|v| (v.0 / length, v.1 / length)).collect()
}
