//! Products of many factors become products of two, in the cheapest order.
//!
//! A loop over all labels at once would multiply everything with everything; two by two, sums are taken as soon
//! as their terms have no other reader. Also, what is summed is not repeated or put on a diagonal by the same loop: the
//! sum comes first, and what it is spread to is a view of it. Products that multiply the same tensors are planned
//! together, see `together`.

use super::common::common;
use super::contraction_order::Orders;
use super::dead::dead;
use super::flatten::plain_product;
use super::joint_contraction::Together;
use super::product::{has_sums, product, product_node};
use crate::einsum::{Einsum, Label};
use crate::opt::contract::flops;
use crate::opt::graph::{Graph, GraphNode};

pub(super) fn split(graph: Graph) -> Graph {
    let mut orders = Orders::for_nodes(graph.nodes.len());
    let together = Together::of(&graph, &mut orders);
    if together.is_empty() {
        return in_steps(graph, orders, together);
    }
    // No group costs more than apart, but steps that were equal by chance between groups may not be so any more.
    let apart = apart(graph.clone());
    let joint = in_steps(graph, orders, together);
    let cost = |graph: &Graph| {
        let needed = dead(common(graph.clone()));
        needed.nodes.iter().filter_map(product).map(flops).fold(0, u128::saturating_add)
    };
    if cost(&joint) <= cost(&apart) { joint } else { apart }
}

/// As [`split`], where each product is planned as if it were alone.
pub(super) fn apart(graph: Graph) -> Graph {
    let orders = Orders::for_nodes(graph.nodes.len());
    in_steps(graph, orders, Together::default())
}

fn in_steps(graph: Graph, mut orders: Orders, mut together: Together) -> Graph {
    if !graph.nodes.iter().any(|node| summing_product(node).is_some()) {
        return graph;
    }
    graph.renumbered(|graph, numbers, node| {
        let einsum = summing_product(&node);
        let joint = together.result(graph, numbers, &node);
        let alone = || einsum.and_then(|einsum| steps(graph, &mut orders, &node, einsum));
        joint.or_else(alone).unwrap_or_else(|| graph.push(node))
    })
}

/// A product with sums, of floating-point numbers, without strong zeros and without an empty sum.
pub(super) fn summing_product(node: &GraphNode) -> Option<&Einsum> {
    plain_product(node).filter(|einsum| has_sums(einsum))
}

/// Pushes the steps of a product, if it takes more than one.
fn steps(graph: &mut Graph, orders: &mut Orders, node: &GraphNode, einsum: &Einsum) -> Option<usize> {
    let core = core(einsum);
    let plan = orders.plan(core.as_ref().unwrap_or(einsum), node.dtype);
    if core.is_none() && plan.is_none() {
        return None;
    }
    let mut known = node.inputs.clone();
    match (plan, &core) {
        (Some(plan), _) => {
            for step in &plan.steps {
                let inputs = step.operands.iter().map(|operand| known[*operand]).collect();
                known.push(graph.push(product_node(&step.einsum, inputs, node)));
            }
        }
        (None, Some(core)) => known.push(graph.push(product_node(core, node.inputs.clone(), node))),
        (None, None) => {}
    }
    let last = *known.last()?;
    Some(spread(graph, core.as_ref(), einsum, last, node))
}

/// Pushes what is left of a product when its core is known: what the output repeats.
pub(super) fn spread(
    graph: &mut Graph,
    core: Option<&Einsum>,
    einsum: &Einsum,
    known: usize,
    node: &GraphNode,
) -> usize {
    let Some(core) = core else { return known };
    let spread = Einsum::new(vec![core.output.clone()], einsum.output.clone(), einsum.extents.clone());
    graph.push(product_node(&spread, vec![known], node))
}

/// A product with sums without what its output repeats: diagonals, and labels of the output alone.
pub(super) fn core(einsum: &Einsum) -> Option<Einsum> {
    let mut output: Vec<Label> = Vec::new();
    for label in &einsum.output {
        if !output.contains(label) && einsum.operands.iter().any(|labels| labels.contains(label)) {
            output.push(*label);
        }
    }
    (output != einsum.output).then(|| Einsum { output, ..einsum.clone() })
}
