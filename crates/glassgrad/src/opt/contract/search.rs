//! The search for the cheapest tree of joins: exact for few operands, greedy and then mended for many.

use super::exact::{exact, smallest_limit};
use super::greedy::{SCORES, greedy};
use super::network::{LabelSet, Network, Part};
use crate::sorting::IndirectSort;

/// Up to this many operands the search is exact: for twelve, 265,720 pairs.
const EXACT: usize = 12;
/// The number of greedy searches above that.
const RESTARTS: usize = 24;
/// How many of the trees that they find are mended.
const MENDED: usize = 4;
/// How many parts of a tree are arranged anew at once: for eight, 3,025 pairs.
const WINDOW: usize = 8;

/// How a node of a contraction tree is computed.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// It is an operand.
    Operand,
    /// Computed for an earlier einsum.
    Reused,
    /// From two nodes.
    Joined { nodes: [usize; 2], readings: [usize; 2] },
}

/// A node of a tree.
#[derive(Clone, Debug)]
pub(super) struct JoinNode {
    /// The operands below it, in order.
    pub(super) members: Vec<usize>,
    pub(super) source: Source,
    pub(super) part: Part,
}

/// A tree of joins: nodes come after their children, and the root is the last.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<JoinNode>,
}

/// Whether the part of some operands exists already.
pub(super) type Exists<'a> = &'a dyn Fn(&[usize]) -> bool;

/// The operands as parts, of which some may be summed already.
pub(super) fn leaves(network: &Network, exists: Exists) -> Vec<JoinNode> {
    let others = |operand: usize| {
        let others = network.operands.iter().enumerate().filter(move |(other, _)| *other != operand);
        others.fold(network.output.clone(), |needed, (_, labels)| needed.union(labels))
    };
    let leaf = |(operand, labels): (usize, &LabelSet)| {
        let part = network.leaf(operand, labels.intersection(&others(operand)), exists(&[operand]));
        JoinNode { members: vec![operand], source: Source::Operand, part }
    };
    network.operands.iter().enumerate().map(leaf).collect()
}

/// The cheapest tree of at least one operand, or the smallest limit for which one was found.
pub(super) fn cheapest(network: &Network, exists: Exists, considered: &mut u64) -> Result<Tree, u128> {
    let members: Vec<usize> = (0..network.operands.len()).collect();
    if exists(&members) {
        let part = network.part(network.output.clone(), 0);
        return Ok(Tree { nodes: vec![JoinNode { members, source: Source::Reused, part }] });
    }
    if members.len() <= EXACT {
        let leaves = leaves(network, exists);
        let rough = (0..SCORES).filter_map(|restart| greedy(network, exists, restart, true, considered));
        let bound = rough.map(|tree| tree.cost()).min().unwrap_or(u128::MAX);
        let nodes = exact(network, exists, &leaves, &network.output, true, bound, considered);
        return nodes.map(Tree::new).ok_or_else(|| smallest_limit(network, &leaves));
    }
    let mut trees = Vec::new();
    for restart in 0..RESTARTS {
        trees.extend(greedy(network, exists, restart, true, considered));
    }
    // Sorting keeps the order of equals, for a plan must not depend on anything but the einsum.
    trees.indirect_sort_by_key(Tree::cost);
    trees.truncate(MENDED);
    let mended = trees.into_iter().map(|tree| tree.mended(network, exists, considered));
    mended.min_by_key(Tree::cost).ok_or_else(|| {
        let unlimited = (0..RESTARTS).filter_map(|restart| greedy(network, exists, restart, false, &mut 0));
        unlimited.map(|tree| tree.largest_intermediate()).min().unwrap_or(u128::MAX)
    })
}

impl Tree {
    /// The tree below the last of some nodes, depth first, without the nodes that it does not need.
    pub(super) fn new(nodes: Vec<JoinNode>) -> Tree {
        let root = nodes.len() - 1;
        Tree::below(root, nodes)
    }

    fn below(root: usize, nodes: Vec<JoinNode>) -> Tree {
        let mut places: Vec<Option<usize>> = vec![None; nodes.len()];
        let mut tree = Tree { nodes: Vec::new() };
        let mut path = vec![root];
        while let Some(number) = path.last().copied() {
            let mut node = nodes[number].clone();
            if let Source::Joined { nodes: sides, .. } = &mut node.source {
                if let Some(side) = sides.iter().find(|side| places[**side].is_none()) {
                    path.push(*side);
                    continue;
                }
                *sides = sides.map(|side| places[side].unwrap_or_default());
            }
            places[number] = Some(tree.nodes.len());
            tree.nodes.push(node);
            path.pop();
        }
        tree
    }

    pub(super) fn cost(&self) -> u128 {
        self.nodes.last().map_or(0, |root| root.part.cost())
    }

    fn largest_intermediate(&self) -> u128 {
        let (_, inner) = self.nodes.split_last().expect("a tree has a root");
        let joined = inner.iter().filter(|node| matches!(node.source, Source::Joined { .. }));
        joined.map(|node| node.part.elements()).max().unwrap_or_default()
    }

    /// Arranges anew, exactly, what is right below each node, until nothing becomes cheaper: neither where
    /// the dearest parts are opened nor where the largest are.
    fn mended(mut self, network: &Network, exists: Exists, considered: &mut u64) -> Tree {
        let dearest = |node: &JoinNode| node.part.cost();
        let largest = |node: &JoinNode| node.members.len() as u128;
        let mut opened: [fn(&JoinNode) -> u128; 2] = [dearest, largest];
        let mut in_vain = 0;
        while in_vain < opened.len() {
            let root = self.nodes.len() - 1;
            let mut nodes = self.nodes.clone();
            for number in 0..=root {
                mend(&mut nodes, number, number == root, opened[0], network, exists, considered);
            }
            let mended = Tree::below(root, nodes);
            in_vain = if mended.cost() < self.cost() { 0 } else { in_vain + 1 };
            self = mended;
            opened.rotate_left(1);
        }
        self
    }
}

/// Replaces what is right below a node by something cheaper, if there is such; of the parts below it, those
/// are opened first that have the most by some measure.
fn mend(
    nodes: &mut Vec<JoinNode>,
    number: usize,
    last: bool,
    measure: fn(&JoinNode) -> u128,
    network: &Network,
    exists: Exists,
    considered: &mut u64,
) {
    let Source::Joined { nodes: [left, right], .. } = nodes[number].source else { return };
    // What is below may have become cheaper.
    let labels = nodes[number].part.labels().clone();
    let join = network.join(&nodes[left].part, &nodes[right].part, network.elements(&labels), last);
    nodes[number].part = network.part(labels.clone(), join.cost);
    nodes[number].source = Source::Joined { nodes: [left, right], readings: join.readings };

    let mut window = vec![left, right];
    while window.len() < WINDOW {
        let joined = |place: &usize| matches!(nodes[window[*place]].source, Source::Joined { .. });
        let most = (0..window.len()).filter(joined).max_by_key(|place| measure(&nodes[window[*place]]));
        let Some(place) = most else { break };
        if let Source::Joined { nodes: [left, right], .. } = nodes[window[place]].source {
            window.splice(place..=place, [left, right]);
        }
    }
    let leaves: Vec<JoinNode> = window.iter().map(|leaf| nodes[*leaf].clone()).collect();
    let Some(found) = exact(network, exists, &leaves, &labels, last, join.cost, considered) else { return };
    if found.last().is_none_or(|root| root.part.cost() >= join.cost) {
        return;
    }
    let start = nodes.len();
    for mut node in found.into_iter().skip(window.len()) {
        if let Source::Joined { nodes: sides, .. } = &mut node.source {
            *sides = sides.map(|side| window.get(side).copied().unwrap_or(start + side - window.len()));
        }
        nodes.push(node);
    }
    nodes[number] = nodes.pop().expect("the new root");
}
