//! Solving by structure: blocks, Kronecker products and low rank, one block of a derivative at a time.

use super::block::{Term, summed};
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
    /// It is singular, and why.
    Yes(String),
    /// What would have to be materialised needs so many bytes.
    TooLarge(u128),
    /// Computing what is held failed.
    Failed(Error),
}

impl Singular {
    pub(super) fn at_pivot(place: usize, size: usize) -> Singular {
        Singular::Yes(format!("pivot {place} of a {size}×{size} system vanishes"))
    }

    pub(super) fn not_finite() -> Singular {
        Singular::Yes("it is not finite".to_owned())
    }

    /// The error that people see.
    pub(super) fn into_error(self, operation: &str, limit: u128) -> Error {
        match self {
            Singular::Yes(why) => Error::new(operation, format!("the system is singular: {why}"))
                .help("add a multiple of the identity to the function, for example a ridge penalty"),
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

/// A block that was factored.
pub(super) enum Solver {
    Blocks {
        shape: Shape,
        slots: Slots,
        blocks: Blocks,
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
    },
}

/// The systems of blocks: single numbers, or factors.
pub(super) enum Blocks {
    Numbers(Vec<f64>),
    Factored(Vec<Factors>),
}

impl Solver {
    /// Factors a block by its structure.
    pub(super) fn of(terms: &[Term], factors: &[Tensor], shape: &Shape, limit: u128) -> Result<Solver, Singular> {
        match way(terms, shape) {
            Way::Zero => Err(Singular::Yes("it is zero".to_owned())),
            Way::Blocks(slots) => Solver::blocks(terms, factors, shape, slots, limit),
            Way::Kronecker(slots, parts) => {
                let term = &terms[0];
                let mut found = Vec::new();
                for (number, part) in parts.into_iter().enumerate() {
                    let size: usize = part.rows.iter().map(|slot| shape[*slot]).product();
                    fits((size * size) as u128, limit)?;
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
                Ok(Solver::Kronecker { shape: shape.clone(), slots, parts: found })
            }
            Way::Kroneckers(slots, pair) => match Diagonalised::of(&pair, terms, factors, shape)? {
                Some(pair) => Ok(Solver::Kroneckers { shape: shape.clone(), slots, pair }),
                None => Solver::blocks(terms, factors, shape, slots, limit),
            },
            Way::LowRank(base, low, rank) => {
                let size = shape.elements();
                if base.is_empty() {
                    return Err(Singular::Yes(format!("its rank is at most {rank}, and it has {size} rows")));
                }
                fits((3 * size * rank + rank * rank) as u128, limit)?;
                let base: Vec<Term> = base.iter().map(|place| terms[*place].clone()).collect();
                let base = match Solver::of(&base, factors, shape, limit) {
                    // What is left without the low rank may be singular where the whole is not.
                    Err(Singular::Yes(_)) => {
                        let slots = Slots::of(terms, shape.rank());
                        return Solver::blocks(terms, factors, shape, slots, limit);
                    }
                    base => base?,
                };
                let low: Vec<(&Term, Cut)> = low.into_iter().map(|(place, cut)| (&terms[place], cut)).collect();
                let (left, right) = sides(&low, factors, size, rank)?;
                let mut solved = left;
                base.solve(&mut solved, rank);
                // I + RᵀD⁻¹L; what stands between the sides is never inverted, for it may be singular.
                let mut inner = transposed_product(&right, &solved, size, rank, rank);
                (0..rank).for_each(|k| inner[k * rank + k] += 1.0);
                let inner = Factors::of(rank, inner)?;
                Ok(Solver::LowRank { base: Box::new(base), rank, solved, right, inner })
            }
        }
    }

    fn blocks(
        terms: &[Term],
        factors: &[Tensor],
        shape: &Shape,
        slots: Slots,
        limit: u128,
    ) -> Result<Solver, Singular> {
        let (count, size) = (slots.count(&slots.dependent, shape), slots.count(&slots.rest, shape));
        fits((count as u128).saturating_mul(size as u128).saturating_mul(size as u128), limit)?;
        let sizes: Vec<usize> =
            slots.dependent.iter().chain(&slots.rest).chain(&slots.rest).map(|slot| shape[*slot]).collect();
        let output = |term: &Term| -> Vec<Label> {
            let rows = slots.dependent.iter().chain(&slots.rest).map(|slot| term.rows[*slot]);
            rows.chain(slots.rest.iter().map(|slot| term.columns[*slot])).collect()
        };
        let numbers = summed(terms, factors, &Shape::from(sizes), output)?;
        let blocks = if size == 1 {
            if let Some(place) = numbers.iter().position(|number| *number == 0.0) {
                return Err(Singular::Yes(format!("element {place} of its diagonal is zero")));
            }
            if numbers.iter().any(|number| !number.is_finite()) {
                return Err(Singular::not_finite());
            }
            Blocks::Numbers(numbers)
        } else if count == 1 {
            Blocks::Factored(vec![Factors::of(size, numbers)?])
        } else {
            let each = numbers.chunks_exact((size * size).max(1)).map(|block| Factors::of(size, block.to_vec()));
            Blocks::Factored(each.collect::<Result<_, Singular>>()?)
        };
        Ok(Solver::Blocks { shape: shape.clone(), slots, blocks })
    }

    /// Solves for some right-hand sides, which lie beside one another along the last axis.
    pub(super) fn solve(&self, right: &mut Vec<f64>, count: usize) {
        let mut scratch = Vec::new();
        match self {
            Solver::Blocks { shape, slots, blocks } => {
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
            Solver::LowRank { base, rank, solved, right: side, inner } => {
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
            Solver::Blocks { shape, slots, blocks } => {
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

/// Whether so many 64-bit numbers may be materialised.
pub(super) fn fits(elements: u128, limit: u128) -> Result<(), Singular> {
    let bytes = elements.saturating_mul(8);
    if bytes > limit { Err(Singular::TooLarge(bytes)) } else { Ok(()) }
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
