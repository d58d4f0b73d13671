//! Functions of matrices: exponential, logarithm and square root. The derivative of each is the same function of a block
//! matrix.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, square};
use super::factor::Lu;
use super::matrices::{above, beside, columns, rows};
use crate::expr::{Rule, Tensor};

/// A function of square matrices.
#[derive(Clone, Copy, Debug)]
enum Function {
    Exponential,
    Logarithm,
    SquareRoot,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::Exponential => "expm",
            Function::Logarithm => "logm",
            Function::SquareRoot => "sqrtm",
        }
    }

    fn of(self, matrix: &Matrix, epsilon: f64) -> Result<Matrix, String> {
        match self {
            Function::Exponential => Ok(exponential(matrix)),
            Function::Logarithm => logarithm(matrix, epsilon),
            Function::SquareRoot => square_root(matrix, epsilon),
        }
    }
}

/// The value of a function.
#[derive(Clone, Debug)]
struct Value(Function);

impl MatrixOperation for Value {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (size, size))
    }

    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String> {
        self.0.of(&inputs[0], epsilon)
    }

    /// The adjoint of the derivative at a is the derivative at aᵀ.
    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        let derivative = Derivative(self.0);
        Rule::Pullback(Box::new(move |g| {
            vec![Some(derivative.clone().on(&[&inputs[0].transpose(), g], output.origin()))]
        }))
    }
}

/// The derivative of a function at one matrix along another: the upper right block of the function of [[a, e], [0, a]].
#[derive(Clone, Debug)]
struct Derivative(Function);

impl MatrixOperation for Derivative {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (size, size))
    }

    fn is_defined(&self, inputs: &[Matrix]) -> bool {
        inputs.iter().all(|input| input.is_finite())
    }

    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String> {
        let (a, e, n) = (&inputs[0], &inputs[1], inputs[0].rows());
        // It is linear in the direction, so that may have the size 1, and none of the accuracy for a is lost.
        let size = e.max_norm();
        if size == 0.0 {
            return Ok(Matrix::zeros(n, n));
        }
        let block = Matrix::from_fn(2 * n, 2 * n, |i, j| match (i < n, j < n) {
            (true, true) => a[(i, j)],
            (true, false) => e[(i, j - n)] / size,
            (false, true) => 0.0,
            (false, false) => a[(i - n, j - n)],
        });
        let result = self.0.of(&block, epsilon)?;
        Ok(Matrix::from_fn(n, n, |i, j| size * result[(i, n + j)]))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        let derivative = self.clone();
        Rule::Pullback(Box::new(move |g| {
            let (a, e) = (&inputs[0], &inputs[1]);
            let (size, zero, origin) = (a.shape()[a.rank() - 1], a.zeros_like(), output.origin());
            let block = |diagonal: &Tensor, corner: &Tensor| {
                above(&[&beside(&[diagonal, corner]), &beside(&[&zero, diagonal])])
            };
            // By the rule of the function of the block matrix, of which the output is one block.
            let whole = derivative.clone().on(&[&block(a, e).transpose(), &block(&zero, g)], origin);
            let upper_left = columns(&rows(&whole, 0..size), 0..size);
            let lower_right = columns(&rows(&whole, size..2 * size), size..2 * size);
            vec![Some(upper_left + lower_right), Some(derivative.clone().on(&[&a.transpose(), g], origin))]
        }))
    }
}

/// Why a matrix has no principal root and logarithm.
fn no_root() -> String {
    "has no principal square root: an eigenvalue is 0 or a negative number".to_owned()
}

/// The principal square root by the iteration of Denman and Beavers in its product form, scaled by determinants until it
/// has nearly converged: N. J. Higham, Functions of Matrices, 2008, section 6.3.
fn square_root(matrix: &Matrix, epsilon: f64) -> Result<Matrix, String> {
    const MOST_STEPS: usize = 100;
    let n = matrix.rows();
    if n == 0 {
        return Ok(matrix.clone());
    }
    let identity = Matrix::identity(n, n);
    let (mut x, mut m) = (matrix.clone(), matrix.clone());
    let mut before = f64::INFINITY;
    for _ in 0..MOST_STEPS {
        let factors = Lu::regular(&m, epsilon).map_err(|_| no_root())?;
        let inverse = factors.solve(&identity);
        let distance = m.zip_with(&identity, |m, one| m - one).max_norm();
        // |det m|^(-1/2n), by the logarithms of the pivots; 1 near the end, where it would disturb the convergence.
        let log_determinant: f64 = factors.determinant_factors().iter().map(|pivot| pivot.abs().ln()).sum();
        let scale = if distance > 0.01 { (-log_determinant / (2.0 * n as f64)).exp() } else { 1.0 };
        let square = scale * scale;
        let sum = |m: f64, inverse: f64| (m * square + inverse / square) / 4.0;
        // x ← μx(1 + μ⁻²m⁻¹)/2 and m ← (1 + (μ²m + μ⁻²m⁻¹)/2)/2.
        let step = inverse.zip_with(&identity, |inverse, one| scale * (one + inverse / square) / 2.0);
        x = x.product(&step);
        m = m.zip_with(&inverse, sum).zip_with(&identity, |sum, one| sum + one / 2.0);
        if !x.is_finite() {
            return Err(no_root());
        }
        // Near the end the distance is squared at each step: once it no longer shrinks, rounding is all that is left.
        if distance < 1e-3 && (distance == 0.0 || distance >= before / 2.0 || distance < f64::EPSILON * n as f64) {
            return Ok(x);
        }
        before = distance;
    }
    Err(no_root())
}

/// The principal logarithm by inverse scaling and squaring: 2ᵏ times the logarithm of the 2ᵏ-th root, which is so near to
/// the identity that a Padé approximation is exact to rounding. That is a sum of resolvents at the nodes of
/// Gauss and Legendre: N. J. Higham, Functions of Matrices, 2008, section 11.
fn logarithm(matrix: &Matrix, epsilon: f64) -> Result<Matrix, String> {
    const MOST_ROOTS: i32 = 100;
    /// The distance from the identity up to which as many nodes are exact to the rounding of 64-bit numbers.
    const NEAR: f64 = 0.25;
    const NODES: usize = 12;
    let n = matrix.rows();
    let identity = Matrix::identity(n, n);
    let away = |root: &Matrix| root.zip_with(&identity, |root, one| root - one);
    let norm = |a: &Matrix| (0..n).map(|j| a.column(j).map(f64::abs).sum()).fold(0.0, f64::max);
    let (mut root, mut roots) = (matrix.clone(), 0);
    while norm(&away(&root)) > NEAR {
        if roots == MOST_ROOTS {
            return Err(no_root());
        }
        root = square_root(&root, epsilon)?;
        roots += 1;
    }
    let x = away(&root);
    let mut sum = Matrix::zeros(n, n);
    for (node, weight) in gauss_legendre(NODES) {
        // w·x(1 + s·x)⁻¹, in which the two factors commute.
        let resolvent = Lu::of(&x.zip_with(&identity, |x, one| one + node * x)).solve(&x);
        sum = sum.zip_with(&resolvent, |sum, term| sum + weight * term);
    }
    let factor = 2.0_f64.powi(roots);
    Ok(sum.zip_with(&sum, |sum, _| factor * sum))
}

/// Nodes and weights of Gauss and Legendre on [0, 1].
fn gauss_legendre(count: usize) -> Vec<(f64, f64)> {
    let rule = |k: usize| {
        let mut x = (std::f64::consts::PI * (k as f64 + 0.75) / (count as f64 + 0.5)).cos();
        let mut slope = 1.0;
        // Newton's method for the roots of the Legendre polynomial, from a good guess.
        for _ in 0..20 {
            let (mut before, mut now) = (1.0, x);
            for degree in 1..count {
                let degree = degree as f64;
                (before, now) = (now, ((2.0 * degree + 1.0) * x * now - degree * before) / (degree + 1.0));
            }
            slope = count as f64 * (x * now - before) / (x * x - 1.0);
            x -= now / slope;
        }
        ((x + 1.0) / 2.0, 1.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..count).map(rule).collect()
}

/// The exponential by Padé's approximation of order 13 to that of a/2ᵏ, squared k times.
///
/// The bound on the norm of a/2ᵏ, up to which the approximation is exact to the rounding of 64-bit numbers, is from
/// N. J. Higham, The scaling and squaring method for the matrix exponential revisited, 2005.
fn exponential(matrix: &Matrix) -> Matrix {
    const ORDER: usize = 13;
    const BOUND: f64 = 5.371920351148152;
    let n = matrix.rows();
    let norm = (0..n).map(|j| matrix.column(j).map(f64::abs).sum()).fold(0.0, f64::max);
    let squarings = (norm / BOUND).log2().ceil().clamp(0.0, 1100.0) as i32;
    let a = Matrix::from_fn(n, n, |i, j| matrix[(i, j)] * 2.0_f64.powi(-squarings));
    let mut coefficients = vec![1.0];
    for k in 1..=ORDER {
        coefficients.push(coefficients[k - 1] * (ORDER + 1 - k) as f64 / ((2 * ORDER + 1 - k) * k) as f64);
    }
    let second = a.product(&a);
    let fourth = second.product(&second);
    let sixth = second.product(&fourth);
    let sum = |weights: [f64; 4]| {
        Matrix::from_fn(n, n, |i, j| {
            let one = if i == j { weights[0] } else { 0.0 };
            one + weights[1] * second[(i, j)] + weights[2] * fourth[(i, j)] + weights[3] * sixth[(i, j)]
        })
    };
    // All even powers from a coefficient on, or all odd ones but for a factor of a.
    let series = |first: usize| {
        let c = |k: usize| coefficients[first + k];
        let high = sixth.product(&sum([0.0, c(8), c(10), c(12)]));
        high.zip_with(&sum([c(0), c(2), c(4), c(6)]), |high, low| high + low)
    };
    let (even, odd) = (series(0), a.product(&series(1)));
    let denominator = even.zip_with(&odd, |even, odd| even - odd);
    let mut result = Lu::of(&denominator).solve(&even.zip_with(&odd, |even, odd| even + odd));
    for _ in 0..squarings {
        result = result.product(&result);
    }
    result
}

impl Tensor {
    /// The exponential of each square matrix, 1 + a + a²/2 + …
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let nilpotent = Tensor::from([[0.0, 3.0], [0.0, 0.0]]);
    /// assert_eq!(nilpotent.expm().to_string(), "[[1, 3],\n [0, 1]]");
    /// ```
    #[track_caller]
    pub fn expm(&self) -> Tensor {
        Value(Function::Exponential).on(&[self], Location::caller())
    }

    /// The principal square root of each square matrix, whose eigenvalues have positive real parts. A matrix with an
    /// eigenvalue of 0 or a negative number has none, which is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let root = Tensor::from([[4.0, 0.0], [0.0, 9.0]]).sqrtm();
    /// assert!(root.all_close(Tensor::from([[2.0, 0.0], [0.0, 3.0]]), 1e-14, 1e-14).item().unwrap() == 1.0);
    /// assert!(Tensor::from([[-1.0]]).sqrtm().eval().is_err());
    /// ```
    #[track_caller]
    pub fn sqrtm(&self) -> Tensor {
        Value(Function::SquareRoot).on(&[self], Location::caller())
    }

    /// The principal logarithm of each square matrix: the inverse of [`Tensor::expm`] whose eigenvalues have imaginary
    /// parts between -π and π. A matrix with an eigenvalue of 0 or a negative number has none, which is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[1.0, 0.5], [-0.25, 2.0]]);
    /// assert!(a.expm().logm().all_close(&a, 1e-12, 1e-12).item().unwrap() == 1.0);
    /// ```
    #[track_caller]
    pub fn logm(&self) -> Tensor {
        Value(Function::Logarithm).on(&[self], Location::caller())
    }
}
