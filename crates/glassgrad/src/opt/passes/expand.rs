//! Regions are opened, after all other passes: what was computed before and what is computed anew look the same, and
//! to find that out is what other passes are for.
//!
//! What a region waits for is an edge to each of its other inputs: [`Op::ControlDependency`] is its first input, and nothing that
//! reads it may run earlier than the others are known. It takes no memory and no time.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{dead::dead, fold::fold, simplify::simplify};
use crate::expr::{MultiOp, Op, Region};
use crate::opt::graph::{Graph, GraphMulti, GraphNode};

/// The graph without regions. What is known about the arguments of a region then helps inside of it.
pub(in crate::opt) fn expanded(graph: &Graph) -> Cow<'_, Graph> {
    if !graph.nodes.iter().any(|node| region_of(node).is_some()) {
        return Cow::Borrowed(graph);
    }
    Cow::Owned(dead(simplify(fold(opened(graph)))))
}

/// The region that a node is an output of, with its body and its number.
fn region_of(node: &GraphNode) -> Option<(&Region, &GraphMulti)> {
    let multi = node.multi.as_deref()?;
    match &multi.op {
        MultiOp::Remat(region) => Some((region, multi)),
        MultiOp::Scan(_) | MultiOp::Sweep(_) => None,
    }
}

fn opened(graph: &Graph) -> Graph {
    let mut open = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..Graph::default() };
    let mut numbers: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    let mut results: HashMap<usize, Vec<usize>> = HashMap::new();
    for node in &graph.nodes {
        let inputs = || node.inputs.iter().map(|input| numbers[*input]).collect::<Vec<usize>>();
        let number = match (&node.op, region_of(node)) {
            (Op::GetOutput(output), Some((region, multi))) => {
                let inlined = || inlined(&mut open, region, &expanded(&multi.body), &inputs(), multi.source);
                results.entry(multi.source).or_insert_with(inlined)[*output]
            }
            _ => open.push(GraphNode { inputs: inputs(), ..node.clone() }),
        };
        numbers.push(number);
    }
    open.inputs = graph.inputs.iter().map(|input| numbers[*input]).collect();
    open.constants.extend(graph.constants.iter().map(|(node, array)| (numbers[*node], array.clone())));
    open.results = graph.results.iter().map(|result| numbers[*result]).collect();
    open
}

/// Inlines the body of a region, and returns the nodes of its results.
fn inlined(open: &mut Graph, region: &Region, body: &Graph, inputs: &[usize], source: usize) -> Vec<usize> {
    let awaited: Vec<usize> = region.awaited.iter().map(|place| inputs[*place]).collect();
    let mut numbers: Vec<usize> = vec![0; body.nodes.len()];
    for (place, (leaf, input)) in body.inputs.iter().zip(inputs).enumerate() {
        let waits = !awaited.is_empty() && !region.awaited.contains(&place);
        numbers[*leaf] = if waits {
            let behind = std::iter::once(*input).chain(awaited.iter().copied()).collect();
            let GraphNode { shape, dtype, .. } = open.nodes[*input].clone();
            open.push(GraphNode { op: Op::ControlDependency, inputs: behind, shape, dtype, source, multi: None })
        } else {
            *input
        };
    }
    for (leaf, array) in &body.constants {
        numbers[*leaf] = open.push(body.nodes[*leaf].clone());
        open.constants.push((numbers[*leaf], array.clone()));
    }
    for (number, node) in body.nodes.iter().enumerate().filter(|(_, node)| node.op != Op::Leaf) {
        let inputs = node.inputs.iter().map(|input| numbers[*input]).collect();
        numbers[number] = open.push(GraphNode { inputs, ..node.clone() });
    }
    body.results.iter().map(|result| numbers[*result]).collect()
}
