//! The greedy search: the best pair is joined until one part is left.

use std::collections::BTreeMap;

use super::network::{LabelSet, Network, Part};
use super::search::{Exists, JoinNode, Source, Tree, leaves};
use crate::rng::Key;

/// How many measures the greedy search has for which pair to join next.
pub(super) const SCORES: usize = 4;

/// Joins the best pair until one part is left. The restarts differ in what is best, and from the fifth on
/// sometimes take the second best, the third best, ….
pub(super) fn greedy(
    network: &Network,
    exists: Exists,
    restart: usize,
    limited: bool,
    considered: &mut u64,
) -> Option<Tree> {
    let mut forest = Forest::new(network, exists, restart % SCORES, limited, considered);
    let key = Key::new(restart as u64);
    while forest.parts > 1 {
        if forest.candidates.is_empty() {
            forest.consider_outer_products(considered);
        }
        let step = forest.nodes.len() as u64;
        let rank = if restart < SCORES { 0 } else { key.bits(step).trailing_zeros() as usize / 2 };
        let last = forest.candidates.len().checked_sub(1)?;
        let (_, left, right) = *forest.candidates.keys().nth(rank.min(last))?;
        forest.join(left, right, considered);
    }
    Some(Tree::new(forest.nodes))
}

/// Parts on their way to become one.
struct Forest<'a> {
    network: &'a Network<'a>,
    exists: Exists<'a>,
    score: usize,
    limited: bool,
    nodes: Vec<JoinNode>,
    /// Whether a node is not yet joined, and how many are not.
    open: Vec<bool>,
    parts: usize,
    /// How many open parts have each label; the output counts as one.
    holders: Vec<usize>,
    /// The pairs that can be joined, best first, with what comes of it.
    candidates: BTreeMap<(i128, usize, usize), (Part, Source)>,
}

impl<'a> Forest<'a> {
    fn new(network: &'a Network, exists: Exists<'a>, score: usize, limited: bool, considered: &mut u64) -> Forest<'a> {
        let mut holders = vec![0; network.label_count()];
        let sets = network.operands.iter().chain([&network.output]);
        sets.flat_map(LabelSet::labels).for_each(|label| holders[label] += 1);
        let count = network.operands.len();
        let mut forest = Forest {
            network,
            exists,
            score,
            limited,
            nodes: leaves(network, exists),
            open: vec![true; count],
            parts: count,
            holders,
            candidates: BTreeMap::new(),
        };
        for right in 0..count {
            (0..right).for_each(|left| forest.consider(left, right, true, considered));
        }
        forest
    }

    /// Adds a pair to the candidates if it shares a label, or if it need not.
    fn consider(&mut self, left: usize, right: usize, connected: bool, considered: &mut u64) {
        let (one, other) = (&self.nodes[left], &self.nodes[right]);
        let (first, second) = (one.part.labels(), other.part.labels());
        if connected && !first.meets(second) {
            return;
        }
        let held = |label| usize::from(first.contains(label)) + usize::from(second.contains(label));
        let kept = first.union(second).filtered(|label| self.holders[label] > held(label));
        let (elements, last) = (self.network.elements(&kept), self.parts == 2);
        if self.limited && !last && !self.network.fits(elements) {
            return;
        }
        *considered += 1;
        let mut members = [&one.members[..], &other.members[..]].concat();
        members.sort_unstable();
        let (cost, source) = if (self.exists)(&members) {
            (0, Source::Reused)
        } else {
            let join = self.network.join(&one.part, &other.part, elements, last);
            (join.cost, Source::Joined { nodes: [left, right], readings: join.readings })
        };
        let signed = |count: u128| i128::try_from(count).unwrap_or(i128::MAX);
        let score = match self.score {
            // What memory grows by, what is spent, what is left, how much is summed.
            0 => signed(elements).saturating_sub(signed(one.part.elements().saturating_add(other.part.elements()))),
            1 => signed(cost).saturating_sub(signed(one.part.cost().saturating_add(other.part.cost()))),
            2 => signed(elements),
            _ => -signed(self.network.elements(&first.union(second).filtered(|label| !kept.contains(label)))),
        };
        self.candidates.insert((score, left, right), (self.network.part(kept, cost), source));
    }

    fn consider_outer_products(&mut self, considered: &mut u64) {
        let open: Vec<usize> = (0..self.nodes.len()).filter(|node| self.open[*node]).collect();
        for (place, right) in open.iter().enumerate() {
            open[..place].iter().for_each(|left| self.consider(*left, *right, false, considered));
        }
    }

    fn join(&mut self, left: usize, right: usize, considered: &mut u64) {
        let chosen = self.candidates.keys().find(|(_, a, b)| (*a, *b) == (left, right)).copied();
        let Some((part, source)) = chosen.and_then(|key| self.candidates.remove(&key)) else { return };
        // What the others keep does not change: a label that goes now was in these two alone.
        self.candidates.retain(|(_, a, b), _| ![*a, *b].iter().any(|side| [left, right].contains(side)));
        let mut members = [&self.nodes[left].members[..], &self.nodes[right].members[..]].concat();
        members.sort_unstable();
        for side in [left, right] {
            self.open[side] = false;
            self.nodes[side].part.labels().labels().for_each(|label| self.holders[label] -= 1);
        }
        part.labels().labels().for_each(|label| self.holders[label] += 1);
        self.nodes.push(JoinNode { members, source, part });
        self.open.push(true);
        self.parts -= 1;
        let new = self.nodes.len() - 1;
        for other in (0..new).filter(|node| self.open[*node]).collect::<Vec<_>>() {
            self.consider(other, new, true, considered);
        }
    }
}
