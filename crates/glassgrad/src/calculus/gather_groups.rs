//! Terms that pick entries by integers, taken apart: what is picked, and a term without it over the places that pick.
//!
//! S_kc A_koi, with S_kc = 1 where the integers have c at k, is A over the slots k and i in place of c and i. Terms that pick by
//! the same integers along the same slots are a family: inside of it cores are multiplied and added up as if nothing were
//! picked, and what picks is put back outside.

use super::algebra::{Algebra, Id};
use super::terms::Term;
use crate::einsum::{Einsum, Label};

/// Terms of one family.
pub(super) struct Family {
    /// For each slot of the whole what picks along it, if something does.
    picks: Vec<Option<Id>>,
    /// The terms, in which slots that are picked along are replaced by those of the places that pick.
    pub(super) terms: Vec<Term>,
    /// The slots of rows in these.
    pub(super) rows: usize,
}

/// Terms by what they pick, in the order in which they come.
pub(super) fn families(algebra: &mut Algebra, terms: Vec<Term>, rows: usize) -> Vec<Family> {
    let mut found: Vec<Family> = Vec::new();
    for term in terms {
        let (picks, term) = taken_apart(algebra, term);
        match found.iter_mut().find(|family| family.picks == picks) {
            Some(family) => family.terms.push(term),
            None => {
                let width = |pick: &Option<Id>| pick.map_or(1, |gather| algebra.shape(gather).rank() - 1);
                let rows = picks[..rows].iter().map(width).sum();
                found.push(Family { picks, terms: vec![term], rows });
            }
        }
    }
    found
}

/// A term without what picks along its slots, and that.
fn taken_apart(algebra: &mut Algebra, mut term: Term) -> (Vec<Option<Id>>, Term) {
    let mut picks: Vec<Option<Id>> = vec![None; term.einsum.output.len()];
    // Slots of the whole, each with the labels that it has become.
    let mut slots: Vec<Vec<Label>> = term.einsum.output.iter().map(|label| vec![*label]).collect();
    loop {
        let Einsum { operands, strong, .. } = &term.einsum;
        let can_go = |place: &usize| {
            let (node, labels) = (&term.nodes[*place], &operands[*place]);
            let Some((axis, places)) = labels.split_last() else { return false };
            let uses = slots.iter().flatten().filter(|label| *label == axis).count();
            let picked = slots.iter().zip(&picks).any(|(slot, pick)| pick.is_some() && slot.contains(axis));
            // What picks by what another picks waits until it has been picked itself.
            let waits = (0..operands.len()).any(|other| {
                let last = operands[other].last();
                algebra.gathers.contains_key(&term.nodes[other]) && last.is_some_and(|axis| places.contains(axis))
            });
            algebra.gathers.contains_key(node) && !waits && !picked && uses <= 1 && !strong.contains(&true)
        };
        let Some(place) = (0..operands.len()).find(can_go) else { break };
        let gather = term.nodes.remove(place);
        let mut labels = term.einsum.operands.remove(place);
        term.einsum.strong.remove(place);
        let axis = labels.pop().unwrap_or_default();
        read_at_places(algebra, &mut term, gather, axis, &labels);
        match slots.iter().position(|slot| *slot == [axis]) {
            Some(slot) => {
                picks[slot] = Some(gather);
                slots[slot] = labels;
            }
            // A sum over all entries along the axis has one for each place: it counts where nothing depends on it.
            None => {
                for label in labels {
                    let bound = slots.iter().chain(&term.einsum.operands).any(|own| own.contains(&label));
                    if !bound {
                        term.einsum.coefficient *= term.einsum.extents[label] as f64;
                    }
                }
            }
        }
    }
    term.einsum.output = slots.concat();
    (picks, term)
}

/// Other factors along an axis that is picked along are read at the places that pick.
fn read_at_places(algebra: &mut Algebra, term: &mut Term, gather: Id, axis: Label, places: &[Label]) {
    let indices = algebra.gathers[&gather];
    let indices_tensor = algebra.tensors(&[indices]).remove(0);
    for operand in 0..term.nodes.len() {
        while let Some(slot) = term.einsum.operands[operand].iter().position(|label| *label == axis) {
            let (node, dtype) = (term.nodes[operand], algebra.dtype(term.nodes[operand]));
            let last = slot + 1 == term.einsum.operands[operand].len();
            term.nodes[operand] = match algebra.gathers.get(&node).copied() {
                // Integers picked by integers are integers again.
                Some(inner) if !last => {
                    let size = algebra.shape(node)[algebra.shape(node).rank() - 1];
                    let picked = algebra.tensors(&[inner])[0].take(&indices_tensor, slot);
                    let picked = algebra.given(&picked);
                    algebra.gather(picked, size, dtype)
                }
                _ => {
                    let picked = algebra.tensors(&[node])[0].take(&indices_tensor, slot);
                    algebra.given(&picked)
                }
            };
            term.einsum.operands[operand].splice(slot..=slot, places.iter().copied());
        }
    }
}

impl Family {
    /// The terms with what picks put back.
    pub(super) fn put_back(self, algebra: &Algebra) -> Vec<Term> {
        let Family { picks, terms, .. } = self;
        if picks.iter().all(Option::is_none) {
            return terms;
        }
        let mut whole = Vec::new();
        for mut term in terms {
            let mut rest = term.einsum.output.clone().into_iter();
            let mut output = Vec::new();
            for pick in &picks {
                let Some(gather) = pick else {
                    output.extend(rest.next());
                    continue;
                };
                let shape = algebra.shape(*gather);
                let axis = term.einsum.extents.len();
                term.einsum.extents.push(shape[shape.rank() - 1]);
                term.einsum.operands.push(rest.by_ref().take(shape.rank() - 1).chain([axis]).collect());
                term.einsum.strong.push(false);
                term.nodes.push(*gather);
                output.push(axis);
            }
            term.einsum.output = output;
            whole.push(term);
        }
        whole
    }
}
