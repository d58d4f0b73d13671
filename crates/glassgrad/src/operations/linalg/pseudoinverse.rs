//! The pseudoinverse, and least squares.

use std::panic::Location;

use glassgrad_linalg::Matrix;

use super::batched::{MatrixOperation, sizes};
use super::factor::singular;
use super::solve::for_vector_or_matrix;
use crate::error::Error;
use crate::expr::{Rule, Tensor};

/// The pseudoinverse, under the name of the operation that needs it.
#[derive(Clone, Debug)]
struct Pseudoinverse {
    name: &'static str,
}

impl MatrixOperation for Pseudoinverse {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: &[(usize, usize)]) -> Result<(usize, usize), String> {
        Ok((inputs[0].1, inputs[0].0))
    }

    fn compute(&self, inputs: &[Matrix], epsilon: f64) -> Result<Matrix, String> {
        let size = inputs[0].rows().max(inputs[0].columns());
        Ok(singular(&inputs[0])?.pseudoinverse(epsilon * size as f64))
    }

    /// dp = -p·da·p + p·pᵀ·daᵀ·(1 - a·p) + (1 - p·a)·daᵀ·pᵀ·p, as long as the rank stays.
    fn rule<'r>(&self, inputs: &'r [Tensor], p: &'r Tensor) -> Rule<'r> {
        Rule::Pushforward(Box::new(move |moved| {
            let Some(da) = &moved[0] else { return p.zeros_like() };
            let (a, dat) = (&inputs[0], da.transpose());
            let left = p.matmul(&p.transpose()).matmul(&dat);
            let right = dat.matmul(&p.transpose()).matmul(p);
            let outside = &left - left.matmul(a).matmul(p) + &right - p.matmul(a).matmul(&right);
            outside - p.matmul(da).matmul(p)
        }))
    }
}

impl Tensor {
    /// The pseudoinverse of Moore and Penrose. Singular values are zero if they are below the machine epsilon times
    /// the larger of rows and columns times the largest one; the derivative is that among matrices of this rank.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let a = Tensor::from([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.pinv().to_string(), "[[ 0.5,    0,    0],\n [   0,    0, 0.25]]");
    /// ```
    #[track_caller]
    pub fn pinv(&self) -> Tensor {
        Pseudoinverse { name: "pinv" }.on(&[self], Location::caller())
    }

    /// The x for which `self`·x is nearest to b by the sum of squares, and the shortest of them if there are several;
    /// b is a vector or, with more axes, a stack of matrices.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// // The line through (0, 1), (1, 3) and (2, 5).
    /// let a = Tensor::from([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]);
    /// assert_eq!(a.lstsq(&Tensor::from([1.0, 3.0, 5.0])).to_string(), "[1, 2]");
    /// ```
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor) -> Tensor {
        let origin = Location::caller();
        let name = "lstsq";
        let rows = match sizes(name, self, origin) {
            Ok((rows, _)) => rows,
            Err(failed) => return failed,
        };
        for_vector_or_matrix(b, |b| match sizes(name, b, origin) {
            Ok((others, _)) if others != rows => {
                let message = format!("{rows} equations meet a right-hand side of {others} rows");
                Tensor::refused_at(Error::new(name, message), &[self, b], origin)
            }
            Ok(_) => Pseudoinverse { name }.on(&[self], origin).matmul(b),
            Err(failed) => failed,
        })
    }
}
