//! The exact search: dynamic programming over subsets.
//!
//! Which labels a part keeps depends on its operands and not on the order in which they
//! were joined. So the cheapest tree of a set of operands consists of cheapest trees of two subsets, and
//! dynamic programming over subsets finds it: 3ⁿ/2 pairs of disjoint subsets at most, fewer when a greedy
//! search gives an upper bound that prunes expensive parts.

use super::network::{Join, LabelSet, Network, Part};
use super::search::{Exists, JoinNode, Source};

/// The table of subsets of leaves, by bit mask.
struct Subsets {
    members: Vec<Vec<usize>>,
    kept: Vec<LabelSet>,
    elements: Vec<u128>,
}

impl Subsets {
    /// The sets of some leaves; `needed` are the labels that others need.
    fn new(network: &Network, leaves: &[JoinNode], needed: &LabelSet) -> Subsets {
        let sets = 1_usize << leaves.len();
        let mut members: Vec<Vec<usize>> = vec![Vec::new()];
        let mut bound = vec![LabelSet::of(&[], network.label_count())];
        for set in 1..sets {
            let (rest, first) = (set & (set - 1), &leaves[set.trailing_zeros() as usize]);
            let mut all = [&first.members[..], &members[rest][..]].concat();
            all.sort_unstable();
            members.push(all);
            bound.push(bound[rest].union(first.part.labels()));
        }
        let outside = |set: usize| needed.union(&bound[sets - 1 - set]);
        let kept: Vec<LabelSet> = (0..sets).map(|set| bound[set].intersection(&outside(set))).collect();
        let elements = kept.iter().map(|labels| network.elements(labels)).collect();
        Subsets { members, kept, elements }
    }
}

/// The ways to split a set in two; the first of the two has the lowest leaf.
fn splits(set: usize) -> impl Iterator<Item = [usize; 2]> {
    let rest = set & (set - 1);
    let mut right = rest;
    std::iter::from_fn(move || {
        let split = (right != 0).then_some([set ^ right, right])?;
        right = (right - 1) & rest;
        Some(split)
    })
}

/// The cheapest tree over some leaves that costs no more than `bound`: `needed` are the labels that its root
/// keeps, which is the output if it is the `last` part. The nodes are the leaves, then the joins, then the root.
pub(super) fn exact(
    network: &Network,
    exists: Exists,
    leaves: &[JoinNode],
    needed: &LabelSet,
    last: bool,
    bound: u128,
    considered: &mut u64,
) -> Option<Vec<JoinNode>> {
    let subsets = Subsets::new(network, leaves, needed);
    let all = subsets.kept.len() - 1;
    let mut parts: Vec<Option<(Part, Source)>> = vec![None; all + 1];
    for set in 1..=all {
        if set.is_power_of_two() {
            let leaf = &leaves[set.trailing_zeros() as usize];
            parts[set] = Some((leaf.part.clone(), leaf.source.clone()));
            continue;
        }
        let (kept, elements, last) = (&subsets.kept[set], subsets.elements[set], last && set == all);
        if exists(&subsets.members[set]) {
            parts[set] = Some((network.part(kept.clone(), 0), Source::Reused));
            continue;
        }
        if !last && (!network.fits(elements) || network.floor(elements) > bound) {
            continue;
        }
        let mut best: Option<(Join, [usize; 2])> = None;
        // Parts that share a label come first, for they usually win and then rule out the outer products.
        for connected in [true, false] {
            for split in splits(set) {
                let [Some((left, _)), Some((right, _))] = split.map(|side| parts[side].as_ref()) else { continue };
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
            let source = Source::Joined { nodes: split, readings: join.readings };
            parts[set] = Some((network.part(kept.clone(), join.cost), source));
        }
    }
    parts[all].as_ref()?;
    // Sets become places: a part has a smaller set than its parents.
    let mut places: Vec<usize> = (0..=all).map(|set| set.trailing_zeros() as usize).collect();
    let mut nodes = leaves.to_vec();
    for (set, part) in parts.into_iter().enumerate().filter(|(set, _)| !set.is_power_of_two()) {
        let Some((part, source)) = part else { continue };
        let source = match source {
            Source::Joined { nodes: split, readings } => {
                Source::Joined { nodes: split.map(|side| places[side]), readings }
            }
            other => other,
        };
        places[set] = nodes.len();
        nodes.push(JoinNode { members: subsets.members[set].clone(), source, part });
    }
    Some(nodes)
}

/// The least that the largest intermediate result can be.
pub(super) fn smallest_limit(network: &Network, leaves: &[JoinNode]) -> u128 {
    let subsets = Subsets::new(network, leaves, &network.output);
    let all = subsets.kept.len() - 1;
    let mut largest = vec![0_u128; all + 1];
    for set in (1..=all).filter(|set| !set.is_power_of_two()) {
        let below = splits(set).map(|[left, right]| largest[left].max(largest[right])).min().unwrap_or_default();
        largest[set] = if set == all { below } else { below.max(subsets.elements[set]) };
    }
    largest[all]
}
