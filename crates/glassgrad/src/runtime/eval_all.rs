//! Every value of a graph, for those who look inside.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::Array;
use crate::error::Error;
use crate::expr::{Inputs, Node};

use super::definitions;

/// The key of a value: the iterations of the enclosing loops, from the outermost in, and the number of its node.
pub(crate) type ValueKey = (Vec<usize>, u64);

/// The values of all nodes of a list, in which inputs stand before what uses them, and of all nodes inside their
/// loops at every step. Nothing is kept in the nodes themselves.
pub(crate) fn every_value(nodes: &[(Arc<Node>, Inputs)]) -> Result<HashMap<ValueKey, Array>, Error> {
    let mut values: HashMap<ValueKey, Array> = HashMap::new();
    let mut see = |steps: &[usize], id: u64, value: &Array| _ = values.insert((steps.to_vec(), id), value.clone());
    definitions::compute_all(nodes, &mut HashMap::new(), &[], &mut see)?;
    Ok(values)
}

/// The value of one node, which is no output of an operation with several, from values of its inputs.
pub(crate) fn value_of(node: &Node, operands: &[Array]) -> Result<Array, Error> {
    definitions::compute(node, operands)
}
