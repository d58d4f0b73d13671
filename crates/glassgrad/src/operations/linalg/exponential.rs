//! The exponential of matrices.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, square};
use super::factor::Lu;
use super::matrices::{above, beside, columns, rows};
use crate::expr::{Rule, Tensor};

const NAME: &str = "expm";

/// The exponential.
#[derive(Clone, Debug)]
struct Exponential;

impl MatrixOperation for Exponential {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (size, size))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        Ok(exponential(&inputs[0]))
    }

    /// The adjoint of the derivative at a is the derivative at aᵀ.
    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(move |g| vec![Some(Derivative.on(&[&inputs[0].transpose(), g], output.origin()))]))
    }
}

/// The derivative of the exponential at one matrix along another: the upper right block of the exponential of
/// [[a, e], [0, a]].
#[derive(Clone, Debug)]
struct Derivative;

impl MatrixOperation for Derivative {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (size, size))
    }

    fn is_defined(&self, inputs: &[Matrix]) -> bool {
        inputs.iter().all(|input| input.is_finite())
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
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
        let result = exponential(&block);
        Ok(Matrix::from_fn(n, n, |i, j| size * result[(i, n + j)]))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(move |g| {
            let (a, e) = (&inputs[0], &inputs[1]);
            let (size, zero, origin) = (a.shape()[a.rank() - 1], a.zeros_like(), output.origin());
            let block = |diagonal: &Tensor, corner: &Tensor| {
                above(&[&beside(&[diagonal, corner]), &beside(&[&zero, diagonal])])
            };
            // By the rule of the exponential of the block matrix, of which the output is one block.
            let whole = Derivative.on(&[&block(a, e).transpose(), &block(&zero, g)], origin);
            let upper_left = columns(&rows(&whole, 0..size), 0..size);
            let lower_right = columns(&rows(&whole, size..2 * size), size..2 * size);
            vec![Some(upper_left + lower_right), Some(Derivative.on(&[&a.transpose(), g], origin))]
        }))
    }
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
        Exponential.on(&[self], Location::caller())
    }
}
