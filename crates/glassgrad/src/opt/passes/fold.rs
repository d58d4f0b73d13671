//! Constant folding.
//!
//! A number everywhere is a product of no operands, which takes no memory and no load in a loop, so nothing is
//! folded into an array: zeros stay "0 everywhere", and a unit tensor stays a notation. What depends on an input
//! is never touched, and what can fail (a gather) is left to fail.

use super::product::{all_differ, number, number_node, product, rounded, sums};
use crate::dtype::DType;
use crate::expr::Op;
use crate::opt::graph::{Graph, GraphNode};

pub(super) fn fold(graph: Graph) -> Graph {
    if !graph.nodes.iter().any(|node| number(node).is_some()) {
        return graph;
    }
    graph.rewritten(|graph, node| {
        let numbers: Option<Vec<f64>> = node.inputs.iter().map(|input| number(&graph.nodes[*input])).collect();
        let from = node.inputs.first().map_or(node.dtype, |input| graph.nodes[*input].dtype);
        let value = numbers.filter(|numbers| !numbers.is_empty()).and_then(|numbers| folded(&node, from, &numbers));
        graph.push(match value {
            Some(value) => number_node(&node, value),
            None => node,
        })
    })
}

/// The number that a node is everywhere if its inputs are these numbers everywhere, the first of which has the type `from`.
fn folded(node: &GraphNode, from: DType, numbers: &[f64]) -> Option<f64> {
    let (first, dtype) = (numbers[0], node.dtype);
    match &node.op {
        Op::Variable | Op::StopGradient | Op::Reshape | Op::Max(_) => Some(first),
        Op::ReadView(view) if view.stays_inside() => Some(first),
        Op::Cast if dtype != DType::Bool => Some(from.cast_number(first, dtype)),
        Op::Concatenate(_) if numbers.iter().all(|number| *number == first) => Some(first),
        Op::Add if dtype.is_float() => Some(numbers[1..].iter().fold(first, |sum, term| rounded(sum + term, dtype))),
        Op::Map(formula) if dtype.compute_type() == DType::F32 => {
            let inputs: Vec<f32> = numbers.iter().map(|number| *number as f32).collect();
            Some(rounded(f64::from(formula.evaluate(&inputs)[0]), dtype))
        }
        Op::Map(formula) if dtype == DType::F64 => Some(formula.evaluate(numbers)[0]),
        Op::Einsum(_) if dtype.is_float() => {
            let einsum = product(node).filter(|einsum| all_differ(&einsum.output))?;
            let is_zero = |(number, strong): (&f64, &bool)| *strong && *number == 0.0;
            if numbers.iter().zip(&einsum.strong).any(is_zero) {
                return Some(0.0);
            }
            let count: f64 = sums(einsum).iter().map(|label| einsum.extents[*label] as f64).product();
            // A sum of nothing is zero, whatever its terms would be.
            let value = numbers.iter().fold(einsum.coefficient, |product, number| product * number);
            Some(if count == 0.0 { 0.0 } else { rounded(value * count, dtype) })
        }
        Op::Leaf
        | Op::Placeholder
        | Op::Map(_)
        | Op::Einsum(_)
        | Op::Add
        | Op::Cast
        | Op::ReadView(_)
        | Op::ScatterView(_)
        | Op::Concatenate(_)
        | Op::Gather(_)
        | Op::ScatterAdd(_)
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::Select
        | Op::ArgMax(_)
        | Op::OneHot(_)
        | Op::ArgSort { .. }
        | Op::Draw(_)
        | Op::ControlDependency
        | Op::GetOutput(_)
        | Op::Collective(_)
        | Op::Custom(_)
        | Op::Failed(_) => None,
    }
}
