//! Systems that are sparse because integers pick what meets: the complement of Schur, by products alone.
//!
//! A point is seen by a few cameras, and no residual has two points, so that the block of the points with themselves is a small
//! matrix for each. They are eliminated exactly; what is left for the cameras, U - W V⁻¹ Wᵀ, would be dense, and is only
//! multiplied with vectors, in the method of conjugate gradients, near to which the blocks of the cameras with
//! themselves are.

use super::block::{Layout, Term};
use super::krylov::{Apply, conjugate_gradients};
use super::solve::{Bounds, Singular, Solver};
use super::structure::Slots;
use super::system::elements;
use crate::error::Error;
use crate::expr::Tensor;

/// The expected number of matrix-vector products, in the comparison with a materialized matrix.
const EXPECTED: f64 = 200.0;
/// The most products.
const MOST: usize = 2_000;
/// The largest number of elements of a matrix that is materialized although products would do.
const MATRIX: f64 = (1_u32 << 24) as f64;
/// The tolerance of the relative residual.
const ENOUGH: f64 = 1e-8;

/// A derivative in several leaves, each solved for itself, of which one is eliminated.
pub(super) struct Reduced {
    leaf: usize,
    /// For each leaf its block with itself, or for those that stay what is near to it.
    solvers: Vec<Solver>,
}

impl Reduced {
    /// The leaf that is eliminated, if the Schur complement is cheaper to apply than to materialize.
    pub(super) fn eliminated(layout: &Layout, factors: &[Tensor], leaf: Option<usize>) -> Option<usize> {
        let leaf = leaf.filter(|_| layout.gathers() && layout.symmetric)?;
        let own = elements(&layout.rows[leaf]) as f64;
        let rest = layout.rows.iter().map(elements).sum::<usize>() as f64 - own;
        let held: usize = factors.iter().map(|factor| factor.shape().elements()).sum();
        let materialized = rest * rest * (own + rest);
        let multiplied = EXPECTED * 8.0 * held as f64;
        (materialized > multiplied || (3.0 * own + rest) * rest > MATRIX).then_some(leaf)
    }

    pub(super) fn of(layout: &Layout, factors: &[Tensor], leaf: usize, bounds: Bounds) -> Result<Reduced, Singular> {
        let solver = |other: usize| {
            let (terms, shape) = (&layout.blocks[other][other], &layout.rows[other].shape);
            // What is near may leave something out, and is a small matrix for each entry then.
            let ties = |term: &&Term| Slots::of(std::slice::from_ref(*term), shape.rank()).rest.len() < shape.rank();
            let tied: Vec<Term> = terms.iter().filter(ties).cloned().collect();
            if other != leaf
                && !tied.is_empty()
                && tied.len() < terms.len()
                && let Ok(near) = Solver::of(&tied, factors, shape, bounds)
            {
                return Ok(near);
            }
            Solver::of(terms, factors, shape, bounds)
        };
        let solvers = (0..layout.rows.len()).map(solver).collect::<Result<_, _>>()?;
        Ok(Reduced { leaf, solvers })
    }

    /// The solution leaf by leaf; nothing if the system is not positive definite.
    pub(super) fn solve(
        &self,
        layout: &Layout,
        right: &[Vec<f64>],
        apply: Apply,
    ) -> Result<Option<Vec<Vec<f64>>>, Error> {
        let sizes: Vec<usize> = layout.columns.iter().map(elements).collect();
        let own = sizes[self.leaf];
        let start: usize = sizes[..self.leaf].iter().sum();
        // The others before and after the leaf, and the leaf, as one vector and apart again.
        let joined = |others: &[f64], leaf: &[f64]| [&others[..start], leaf, &others[start..]].concat();
        let parted =
            |whole: &[f64]| ([&whole[..start], &whole[start + own..]].concat(), whole[start..start + own].to_vec());
        let count = sizes.iter().sum::<usize>() - own;
        let (no_others, no_leaf) = (vec![0.0; count], vec![0.0; own]);
        let solved = |mut leaf: Vec<f64>| {
            self.solvers[self.leaf].solve(&mut leaf, 1);
            leaf
        };
        let complement = |others: &[f64]| -> Result<Vec<f64>, Error> {
            let (mut result, below) = parted(&apply(&joined(others, &no_leaf))?);
            let (back, _) = parted(&apply(&joined(&no_others, &solved(below)))?);
            result.iter_mut().zip(back).for_each(|(a, b)| *a -= b);
            Ok(result)
        };
        let near = |others: &mut Vec<f64>| {
            let mut parts = Vec::with_capacity(others.len());
            let mut rest = &others[..];
            for (leaf, solver) in self.solvers.iter().enumerate().filter(|(leaf, _)| *leaf != self.leaf) {
                let (part, after) = rest.split_at(sizes[leaf]);
                let mut part = part.to_vec();
                solver.solve(&mut part, 1);
                parts.append(&mut part);
                rest = after;
            }
            *others = parts;
        };
        let (mut others, leaf) = parted(&right.concat());
        let (through, _) = parted(&apply(&joined(&no_others, &solved(leaf.clone())))?);
        others.iter_mut().zip(through).for_each(|(b, w)| *b -= w);
        let found = conjugate_gradients(&complement, &near, &others, MOST.min(6 * count))?;
        if found.residual.is_nan() || found.residual > ENOUGH {
            return Ok(None);
        }
        let (_, below) = parted(&apply(&joined(&found.solution, &no_leaf))?);
        let leaf = solved(leaf.iter().zip(below).map(|(b, w)| b - w).collect());
        let whole = joined(&found.solution, &leaf);
        let mut rest = &whole[..];
        let part = |size: &usize| {
            let (part, after) = rest.split_at(*size);
            rest = after;
            part.to_vec()
        };
        Ok(Some(sizes.iter().map(part).collect()))
    }
}
