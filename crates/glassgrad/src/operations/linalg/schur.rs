//! The real Schur form.

use std::panic::Location;

use glassgrad_linalg::{Matrix, Schur};

use super::batched::{MatrixOperation, Origin, square, square_size};
use super::factor::real_schur;
use super::matrices::rows;
use crate::error::Error;
use crate::expr::{Rule, Tensor};

const NAME: &str = "schur";

/// The rows of t, and those of z.
#[derive(Clone, Debug)]
struct Packed(Origin);

impl MatrixOperation for Packed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (2 * size, size))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        let Schur { t, z } = real_schur(&inputs[0])?;
        let size = t.rows();
        Ok(Matrix::from_fn(2 * size, size, |i, j| if i < size { t[(i, j)] } else { z[(i - size, j)] }))
    }

    /// Neither the order of the blocks nor the rotation of a block of two rows is determined, so there is no derivative.
    fn rule<'r>(&self, inputs: &'r [Tensor], packed: &'r Tensor) -> Rule<'r> {
        let origin = self.0;
        Rule::Pushforward(Box::new(move |moved| match &moved[0] {
            Some(_) => {
                let error = Error::new(NAME, "the factors of a real Schur form are not unique, and have no derivative")
                    .help("differentiate `eig`, `eigvals`, or a matrix function such as `expm` instead");
                Tensor::refused_at(error, &[&inputs[0]], origin)
            }
            None => packed.zeros_like(),
        }))
    }
}

impl Tensor {
    /// The factors t and z of the real Schur form `self` = z·t·zᵀ: z is orthogonal, and t upper triangular but for blocks of two
    /// rows on its diagonal, each of which has a pair of conjugate eigenvalues. The factors are not unique, so differentiating them is
    /// an error.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 2.0]]);
    /// let (t, z) = a.schur();
    /// assert!((z.matmul(&t).matmul(&z.transpose()) - &a).abs().max().item().unwrap() < 1e-14);
    /// assert!(t.tril(-1).abs().max().item().unwrap() == 0.0);
    /// ```
    #[track_caller]
    pub fn schur(&self) -> (Tensor, Tensor) {
        let origin = Location::caller();
        match square_size(NAME, self, origin) {
            Ok(size) => {
                let packed = Packed(origin).on(&[self], origin);
                (rows(&packed, 0..size), rows(&packed, size..2 * size))
            }
            Err(failed) => (failed.clone(), failed),
        }
    }
}
