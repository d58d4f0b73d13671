//! The extreme eigenvalues of a Hessian, by which optimizers distinguish minima from saddle points.

use super::block::numbers;
use super::dense::symmetric_eigen;
use super::storage::Held;
use super::system::elements;
use super::value::Hessian;
use crate::error::Error;
use crate::rng::Key;
use crate::tree::Tree;

/// Up to this size the dense matrix is diagonalised; above, the Lanczos iteration estimates the ends of the spectrum.
const DENSE: usize = 64;

/// The ends of a spectrum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spectrum {
    /// The smallest eigenvalue. By the Lanczos iteration it is a bound from above.
    pub(crate) lowest: f64,
    /// The largest magnitude of an eigenvalue.
    pub(crate) largest: f64,
}

impl<X: Tree> Hessian<X> {
    /// The ends of the spectrum, with a bounded number of matrix-vector products if the matrix is large. Of an empty matrix both are zero,
    /// and of one that is not finite NaN.
    pub(crate) fn spectrum(&self, products: usize) -> Result<Spectrum, Error> {
        let held = self.held().in_double();
        let size: usize = held.layout.columns.iter().map(elements).sum();
        let (diagonal, count) = if size <= DENSE { dense(&held, size)? } else { lanczos(&held, size, products)? };
        let Some((values, _)) = symmetric_eigen(diagonal, count) else {
            return Ok(Spectrum { lowest: f64::NAN, largest: f64::NAN });
        };
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        Ok(Spectrum { lowest: if count == 0 { 0.0 } else { lowest }, largest })
    }
}

/// The symmetric part of the whole matrix.
fn dense(held: &Held, size: usize) -> Result<(Vec<f64>, usize), Error> {
    let array = held.dense()?.eval()?;
    let whole = numbers(&array);
    let entry = |place: usize| 0.5 * (whole[place] + whole[place % size * size + place / size]);
    let matrix = (0..size * size).map(entry).collect();
    Ok((matrix, size))
}

/// The tridiagonal matrix of the Lanczos iteration from a random vector, with full reorthogonalisation.
fn lanczos(held: &Held, size: usize, products: usize) -> Result<(Vec<f64>, usize), Error> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let key = Key::new(0x5eed);
    let mut vector: Vec<f64> = (0..size).map(|place| key.normal(place as u64)).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let (mut diagonal, mut beside): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for _ in 0..products.clamp(1, size) {
        let length = dot(&vector, &vector).sqrt();
        let scale = diagonal.iter().fold(0.0_f64, |scale, value: &f64| scale.max(value.abs()));
        // The basis spans an invariant subspace, which a random vector leaves only if it is all that matters.
        if !length.is_finite() || !basis.is_empty() && length <= 1e-12 * scale {
            break;
        }
        if !basis.is_empty() {
            beside.push(length);
        }
        vector.iter_mut().for_each(|number| *number /= length);
        let mut next = held.apply(&vector)?;
        diagonal.push(dot(&vector, &next));
        basis.push(vector);
        for _ in 0..2 {
            for own in &basis {
                let part = dot(own, &next);
                next.iter_mut().zip(own).for_each(|(number, own)| *number -= part * own);
            }
        }
        vector = next;
    }
    let count = diagonal.len();
    let mut matrix = vec![0.0; count * count];
    for k in 0..count {
        matrix[k * count + k] = diagonal[k];
        if k + 1 < count {
            matrix[k * count + k + 1] = beside[k];
            matrix[(k + 1) * count + k] = beside[k];
        }
    }
    Ok((matrix, count))
}
