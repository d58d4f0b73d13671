//! The search for the cheapest tree of joins.
//!
//! Which labels a part keeps depends on which operands it is made of and not on the order in which they
//! were joined. So the cheapest tree of a set of operands is made of cheapest trees of two subsets, and
//! dynamic programming over subsets finds it: 3ⁿ/2 pairs of disjoint subsets at most, fewer when a greedy
//! search has told which parts are too dear to be of use.

use std::collections::BTreeMap;

use super::network::{Join, LabelSet, Network, Part};
use crate::rng::Key;

/// Up to so many operands the search is exact: for twelve, 265,720 pairs.
const EXACT: usize = 12;
/// How many greedy searches are made above.
const RESTARTS: usize = 24;

/// How a part of a tree comes about.
#[derive(Clone, Debug)]
pub(super) enum Made {
    /// It is an operand.
    Given,
    /// An earlier einsum has made it.
    Before,
    /// From two nodes.
    Joined { nodes: [usize; 2], readings: [usize; 2] },
}

/// A node of a tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The operands below it, in order.
    pub(super) members: Vec<usize>,
    pub(super) made: Made,
    pub(super) part: Part,
}

/// A tree of joins: nodes come after those they are made from, and the root is the last.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) cost: u128,
}

impl Tree {
    /// The tree below the last node, if it is there, without the nodes that it does not need.
    fn below(nodes: Vec<Option<Node>>) -> Option<Tree> {
        let cost = nodes.last()?.as_ref()?.part.cost();
        let mut used = vec![false; nodes.len()];
        *used.last_mut()? = true;
        for number in (0..nodes.len()).rev() {
            if let (true, Some(Node { made: Made::Joined { nodes: sides, .. }, .. })) = (used[number], &nodes[number]) {
                sides.iter().for_each(|side| used[*side] = true);
            }
        }
        let mut places = vec![0; nodes.len()];
        let mut kept: Vec<Node> = Vec::new();
        for (number, mut node) in nodes.into_iter().enumerate().filter_map(|(number, node)| Some((number, node?))) {
            if let Made::Joined { nodes: sides, .. } = &mut node.made {
                *sides = sides.map(|side| places[side]);
            }
            if used[number] {
                places[number] = kept.len();
                kept.push(node);
            }
        }
        Some(Tree { nodes: kept, cost })
    }
}

/// Whether the part of some operands exists already.
pub(super) type Exists<'a> = &'a dyn Fn(&[usize]) -> bool;

/// The cheapest tree of at least one operand, or the smallest limit for which one was found.
pub(super) fn cheapest(network: &Network, exists: Exists, considered: &mut u64) -> Result<Tree, u128> {
    let count = network.operands.len();
    if count <= EXACT {
        let rough = (0..SCORES).filter_map(|restart| greedy(network, exists, restart, true, considered));
        let bound = rough.map(|tree| tree.cost).min().unwrap_or(u128::MAX);
        return exact(network, exists, bound, considered).ok_or_else(|| smallest_limit(network));
    }
    let mut trees = Vec::new();
    for restart in 0..RESTARTS {
        trees.extend(greedy(network, exists, restart, true, considered));
    }
    // The first of equals, for a plan must not depend on anything but the einsum.
    trees.into_iter().min_by_key(|tree| tree.cost).ok_or_else(|| {
        let unlimited = (0..RESTARTS).filter_map(|restart| greedy(network, exists, restart, false, &mut 0));
        unlimited.map(|tree| largest_intermediate(&tree)).min().unwrap_or(u128::MAX)
    })
}

/// What is known of each set of operands, by its bits.
struct Subsets {
    members: Vec<Vec<usize>>,
    kept: Vec<LabelSet>,
    elements: Vec<u128>,
}

impl Subsets {
    fn new(network: &Network) -> Subsets {
        let sets = 1_usize << network.operands.len();
        let mut members: Vec<Vec<usize>> = vec![Vec::new()];
        let mut bound = vec![LabelSet::of(&[], network.label_count())];
        for set in 1..sets {
            let (rest, first) = (set & (set - 1), set.trailing_zeros() as usize);
            members.push(std::iter::once(first).chain(members[rest].iter().copied()).collect());
            bound.push(bound[rest].union(&network.operands[first]));
        }
        let needed = |set: usize| network.output.union(&bound[sets - 1 - set]);
        let kept: Vec<LabelSet> = (0..sets).map(|set| bound[set].intersection(&needed(set))).collect();
        let elements = kept.iter().map(|labels| network.elements(labels)).collect();
        Subsets { members, kept, elements }
    }
}

/// The ways to split a set in two; the first of the two has the lowest operand.
fn splits(set: usize) -> impl Iterator<Item = [usize; 2]> {
    let lowest = set & set.wrapping_neg();
    let rest = set ^ lowest;
    let mut right = rest;
    std::iter::from_fn(move || {
        let split = (right != 0).then_some([set ^ right, right])?;
        right = (right - 1) & rest;
        Some(split)
    })
}

/// The cheapest tree that costs no more than `bound`.
fn exact(network: &Network, exists: Exists, bound: u128, considered: &mut u64) -> Option<Tree> {
    let subsets = Subsets::new(network);
    let all = subsets.kept.len() - 1;
    let mut nodes: Vec<Option<Node>> = vec![None; all + 1];
    for set in 1..=all {
        let (kept, elements, last) = (&subsets.kept[set], subsets.elements[set], set == all);
        let members = &subsets.members[set];
        let node = |part, made| Some(Node { members: members.clone(), made, part });
        match (exists(members), members[..] == [set.trailing_zeros() as usize]) {
            // The sum of one operand is not all of it, unless the output is.
            (true, single) if last || !single => {
                nodes[set] = node(network.part(kept.clone(), 0), Made::Before);
                continue;
            }
            (summed, true) => {
                nodes[set] = node(network.leaf(members[0], kept.clone(), summed), Made::Given);
                continue;
            }
            _ => {}
        }
        if !last && (!network.fits(elements) || network.floor(elements) > bound) {
            continue;
        }
        let mut best: Option<(Join, [usize; 2])> = None;
        // Parts that share a label come first, for they usually win and then rule out the outer products.
        for connected in [true, false] {
            for split in splits(set) {
                let [Some(left), Some(right)] = split.map(|side| nodes[side].as_ref().map(|node| &node.part)) else {
                    continue;
                };
                let least = left.cost().saturating_add(right.cost());
                let hopeless = best.as_ref().is_some_and(|(join, _)| least >= join.cost);
                if hopeless || left.labels().meets(right.labels()) != connected {
                    continue;
                }
                *considered += 1;
                let join = network.join(left, right, elements, last);
                if best.as_ref().is_none_or(|(known, _)| join.cost < known.cost) {
                    best = Some((join, split));
                }
            }
        }
        if let Some((join, split)) = best.filter(|(join, _)| join.cost <= bound) {
            let made = Made::Joined { nodes: split, readings: join.readings };
            nodes[set] = node(network.part(kept.clone(), join.cost), made);
        }
    }
    Tree::below(nodes)
}

/// The least that the largest intermediate result can be.
fn smallest_limit(network: &Network) -> u128 {
    let subsets = Subsets::new(network);
    let all = subsets.kept.len() - 1;
    let mut largest = vec![0_u128; all + 1];
    for set in (1..=all).filter(|set| subsets.members[*set].len() > 1) {
        let below = splits(set).map(|[left, right]| largest[left].max(largest[right])).min().unwrap_or_default();
        largest[set] = if set == all { below } else { below.max(subsets.elements[set]) };
    }
    largest[all]
}

fn largest_intermediate(tree: &Tree) -> u128 {
    let (_, inner) = tree.nodes.split_last().expect("a tree has a root");
    let joined = inner.iter().filter(|node| matches!(node.made, Made::Joined { .. }));
    joined.map(|node| node.part.elements()).max().unwrap_or_default()
}

/// How many measures the greedy search has for which pair to join next.
const SCORES: usize = 3;

/// Joins the best pair until one part is left. The restarts differ in what is best, and from the fourth on
/// sometimes take the second best, the third best, ….
fn greedy(network: &Network, exists: Exists, restart: usize, limited: bool, considered: &mut u64) -> Option<Tree> {
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
    Tree::below(forest.nodes.into_iter().map(Some).collect())
}

/// Parts on their way to become one.
struct Forest<'a> {
    network: &'a Network<'a>,
    exists: Exists<'a>,
    score: usize,
    limited: bool,
    nodes: Vec<Node>,
    /// Whether a node is not yet joined, and how many are not.
    open: Vec<bool>,
    parts: usize,
    /// How many open parts have each label; the output counts as one.
    holders: Vec<usize>,
    /// The pairs that can be joined, best first, with what comes of it.
    candidates: BTreeMap<(i128, usize, usize), (Part, Made)>,
}

impl<'a> Forest<'a> {
    fn new(network: &'a Network, exists: Exists<'a>, score: usize, limited: bool, considered: &mut u64) -> Forest<'a> {
        let mut holders = vec![0; network.label_count()];
        network.operands.iter().chain([&network.output]).flat_map(LabelSet::labels).for_each(|l| holders[l] += 1);
        let count = network.operands.len();
        let mut forest = Forest {
            network,
            exists,
            score,
            limited,
            nodes: Vec::new(),
            open: vec![true; count],
            parts: count,
            holders,
            candidates: BTreeMap::new(),
        };
        for (operand, labels) in network.operands.iter().enumerate() {
            let kept = labels.filtered(|label| forest.holders[label] > 1);
            let part = network.leaf(operand, kept, exists(&[operand]));
            forest.nodes.push(Node { members: vec![operand], made: Made::Given, part });
        }
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
        let (cost, made) = if (self.exists)(&members) {
            (0, Made::Before)
        } else {
            let join = self.network.join(&one.part, &other.part, elements, last);
            (join.cost, Made::Joined { nodes: [left, right], readings: join.readings })
        };
        let signed = |count: u128| i128::try_from(count).unwrap_or(i128::MAX);
        let score = match self.score {
            // What memory grows by, what is spent, what is left.
            0 => signed(elements).saturating_sub(signed(one.part.elements().saturating_add(other.part.elements()))),
            1 => signed(cost).saturating_sub(signed(one.part.cost().saturating_add(other.part.cost()))),
            _ => signed(elements),
        };
        self.candidates.insert((score, left, right), (self.network.part(kept, cost), made));
    }

    fn consider_outer_products(&mut self, considered: &mut u64) {
        let open: Vec<usize> = (0..self.nodes.len()).filter(|node| self.open[*node]).collect();
        for (place, right) in open.iter().enumerate() {
            open[..place].iter().for_each(|left| self.consider(*left, *right, false, considered));
        }
    }

    fn join(&mut self, left: usize, right: usize, considered: &mut u64) {
        let chosen = self.candidates.keys().find(|(_, a, b)| (*a, *b) == (left, right)).copied();
        let Some((part, made)) = chosen.and_then(|key| self.candidates.remove(&key)) else { return };
        // What the others keep does not change: a label that goes now was in these two alone.
        self.candidates.retain(|(_, a, b), _| ![*a, *b].iter().any(|side| [left, right].contains(side)));
        let mut members = [&self.nodes[left].members[..], &self.nodes[right].members[..]].concat();
        members.sort_unstable();
        for side in [left, right] {
            self.open[side] = false;
            self.nodes[side].part.labels().labels().for_each(|label| self.holders[label] -= 1);
        }
        part.labels().labels().for_each(|label| self.holders[label] += 1);
        self.nodes.push(Node { members, made, part });
        self.open.push(true);
        self.parts -= 1;
        let new = self.nodes.len() - 1;
        for other in (0..new).filter(|node| self.open[*node]).collect::<Vec<_>>() {
            self.consider(other, new, true, considered);
        }
    }
}
