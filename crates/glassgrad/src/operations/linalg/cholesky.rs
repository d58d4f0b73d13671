//! The Cholesky decomposition.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, square, square_size};
use super::matrices::symmetric_part;
use super::solve::{SolveTriangular, Triangle, divided};
use crate::expr::{Rule, Tensor};

const NAME: &str = "cholesky";

/// The factor of a symmetric matrix.
#[derive(Clone, Debug)]
struct Cholesky;

impl MatrixOperation for Cholesky {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        square(inputs[0]).map(|size| (size, size))
    }

    fn compute(&self, inputs: &[Matrix], _: f64) -> Result<Matrix, String> {
        glassgrad_linalg::cholesky(&inputs[0])
            .map_err(|place| format!("is not positive definite: pivot {place} is not a positive number"))
    }

    /// From da = dl·lᵀ + l·dlᵀ follows dl = l·φ(l⁻¹da·l⁻ᵀ), where φ takes the lower triangle and half of the
    /// diagonal.
    fn rule<'r>(&self, _: &'r [Tensor], l: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| {
            let Some(da) = &moved[0] else { return l.zeros_like() };
            let system = SolveTriangular { name: NAME, triangle: Triangle::lower(), computed: false };
            let left = system.on(&[l, da], l.origin());
            let both = divided(NAME, &left, l, Triangle::lower().transposed(), l.origin());
            let halves = both.tril(0) + both.tril(-1);
            l.matmul(&halves.scaled(0.5))
        }))
    }
}

impl Tensor {
    /// The lower triangle l with l·lᵀ = `self`, for positive definite matrices; their symmetric part is taken.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[4.0, 2.0], [2.0, 5.0]]);
    /// assert_eq!(a.cholesky().to_string(), "[[2, 0],\n [1, 2]]");
    /// let saddle = Tensor::from([[1.0, 2.0], [2.0, 1.0]]);
    /// let error = saddle.cholesky().eval().unwrap_err();
    /// assert!(error.to_string().starts_with("cholesky: the matrix is not positive definite: pivot 1"));
    /// ```
    #[track_caller]
    pub fn cholesky(&self) -> Tensor {
        let origin = Location::caller();
        match square_size(NAME, self, origin) {
            Ok(_) => Cholesky.on(&[&symmetric_part(self)], origin),
            Err(failed) => failed,
        }
    }
}
