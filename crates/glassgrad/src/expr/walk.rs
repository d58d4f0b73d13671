//! Walks over the graph.

use std::collections::HashSet;
use std::sync::Arc;

use super::node::{Node, Op, ScanBody, Tensor};

/// The nodes behind some roots that were made no earlier than `first`, in the order of creation.
pub(crate) fn nodes_behind(roots: &[&Tensor], first: u64) -> Vec<Arc<Node>> {
    nodes_up_to(roots, first, HashSet::new())
}

/// [`nodes_behind`], without some nodes and what stands behind them alone.
fn nodes_up_to(roots: &[&Tensor], first: u64, mut seen: HashSet<u64>) -> Vec<Arc<Node>> {
    let mut stack: Vec<Arc<Node>> = roots.iter().map(|root| Arc::clone(&root.0)).collect();
    let mut found = Vec::new();
    while let Some(node) = stack.pop() {
        if node.id >= first && seen.insert(node.id) {
            stack.extend(node.inputs());
            found.push(node);
        }
    }
    found.sort_unstable_by_key(|node| node.id);
    found
}

/// The nodes of a body: what depends on its placeholders or was made since it began, in the order of creation. Numbers that were made with them
/// belong to the body too: passes can do without them there, and outside they would have to be handed in.
pub(crate) fn inner_nodes(body: &ScanBody) -> Vec<Arc<Node>> {
    let outputs: Vec<&Tensor> = body.carried.iter().chain(&body.results).collect();
    let placeholders: HashSet<u64> =
        body.carries.iter().chain(&body.entries).map(|placeholder| placeholder.0.id).collect();
    let first = placeholders.iter().min().copied().into_iter().chain(body.since).min().unwrap_or(u64::MAX);
    let mut dependent = placeholders.clone();
    let mut numbers: HashSet<u64> = HashSet::new();
    let mut nodes = nodes_up_to(&outputs, first, placeholders.clone());
    nodes.retain(|node| {
        let inputs = node.inputs();
        // A leaf is given; an operation without inputs, which has no value yet, is computed inside.
        let is_computed = !inputs.is_empty() || matches!(node.op, Op::Custom(_));
        let depends = inputs.iter().any(|input| dependent.contains(&input.id))
            || (is_computed && body.since.is_some_and(|since| node.id >= since));
        let is_number = match &node.op {
            Op::Einsum(einsum) if einsum.operands.is_empty() => true,
            // What folds to a number when it is made of numbers.
            Op::Einsum(_) | Op::Map(_) | Op::Add | Op::Cast | Op::Reshape => {
                !inputs.is_empty() && inputs.iter().all(|input| numbers.contains(&input.id))
            }
            Op::Leaf
            | Op::Placeholder
            | Op::Variable
            | Op::ReadView(_)
            | Op::ScatterView(_)
            | Op::Concatenate(_)
            | Op::Gather(_)
            | Op::ScatterAdd(_)
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::Select
            | Op::Max(_)
            | Op::ArgMax(_)
            | Op::OneHot(_)
            | Op::ArgSort { .. }
            | Op::Draw(_)
            | Op::StopGradient
            | Op::Scan(_)
            | Op::Remat(_)
            | Op::Sweep(_)
            | Op::ControlDependency
            | Op::GetOutput(_)
            | Op::Custom(_)
            | Op::Failed(_) => false,
        };
        if depends {
            dependent.insert(node.id);
        }
        if is_number {
            numbers.insert(node.id);
        }
        depends || is_number
    });
    nodes
}
