//! Regions are opened, after all other passes: what was computed before and what is computed anew look the same, and
//! to find that out is what other passes are for.
//!
//! What a region waits for is an edge to each of its other inputs: [`Op::ControlDependency`] is its first input, and nothing that
//! reads it may run earlier than the others are known. It takes no memory and no time.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{dead::dead, fold::fold, simplify::simplify};
use crate::expr::{Op, Region};
use crate::opt::graph::{Graph, GraphNode};

/// The graph without regions. What is known about the arguments of a region then helps inside of it.
pub(in crate::opt) fn expanded(graph: &Graph) -> Cow<'_, Graph> {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::Remat(_))) {
        return Cow::Borrowed(graph);
    }
    Cow::Owned(dead(simplify(fold(opened(graph)))))
}

fn opened(graph: &Graph) -> Graph {
    let mut open = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..Graph::default() };
    let mut numbers: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    let mut results: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, node) in graph.nodes.iter().enumerate() {
        let inputs: Vec<usize> = node.inputs.iter().map(|input| numbers[*input]).collect();
        let part = |part: usize| node.inputs.first().and_then(|region| results.get(region)?.get(part).copied());
        numbers.push(match (&node.op, &node.body) {
            (Op::Remat(region), Some(body)) => {
                results.insert(number, inlined(&mut open, region, &expanded(body), &inputs, node));
                // A region is read only through its outputs.
                0
            }
            (Op::GetOutput(place), _) if part(*place).is_some() => part(*place).unwrap_or_default(),
            _ => open.push(GraphNode { inputs, ..node.clone() }),
        });
    }
    open.inputs = graph.inputs.iter().map(|input| numbers[*input]).collect();
    open.constants.extend(graph.constants.iter().map(|(node, array)| (numbers[*node], array.clone())));
    open.results = graph.results.iter().map(|result| numbers[*result]).collect();
    open
}

/// Inlines the body of a region, and returns the nodes of its results.
fn inlined(open: &mut Graph, region: &Region, body: &Graph, inputs: &[usize], around: &GraphNode) -> Vec<usize> {
    let awaited: Vec<usize> = region.awaited.iter().map(|place| inputs[*place]).collect();
    let mut numbers: Vec<usize> = vec![0; body.nodes.len()];
    for (place, (leaf, input)) in body.inputs.iter().zip(inputs).enumerate() {
        let waits = !awaited.is_empty() && !region.awaited.contains(&place);
        numbers[*leaf] = if waits {
            let behind = std::iter::once(*input).chain(awaited.iter().copied()).collect();
            let GraphNode { shape, dtype, .. } = open.nodes[*input].clone();
            open.push(GraphNode {
                op: Op::ControlDependency,
                inputs: behind,
                shape,
                dtype,
                source: around.source,
                body: None,
            })
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
