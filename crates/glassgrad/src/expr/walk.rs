//! Walks over the graph.

use std::collections::HashSet;
use std::sync::Arc;

use super::node::{Inputs, Node, Tensor};

/// Nodes with their inputs, which are held so that reading values does not release them.
pub(crate) fn with_inputs(nodes: impl IntoIterator<Item = Arc<Node>>) -> Vec<(Arc<Node>, Inputs)> {
    let held = |node: Arc<Node>| {
        let inputs = node.inputs();
        (node, inputs)
    };
    nodes.into_iter().map(held).collect()
}

/// Sorts nodes topologically: numbers ascend with creation, and a node is created after its inputs.
pub(crate) fn sort_by_creation(nodes: &mut [Arc<Node>]) {
    nodes.sort_unstable_by_key(|node| node.id);
}

/// The nodes behind some roots that were made no earlier than `first`, in the order of creation.
pub(crate) fn nodes_behind(roots: &[&Tensor], first: u64) -> Vec<Arc<Node>> {
    nodes_up_to(roots.iter().copied(), first, HashSet::new())
}

/// [`nodes_behind`], without some nodes and what stands behind them alone.
pub(super) fn nodes_up_to<'t>(
    roots: impl IntoIterator<Item = &'t Tensor>,
    first: u64,
    mut seen: HashSet<u64>,
) -> Vec<Arc<Node>> {
    let mut stack: Vec<Arc<Node>> = roots.into_iter().map(|root| Arc::clone(&root.0)).collect();
    let mut found = Vec::new();
    while let Some(node) = stack.pop() {
        if node.id >= first && seen.insert(node.id) {
            let inputs = node.held_inputs();
            // The outputs of one operation have the same inputs.
            if inputs.multi().is_none_or(|multi| seen.insert(multi.id)) {
                stack.extend(inputs.iter().cloned());
            }
            drop(inputs);
            found.push(node);
        }
    }
    sort_by_creation(&mut found);
    found
}
