//! What structure a block has: which slots only repeat one system, which factors stand apart, what has low rank.

use std::fmt;

use super::block::{Layout, Term};
use super::kroneckers::{self, Pair};
use super::print;
use crate::einsum::Label;
use crate::shape::Shape;
use crate::sorting::IndirectSort;

/// The structure of a derivative that maps between arrays of one shape, as `solve` uses it.
///
/// ```
/// use glassgrad::{Tensor, calculus::{self, Structure}};
/// let h = calculus::hessian(|x: &Tensor| x.exp().sum()).at(&Tensor::from([0.0, 1.0])).unwrap();
/// assert_eq!(h.structure(), Structure::Diagonal);
/// assert_eq!(h.structure().to_string(), "diagonal");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Structure {
    /// Nothing but zeros.
    Zero,
    /// Each element for itself.
    Diagonal,
    /// Square blocks on the diagonal: `count` different ones, each repeated `copies` times. One block that repeats is a
    /// Kronecker product with a unit matrix.
    Blocks {
        /// How many different blocks there are.
        count: usize,
        /// The rows of a block.
        size: usize,
        /// How often each block repeats.
        copies: usize,
    },
    /// A Kronecker product of square matrices of these sizes.
    Kronecker {
        /// The rows of the matrices.
        sizes: Vec<usize>,
    },
    /// A sum of Kronecker products, each of square matrices.
    Kroneckers {
        /// How many products there are.
        count: usize,
        /// The rows of the whole.
        size: usize,
    },
    /// A simpler structure and something of low rank.
    LowRank {
        /// What is left without it.
        base: Box<Structure>,
        /// A bound for the rank.
        rank: usize,
    },
    /// A sum over samples of products, kept as factors.
    Factored {
        /// How many samples there are.
        samples: usize,
    },
    /// Blocks at the places that arrays of integers name.
    Sparse {
        /// How many blocks there are, counted as often as they are named.
        places: usize,
    },
    /// One matrix.
    Dense {
        /// Its rows.
        size: usize,
    },
    /// Blocks over the leaves of trees, row by row.
    Leaves(Vec<Vec<Structure>>),
    /// Rows and columns have different shapes.
    Rectangular,
}

impl fmt::Display for Structure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Structure::Zero => write!(formatter, "zero"),
            Structure::Diagonal => write!(formatter, "diagonal"),
            Structure::Blocks { count: 1, size, copies } => write!(formatter, "{size}×{size} ⊗ I of {copies}"),
            Structure::Blocks { count, size, copies: 1 } => write!(formatter, "{count} blocks of {size}×{size}"),
            Structure::Blocks { count, size, copies } => {
                write!(formatter, "{count} blocks of {size}×{size}, each {copies} times")
            }
            Structure::Kronecker { sizes } => {
                let matrices: Vec<String> = sizes.iter().map(|size| format!("{size}×{size}")).collect();
                write!(formatter, "{}", matrices.join(" ⊗ "))
            }
            Structure::Kroneckers { count, size } => {
                write!(formatter, "sum of {count} Kronecker products, {size}×{size}")
            }
            Structure::LowRank { base, rank } => write!(formatter, "{base} + rank {rank}"),
            Structure::Factored { samples } => write!(formatter, "factored over {samples} samples"),
            Structure::Sparse { places } => write!(formatter, "sparse, {places} blocks by index"),
            Structure::Dense { size } => write!(formatter, "dense {size}×{size}"),
            Structure::Leaves(blocks) => {
                let rows: Vec<String> = blocks
                    .iter()
                    .map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                    .collect();
                write!(formatter, "[{}]", rows.join("; "))
            }
            Structure::Rectangular => write!(formatter, "rectangular"),
        }
    }
}

/// The slots of a block: which are the same in rows and columns of every term, and which are left.
pub(super) struct Slots {
    /// Slots tied in every term on which some term depends: each value has a system of its own.
    pub(super) dependent: Vec<usize>,
    /// Slots tied in every term on which none depends: each value is one more right-hand side.
    pub(super) independent: Vec<usize>,
    /// The slots of the system.
    pub(super) rest: Vec<usize>,
}

impl Slots {
    pub(super) fn of(terms: &[Term], rank: usize) -> Slots {
        let mut slots = Slots { dependent: Vec::new(), independent: Vec::new(), rest: Vec::new() };
        for slot in 0..rank {
            // A label that other slots share does not stand for this slot alone.
            let alone = |term: &Term| {
                let label = term.rows[slot];
                let shared = |labels: &[Label]| labels.iter().filter(|other| **other == label).count() > 1;
                !shared(&term.rows) && !shared(&term.columns)
            };
            if !terms.iter().all(|term| term.rows[slot] == term.columns[slot] && alone(term)) {
                slots.rest.push(slot);
            } else if terms.iter().any(|term| term.binds(term.rows[slot])) {
                slots.dependent.push(slot);
            } else {
                slots.independent.push(slot);
            }
        }
        slots
    }

    /// Whether all right-hand sides of one system lie one after another: first the slots that only repeat it, in order, then
    /// its own.
    pub(super) fn repeat_rows(&self, rank: usize) -> bool {
        self.dependent.is_empty() && self.independent.iter().chain(&self.rest).copied().eq(0..rank)
    }

    pub(super) fn count(&self, slots: &[usize], shape: &Shape) -> usize {
        slots.iter().map(|slot| shape[*slot]).product()
    }
}

/// A part of a term that no other part shares a label with.
pub(super) struct Component {
    /// The places of its factors in the term.
    pub(super) factors: Vec<usize>,
    pub(super) rows: Vec<usize>,
    pub(super) columns: Vec<usize>,
}

/// The components of a term over some slots, if all are square and there are several.
pub(super) fn components(term: &Term, slots: &Slots, shape: &Shape) -> Option<Vec<Component>> {
    let mut classes = super::algebra::Classes::new(&term.extents);
    for (_, labels) in &term.factors {
        labels.windows(2).for_each(|pair| classes.join(pair[0], pair[1]));
    }
    if slots.dependent.iter().any(|slot| term.binds(term.rows[*slot])) {
        return None;
    }
    let mut roots: Vec<Label> = slots.rest.iter().map(|slot| classes.find(term.rows[*slot])).collect();
    roots.sort_unstable();
    roots.dedup();
    let found: Vec<Component> = roots
        .iter()
        .map(|root| {
            let of = |labels: &[Label]| -> Vec<usize> {
                slots.rest.iter().copied().filter(|slot| classes.find(labels[*slot]) == *root).collect()
            };
            // Numbers among the factors belong to the first component.
            let belongs = |place: &usize| match term.factors[*place].1.first() {
                Some(label) => classes.find(*label) == *root,
                None => *root == roots[0],
            };
            let factors = (0..term.factors.len()).filter(belongs);
            Component { factors: factors.collect(), rows: of(&term.rows), columns: of(&term.columns) }
        })
        .collect();
    let size = |own: &[usize]| own.iter().map(|slot| shape[*slot]).product::<usize>();
    let square = found.iter().all(|part| size(&part.rows) == size(&part.columns));
    // Factors that lead to columns alone would be lost.
    let complete = found.iter().map(|part| part.factors.len()).sum::<usize>() == term.factors.len();
    (square && complete && found.len() > 1).then_some(found)
}

/// A term as a product of a matrix with rows and one with columns: which factors belong to the rows, and the labels that
/// the two sides share. The rank of the term is at most the product of their extents.
pub(super) struct Cut {
    pub(super) left: Vec<usize>,
    pub(super) right: Vec<usize>,
    pub(super) labels: Vec<Label>,
    pub(super) rank: usize,
}

/// The narrowest cut between rows and columns.
pub(super) fn narrowest_cut(term: &Term) -> Cut {
    let count = term.factors.len().min(12);
    let mut best: Option<Cut> = None;
    for choice in 0..1_usize << count {
        let side = |left: bool| -> Vec<usize> {
            (0..term.factors.len()).filter(|place| (*place < count && choice >> place & 1 == 1) == left).collect()
        };
        let (left, right) = (side(true), side(false));
        let of = |members: &[usize], slots: &[Label]| -> Vec<Label> {
            members
                .iter()
                .flat_map(|place| term.factors[*place].1.iter().copied())
                .chain(slots.iter().copied())
                .collect()
        };
        let (rows, columns) = (of(&left, &term.rows), of(&right, &term.columns));
        let mut labels: Vec<Label> = rows.into_iter().filter(|label| columns.contains(label)).collect();
        labels.sort_unstable();
        labels.dedup();
        let rank = labels.iter().fold(1_usize, |rank, label| rank.saturating_mul(term.extents[*label]));
        if best.as_ref().is_none_or(|best| rank < best.rank) {
            best = Some(Cut { left, right, labels, rank });
        }
    }
    best.unwrap_or(Cut { left: Vec::new(), right: Vec::new(), labels: Vec::new(), rank: 1 })
}

/// How a square block is solved.
pub(super) enum Way {
    Zero,
    Blocks(Slots),
    Kronecker(Slots, Vec<Component>),
    Kroneckers(Slots, Box<Pair>),
    /// The terms of the base, the others with their cuts, and the rank of these together.
    LowRank(Vec<usize>, Vec<(usize, Cut)>, usize),
}

/// The cheapest way to solve a block by its structure.
pub(super) fn way(terms: &[Term], shape: &Shape) -> Way {
    if terms.is_empty() {
        return Way::Zero;
    }
    let slots = Slots::of(terms, shape.rank());
    // What is picked by integers ties slots or does not; its factors are not separate matrices.
    if terms.iter().any(|term| !term.gathers.is_empty()) {
        return Way::Blocks(slots);
    }
    if let [only] = terms
        && let Some(parts) = components(only, &slots, shape)
    {
        return Way::Kronecker(slots, parts);
    }
    if let Some(pair) = kroneckers::pair(terms, &slots, shape) {
        return Way::Kroneckers(slots, Box::new(pair));
    }
    let size = slots.count(&slots.rest, shape);
    let whole = (size as f64).powi(3) * slots.count(&slots.dependent, shape) as f64;
    if slots.dependent.is_empty() && slots.independent.is_empty() && size > 1 {
        // What ties more slots than all terms do is the base, and so is what has full rank.
        let own = |term: &Term| Slots::of(std::slice::from_ref(term), shape.rank());
        let cuts: Vec<Cut> = terms.iter().map(narrowest_cut).collect();
        let (base, low): (Vec<usize>, Vec<usize>) = (0..terms.len())
            .partition(|place| own(&terms[*place]).rest.len() < slots.rest.len() || cuts[*place].rank >= size);
        let rank: usize = low.iter().map(|place| cuts[*place].rank).fold(0, usize::saturating_add);
        let under: Vec<Term> = base.iter().map(|place| terms[*place].clone()).collect();
        let cost_of_base = match if low.is_empty() { Way::Zero } else { way(&under, shape) } {
            Way::Zero => 0.0,
            Way::Blocks(slots) => {
                let size = slots.count(&slots.rest, shape) as f64;
                size.powi(3) * slots.count(&slots.dependent, shape) as f64
            }
            Way::Kronecker(_, parts) => {
                let size = |part: &Component| part.rows.iter().map(|slot| shape[*slot] as f64).product::<f64>();
                parts.iter().map(|part| size(part).powi(3)).sum()
            }
            Way::Kroneckers(..) | Way::LowRank(..) => f64::INFINITY,
        };
        let (r, b) = (rank as f64, size as f64);
        let cheaper = r.powi(3) + r * r * b + cost_of_base < whole;
        let deficient = base.is_empty() && rank < size;
        if !low.is_empty() && (cheaper && !base.is_empty() || deficient) {
            let mut cuts: Vec<Option<Cut>> = cuts.into_iter().map(Some).collect();
            let low = low.into_iter().filter_map(|place| Some((place, cuts[place].take()?))).collect();
            return Way::LowRank(base, low, rank);
        }
    }
    Way::Blocks(slots)
}

/// The structure of a block.
pub(super) fn structure(terms: &[Term], rows: &Shape, columns: &Shape) -> Structure {
    if terms.is_empty() {
        return Structure::Zero;
    }
    if rows != columns {
        return Structure::Rectangular;
    }
    match way(terms, rows) {
        Way::Zero => Structure::Zero,
        Way::Kronecker(slots, parts) => {
            let copies = slots.count(&slots.independent, rows) * slots.count(&slots.dependent, rows);
            let sizes = parts.iter().map(|part| part.rows.iter().map(|slot| rows[*slot]).product());
            let sizes: Vec<usize> = sizes.chain((copies > 1).then_some(copies)).collect();
            Structure::Kronecker { sizes }
        }
        Way::Kroneckers(..) => Structure::Kroneckers { count: terms.len(), size: rows.elements() },
        Way::LowRank(base, low, _) => {
            let under: Vec<Term> = base.iter().map(|place| terms[*place].clone()).collect();
            let low: Vec<(&Term, &Cut)> = low.iter().map(|(place, cut)| (&terms[*place], cut)).collect();
            Structure::LowRank { base: Box::new(structure(&under, rows, columns)), rank: rank_bound(&low) }
        }
        Way::Blocks(slots) if slots.rest.is_empty() => Structure::Diagonal,
        Way::Blocks(slots) => {
            let (size, count) = (slots.count(&slots.rest, rows), slots.count(&slots.dependent, rows));
            let copies = slots.count(&slots.independent, rows);
            let places = |term: &Term| term.gathers.iter().map(|gather| gather.places(term)).max();
            match (&terms, count * copies) {
                (several, 1) if several.iter().any(|term| !term.gathers.is_empty()) => {
                    Structure::Sparse { places: several.iter().filter_map(places).sum() }
                }
                ([only], 1) if only.factors.len() > 1 => {
                    Structure::Factored { samples: narrowest_cut(only).rank.max(samples(only)) }
                }
                (several, 1)
                    if several.iter().all(|term| components(term, &slots, rows).is_some()) && several.len() > 1 =>
                {
                    Structure::Kroneckers { count: several.len(), size }
                }
                (_, 1) => Structure::Dense { size },
                _ => Structure::Blocks { count, size, copies },
            }
        }
    }
}

/// One side of a cut: its factors with names of their labels, in order.
type Side = Vec<(usize, Vec<(usize, usize)>)>;

/// A bound for the rank of a sum of terms: terms with the same left side, or the same right side, share its columns.
fn rank_bound(low: &[(&Term, &Cut)]) -> usize {
    let bound = |left: bool| -> usize {
        let mut seen: Vec<Side> = Vec::new();
        let mut rank = 0_usize;
        for (term, cut) in low {
            let (members, slots) = if left { (&cut.left, &term.rows) } else { (&cut.right, &term.columns) };
            // A label by its slot, its place in the cut, or, if it is summed over within the side, its number.
            let name = |label: &Label| match slots.iter().position(|slot| slot == label) {
                Some(slot) => (0, slot),
                None => cut.labels.iter().position(|own| own == label).map_or((2, *label), |place| (1, place)),
            };
            let factor = |place: &usize| {
                let (factor, labels) = &term.factors[*place];
                (*factor, labels.iter().map(name).collect::<Vec<_>>())
            };
            // A factor without labels is a number, which changes no column space.
            let mut side: Side = members.iter().map(factor).filter(|(_, labels)| !labels.is_empty()).collect();
            // A label that both sides have and that is a slot itself is a delta.
            let deltas = slots.iter().enumerate().filter(|(_, label)| cut.labels.contains(label));
            side.extend(deltas.map(|(slot, label)| (usize::MAX, vec![(0, slot), name(label)])));
            let repeats = (0..slots.len()).map(|slot| slots.iter().position(|own| *own == slots[slot]).unwrap_or(slot));
            side.push((usize::MAX, repeats.map(|first| (3, first)).collect()));
            side.indirect_sort();
            if !seen.contains(&side) {
                seen.push(side);
                rank = rank.saturating_add(cut.rank);
            }
        }
        rank
    };
    bound(true).min(bound(false))
}

/// The values of the labels that a term sums over.
fn samples(term: &Term) -> usize {
    let inner = |label: &usize| !term.rows.contains(label) && !term.columns.contains(label) && term.binds(*label);
    (0..term.extents.len()).filter(inner).map(|label| term.extents[label]).product()
}

/// All blocks in Einstein notation; several leaves are distinguished by their paths.
pub(super) fn expression(layout: &Layout) -> String {
    let block = |terms: &[Term]| match terms {
        [] => "0".to_owned(),
        terms => print::joined(&terms.iter().map(|term| term.text.clone()).collect::<Vec<_>>()),
    };
    if let ([only], [_]) = (&layout.blocks[..], &layout.columns[..]) {
        return block(&only[0]);
    }
    let mut lines = Vec::new();
    for (row, place) in layout.rows.iter().enumerate() {
        for (column, other) in layout.columns.iter().enumerate() {
            if !layout.symmetric || column >= row {
                lines.push(format!("[{}, {}]  {}", place.path, other.path, block(&layout.blocks[row][column])));
            }
        }
    }
    lines.join("\n")
}
