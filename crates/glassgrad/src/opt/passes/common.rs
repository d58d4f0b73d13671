//! What is computed twice is computed once: nodes with the same operation on the same inputs are one.
//!
//! Nodes are compared by a fingerprint of 128 bits, with einsums up to the names of labels, and operations of two
//! operands whose order does not matter in either order.

use std::collections::HashMap;

use super::product::renamed;
use crate::einsum::Einsum;
use crate::expr::{Logic, Op};
use crate::opt::fingerprint::Fingerprint;
use crate::opt::graph::{Graph, GraphNode};

pub(super) fn common(graph: Graph) -> Graph {
    let mut known: HashMap<u128, usize> = HashMap::new();
    graph.rewritten(|graph, node| match fingerprint(&node) {
        Some(fingerprint) => *known.entry(fingerprint).or_insert_with(|| graph.push(node)),
        None => graph.push(node),
    })
}

/// What tells a node from others; none for what is never shared.
fn fingerprint(node: &GraphNode) -> Option<u128> {
    let mut inputs = node.inputs.clone();
    let mut hash = Fingerprint::default();
    let is_known = match &node.op {
        // Loops are not compared: their bodies are graphs of their own. What is to be computed after something is
        // never what was computed before.
        Op::Scan(_) | Op::Region(_) | Op::Sweep(_) | Op::After => false,
        Op::Einsum(einsum) => {
            let (einsum, inputs) = canonical(einsum, inputs);
            hash.listed(&Op::Einsum(einsum), &inputs, &node.shape, node.dtype)
        }
        Op::Add | Op::Logic(Logic::And | Logic::Or) if inputs.len() == 2 => {
            inputs.sort_unstable();
            hash.listed(&node.op, &inputs, &node.shape, node.dtype)
        }
        op => hash.listed(op, &inputs, &node.shape, node.dtype),
    };
    is_known.then(|| hash.finish())
}

/// A product under the names that labels get in the order of appearance. Of two operands that with the smaller
/// number stands first; of more the order stays, for it decides how products are rounded.
fn canonical(einsum: &Einsum, inputs: Vec<usize>) -> (Einsum, Vec<usize>) {
    let own = renamed(einsum);
    let [first, second] = inputs[..] else { return (own, inputs) };
    let turned = || {
        let mut turned = einsum.clone();
        turned.operands.swap(0, 1);
        turned.strong.swap(0, 1);
        renamed(&turned)
    };
    match first.cmp(&second) {
        std::cmp::Ordering::Less => (own, inputs),
        std::cmp::Ordering::Greater => (turned(), vec![second, first]),
        // The same operand twice: whichever order reads smaller.
        std::cmp::Ordering::Equal => {
            let turned = turned();
            let key = |einsum: &Einsum| (einsum.operands.clone(), einsum.strong.clone(), einsum.output.clone());
            (if key(&turned) < key(&own) { turned } else { own }, inputs)
        }
    }
}
