//! Collectives as early as possible: each stands directly behind the last node that its operand needs, with the data movement that
//! only collectives read, so that its messages are made behind what follows. The order among the others stays.
//!
//! The gradient of a training step is summed over shards when all of it is built; without this pass every message would wait for the
//! end of the backward pass.

use std::borrow::Cow;

use crate::expr::Op;
use crate::opt::graph::Graph;
use crate::sorting::IndirectSort;

/// The graph in the order in which it is lowered.
pub(in crate::opt) fn early(graph: Cow<'_, Graph>) -> Cow<'_, Graph> {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::Collective(_))) {
        return graph;
    }
    let count = graph.nodes.len();
    // What is read by collectives alone, or by what only they read, moves with them.
    let mut moves = vec![true; count];
    graph.inputs.iter().chain(&graph.results).for_each(|node| moves[*node] = false);
    for number in (0..count).rev() {
        let node = &graph.nodes[number];
        let is_collective = matches!(node.op, Op::Collective(_));
        let is_movement = matches!(node.op, Op::Concatenate(_)) || node.op.properties().only_moves;
        moves[number] = is_collective || (moves[number] && is_movement && !node.inputs.is_empty());
        if !moves[number] {
            node.inputs.iter().for_each(|input| moves[*input] = false);
        }
    }
    // Behind which node each one stands. A node stands behind its inputs, whose keys are not above its own.
    let mut keys: Vec<usize> = Vec::with_capacity(count);
    for (number, node) in graph.nodes.iter().enumerate() {
        let earliest = node.inputs.iter().map(|input| keys[*input]).max();
        keys.push(earliest.filter(|_| moves[number]).unwrap_or(number));
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.indirect_sort_by_key(|number| (keys[*number], *number));
    if order.is_sorted() {
        return graph;
    }
    let mut places = vec![0; count];
    order.iter().enumerate().for_each(|(place, number)| places[*number] = place);
    let mut ordered = Graph { nodes: Vec::with_capacity(count), ..Graph::default() };
    for number in order {
        let mut node = graph.nodes[number].clone();
        node.inputs.iter_mut().for_each(|input| *input = places[*input]);
        ordered.push(node);
    }
    ordered.inputs = graph.inputs.iter().map(|input| places[*input]).collect();
    ordered.constants = graph.constants.iter().map(|(node, array)| (places[*node], array.clone())).collect();
    ordered.results = graph.results.iter().map(|result| places[*result]).collect();
    Cow::Owned(ordered)
}
