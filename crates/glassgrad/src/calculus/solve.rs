//! Solving by structure: blocks, Kronecker products and low rank, one block of a derivative at a time.

use super::block::{Term, summed, summed_with_magnitudes};
use super::condition::{is_singular, largest};
use super::dense::{Factors, permuted, subtract_product, transposed_product};
use super::kroneckers::Diagonalised;
use super::structure::{Cut, Slots, Way, way};
use crate::einsum::Label;
use crate::error::Error;
use crate::expr::Tensor;
use crate::opt::contract::metric;
use crate::shape::Shape;

/// Why a system has no solution here.
#[derive(Clone, Debug)]
pub(super) enum Singular {
    /// It is singular, or cannot be distinguished from a singular system, and why.
    Yes(String),
    /// An entry is not finite.
    NotFinite,
    /// The materialised matrix would need this many bytes.
    TooLarge(u128),
    /// Computing what is held failed.
    Failed(Error),
}

impl Singular {
    pub(super) fn at_pivot(place: usize, size: usize) -> Singular {
        Singular::Yes(format!("pivot {place} of a {size}×{size} system vanishes"))
    }

    pub(super) fn ill_conditioned(condition: f64, size: usize) -> Singular {
        let number = if condition.is_nan() { "infinite".to_owned() } else { format!("{condition:.1e}") };
        Singular::Yes(format!(
            "the condition number of a {size}×{size} system is {number}, so that nothing is left of its solution but \
             rounding errors"
        ))
    }

    /// The error that people see.
    pub(super) fn into_error(self, operation: &str, limit: u128) -> Error {
        match self {
            Singular::Yes(why) => Error::new(operation, format!("the system is singular: {why}"))
                .help("add a multiple of the identity to the function, for example a ridge penalty"),
            Singular::NotFinite => Error::new(operation, "the system is not finite"),
            Singular::TooLarge(bytes) => {
                let message = format!("it needs {} at once", metric(bytes, "B"));
                Error::new(operation, message)
                    .help(format!("the limit is {}; raise it with .limit(bytes)", metric(limit, "B")))
            }
            Singular::Failed(error) => error,
        }
    }
}

impl From<Error> for Singular {
    fn from(error: Error) -> Singular {
        Singular::Failed(error)
    }
}

/// What bounds a factorisation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most bytes that may be materialised.
    pub(super) limit: u128,
    /// The unit of the rounding errors that factors carry, which is that of their element type.
    pub(super) unit: f64,
}

/// A block that was factored.
pub(super) enum Solver {
    /// A block without elements.
    Empty,
    Blocks {
        shape: Shape,
        slots: Slots,
        blocks: Blocks,
        condition: f64,
    },
    Kronecker {
        shape: Shape,
        slots: Slots,
        /// The slots of rows and columns of each matrix, and its factors.
        parts: Vec<(Vec<usize>, Vec<usize>, Factors)>,
    },
    Kroneckers {
        shape: Shape,
        slots: Slots,
        pair: Diagonalised,
    },
    LowRank {
        base: Box<Solver>,
        rank: usize,
        /// The base applied to the left side, and the right side, with a column for each of the rank.
        solved: Vec<f64>,
        right: Vec<f64>,
        inner: Factors,
        condition: f64,
    },
}

/// The systems of blocks: single numbers, or factors.
pub(super) enum Blocks {
    Numbers(Vec<f64>),
    Factored(Vec<Factors>),
}

impl Solver {
    /// Factors a block by its structure. A structured factorisation that would amplify rounding errors gives way to a
    /// dense one where that fits.
    pub(super) fn of(terms: &[Term], factors: &[Tensor], shape: &Shape, bounds: Bounds) -> Result<Solver, Singular> {
        if shape.elements() == 0 {
            return Ok(Solver::Empty);
        }
        // Axes of extent 1 say nothing about the structure.
        let (terms, shape) = (&terms.iter().map(|term| term.squeezed(shape)).collect::<Vec<_>>()[..], &squeezed(shape));
        let dense = || Solver::blocks(terms, factors, shape, Slots::of(terms, shape.rank()), bounds);
        let structured = match way(terms, shape) {
            Way::Zero => return Err(Singular::Yes("it is zero".to_owned())),
            Way::Blocks(slots) => return Solver::blocks(terms, factors, shape, slots, bounds),
            Way::Kronecker(slots, parts) => {
                let term = &terms[0];
                let mut found = Vec::new();
                for (number, part) in parts.into_iter().enumerate() {
                    let size: usize = part.rows.iter().map(|slot| shape[*slot]).product();
                    fits((size as u128).saturating_mul(size as u128), bounds.limit)?;
                    let own = Term {
                        // The number in front belongs to the first matrix.
                        coefficient: if number == 0 { term.coefficient } else { 1.0 },
                        factors: part.factors.iter().map(|place| term.factors[*place].clone()).collect(),
                        ..term.clone()
                    };
                    let labels: Vec<Label> = (part.rows.iter().map(|slot| term.rows[*slot]))
                        .chain(part.columns.iter().map(|slot| term.columns[*slot]))
                        .collect();
                    let matrix = summed(&[own], factors, &extents(term, &labels), |_| labels.clone())?;
                    found.push((part.rows, part.columns, Factors::of(size, matrix)?));
                }
                return Ok(Solver::Kronecker { shape: shape.clone(), slots, parts: found });
            }
            Way::Kroneckers(slots, pair) => Diagonalised::of(&pair, terms, factors, shape)
                .map(|found| found.map(|pair| Solver::Kroneckers { shape: shape.clone(), slots, pair })),
            Way::LowRank(base, _, rank) if base.is_empty() => {
                let size = shape.elements();
                return Err(Singular::Yes(format!("its rank is at most {rank}, and it has {size} rows")));
            }
            Way::LowRank(base, low, rank) => {
                let base: Vec<Term> = base.iter().map(|place| terms[*place].clone()).collect();
                let low: Vec<(&Term, Cut)> = low.into_iter().map(|(place, cut)| (&terms[place], cut)).collect();
                Solver::low_rank(&base, &low, rank, factors, shape, bounds).map(Some)
            }
        };
        match structured {
            Ok(Some(solver)) if !is_singular(solver.condition(), bounds.unit) => Ok(solver),
            Ok(Some(solver)) => match dense() {
                Err(Singular::TooLarge(_)) => Err(Singular::ill_conditioned(solver.condition(), shape.elements())),
                dense => dense,
            },
            Ok(None) => dense(),
            // A part may be singular, or seem so, where the whole is not.
            Err(Singular::Yes(why)) => match dense() {
                Err(Singular::TooLarge(_)) => Err(Singular::Yes(why)),
                dense => dense,
            },
            Err(other) => Err(other),
        }
    }

    /// The base D and a correction of low rank L·Rᵀ, by the formula of Woodbury.
    fn low_rank(
        base: &[Term],
        low: &[(&Term, Cut)],
        rank: usize,
        factors: &[Tensor],
        shape: &Shape,
        bounds: Bounds,
    ) -> Result<Solver, Singular> {
        let size = shape.elements();
        let elements = (3 * size as u128 + rank as u128).saturating_mul(rank as u128);
        fits(elements, bounds.limit)?;
        let base = Solver::of(base, factors, shape, bounds)?;
        let (left, right) = sides(low, factors, size, rank)?;
        let mut solved = left;
        base.solve(&mut solved, rank);
        // The capacitance matrix I + RᵀD⁻¹L; what stands between the sides is never inverted, for it may be singular.
        let mut inner = transposed_product(&right, &solved, size, rank, rank);
        let absolute = |numbers: &[f64]| numbers.iter().map(|number| number.abs()).collect::<Vec<f64>>();
        let mut magnitudes = transposed_product(&absolute(&right), &absolute(&solved), size, rank, rank);
        for k in 0..rank {
            inner[k * rank + k] += 1.0;
            magnitudes[k * rank + k] += 1.0;
        }
        let inner = Factors::with_magnitudes(rank, inner, Some(&magnitudes), bounds.unit * base.condition())?;
        // Errors of the base enter the capacitance matrix.
        let condition = base.condition() * inner.condition;
        Ok(Solver::LowRank { base: Box::new(base), rank, solved, right, inner, condition })
    }

    fn blocks(
        terms: &[Term],
        factors: &[Tensor],
        shape: &Shape,
        slots: Slots,
        bounds: Bounds,
    ) -> Result<Solver, Singular> {
        let (count, size) = (slots.count(&slots.dependent, shape), slots.count(&slots.rest, shape));
        if count * size == 0 {
            return Ok(Solver::Empty);
        }
        fits((count as u128).saturating_mul(size as u128).saturating_mul(size as u128), bounds.limit)?;
        let sizes: Vec<usize> =
            slots.dependent.iter().chain(&slots.rest).chain(&slots.rest).map(|slot| shape[*slot]).collect();
        let output = |term: &Term| -> Vec<Label> {
            let rows = slots.dependent.iter().chain(&slots.rest).map(|slot| term.rows[*slot]);
            rows.chain(slots.rest.iter().map(|slot| term.columns[*slot])).collect()
        };
        let (numbers, magnitudes) = summed_with_magnitudes(terms, factors, &Shape::from(sizes), output)?;
        let (blocks, condition) = if size == 1 {
            let mut condition = 1.0;
            for (place, number) in numbers.iter().enumerate() {
                let own = magnitudes.as_ref().map_or(1.0, |magnitudes| magnitudes[place] / number.abs());
                if !number.is_finite() {
                    return Err(Singular::NotFinite);
                }
                if *number == 0.0 {
                    return Err(Singular::Yes(format!("element {place} of its diagonal is zero")));
                }
                if is_singular(own, bounds.unit) {
                    return Err(Singular::Yes(format!("element {place} of its diagonal is a rounding error")));
                }
                condition = largest(condition, own);
            }
            (Blocks::Numbers(numbers), condition)
        } else {
            let area = size * size;
            let mut systems = Vec::with_capacity(count);
            for (place, block) in numbers.chunks_exact(area).enumerate() {
                let own = magnitudes.as_ref().map(|magnitudes| &magnitudes[place * area..(place + 1) * area]);
                systems.push(Factors::with_magnitudes(size, block.to_vec(), own, bounds.unit)?);
            }
            let condition = systems.iter().fold(1.0, |all, factors| largest(all, factors.condition));
            (Blocks::Factored(systems), condition)
        };
        Ok(Solver::Blocks { shape: shape.clone(), slots, blocks, condition })
    }

    /// By how much rounding errors of the entries are amplified, at most about.
    pub(super) fn condition(&self) -> f64 {
        match self {
            Solver::Empty => 1.0,
            Solver::Blocks { condition, .. } | Solver::LowRank { condition, .. } => *condition,
            Solver::Kronecker { parts, .. } => parts.iter().map(|(.., factors)| factors.condition).sum(),
            Solver::Kroneckers { pair, .. } => pair.condition,
        }
    }

    /// Whether the factorisation is one that can lose accuracy which a dense one keeps.
    pub(super) fn is_structured(&self) -> bool {
        matches!(self, Solver::Kroneckers { .. } | Solver::LowRank { .. })
    }

    /// Whether each element is divided by a number, and nothing else happens.
    pub(super) fn is_elementwise(&self) -> bool {
        matches!(self, Solver::Empty | Solver::Blocks { blocks: Blocks::Numbers(_), .. })
    }

    /// Solves for some right-hand sides, which lie beside one another along the last axis.
    pub(super) fn solve(&self, right: &mut Vec<f64>, count: usize) {
        let mut scratch = Vec::new();
        match self {
            Solver::Empty => {}
            Solver::Blocks { shape, slots, blocks, .. } => {
                let order: Vec<usize> =
                    slots.dependent.iter().chain(&slots.rest).chain(&slots.independent).copied().collect();
                let beside = slots.count(&slots.independent, shape) * count;
                if let (Blocks::Factored(systems), [_, ..], true) =
                    (blocks, &slots.independent[..], slots.repeat_rows(shape.rank()) && count == 1)
                {
                    return systems[0].solve_rows(right);
                }
                with_order(right, shape, &order, &order, count, |right| match blocks {
                    Blocks::Numbers(numbers) => {
                        for (row, number) in right.chunks_exact_mut(beside.max(1)).zip(numbers) {
                            row.iter_mut().for_each(|element| *element /= number);
                        }
                    }
                    Blocks::Factored(systems) => {
                        let size = slots.count(&slots.rest, shape) * beside;
                        for (part, factors) in right.chunks_exact_mut(size.max(1)).zip(systems) {
                            factors.solve(part, &mut scratch);
                        }
                    }
                });
            }
            Solver::Kronecker { shape, parts, .. } => {
                // Axes carry the number of the slot that they belong to, of a row until they are solved.
                let mut axes: Vec<(bool, usize)> = (0..shape.rank()).map(|slot| (false, slot)).collect();
                let mut sizes: Vec<usize> = shape.to_vec();
                for (rows, columns, factors) in parts {
                    let leading = |axis: &(bool, usize)| !axis.0 && rows.contains(&axis.1);
                    let place = |slot: &usize| axes.iter().position(|axis| *axis == (false, *slot)).unwrap_or_default();
                    let order: Vec<usize> =
                        rows.iter().map(place).chain((0..axes.len()).filter(|k| !leading(&axes[*k]))).collect();
                    let all: Vec<usize> = sizes.iter().copied().chain([count]).collect();
                    *right = permuted(right, &all, &[&order[..], &[axes.len()]].concat());
                    factors.solve(right, &mut scratch);
                    let others = order[rows.len()..].to_vec();
                    axes = columns.iter().map(|slot| (true, *slot)).chain(others.iter().map(|k| axes[*k])).collect();
                    sizes = columns.iter().map(|slot| shape[*slot]).chain(others.iter().map(|k| sizes[*k])).collect();
                }
                let place = |slot: usize| {
                    let of = |solved: bool| axes.iter().position(|axis| *axis == (solved, slot));
                    of(true).or(of(false)).unwrap_or_default()
                };
                let order: Vec<usize> = (0..axes.len()).map(place).chain([axes.len()]).collect();
                sizes.push(count);
                *right = permuted(right, &sizes, &order);
            }
            Solver::Kroneckers { shape, pair, .. } => pair.solve(right, shape, count),
            Solver::LowRank { base, rank, solved, right: side, inner, .. } => {
                base.solve(right, count);
                let rows = side.len() / (*rank).max(1);
                let mut middle = transposed_product(side, right, rows, *rank, count);
                inner.solve(&mut middle, &mut scratch);
                subtract_product(right, solved, &middle, *rank, count);
            }
        }
    }

    /// The sign of the determinant, and the logarithm of its magnitude.
    pub(super) fn determinant(&self) -> (f64, f64) {
        let power = |(sign, log): (f64, f64), times: usize| {
            (if times.is_multiple_of(2) { 1.0 } else { sign }, log * times as f64)
        };
        let product = |a: (f64, f64), b: (f64, f64)| (a.0 * b.0, a.1 + b.1);
        match self {
            Solver::Empty => (1.0, 0.0),
            Solver::Blocks { shape, slots, blocks, .. } => {
                let copies = slots.count(&slots.independent, shape);
                let each = match blocks {
                    Blocks::Numbers(numbers) => numbers
                        .iter()
                        .fold((1.0, 0.0), |all, number| product(all, (number.signum(), number.abs().ln()))),
                    Blocks::Factored(systems) => {
                        systems.iter().fold((1.0, 0.0), |all, factors| product(all, factors.determinant()))
                    }
                };
                power(each, copies)
            }
            Solver::Kronecker { shape, slots, parts } => {
                let size = shape.elements();
                let mut all = (1.0, 0.0);
                let rest: Vec<usize> = slots.dependent.iter().chain(&slots.independent).copied().collect();
                let (mut rows, mut columns) = (Vec::new(), Vec::new());
                for (own, other, factors) in parts {
                    let part: usize = own.iter().map(|slot| shape[*slot]).product();
                    all = product(all, power(factors.determinant(), size / part.max(1)));
                    rows.extend_from_slice(own);
                    columns.extend_from_slice(other);
                }
                rows.extend_from_slice(&rest);
                columns.extend_from_slice(&rest);
                (all.0 * parity(shape, &rows) * parity(shape, &columns), all.1)
            }
            Solver::Kroneckers { shape, slots, pair } => {
                let rest: Vec<usize> = slots.independent.clone();
                let (rows, columns) = pair.sides();
                let (sign, logarithm) = power(pair.determinant(), slots.count(&rest, shape));
                let turned = parity(shape, &[rows, rest.clone()].concat()) * parity(shape, &[columns, rest].concat());
                (sign * turned, logarithm)
            }
            Solver::LowRank { base, inner, .. } => product(base.determinant(), inner.determinant()),
        }
    }
}

/// The sign of a permutation of axes as one of elements.
fn parity(shape: &Shape, order: &[usize]) -> f64 {
    let count = shape.elements();
    let places: Vec<f64> = (0..count).map(|place| place as f64).collect();
    let moved = permuted(&places, shape, order);
    let (mut seen, mut cycles) = (vec![false; count], 0);
    for start in 0..count {
        let mut place = start;
        cycles += usize::from(!seen[start]);
        while !seen[place] {
            seen[place] = true;
            place = moved[place] as usize;
        }
    }
    if (count - cycles).is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// Whether this many 64-bit numbers may be materialised.
pub(super) fn fits(elements: u128, limit: u128) -> Result<(), Singular> {
    let bytes = elements.saturating_mul(8);
    if bytes > limit { Err(Singular::TooLarge(bytes)) } else { Ok(()) }
}

/// A shape without its axes of extent 1.
pub(super) fn squeezed(shape: &Shape) -> Shape {
    shape.iter().copied().filter(|extent| *extent != 1).collect()
}

fn extents(term: &Term, labels: &[Label]) -> Shape {
    labels.iter().map(|label| term.extents[*label]).collect()
}

/// Works on right-hand sides with their axes in another order, and puts them back.
fn with_order(
    right: &mut Vec<f64>,
    shape: &Shape,
    order: &[usize],
    after: &[usize],
    count: usize,
    work: impl FnOnce(&mut Vec<f64>),
) {
    let rank = order.len();
    let sizes: Vec<usize> = shape.iter().copied().chain([count]).collect();
    let whole: Vec<usize> = order.iter().copied().chain([rank]).collect();
    if whole.is_sorted() {
        return work(right);
    }
    let mut moved = permuted(right, &sizes, &whole);
    work(&mut moved);
    let moved_sizes: Vec<usize> = whole.iter().map(|axis| sizes[*axis]).collect();
    let place = |slot: usize| after.iter().position(|own| *own == slot).unwrap_or(rank);
    let back: Vec<usize> = (0..=rank).map(place).collect();
    *right = permuted(&moved, &moved_sizes, &back);
}

/// The two sides of terms of low rank, one column for each of the rank.
fn sides(low: &[(&Term, Cut)], factors: &[Tensor], size: usize, rank: usize) -> Result<(Vec<f64>, Vec<f64>), Singular> {
    let (mut left, mut right) = (vec![0.0; size * rank], vec![0.0; size * rank]);
    let mut start = 0;
    for (term, cut) in low {
        let side = |members: &[usize], slots: &[Label], coefficient: f64| -> Result<Vec<f64>, Error> {
            let own = Term {
                coefficient,
                factors: members.iter().map(|place| term.factors[*place].clone()).collect(),
                ..(*term).clone()
            };
            let labels: Vec<Label> = slots.iter().chain(&cut.labels).copied().collect();
            summed(&[own], factors, &extents(term, &labels), |_| labels.clone())
        };
        for (whole, part) in [
            (&mut left, side(&cut.left, &term.rows, term.coefficient)?),
            (&mut right, side(&cut.right, &term.columns, 1.0)?),
        ] {
            for row in 0..size {
                let own = &part[row * cut.rank..(row + 1) * cut.rank];
                whole[row * rank + start..row * rank + start + cut.rank].copy_from_slice(own);
            }
        }
        start += cut.rank;
    }
    Ok((left, right))
}
