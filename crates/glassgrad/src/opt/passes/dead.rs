//! Dead code elimination. Inputs stay, because they are bound by position.

use crate::opt::graph::Graph;

pub(in crate::opt) fn dead(graph: Graph) -> Graph {
    let mut needed = vec![false; graph.nodes.len()];
    graph.inputs.iter().chain(&graph.results).for_each(|node| needed[*node] = true);
    for (number, node) in graph.nodes.iter().enumerate().rev() {
        if needed[number] {
            node.inputs.iter().for_each(|input| needed[*input] = true);
        }
    }
    if needed.iter().all(|needed| *needed) {
        return graph;
    }
    let mut kept = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..Graph::default() };
    let mut numbers: Vec<Option<usize>> = Vec::with_capacity(needed.len());
    let place = |numbers: &[Option<usize>], node: usize| numbers[node].unwrap_or_default();
    for (mut node, needed) in graph.nodes.into_iter().zip(needed) {
        node.renumber(kept.nodes.last(), |input| place(&numbers, input));
        numbers.push(needed.then(|| kept.push(node)));
    }
    kept.inputs = graph.inputs.iter().map(|input| place(&numbers, *input)).collect();
    let constants = graph.constants.into_iter().filter_map(|(node, array)| numbers[node].map(|node| (node, array)));
    kept.constants = constants.collect();
    kept.results = graph.results.iter().map(|result| place(&numbers, *result)).collect();
    kept
}
