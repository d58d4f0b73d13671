//! The plan of a derivative: its modes, the one that is taken, and what is held.

use std::sync::Arc;

use super::algebra::{Algebra, Id, Node};
use super::block::{Layout, LeafSlot, Term};
use super::derivative::Mode;
use super::explain::{Candidate, Explanation};
use super::flatten::flattened;
use super::gather::Gather;
use super::ledger::{Ledger, Step};
use super::order::lowest_order_first;
use super::sweep::{Blocks, Direction, sweep};
use super::terms::{self, held};
use super::{print, structure};
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::Tensor;
use crate::opt::contract::Limits;
use crate::tree::{Path, Tree};

/// The plan for arguments of some shapes.
pub(super) struct Plan<X, Y> {
    /// The structures of arguments and results, with placeholders as leaves.
    pub(super) arguments: Arc<X>,
    pub(super) results: Arc<Y>,
    pub(super) layout: Arc<Layout>,
    pub(super) explanation: Explanation,
    pub(super) steps: Vec<Step>,
}

/// What is differentiated: the variables, the outputs, and what is computed beside.
pub(super) struct Traced<X, Y> {
    pub(super) variables: X,
    pub(super) outputs: Y,
    pub(super) beside: Vec<Tensor>,
}

/// A request to plan a derivative.
pub(super) struct PlanRequest<'q> {
    pub(super) symmetric: bool,
    pub(super) mode: Option<Mode>,
    pub(super) limit: u128,
    pub(super) variables: Option<&'q dyn Fn(&Path) -> bool>,
    pub(super) with_gradient: bool,
    pub(super) with_steps: bool,
}

/// A derivative in one mode.
pub(super) struct PlanCandidate {
    mode: Mode,
    pub(super) algebra: Algebra,
    pub(super) terms: Vec<Vec<Vec<terms::Term>>>,
    flops: u128,
    bytes: u128,
    held: u128,
    /// The joins that the search has weighed, and its budget.
    effort: (u64, u64),
}

impl PlanRequest<'_> {
    /// The plan for what was traced, and the tensors that are held, with what is computed beside them.
    pub(super) fn answer<X: Tree, Y: Tree>(&self, traced: Traced<X, Y>) -> Result<(Plan<X, Y>, Vec<Tensor>), Error> {
        let Traced { variables, outputs, beside } = traced;
        let places = |leaves: Vec<(Path, Tensor)>, all: bool| -> (Vec<LeafSlot>, Vec<Tensor>) {
            let chosen = |(number, (path, tensor)): (usize, (Path, Tensor))| {
                let taken = tensor.is_float() && (all || self.variables.is_none_or(|selects| selects(&path)));
                let (path, shape, dtype) = (path.to_string(), tensor.shape().clone(), tensor.dtype());
                taken.then_some((LeafSlot { leaf: number, path, shape, dtype }, tensor))
            };
            leaves.into_iter().enumerate().filter_map(chosen).unzip()
        };
        let (columns, inputs) = places(variables.leaves(), false);
        let (rows, results) = places(outputs.leaves(), !self.symmetric);
        let mut answers = Vec::new();
        for mode in [Mode::Forward, Mode::Reverse, Mode::Joined, Mode::CrossCountry] {
            answers.push(self.candidate(mode, &results, &inputs)?);
        }
        // Of equals the last: what is held then has been associated by cost.
        let cheapest = cheapest(answers.iter().rev()).map_or(0, |place| answers.len() - 1 - place);
        let chosen = self
            .mode
            .map_or(cheapest, |mode| answers.iter().position(|answer| answer.mode == mode).unwrap_or(cheapest));
        let candidates = answers.iter().enumerate().map(|(place, answer)| Candidate {
            mode: answer.mode,
            flops: answer.flops,
            bytes: answer.bytes,
            held_bytes: answer.held,
            chosen: place == chosen,
        });
        let candidates = candidates.collect();
        let effort = total_effort(&answers);
        let PlanCandidate { mut algebra, terms, .. } = answers.swap_remove(chosen);
        let mut factors: Vec<Id> = Vec::new();
        let mut blocks: Vec<Vec<Vec<Term>>> = Vec::new();
        for (row, found) in terms.into_iter().enumerate() {
            let mut line = Vec::new();
            for terms in found {
                let rank = rows[row].shape.rank();
                line.push(terms.into_iter().map(|term| held_term(&algebra, term, rank, &mut factors)).collect());
            }
            blocks.push(line);
        }
        if self.symmetric {
            for row in 0..blocks.len() {
                let (above, below) = blocks.split_at_mut(row);
                for (line, block) in above.iter().zip(&mut below[0]) {
                    *block = line[row].iter().map(Term::transposed).collect();
                }
            }
        }
        let layout = Arc::new(Layout {
            rows,
            columns,
            blocks,
            symmetric: self.symmetric,
            limit: self.limit,
            factors: factors.len(),
        });
        // What is picked by integers is held as these.
        let own = factors.iter().map(|factor| algebra.gathers.get(factor).map_or(*factor, |indices| *indices));
        let mut tensors = algebra.tensors(&own.collect::<Vec<_>>());
        if self.with_gradient {
            tensors.extend(beside);
            tensors.extend(outputs.flatten());
        }
        let steps = algebra.ledger.take().map_or_else(Vec::new, |ledger| ledger.steps);
        let explanation = Explanation {
            candidates,
            expression: structure::expression(&layout),
            lowest_order_first: lowest_order_first(&algebra, &factors),
            dense_bytes: layout.dense_bytes(),
            joins_weighed: effort.0,
            joins_budget: effort.1,
        };
        let nothing = |leaf: &Tensor| Tensor::placeholder(leaf.shape().clone(), leaf.dtype());
        let plan = Plan {
            arguments: Arc::new(variables.map(nothing)),
            results: Arc::new(outputs.map(nothing)),
            layout,
            explanation,
            steps,
        };
        Ok((plan, tensors))
    }

    /// The derivative in one mode, and what it costs.
    pub(super) fn candidate(
        &self,
        mode: Mode,
        outputs: &[Tensor],
        variables: &[Tensor],
    ) -> Result<PlanCandidate, Error> {
        let directions: &[Direction] = match mode {
            Mode::Forward => &[Direction::Forward],
            Mode::Reverse => &[Direction::Reverse],
            Mode::Joined => &[Direction::Joined],
            Mode::CrossCountry => &[Direction::Reverse, Direction::Forward, Direction::Joined],
        };
        let mut found = Vec::new();
        for direction in directions {
            found.push(self.swept(mode, *direction, outputs, variables)?);
        }
        let place = cheapest(found.iter()).unwrap_or_default();
        let effort = total_effort(&found);
        Ok(PlanCandidate { effort, ..found.swap_remove(place) })
    }

    /// The derivative by one sweep, in its normal form.
    fn swept(
        &self,
        mode: Mode,
        direction: Direction,
        outputs: &[Tensor],
        variables: &[Tensor],
    ) -> Result<PlanCandidate, Error> {
        let mut algebra = Algebra::new(mode == Mode::CrossCountry);
        algebra.ledger = self.with_steps.then(Ledger::default);
        let found: Blocks = sweep(&mut algebra, outputs, variables, direction, self.symmetric, self.limit)?;
        let nodes = algebra.size();
        algebra.effort.borrow_mut().begin(nodes);
        let mut terms = Vec::new();
        for (row, line) in found.into_iter().enumerate() {
            let rank = outputs[row].rank();
            let block = |root: Option<Id>| root.map_or_else(Vec::new, |root| terms::terms(&mut algebra, root, rank));
            terms.push(line.into_iter().map(block).collect::<Vec<_>>());
        }
        terms::densified(&mut algebra, &mut terms);
        if mode == Mode::CrossCountry {
            let roots = roots_of(&terms);
            let mut flat = flattened(&mut algebra, &roots).into_iter();
            for node in terms.iter_mut().flatten().flatten().flat_map(|term| &mut term.nodes) {
                *node = flat.next().unwrap_or(*node);
            }
        }
        let element = outputs.iter().map(|output| output.dtype().bytes() as u128).max().unwrap_or(8);
        let (flops, bytes) = predicted(&algebra, &roots_of(&terms), element);
        let held = held(&algebra, terms.iter().flatten().flatten()) * element;
        let effort = {
            let effort = algebra.effort.borrow();
            (effort.spent, effort.budget)
        };
        Ok(PlanCandidate { mode, algebra, terms, flops, bytes, held, effort })
    }
}

/// The joins that all searches have weighed, and their budgets.
fn total_effort(answers: &[PlanCandidate]) -> (u64, u64) {
    answers.iter().fold((0, 0), |(spent, budget), answer| (spent + answer.effort.0, budget + answer.effort.1))
}

/// The cheapest of some answers, among those that hold hardly more than the least.
fn cheapest<'a>(answers: impl Iterator<Item = &'a PlanCandidate> + Clone) -> Option<usize> {
    let least = answers.clone().map(|answer| answer.held).min()?;
    let light = answers.enumerate().filter(|(_, answer)| answer.held.saturating_mul(4) <= least.saturating_mul(5));
    let cost = |answer: &PlanCandidate| answer.flops.saturating_add(answer.bytes.saturating_mul(4));
    light.min_by_key(|(_, answer)| cost(answer)).map(|(place, _)| place)
}

/// The factors of all terms, one after another.
fn roots_of(terms: &[Vec<Vec<terms::Term>>]) -> Vec<Id> {
    terms.iter().flatten().flatten().flat_map(|term| term.nodes.iter().copied()).collect()
}

/// The FLOPs and bytes of computing some nodes from tensors that are computed anyway.
fn predicted(algebra: &Algebra, roots: &[Id], element: u128) -> (u128, u128) {
    let (mut flops, mut bytes) = (0_u128, 0_u128);
    let limits = Limits { element_bytes: element, ..Limits::default() };
    for id in algebra.behind(roots) {
        match algebra.node(id) {
            Node::Given(_) => {}
            Node::Product(product) => {
                let (own, moved) = algebra.effort.borrow_mut().cost(&product.einsum, &limits);
                flops = flops.saturating_add(own);
                bytes = bytes.saturating_add(moved);
            }
            Node::Sum(terms) => {
                let elements = algebra.elements(id);
                flops = flops.saturating_add(elements.saturating_mul(terms.len() as u128 - 1));
                bytes = bytes.saturating_add(elements.saturating_mul(element * (terms.len() as u128 + 1)));
            }
        }
    }
    (flops, bytes)
}

/// A term that names its factors by their places in the list of what is held.
fn held_term(algebra: &Algebra, term: terms::Term, rows: usize, factors: &mut Vec<Id>) -> Term {
    let text = print::product(algebra, &term);
    let (mut own, mut gathers) = (Vec::new(), Vec::new());
    for (node, labels) in term.nodes.iter().zip(term.einsum.operands) {
        let place = factors.iter().position(|factor| factor == node).unwrap_or_else(|| {
            factors.push(*node);
            factors.len() - 1
        });
        match (algebra.gathers.contains_key(node), labels.split_last()) {
            (true, Some((axis, places))) => gathers.push(Gather { place, places: places.to_vec(), axis: *axis }),
            _ => own.push((place, labels)),
        }
    }
    let (rows, columns) = (term.einsum.output[..rows].to_vec(), term.einsum.output[rows..].to_vec());
    let Einsum { coefficient, extents, .. } = term.einsum;
    Term { coefficient, factors: own, gathers, rows, columns, extents, text }.tied()
}
