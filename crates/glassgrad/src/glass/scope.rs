//! The nodes of a graph, or of the body of a loop, held so that reading values does not take them apart.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::array::Array;
use crate::error::Error;
use crate::expr::{Inputs, Node, ScanBody, Tensor, inner_nodes, nodes_behind};
use crate::runtime::{ValueKey, every_value};

/// Nodes with their inputs, which stand before what uses them.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) nodes: Vec<(Arc<Node>, Inputs)>,
    numbers: HashMap<u64, usize>,
}

impl Scope {
    /// Everything behind some outputs.
    pub(crate) fn of(outputs: &[&Tensor]) -> Scope {
        let held = |node: Arc<Node>| {
            let inputs = node.inputs();
            (node, inputs)
        };
        Scope::new(nodes_behind(outputs, 0).into_iter().map(held).collect())
    }

    /// The body of a loop: its placeholders, the outer tensors that it uses, and what it makes of them.
    pub(crate) fn of_body(body: &ScanBody) -> Scope {
        let inner = inner_nodes(body);
        let placeholders = body.carries.iter().chain(&body.entries).map(|tensor| Arc::clone(&tensor.0));
        let mut nodes: Vec<(Arc<Node>, Inputs)> = placeholders.map(|node| (node, Inputs::new())).collect();
        let mut seen: HashSet<u64> = nodes.iter().map(|(node, _)| node.id).collect();
        seen.extend(inner.iter().map(|node| node.id));
        let outputs = body.carried.iter().chain(&body.results).map(|tensor| Arc::clone(&tensor.0));
        for node in inner.iter().flat_map(|node| node.inputs()).chain(outputs) {
            if seen.insert(node.id) {
                nodes.push((node, Inputs::new()));
            }
        }
        nodes.extend(inner.into_iter().map(|node| {
            let inputs = node.inputs();
            (node, inputs)
        }));
        Scope::new(nodes)
    }

    fn new(nodes: Vec<(Arc<Node>, Inputs)>) -> Scope {
        let numbers = nodes.iter().enumerate().map(|(number, (node, _))| (node.id, number)).collect();
        Scope { nodes, numbers }
    }

    /// A node of this level and its inputs.
    pub(crate) fn get(&self, id: u64) -> Option<&(Arc<Node>, Inputs)> {
        self.numbers.get(&id).map(|number| &self.nodes[*number])
    }

    /// The value of every node, and of every node inside of loops at each step.
    pub(crate) fn values(&self) -> Result<HashMap<ValueKey, Array>, Error> {
        every_value(&self.nodes)
    }
}
