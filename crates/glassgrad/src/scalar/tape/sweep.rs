//! The two sweeps over a tape, and the sets of nodes that they concern.

use std::ops::Index;

use super::storage::NONE;
use super::{NodeId, Tape};
use crate::algebra::c;
use crate::ops::Real;

/// The tangents or adjoints that a sweep computed, one for each node.
#[derive(Clone, Debug, Default)]
pub struct Sweep<T = f64> {
    numbers: Vec<T>,
}

impl<T: Real> Sweep<T> {
    /// An empty result, to be filled by [`Tape::reverse_into`] or [`Tape::forward_into`] again and
    /// again without allocating.
    pub fn new() -> Self {
        Sweep { numbers: Vec::new() }
    }

    /// The tangent or adjoint of a node. A constant, which is on no tape, has none: ask for nodes only.
    pub fn of(&self, node: impl Into<NodeId>) -> T {
        self.numbers[node.into().index()]
    }

    /// All of them, in the order of the tape.
    pub fn as_slice(&self) -> &[T] {
        &self.numbers
    }

    fn reset(&mut self, length: usize) {
        self.numbers.clear();
        self.numbers.reserve_exact(length);
        self.numbers.resize(length, c(0.0));
    }
}

impl<T: Real> Index<NodeId> for Sweep<T> {
    type Output = T;
    fn index(&self, node: NodeId) -> &T {
        &self.numbers[node.index()]
    }
}

impl<T: Real> Tape<T> {
    /// Tangents from one input: the derivative of every node with respect to it.
    pub fn forward(&self, input: impl Into<NodeId>) -> Sweep<T> {
        let mut sweep = Sweep::new();
        self.forward_into(&[(input.into(), c(1.0))], &mut sweep);
        sweep
    }

    /// Adjoints from one output: its derivative with respect to every node.
    pub fn reverse(&self, output: impl Into<NodeId>) -> Sweep<T> {
        let mut sweep = Sweep::new();
        self.reverse_into(&[(output.into(), c(1.0))], &mut sweep);
        sweep
    }

    /// Tangents along a direction, given as seeds on some nodes, into a result that is reused.
    ///
    /// A tangent that is exactly zero contributes nothing, also across an infinite partial.
    pub fn forward_into(&self, seeds: &[(NodeId, T)], sweep: &mut Sweep<T>) {
        let recording = self.recording.borrow();
        let length = recording.nodes.len();
        sweep.reset(length);
        let tangents = &mut sweep.numbers[..];
        for (node, seed) in seeds {
            tangents[node.index()] += *seed;
        }
        for (start, chunk) in recording.nodes.chunks_below(length) {
            for (index, (parents, partials)) in (start..).zip(chunk.parents.iter().zip(chunk.partials)) {
                let mut tangent = tangents[index];
                for slot in 0..2 {
                    let parent = parents[slot];
                    if parent != NONE {
                        let moved = tangents[parent as usize];
                        if !moved.is_exactly_zero() {
                            tangent += partials[slot] * moved;
                        }
                    }
                }
                tangents[index] = tangent;
            }
        }
    }

    /// Adjoints of a combination of outputs, given as seeds, into a result that is reused.
    ///
    /// An adjoint that is exactly zero contributes nothing, so that what is no ancestor of the
    /// outputs cannot spoil the result with an infinite partial.
    pub fn reverse_into(&self, seeds: &[(NodeId, T)], sweep: &mut Sweep<T>) {
        let recording = self.recording.borrow();
        sweep.reset(recording.nodes.len());
        let adjoints = &mut sweep.numbers[..];
        let mut end = 0;
        for (node, seed) in seeds {
            adjoints[node.index()] += *seed;
            end = end.max(node.index() + 1);
        }
        // What the node just before receives waits here, not in memory: in a chain the next adjoint
        // would otherwise have to wait for the store of this one.
        let mut ahead: Option<T> = None;
        for (start, chunk) in recording.nodes.chunks_below(end).rev() {
            let nodes = chunk.parents.iter().zip(chunk.partials);
            for (place, (parents, partials)) in nodes.enumerate().rev() {
                let index = start + place;
                let mut adjoint = adjoints[index];
                if let Some(share) = ahead.take() {
                    adjoint += share;
                    adjoints[index] = adjoint;
                }
                if adjoint.is_exactly_zero() {
                    continue;
                }
                for slot in 0..2 {
                    let parent = parents[slot];
                    if parent != NONE {
                        let share = adjoint * partials[slot];
                        if parent as usize + 1 == index {
                            ahead = Some(ahead.map_or(share, |other| other + share));
                        } else {
                            adjoints[parent as usize] += share;
                        }
                    }
                }
            }
        }
    }

    /// Several tangents of every node in one sweep, from seeds in the order of the tape's inputs.
    pub(crate) fn forward_lanes<const N: usize>(&self, seeds: &[(NodeId, [T; N])]) -> Vec<[T; N]> {
        let recording = self.recording.borrow();
        let length = recording.nodes.len();
        let mut tangents = vec![[c(0.0); N]; length];
        for (node, seed) in seeds {
            tangents[node.index()] = *seed;
        }
        for (start, chunk) in recording.nodes.chunks_below(length) {
            for (index, (parents, partials)) in (start..).zip(chunk.parents.iter().zip(chunk.partials)) {
                for slot in 0..2 {
                    let parent = parents[slot];
                    if parent != NONE {
                        let moved = tangents[parent as usize];
                        accumulate(&mut tangents[index], partials[slot], &moved);
                    }
                }
            }
        }
        tangents
    }

    /// Several adjoints of every node in one sweep. Seeds on one node add up.
    pub(crate) fn reverse_lanes<const N: usize>(&self, seeds: &[(NodeId, [T; N])]) -> Vec<[T; N]> {
        let recording = self.recording.borrow();
        let mut adjoints = vec![[c(0.0); N]; recording.nodes.len()];
        let mut end = 0;
        for (node, seed) in seeds {
            for (adjoint, seed) in adjoints[node.index()].iter_mut().zip(seed) {
                *adjoint += *seed;
            }
            end = end.max(node.index() + 1);
        }
        for (start, chunk) in recording.nodes.chunks_below(end).rev() {
            for (place, (parents, partials)) in chunk.parents.iter().zip(chunk.partials).enumerate().rev() {
                let adjoint: [T; N] = adjoints[start + place];
                if adjoint.iter().all(|adjoint| adjoint.is_exactly_zero()) {
                    continue;
                }
                for slot in 0..2 {
                    if parents[slot] != NONE {
                        accumulate(&mut adjoints[parents[slot] as usize], partials[slot], &adjoint);
                    }
                }
            }
        }
        adjoints
    }

    /// The nodes that depend on a node, itself included, in the order of the tape.
    pub fn reachable(&self, node: impl Into<NodeId>) -> Vec<NodeId> {
        let root = node.into();
        let recording = self.recording.borrow();
        let mut reached = vec![false; recording.nodes.len()];
        reached[root.index()] = true;
        for index in root.0 + 1..recording.nodes.len() as u32 {
            reached[index as usize] = recording.nodes.get(index).parents().any(|parent| reached[parent as usize]);
        }
        marked(&reached)
    }

    /// The nodes that a node depends on, itself included, in the order of the tape.
    pub fn ancestors(&self, node: impl Into<NodeId>) -> Vec<NodeId> {
        let root = node.into();
        let recording = self.recording.borrow();
        let mut needed = vec![false; recording.nodes.len()];
        needed[root.index()] = true;
        for index in (0..=root.0).rev() {
            if needed[index as usize] {
                recording.nodes.get(index).parents().for_each(|parent| needed[parent as usize] = true);
            }
        }
        marked(&needed)
    }

    /// A topological order of what is reachable from a node, as a depth-first search along the
    /// children finds it: parents before children.
    pub fn order_from(&self, node: impl Into<NodeId>) -> Vec<NodeId> {
        let mut children = vec![Vec::new(); self.len()];
        for id in self.ids() {
            for (parent, _) in self.node(id).parents() {
                children[parent.index()].push(id);
            }
        }
        depth_first(node.into(), self.len(), |id| children[id.index()].clone())
    }

    /// A topological order of the ancestors of a node, as a depth-first search along the parents
    /// finds it: children before parents.
    pub fn order_towards(&self, node: impl Into<NodeId>) -> Vec<NodeId> {
        depth_first(node.into(), self.len(), |id| self.node(id).parents().map(|(parent, _)| parent).collect())
    }
}

/// Adds the products of a partial with several tangents or adjoints, of which those that are exactly zero contribute nothing.
#[inline(always)]
fn accumulate<T: Real, const N: usize>(sums: &mut [T; N], partial: T, factors: &[T; N]) {
    if partial.is_entirely_finite() {
        for (sum, factor) in sums.iter_mut().zip(factors) {
            *sum += partial * *factor;
        }
    } else {
        accumulate_strongly(sums, &partial, factors);
    }
}

/// The same with a partial that is not finite.
#[cold]
#[inline(never)]
fn accumulate_strongly<T: Real>(sums: &mut [T], partial: &T, factors: &[T]) {
    for (sum, factor) in sums.iter_mut().zip(factors).filter(|(_, factor)| !factor.is_exactly_zero()) {
        *sum += *partial * *factor;
    }
}

fn marked(marks: &[bool]) -> Vec<NodeId> {
    (0..).zip(marks).filter(|(_, mark)| **mark).map(|(index, _)| NodeId(index)).collect()
}

/// The reverse of the order in which a depth-first search finishes its nodes. The search keeps its
/// own stack, so that a chain of any length is no deeper than another.
fn depth_first(root: NodeId, length: usize, neighbours: impl Fn(NodeId) -> Vec<NodeId>) -> Vec<NodeId> {
    let mut visited = vec![false; length];
    visited[root.index()] = true;
    let mut order = Vec::new();
    let mut stack = vec![(root, neighbours(root).into_iter())];
    while let Some((node, rest)) = stack.last_mut() {
        match rest.next() {
            Some(next) if !visited[next.index()] => {
                visited[next.index()] = true;
                stack.push((next, neighbours(next).into_iter()));
            }
            Some(_) => {}
            None => {
                order.push(*node);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}
