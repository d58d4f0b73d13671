//! The nodes of a graph, or of the body of a loop, held so that reading values does not take them apart.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::array::Array;
use crate::error::Error;
use crate::expr::{Inputs, MultiNode, Node, Subgraph, Tensor, nodes_behind, with_inputs};
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
        Scope::new(with_inputs(nodes_behind(outputs, 0)))
    }

    /// A subgraph: its parameters, the tensors that it captures, and what it makes of them.
    pub(crate) fn of_body(body: &Subgraph) -> Scope {
        let given = body.parameters.iter().cloned().chain(body.captured());
        let given = given.map(|tensor| (Arc::clone(&tensor.0), Inputs::default()));
        Scope::new(given.chain(with_inputs(body.nodes())).collect())
    }

    /// The operations with several outputs.
    pub(crate) fn multis(&self) -> impl Iterator<Item = &Arc<MultiNode>> {
        let mut seen = HashSet::new();
        self.nodes.iter().filter_map(|(_, inputs)| inputs.multi()).filter(move |multi| seen.insert(multi.id))
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
