//! An einsum as the search sees it: sets of labels, and what it costs to join two parts.

use super::{Limits, operations};
use crate::einsum::{Einsum, Label};

/// A set of labels. All sets of one network have the same number of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelSet(Vec<u64>);

impl LabelSet {
    pub(super) fn of(labels: &[Label], count: usize) -> LabelSet {
        let mut words = vec![0; count.div_ceil(64)];
        for label in labels {
            words[label / 64] |= 1 << (label % 64);
        }
        LabelSet(words)
    }

    fn combined(&self, other: &LabelSet, with: impl Fn(u64, u64) -> u64) -> LabelSet {
        LabelSet(self.0.iter().zip(&other.0).map(|(a, b)| with(*a, *b)).collect())
    }

    pub(super) fn union(&self, other: &LabelSet) -> LabelSet {
        self.combined(other, |a, b| a | b)
    }

    pub(super) fn intersection(&self, other: &LabelSet) -> LabelSet {
        self.combined(other, |a, b| a & b)
    }

    pub(super) fn meets(&self, other: &LabelSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(super) fn contains(&self, label: Label) -> bool {
        self.0[label / 64] >> (label % 64) & 1 == 1
    }

    pub(super) fn filtered(&self, keep: impl Fn(Label) -> bool) -> LabelSet {
        LabelSet::of(&self.labels().filter(|label| keep(*label)).collect::<Vec<_>>(), 64 * self.0.len())
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = Label> {
        self.0.iter().enumerate().flat_map(|(place, word)| bits(*word).map(move |bit| 64 * place + bit))
    }
}

fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

/// A tensor that a join can read: which labels it has, and what was spent to make it.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) labels: LabelSet,
    pub(super) elements: u128,
    pub(super) cost: u128,
}

/// Some of the operands, multiplied, and summed over the labels that no other operand needs.
///
/// A single operand with labels of its own can be read in two ways: summed, which is a step, or as it is.
#[derive(Clone, Debug)]
pub(super) struct Part(pub(super) Vec<Reading>);

impl Part {
    pub(super) fn labels(&self) -> &LabelSet {
        &self.0[0].labels
    }

    pub(super) fn elements(&self) -> u128 {
        self.0[0].elements
    }

    /// The least that any way to read it costs.
    pub(super) fn cost(&self) -> u128 {
        self.0.iter().map(|reading| reading.cost).min().unwrap_or(u128::MAX)
    }
}

/// The cheapest way to join two parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Join {
    /// What everything up to the joined part costs.
    pub(super) cost: u128,
    /// Which readings of the two parts it takes.
    pub(super) readings: [usize; 2],
}

/// The labels of an einsum as sets. Where a label repeats in an operand, the diagonal is read in passing.
pub(super) struct Network<'a> {
    extents: Vec<u128>,
    pub(super) operands: Vec<LabelSet>,
    /// The labels of the output that are bound by operands.
    pub(super) output: LabelSet,
    /// The elements of the output with its deltas and broadcasts.
    written: u128,
    pub(super) limits: &'a Limits,
}

impl Network<'_> {
    pub(super) fn new<'a>(einsum: &Einsum, limits: &'a Limits) -> Network<'a> {
        let count = einsum.extents.len();
        let operands: Vec<LabelSet> = einsum.operands.iter().map(|labels| LabelSet::of(labels, count)).collect();
        let bound = operands.iter().fold(LabelSet::of(&[], count), |all, labels| all.union(labels));
        let output = LabelSet::of(&einsum.output, count).intersection(&bound);
        let written = super::elements(einsum, &einsum.output);
        let extents = einsum.extents.iter().map(|extent| *extent as u128).collect();
        Network { extents, operands, output, written, limits }
    }

    /// The product of the extents. Zero wins over an overflow, also one that came before it.
    pub(super) fn elements(&self, labels: &LabelSet) -> u128 {
        labels.labels().fold(1, |product: u128, label| product.saturating_mul(self.extents[label]))
    }

    fn elements_of_both(&self, one: &LabelSet, other: &LabelSet) -> u128 {
        let words = one.0.iter().zip(&other.0).enumerate();
        words
            .flat_map(|(place, (a, b))| bits(a | b).map(move |bit| 64 * place + bit))
            .fold(1, |product: u128, label| product.saturating_mul(self.extents[label]))
    }

    pub(super) fn label_count(&self) -> usize {
        self.extents.len()
    }

    pub(super) fn fits(&self, elements: u128) -> bool {
        self.limits.largest_intermediate.is_none_or(|limit| elements <= limit)
    }

    fn moved(&self, elements: u128) -> u128 {
        elements.saturating_mul(self.limits.element_bytes)
    }

    /// One operand of which others need the labels `kept`; `exists` if its sum over the rest is computed already.
    pub(super) fn leaf(&self, operand: usize, kept: LabelSet, exists: bool) -> Part {
        let labels = self.operands[operand].clone();
        let whole = Reading { elements: self.elements(&labels), labels, cost: 0 };
        let mut readings = Vec::new();
        let left = self.elements(&kept);
        if kept != whole.labels && self.fits(left) {
            let flops = operations(whole.elements, left, 1);
            let summing = self.limits.cost(flops, self.moved(whole.elements.saturating_add(left)));
            readings.push(Reading { labels: kept, elements: left, cost: if exists { 0 } else { summing } });
        }
        readings.push(whole);
        Part(readings)
    }

    /// What comes of a join, or of an earlier einsum.
    pub(super) fn part(&self, labels: LabelSet, cost: u128) -> Part {
        Part(vec![Reading { elements: self.elements(&labels), labels, cost }])
    }

    /// A lower bound of the cost of a join with this many result elements: it visits and writes each of them.
    pub(super) fn floor(&self, elements: u128) -> u128 {
        self.limits.cost(elements, self.moved(elements))
    }

    /// The cheapest join to a part with `kept` elements, or to the output if it is the `last`.
    pub(super) fn join(&self, left: &Part, right: &Part, kept: u128, last: bool) -> Join {
        let written = if last { self.written } else { kept };
        let mut best = Join { cost: u128::MAX, readings: [left.0.len() - 1, right.0.len() - 1] };
        for (first, one) in left.0.iter().enumerate() {
            for (second, other) in right.0.iter().enumerate() {
                let flops = operations(self.elements_of_both(&one.labels, &other.labels), kept, 2);
                let moved = one.elements.saturating_add(other.elements).saturating_add(written);
                let step = self.limits.cost(flops, self.moved(moved));
                let cost = one.cost.saturating_add(other.cost).saturating_add(step);
                if cost < best.cost {
                    best = Join { cost, readings: [first, second] };
                }
            }
        }
        best
    }
}
