//! Walks over the graph.

use std::collections::HashSet;
use std::sync::Arc;

use super::node::{Node, ScanBody, Tensor};

/// The nodes behind some roots that were made no earlier than `first`, in the order of creation.
pub(crate) fn nodes_behind(roots: &[&Tensor], first: u64) -> Vec<Arc<Node>> {
    let mut seen = HashSet::new();
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

/// The nodes of a body that depend on its placeholders, in the order of creation.
pub(crate) fn inner_nodes(body: &ScanBody) -> Vec<Arc<Node>> {
    let outputs: Vec<&Tensor> = body.carried.iter().chain(&body.results).collect();
    let placeholders: HashSet<u64> =
        body.carries.iter().chain(&body.entries).map(|placeholder| placeholder.0.id).collect();
    let first = placeholders.iter().min().copied().unwrap_or(u64::MAX);
    let mut dependent = placeholders.clone();
    let mut nodes = nodes_behind(&outputs, first);
    nodes.retain(|node| {
        let depends =
            !placeholders.contains(&node.id) && node.inputs().iter().any(|input| dependent.contains(&input.id));
        if depends {
            dependent.insert(node.id);
        }
        depends
    });
    nodes
}
