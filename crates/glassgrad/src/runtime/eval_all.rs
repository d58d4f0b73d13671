//! Every value of a graph, for those who look inside.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::array::Array;
use crate::error::Error;
use crate::exec::reference;
use crate::expr::{Inputs, Node, Op};

/// The key of a value: the iterations of the enclosing loops, from the outermost in, and the number of its node.
pub(crate) type ValueKey = (Vec<usize>, u64);

/// The values of all nodes of a list, in which inputs stand before what uses them, and of all nodes inside their
/// loops at every step. Nothing is kept in the nodes themselves.
pub(crate) fn every_value(nodes: &[(Arc<Node>, Inputs)]) -> Result<HashMap<ValueKey, Array>, Error> {
    let mut values: HashMap<ValueKey, Array> = HashMap::new();
    let mut parts: HashMap<u64, Vec<Array>> = HashMap::new();
    let missing = || Error::new("read", "a value was not computed");
    for (node, inputs) in nodes {
        if let Some(value) = node.value() {
            values.insert((Vec::new(), node.id), value.clone());
            continue;
        }
        let known = |input: &Arc<Node>| values.get(&(Vec::new(), input.id)).cloned();
        let operands = || inputs.iter().map(known).collect::<Option<Vec<Array>>>().ok_or_else(missing);
        let value = match (&node.op, inputs.multi()) {
            (Op::GetOutput(number), Some(multi)) => {
                let mut inside: Vec<(ValueKey, Array)> = Vec::new();
                let mut see =
                    |steps: &[usize], id: u64, value: &Array| inside.push(((steps.to_vec(), id), value.clone()));
                let outputs = match parts.entry(multi.id) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => {
                        place.insert(reference::outputs_of(&multi.op, inputs, &operands()?, &[], &mut see)?)
                    }
                };
                values.extend(inside);
                outputs[*number].clone()
            }
            _ => reference::compute(node, &operands()?)?,
        };
        values.insert((Vec::new(), node.id), value);
    }
    Ok(values)
}

/// The value of one node, which is no output of an operation with several, from values of its inputs.
pub(crate) fn value_of(node: &Node, operands: &[Array]) -> Result<Array, Error> {
    reference::compute(node, operands)
}
