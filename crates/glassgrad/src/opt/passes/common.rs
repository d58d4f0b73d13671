//! Common subexpression elimination: nodes with the same operation on the same inputs are merged.
//!
//! Nodes are compared by a fingerprint of 128 bits, with einsums up to the names of labels, and operations of two
//! operands whose order does not matter in either order.

use super::product::mix_product;
use crate::einsum::Einsum;
use crate::expr::{Logic, Op};
use crate::hashing::NumberMap;
use crate::opt::graph::{Graph, GraphNode};
use crate::opt::structural_hash::{Fingerprint, StructuralHash as _};
use crate::shape::InlineVec;

pub(super) fn common(graph: Graph) -> Graph {
    let mut known: NumberMap<u128, usize> = NumberMap::default();
    graph.rewritten(|graph, node| match fingerprint(&node) {
        Some(fingerprint) => *known.entry(fingerprint).or_insert_with(|| graph.push(node)),
        None => graph.push(node),
    })
}

/// The key of common subexpression elimination; none for nodes that are never shared.
fn fingerprint(node: &GraphNode) -> Option<u128> {
    let mut hash = Fingerprint::default();
    let is_known = match (&node.op, &node.inputs[..]) {
        // What is to be computed after something is never what was computed before.
        (Op::ControlDependency, _) => false,
        // Operations with several outputs are not compared: their subgraphs are graphs of their own.
        (op @ Op::GetOutput(_), _) => {
            let Some(multi) = &node.multi else { unreachable!("node {op:?} is an output of no operation") };
            hash.listed(op, &[multi.source], &node.shape, node.dtype)
        }
        (Op::Einsum(einsum), inputs) => return Some(product(node, einsum, inputs)),
        (Op::Add | Op::Logic(Logic::And | Logic::Or), &[a, b]) => {
            hash.listed(&node.op, &[a.min(b), a.max(b)], &node.shape, node.dtype)
        }
        (op, inputs) => hash.listed(op, inputs, &node.shape, node.dtype),
    };
    is_known.then(|| hash.finish())
}

/// The fingerprint of a product. Of two operands that with the smaller number stands first; of more the order stays,
/// for it decides how products are rounded.
fn product(node: &GraphNode, einsum: &Einsum, inputs: &[usize]) -> u128 {
    match inputs {
        [first, second] if first > second => product_in_order(node, einsum, &[1, 0]),
        // The same operand twice: whichever order gives less.
        [first, second] if first == second => {
            product_in_order(node, einsum, &[0, 1]).min(product_in_order(node, einsum, &[1, 0]))
        }
        _ => product_in_order(node, einsum, &(0..inputs.len()).collect::<InlineVec<usize>>()),
    }
}

/// The fingerprint of a product with its operands in some order. Its shape follows from the labels.
fn product_in_order(node: &GraphNode, einsum: &Einsum, order: &[usize]) -> u128 {
    let mut hash = Fingerprint::default();
    hash.word(u64::MAX);
    hash.word(node.dtype as u64);
    mix_product(&mut hash, einsum, order, |hash, place| hash.word(node.inputs[place] as u64));
    hash.finish()
}
