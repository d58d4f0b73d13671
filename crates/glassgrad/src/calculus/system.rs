//! Systems over the leaves of a tree: one block, a block for each leaf, one leaf eliminated from the others, the whole
//! as one matrix, or products alone.

use super::block::{Layout, LeafSlot, Term, numbers, summed, summed_with_magnitudes};
use super::condition::{is_singular, largest};
use super::dense::{Factors, subtract_product};
use super::krylov::{Apply, minimal_residuals};
use super::schur::Reduced;
use super::solve::{Bounds, Singular, Solver, fits};
use super::structure::{Slots, Way, way};
use crate::error::Error;
use crate::expr::Tensor;
use crate::shape::Shape;

/// How many products an iteration may take at most, for each unknown, and in all.
const PRODUCTS: (usize, usize) = (6, 20_000);

/// A derivative that was factored.
pub(super) enum System {
    /// Each leaf for itself.
    Leaves(Vec<Solver>),
    /// A leaf is eliminated, and what is left for the others is one matrix.
    Eliminated {
        leaf: usize,
        solver: Box<Solver>,
        /// What becomes of the block beside when the leaf is solved for.
        solved: Vec<f64>,
        /// The block below.
        below: Vec<f64>,
        rest: Factors,
        condition: f64,
    },
    Whole(Factors),
    /// A leaf is eliminated block by block, and what is left for the others is solved by products.
    Reduced(Reduced),
    /// Nothing is factored.
    Products,
}

pub(super) fn elements(place: &LeafSlot) -> usize {
    place.shape.elements()
}

/// A matrix row by row, and the magnitudes of the terms that its entries are sums of.
struct Assembled {
    matrix: Vec<f64>,
    magnitudes: Vec<f64>,
}

/// The matrix of some blocks.
fn assembled(
    layout: &Layout,
    factors: &[Tensor],
    rows: &[usize],
    columns: &[usize],
    limit: u128,
) -> Result<Assembled, Singular> {
    let height: usize = rows.iter().map(|row| elements(&layout.rows[*row])).sum();
    let width: usize = columns.iter().map(|column| elements(&layout.columns[*column])).sum();
    fits((height as u128).saturating_mul(width as u128).saturating_mul(2), limit)?;
    let (mut matrix, mut magnitudes) = (vec![0.0; height * width], vec![0.0; height * width]);
    let mut top = 0;
    for row in rows {
        let count = elements(&layout.rows[*row]);
        let mut start = 0;
        for column in columns {
            let own = elements(&layout.columns[*column]);
            let terms = &layout.blocks[*row][*column];
            if !terms.is_empty() && own > 0 {
                let shape = layout.rows[*row].shape.followed_by(&layout.columns[*column].shape);
                let (block, sizes) = summed_with_magnitudes(terms, factors, &shape, |term: &Term| {
                    term.rows.iter().chain(&term.columns).copied().collect()
                })?;
                for line in 0..count {
                    let (from, part) = ((top + line) * width + start, line * own..(line + 1) * own);
                    matrix[from..from + own].copy_from_slice(&block[part.clone()]);
                    let sizes = sizes.as_ref().unwrap_or(&block);
                    let target = magnitudes[from..from + own].iter_mut();
                    target.zip(&sizes[part]).for_each(|(size, number)| *size = number.abs());
                }
            }
            start += own;
        }
        top += count;
    }
    Ok(Assembled { matrix, magnitudes })
}

/// One block as a matrix, row by row.
pub(super) fn dense_block(layout: &Layout, factors: &[Tensor], row: usize, column: usize) -> Result<Vec<f64>, Error> {
    let shape = layout.rows[row].shape.followed_by(&layout.columns[column].shape);
    summed(&layout.blocks[row][column], factors, &shape, |term: &Term| {
        term.rows.iter().chain(&term.columns).copied().collect()
    })
}

/// c -= a·b as [`subtract_product`] does, by the kernels of the tensors if it is worth it.
fn subtract_large_product(c: &mut [f64], a: &[f64], b: &[f64], inner: usize, columns: usize) -> Result<(), Error> {
    if inner * columns < 1 << 12 {
        subtract_product(c, a, b, inner, columns);
        return Ok(());
    }
    let matrix = |elements: &[f64], rows: usize, columns: usize| Tensor::new(elements, [rows, columns]);
    let product = matrix(a, c.len() / columns, inner).matmul(&matrix(b, inner, columns)).eval()?;
    c.iter_mut().zip(numbers(&product).iter()).for_each(|(c, p)| *c -= p);
    Ok(())
}

/// Whether a block is easier to solve than as one matrix.
fn has_structure(terms: &[Term], shape: &Shape) -> bool {
    match way(terms, shape) {
        Way::Zero => false,
        Way::Blocks(slots) => slots.rest.len() < shape.rank() || shape.elements() <= 1,
        Way::Kronecker(..) | Way::Kroneckers(..) => true,
        Way::LowRank(base, ..) => !base.is_empty(),
    }
}

/// The largest leaf whose block with itself is easier to solve than as one matrix.
fn largest_structured(layout: &Layout) -> Option<usize> {
    let structured = |leaf: &usize| has_structure(&layout.blocks[*leaf][*leaf], &layout.rows[*leaf].shape);
    (0..layout.rows.len()).filter(structured).max_by_key(|leaf| elements(&layout.rows[*leaf]))
}

impl System {
    /// The whole as one matrix.
    pub(super) fn whole(layout: &Layout, factors: &[Tensor], bounds: Bounds) -> Result<System, Singular> {
        let all = |places: &[LeafSlot]| places.iter().map(elements).sum::<usize>();
        let (rows, columns) = (all(&layout.rows), all(&layout.columns));
        if rows != columns {
            return Err(Singular::Yes(format!("it has {rows} rows and {columns} columns")));
        }
        let everything: (Vec<usize>, Vec<usize>) =
            ((0..layout.rows.len()).collect(), (0..layout.columns.len()).collect());
        let Assembled { matrix, magnitudes } = assembled(layout, factors, &everything.0, &everything.1, bounds.limit)?;
        Ok(System::Whole(Factors::with_magnitudes(rows, matrix, Some(&magnitudes), bounds.unit)?))
    }

    pub(super) fn of(layout: &Layout, factors: &[Tensor], bounds: Bounds) -> Result<System, Singular> {
        let count = layout.rows.len();
        let same = count == layout.columns.len()
            && layout.rows.iter().zip(&layout.columns).all(|(row, column)| row.shape == column.shape);
        if !same {
            return System::whole(layout, factors, bounds);
        }
        let alone = |leaf: usize| (0..count).all(|other| other == leaf || layout.blocks[leaf][other].is_empty());
        let found = if (0..count).all(alone) {
            let solver =
                |leaf: usize| Solver::of(&layout.blocks[leaf][leaf], factors, &layout.rows[leaf].shape, bounds);
            (0..count).map(solver).collect::<Result<Vec<_>, _>>().map(System::Leaves)
        } else if let Some(leaf) = Reduced::eliminated(layout, factors, largest_structured(layout)) {
            Reduced::of(layout, factors, leaf, bounds).map(System::Reduced)
        } else {
            System::eliminated(layout, factors, bounds)
        };
        match found {
            // Where factors do not fit, products with vectors may still do.
            Err(Singular::TooLarge(_)) if layout.symmetric => Ok(System::Products),
            found => found,
        }
    }

    /// The largest leaf with structure is eliminated from the others, unless that would amplify rounding errors.
    fn eliminated(layout: &Layout, factors: &[Tensor], bounds: Bounds) -> Result<System, Singular> {
        let whole = || System::whole(layout, factors, bounds);
        let Some(leaf) = largest_structured(layout) else { return whole() };
        match System::without(layout, factors, leaf, bounds) {
            Ok(system) if !is_singular(system.condition(), bounds.unit) => Ok(system),
            Ok(_) => whole(),
            // A part may be singular, or seem so, where the whole is not.
            Err(Singular::Yes(why)) => match whole() {
                Err(Singular::TooLarge(_)) => Err(Singular::Yes(why)),
                found => found,
            },
            Err(other) => Err(other),
        }
    }

    /// A leaf is eliminated, and the Schur complement factored.
    fn without(layout: &Layout, factors: &[Tensor], leaf: usize, bounds: Bounds) -> Result<System, Singular> {
        let total: usize = layout.rows.iter().map(elements).sum();
        let others: Vec<usize> = (0..layout.rows.len()).filter(|other| *other != leaf).collect();
        let (own, rest) = (elements(&layout.rows[leaf]), total - elements(&layout.rows[leaf]));
        let room = (3 * own as u128 + 2 * rest as u128).saturating_mul(rest as u128);
        fits(room, bounds.limit)?;
        let solver = Solver::of(&layout.blocks[leaf][leaf], factors, &layout.rows[leaf].shape, bounds)?;
        let mut solved = assembled(layout, factors, &[leaf], &others, bounds.limit)?.matrix;
        let below = assembled(layout, factors, &others, &[leaf], bounds.limit)?.matrix;
        solver.solve(&mut solved, rest);
        let Assembled { matrix: mut complement, mut magnitudes } =
            assembled(layout, factors, &others, &others, bounds.limit)?;
        subtract_large_product(&mut complement, &below, &solved, own, rest)?;
        let absolute = |numbers: &[f64], sign: f64| numbers.iter().map(|n| sign * n.abs()).collect::<Vec<f64>>();
        subtract_large_product(&mut magnitudes, &absolute(&below, -1.0), &absolute(&solved, 1.0), own, rest)?;
        let unit = bounds.unit * solver.condition();
        let rest = Factors::with_magnitudes(rest, complement, Some(&magnitudes), unit)?;
        // Errors of the leaf that is eliminated enter the complement.
        let condition = solver.condition() * rest.condition;
        Ok(System::Eliminated { leaf, solver: Box::new(solver), solved, below, rest, condition })
    }

    /// By how much rounding errors of the entries are amplified, at most about; NaN if nothing was factored.
    pub(super) fn condition(&self) -> f64 {
        match self {
            System::Leaves(solvers) => solvers.iter().fold(1.0, |all, solver| largest(all, solver.condition())),
            System::Eliminated { condition, .. } => *condition,
            System::Whole(factors) => factors.condition,
            System::Reduced(_) | System::Products => f64::NAN,
        }
    }

    /// Whether the factorisation is one that can lose accuracy which a dense one keeps.
    pub(super) fn is_structured(&self) -> bool {
        match self {
            System::Leaves(solvers) => solvers.iter().any(Solver::is_structured),
            System::Eliminated { .. } => true,
            System::Whole(_) | System::Reduced(_) | System::Products => false,
        }
    }

    /// Whether the solution needs no check: each element is divided by a number, or an iteration ended by its residual.
    pub(super) fn needs_no_check(&self) -> bool {
        match self {
            System::Leaves(solvers) => solvers.iter().all(Solver::is_elementwise),
            System::Reduced(_) | System::Products => true,
            System::Eliminated { .. } | System::Whole(_) => false,
        }
    }

    /// The solution for one right-hand side, leaf by leaf.
    pub(super) fn solve(
        &self,
        layout: &Layout,
        mut right: Vec<Vec<f64>>,
        apply: Apply,
    ) -> Result<Vec<Vec<f64>>, Singular> {
        let split = |whole: Vec<f64>| -> Vec<Vec<f64>> {
            let mut rest = &whole[..];
            let mut parts = Vec::new();
            for place in &layout.columns {
                let (own, after) = rest.split_at(elements(place));
                parts.push(own.to_vec());
                rest = after;
            }
            parts
        };
        match self {
            System::Leaves(solvers) => {
                solvers.iter().zip(&mut right).for_each(|(solver, right)| solver.solve(right, 1));
                Ok(right)
            }
            System::Eliminated { leaf, solver, solved, below, rest, .. } => {
                let mut own = std::mem::take(&mut right[*leaf]);
                solver.solve(&mut own, 1);
                let mut others: Vec<f64> = right.concat();
                subtract_product(&mut others, below, &own, own.len(), 1);
                rest.solve(&mut others, &mut Vec::new());
                subtract_product(&mut own, solved, &others, others.len(), 1);
                let mut whole = Vec::new();
                let mut after = &others[..];
                for (place, of) in layout.columns.iter().enumerate() {
                    if place == *leaf {
                        whole.push(own.clone());
                    } else {
                        let (part, next) = after.split_at(elements(of));
                        whole.push(part.to_vec());
                        after = next;
                    }
                }
                Ok(whole)
            }
            System::Whole(factors) => {
                let mut whole = right.concat();
                factors.solve(&mut whole, &mut Vec::new());
                Ok(split(whole))
            }
            System::Reduced(reduced) => match reduced.solve(layout, &right, apply)? {
                Some(solution) => Ok(solution),
                None => System::Products.solve(layout, right, apply),
            },
            System::Products => {
                let whole = right.concat();
                let most = (PRODUCTS.0 * whole.len()).min(PRODUCTS.1);
                let found = minimal_residuals(apply, &whole, most)?;
                if found.residual > 1e-8 || found.residual.is_nan() {
                    return Err(Singular::Yes(format!(
                        "after {} products with vectors a residual of {:.1e} is left, so it is singular or nearly so",
                        found.iterations, found.residual
                    )));
                }
                Ok(split(found.solution))
            }
        }
    }

    /// The sign of the determinant, and the logarithm of its magnitude; nothing if nothing was factored.
    pub(super) fn determinant(&self) -> Option<(f64, f64)> {
        let product = |a: (f64, f64), b: (f64, f64)| (a.0 * b.0, a.1 + b.1);
        match self {
            System::Leaves(solvers) => {
                Some(solvers.iter().fold((1.0, 0.0), |all, solver| product(all, solver.determinant())))
            }
            System::Eliminated { solver, rest, .. } => Some(product(solver.determinant(), rest.determinant())),
            System::Whole(factors) => Some(factors.determinant()),
            System::Reduced(_) | System::Products => None,
        }
    }

    /// How the system is solved, in a few words.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            System::Leaves(solvers) => match &solvers[..] {
                [Solver::Blocks { slots: Slots { rest, .. }, .. }] if rest.is_empty() => "element by element",
                [Solver::Blocks { .. }] => "block by block",
                [Solver::Kronecker { .. }] => "factor by factor of a Kronecker product",
                [Solver::Kroneckers { .. }] => "by the eigenvalues of two Kronecker products",
                [Solver::LowRank { .. }] => "by the base, corrected by low rank",
                _ => "leaf by leaf",
            },
            System::Eliminated { .. } => "one leaf eliminated, the others as one matrix",
            System::Whole(_) => "as one matrix",
            System::Reduced(_) => "one leaf eliminated block by block, the others by products with vectors",
            System::Products => "by products with vectors",
        }
    }
}
