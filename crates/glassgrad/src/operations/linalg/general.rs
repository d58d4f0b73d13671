//! Eigenvalues and eigenvectors of general matrices, which are complex.

use std::panic::Location;

use glassgrad_linalg::{GeneralEigen, Matrix};

use super::batched::{MatrixOperation, square, square_size};
use super::factor::{NOISE, general_eigen};
use super::matrices::{above, as_column, as_row, beside, diagonal, only_row, rows};
use crate::expr::{Axes, Rule, Tensor};
use crate::operations::Complex;

const NAME: &str = "eig";

/// A row of the real parts of the values, one of their imaginary parts, and the real and imaginary parts of the vectors.
#[derive(Clone, Debug)]
struct Packed;

impl MatrixOperation for Packed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (2 * size + 2, size))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        let GeneralEigen { values, re, im } = general_eigen(&inputs[0])?;
        let size = re.rows();
        Ok(Matrix::from_fn(2 * size + 2, size, |i, j| match i {
            0 => values[j].0,
            1 => values[j].1,
            _ if i < size + 2 => re[(i - 2, j)],
            _ => im[(i - 2 - size, j)],
        }))
    }

    /// With m = v⁻¹·da·v: dλ is the diagonal of m, and dv = v·(m / (λⱼ - λᵢ)). Vectors are determined up to a factor, which
    /// stays as it is to first order; what does not depend on it has the right derivatives to every order.
    fn rule<'r>(&self, _: &'r [Tensor], packed: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| {
            let Some(da) = moved[0].as_ref().filter(|da| da.shape().elements() > 0) else {
                return packed.zeros_like();
            };
            let (values, vectors) = unpacked(packed);
            let size = vectors.re.shape()[vectors.rank() - 1];
            // Complex matrices as real ones of twice the size.
            let whole = above(&[&beside(&[&vectors.re, &-&vectors.im]), &beside(&[&vectors.im, &vectors.re])]);
            let inverse = whole.inv();
            // Vectors that are dependent to working precision are no basis, and nothing has a derivative.
            let largest = inverse.stop_gradient().abs().max_over(Axes::from([-2, -1]).keep());
            let is_basis = largest.lt(1.0 / (NOISE * packed.dtype().epsilon()));
            let m = inverse.matmul(&above(&[&da.matmul(&vectors.re), &da.matmul(&vectors.im)]));
            // A factor and no choice, whose transpose would be zero.
            let m = m * is_basis.choose(&largest.ones_like(), &largest.full_like(f64::NAN));
            let m = Complex::new(rows(&m, 0..size), rows(&m, size..2 * size));
            let turned = vectors.matmul(&(inverse_distances(&values) * &m));
            above(&[&as_row(&diagonal(&m.re)), &as_row(&diagonal(&m.im)), &turned.re, &turned.im])
        }))
    }
}

#[track_caller]
fn unpacked(packed: &Tensor) -> (Complex, Complex) {
    let size = packed.shape()[packed.rank() - 1];
    let value = |row: usize| only_row(&rows(packed, row..row + 1));
    let vectors = Complex::new(rows(packed, 2..size + 2), rows(packed, size + 2..2 * size + 2));
    (Complex::new(value(0), value(1)), vectors)
}

/// 1/(λⱼ - λᵢ) in row i and column j, and zero where the two are equal to working precision.
fn inverse_distances(values: &Complex) -> Complex {
    let distance = |part: &Tensor| as_row(part) - as_column(part);
    let (re, im) = (distance(&values.re), distance(&values.im));
    let square = re.square() + im.square();
    let count = values.re.shape()[values.rank() - 1] as f64;
    let size = values.abs_square().stop_gradient().max_over(Axes::from(-1).keep());
    let negligible = as_row(&size).scaled((count * values.dtype().epsilon()).powi(2));
    let is_apart = square.gt(negligible);
    let quotient = |part: &Tensor| is_apart.choose(&(part / &square), &part.zeros_like());
    Complex::new(quotient(&re), -quotient(&im))
}

impl Tensor {
    /// The eigenvalues of a general matrix, ascending by their real parts and then descending by the imaginary ones, and
    /// their vectors of length 1 as columns. Both are complex; a pair of conjugate values has conjugate vectors.
    ///
    /// The phase of a vector is not determined: differentiate functions that do not depend on it. Where eigenvalues are
    /// equal, what would be divided by their distance is exactly zero. A matrix without a basis of eigenvectors has no
    /// derivative: it is NaN.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 2.0]]);
    /// let (values, vectors) = a.eig();
    /// assert!((values.re - Tensor::from([-1.0, 4.0])).abs().max().item().unwrap() < 1e-14);
    /// assert_eq!(vectors.shape().to_string(), "[2, 2]");
    /// // The gradient of the largest value: the outer product of the left and the right vector.
    /// let largest = grad(|a: &Tensor| a.eigvals().re.max())(&a);
    /// assert!((largest - Tensor::from([[0.4, 0.6], [0.4, 0.6]])).abs().max().item().unwrap() < 1e-14);
    /// ```
    #[track_caller]
    pub fn eig(&self) -> (Complex, Complex) {
        let origin = Location::caller();
        match square_size(NAME, self, origin) {
            Ok(_) => {
                let (values, vectors) = unpacked(&Packed.on(&[self], origin));
                let length = vectors.abs_square().sum_over(Axes::from(-2).keep()).sqrt();
                (values, vectors / length)
            }
            Err(failed) => {
                let failed = Complex { re: failed.clone(), im: failed };
                (failed.clone(), failed)
            }
        }
    }

    /// The eigenvalues of a general matrix, as [`Tensor::eig`] orders them.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let turn = Tensor::from([[0.0, -1.0], [1.0, 0.0]]);
    /// assert_eq!(turn.eigvals().to_string(), "[0+1i, 0-1i]");
    /// ```
    #[track_caller]
    pub fn eigvals(&self) -> Complex {
        self.eig().0
    }
}
