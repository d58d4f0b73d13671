//! Householder reflections, applied many at a time.

use std::ops::Range;

use crate::gemm::multiply_add;
use crate::matrix::Matrix;
use crate::rotations::TINY;
use crate::simd::norm;

/// The reflections that are applied together.
const BLOCK: usize = 32;

/// Replaces x by the v of the reflection 1 - τ·v·vᵀ that maps it to β times the first unit vector, and returns τ and β. The
/// first element of v is 1. What is such a multiple already stays as it is, with τ = 0.
#[inline(always)]
pub(crate) fn reflection(x: &mut [f64]) -> (f64, f64) {
    // Subnormal numbers have too few digits for a vector of length 1: they are scaled up first.
    let size = norm(x);
    if size < TINY && size > 0.0 {
        x.iter_mut().for_each(|x| *x /= TINY);
        let (factor, beta) = normal_reflection(x);
        return (factor, beta * TINY);
    }
    normal_reflection(x)
}

#[inline(always)]
fn normal_reflection(x: &mut [f64]) -> (f64, f64) {
    let Some((first, rest)) = x.split_first_mut() else { return (0.0, 0.0) };
    let (head, tail) = (*first, norm(rest));
    *first = 1.0;
    if tail == 0.0 {
        return (0.0, head);
    }
    // The sign without cancellation.
    let beta = -head.hypot(tail).copysign(head);
    let scale = head - beta;
    rest.iter_mut().for_each(|x| *x /= scale);
    ((beta - head) / beta, beta)
}

/// A product of reflections h₀·h₁·…, whose vectors are the columns of a matrix: column k begins with a 1 in row
/// k + shift, behind zeros.
pub(crate) struct Reflections {
    pub(crate) vectors: Matrix,
    pub(crate) factors: Vec<f64>,
    pub(crate) shift: usize,
}

impl Reflections {
    /// Room for `count` reflections of vectors of `rows` elements.
    pub(crate) fn new(rows: usize, count: usize, shift: usize) -> Reflections {
        Reflections { vectors: Matrix::zeros(rows, count), factors: vec![0.0; count], shift }
    }

    /// Notes the next reflection; the vector has the elements from its row on.
    #[inline(always)]
    pub(crate) fn set(&mut self, number: usize, vector: &[f64], factor: f64) {
        for (i, element) in vector.iter().enumerate() {
            self.vectors[(number + self.shift + i, number)] = *element;
        }
        self.factors[number] = factor;
    }

    /// `x = h₀·h₁·…·x`.
    pub(crate) fn apply(&self, x: &mut Matrix) {
        let count = self.factors.len();
        for block in (0..count.div_ceil(BLOCK)).rev() {
            let numbers = block * BLOCK..((block + 1) * BLOCK).min(count);
            let columns = 0..x.columns();
            self.apply_block(numbers, false, x, columns);
        }
    }

    /// Applies some of the reflections, or the transpose of their product, to columns of a matrix: 1 - v·t·vᵀ.
    pub(crate) fn apply_block(&self, numbers: Range<usize>, transposed: bool, x: &mut Matrix, columns: Range<usize>) {
        let (first, count) = (numbers.start + self.shift, numbers.len());
        let rows = first.min(self.vectors.rows())..self.vectors.rows();
        let v = self.vectors.view(rows.clone(), numbers.clone());
        let mut products = Matrix::zeros(count, count);
        multiply_add(products.view_mut(0..count, 0..count), 1.0, v.transposed(), v);
        // Column k of t: -τₖ·t·vᵀvₖ above τₖ.
        let mut t = Matrix::zeros(count, count);
        for k in 0..count {
            let factor = self.factors[numbers.start + k];
            for i in 0..k {
                let sum: f64 = (i..k).map(|j| t[(i, j)] * products[(j, k)]).sum();
                t[(i, k)] = -factor * sum;
            }
            t[(k, k)] = factor;
        }
        let mut inner = Matrix::zeros(count, columns.len());
        let all = 0..columns.len();
        multiply_add(inner.view_mut(0..count, all.clone()), 1.0, v.transposed(), x.view(rows.clone(), columns.clone()));
        let mut weighted = Matrix::zeros(count, columns.len());
        let t = t.view(0..count, 0..count);
        let t = if transposed { t.transposed() } else { t };
        multiply_add(weighted.view_mut(0..count, all.clone()), 1.0, t, inner.view(0..count, all.clone()));
        multiply_add(x.view_mut(rows, columns), -1.0, v, weighted.view(0..count, all));
    }
}
