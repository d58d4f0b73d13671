//! Regions are opened. Rematerialised ones after all other passes: what was computed before and what is computed anew look the same, and
//! to find that out is what other passes are for. Regions for kernels that the target does not have are opened before the passes, so that
//! what their pullbacks compute anew is found to be the same. Those that it has stay as they are.
//!
//! What a region waits for is an edge to each of its other inputs: [`Op::ControlDependency`] is its first input, and nothing that
//! reads it may run earlier than the others are known. It takes no memory and no time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::{dead::dead, fold::fold, simplify::simplify};
use crate::expr::{MultiOp, Op, Region, RegionKind};
use crate::opt::Capabilities;
use crate::opt::graph::{Graph, GraphMulti, GraphNode};
use crate::opt::program::Signature;

/// The graph without regions, but for those that the target has a kernel for. What is known about the arguments of a region then helps
/// inside of it.
pub(in crate::opt) fn expanded<'g>(graph: &'g Graph, target: &Capabilities) -> Cow<'g, Graph> {
    let opens = |node: &GraphNode, region: &Region, graph: &Graph| !runs_as_kernel(node, region, graph, target);
    if !graph.nodes.iter().any(|node| region_of(node).is_some_and(|(region, _)| opens(node, region, graph))) {
        return Cow::Borrowed(graph);
    }
    Cow::Owned(dead(simplify(fold(opened(graph, &opens, &|body| expanded(body, target).into_owned())))))
}

/// The graph in which regions that are units for nothing but a kernel are opened, but for those that the target has a kernel for; in loops
/// and rematerialised regions too.
pub fn unfused(mut graph: Graph, target: &Capabilities) -> Graph {
    if !contains_unfused(&graph) {
        return graph;
    }
    let mut inside: HashMap<usize, Arc<GraphMulti>> = HashMap::new();
    for multi in graph.nodes.iter_mut().filter_map(|node| node.multi.as_mut()) {
        let changed = inside.entry(multi.source).or_insert_with(|| {
            let GraphMulti { op, body, source } = GraphMulti::clone(multi);
            Arc::new(GraphMulti { op, body: unfused(body, target), source })
        });
        *multi = Arc::clone(changed);
    }
    let opens = |node: &GraphNode, region: &Region, graph: &Graph| match region.kind {
        RegionKind::Remat => false,
        RegionKind::Inline | RegionKind::Fused(_) => !runs_as_kernel(node, region, graph, target),
    };
    opened(&graph, &opens, &Graph::clone)
}

/// Whether there is a region that is a unit for nothing but a kernel.
fn contains_unfused(graph: &Graph) -> bool {
    graph.multis().any(|multi| match &multi.op {
        MultiOp::Remat(region) => region.kind != RegionKind::Remat || contains_unfused(&multi.body),
        MultiOp::Scan(_) | MultiOp::Sweep(_) => contains_unfused(&multi.body),
    })
}

/// Whether the target has a kernel for the region that a node is an output of.
fn runs_as_kernel(node: &GraphNode, region: &Region, graph: &Graph, target: &Capabilities) -> bool {
    match region.kind {
        RegionKind::Remat | RegionKind::Inline => false,
        RegionKind::Fused(kernel) => {
            let signature = |input: &usize| -> Signature {
                let GraphNode { shape, dtype, .. } = &graph.nodes[*input];
                (shape.clone(), *dtype)
            };
            // What is captured beside the parameters is part of the definition alone.
            let given = &node.inputs[..region.body.parameters.len()];
            (target.fused)(&kernel, &given.iter().map(signature).collect::<Vec<_>>())
        }
    }
}

/// The region that a node is an output of, with its body and its number.
fn region_of(node: &GraphNode) -> Option<(&Region, &GraphMulti)> {
    let multi = node.multi.as_deref()?;
    match &multi.op {
        MultiOp::Remat(region) => Some((region, multi)),
        MultiOp::Scan(_) | MultiOp::Sweep(_) => None,
    }
}

/// The graph with the bodies of some regions in their places, after a function of them.
fn opened(graph: &Graph, opens: &dyn Fn(&GraphNode, &Region, &Graph) -> bool, body: &dyn Fn(&Graph) -> Graph) -> Graph {
    let mut open = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..Graph::default() };
    let mut numbers: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    let mut results: HashMap<usize, Vec<usize>> = HashMap::new();
    for node in &graph.nodes {
        let inputs = || node.inputs.iter().map(|input| numbers[*input]).collect::<Vec<usize>>();
        let number = match (&node.op, region_of(node)) {
            (Op::GetOutput(output), Some((region, multi))) if opens(node, region, graph) => {
                let inlined = || inlined(&mut open, region, &body(&multi.body), &inputs(), multi.source);
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
