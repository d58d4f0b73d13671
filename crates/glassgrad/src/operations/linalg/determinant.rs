//! Determinants and their logarithms.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, Origin, square};
use super::eigen::negligible;
use super::factor::Lu;
use super::matrices::{as_row, columns, diagonal_matrix, only_element, rows};
use super::singular::Factors;
use super::solve::{Solve, inverse};
use crate::expr::{Axes, Index, Rule, Tensor, s};

const NAME: &str = "det";

/// The determinant as a matrix of one element.
#[derive(Clone, Debug)]
struct Determinant {
    /// Whether the matrix is known to be regular, so that its inverse is there for the derivative.
    regular: bool,
}

impl MatrixOperation for Determinant {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|_| (1, 1))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        Ok(Matrix::full(1, 1, Lu::of(&inputs[0]).determinant_factors().iter().product()))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        let origin = output.origin();
        match self.regular {
            true => Rule::Pullback(Box::new(move |g| {
                vec![Some(g * output * inverse(NAME, &inputs[0], origin).transpose())]
            })),
            false => Rule::Formula(Box::new(move |inputs| formula(&inputs[0], origin))),
        }
    }
}

/// The determinant in a form whose derivatives do not divide by it.
///
/// In the bases of the singular vectors, taken as constants, the matrix is diagonal at this place. Two rows and
/// columns with the smallest singular values are split off: the determinant is that of the rest times that of
/// the Schur complement of the rest, which has two rows and is written out. Only the rest is inverted, so two singular
/// values may vanish. If more do, the first two derivatives are zero, and so are all of this form: where a singular
/// value of the rest vanishes, 1 takes its place, and the whole gets a factor of 0.
fn formula(a: &Tensor, origin: Origin) -> Tensor {
    let size = a.shape()[a.rank() - 1];
    if size <= 2 {
        return written_out(a);
    }
    let Factors { u, s, v } = Factors::of_matrix(&a.stop_gradient(), origin);
    let (rest, corner) = (0..size - 2, size - 2..size);
    let d = u.transpose().matmul(a).matmul(&v);
    let block = |i: &std::ops::Range<usize>, j: &std::ops::Range<usize>| columns(&rows(&d, i.clone()), j.clone());
    let present = columns(&s, rest.clone()).gt(negligible(&s)).cast(a.dtype());
    let regular = block(&rest, &rest) + diagonal_matrix(&(1.0 - &present));
    let solved = Solve { name: NAME }.on(&[&regular, &block(&rest, &corner)], origin);
    let complement = block(&corner, &corner) - block(&corner, &rest).matmul(&solved);
    let determinant = |matrix: &Tensor| Determinant { regular: true }.on(&[matrix], origin);
    let constant = as_row(&present.min_over(Axes::from(-1).keep())) * determinant(&u).sign() * determinant(&v).sign();
    constant * determinant(&regular) * written_out(&complement)
}

/// The determinant of at most two rows.
fn written_out(a: &Tensor) -> Tensor {
    let at = |i: usize, j: usize| columns(&rows(a, i..i + 1), j..j + 1);
    match a.shape()[a.rank() - 1] {
        0 => Determinant { regular: true }.on(&[a], a.origin()),
        1 => a.clone(),
        _ => at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0),
    }
}

/// A row of the sign of the determinant and the logarithm of its magnitude.
#[derive(Clone, Debug)]
struct LogDeterminant {
    name: &'static str,
    /// Whether a determinant of zero is refused.
    regular: bool,
}

impl MatrixOperation for LogDeterminant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|_| (1, 2))
    }

    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String> {
        let factors = if self.regular { Lu::regular(&inputs[0], epsilon)? } else { Lu::of(&inputs[0]) };
        let factors = factors.determinant_factors();
        let sign: f64 = factors.iter().map(|factor| if *factor == 0.0 { 0.0 } else { factor.signum() }).product();
        let logarithm: f64 = factors.iter().map(|factor| factor.abs().ln()).sum();
        Ok(Matrix::from_fn(1, 2, |_, j| if j == 0 { sign } else { logarithm }))
    }

    fn rule<'r>(&self, inputs: &'r [Tensor], output: &'r Tensor) -> Rule<'r> {
        let name = self.name;
        Rule::Pullback(Box::new(move |g| {
            vec![Some(columns(g, 1..2) * inverse(name, &inputs[0], output.origin()).transpose())]
        }))
    }
}

/// Sign and logarithm of each matrix.
#[track_caller]
fn unpacked(packed: &Tensor) -> (Tensor, Tensor) {
    let at = |k: isize| packed.slice(&[Index::Rest, s(0), s(k)]);
    (at(0), at(1))
}

impl Tensor {
    /// The determinant of each matrix. It may be zero: then the gradient is the transposed adjugate, as everywhere.
    /// Derivatives of every order are right where at most two singular values are zero, the first and the second
    /// everywhere.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad};
    /// let a = Tensor::from([[1.0, 2.0], [2.0, 4.0]]);
    /// assert_eq!(a.det().item().unwrap(), 0.0);
    /// assert_eq!(grad(|a: &Tensor| a.det())(&a).to_string(), "[[ 4, -2],\n [-2,  1]]");
    /// ```
    #[track_caller]
    pub fn det(&self) -> Tensor {
        only_element(&Determinant { regular: false }.on(&[self], Location::caller()))
    }

    /// The sign of the determinant of each matrix, and the logarithm of its magnitude, which does not overflow. Of a
    /// determinant of zero they are 0 and -∞, and its derivative is an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let (sign, logarithm) = Tensor::from([[0.0, 1e200], [1e200, 0.0]]).slogdet();
    /// assert_eq!(sign.item().unwrap(), -1.0);
    /// assert_eq!(logarithm.item().unwrap(), 2.0 * 1e200_f64.ln());
    /// ```
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        unpacked(&LogDeterminant { name: "slogdet", regular: false }.on(&[self], Location::caller()))
    }

    /// The logarithm of the determinant of each matrix: NaN for a negative one, an error for a singular matrix.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[2.0, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.logdet().item().unwrap(), 2.0_f64.ln() + 4.0_f64.ln());
    /// ```
    #[track_caller]
    pub fn logdet(&self) -> Tensor {
        let (sign, logarithm) =
            unpacked(&LogDeterminant { name: "logdet", regular: true }.on(&[self], Location::caller()));
        sign.ln() + logarithm
    }
}
