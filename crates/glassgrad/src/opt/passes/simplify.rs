//! Algebra, node by node: what changes nothing goes, and what follows one another goes into one.
//!
//! A product with a coefficient of exactly 0 is zero also where its operands are not finite: coefficients come
//! from rules, and what does not move contributes nothing. Numbers of the user are operands; their zeros stay,
//! and give NaN where they meet what is not finite, unless they are to win.

use super::correlate::correlated;
use super::product::{all_differ, has_empty_sum, is_view, number, number_node, product, rounded, substituted};
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::expr::{Logic, Op};
use crate::opt::graph::{Graph, GraphNode};
use crate::sorting::IndirectSort;
use crate::view::{AxisView, View};

pub(super) fn simplify(graph: Graph) -> Graph {
    graph.rewritten(|graph, mut node| {
        if let Some((windows, product)) = correlated(graph, &node) {
            let windows = graph.push(windows);
            node = product(windows);
        }
        // Every step has fewer nodes behind it than the one before, so this comes to an end.
        loop {
            match simpler(graph, &node) {
                Simpler::Same => return graph.push(node),
                Simpler::Known(number) => return number,
                Simpler::Other(other) => node = other,
            }
        }
    })
}

enum Simpler {
    /// Nothing is simpler.
    Same,
    /// A node from before.
    Known(usize),
    /// Another node of the same value.
    Other(GraphNode),
}

fn simpler(graph: &Graph, node: &GraphNode) -> Simpler {
    let input = |place: usize| &graph.nodes[node.inputs[place]];
    let other = |op: Op, inputs: &[usize]| {
        Simpler::Other(GraphNode { op, inputs: inputs.to_vec(), multi: None, ..node.clone() })
    };
    match &node.op {
        Op::Variable | Op::StopGradient => Simpler::Known(node.inputs[0]),
        Op::Reshape if input(0).shape == node.shape => Simpler::Known(node.inputs[0]),
        Op::Reshape if input(0).op == Op::Reshape => other(Op::Reshape, &input(0).inputs),
        Op::Cast if input(0).dtype == node.dtype => Simpler::Known(node.inputs[0]),
        Op::Cast => simpler_cast(graph, node),
        Op::ReadView(view) | Op::ScatterView(view) if view.is_identity() => Simpler::Known(node.inputs[0]),
        Op::ReadView(view) => match &input(0).op {
            Op::ReadView(before) => {
                view.after(before).map_or(Simpler::Same, |both| other(Op::ReadView(both.into()), &input(0).inputs))
            }
            _ => Simpler::Same,
        },
        Op::Concatenate(_) if node.inputs.len() == 1 => Simpler::Known(node.inputs[0]),
        Op::Select if node.inputs[1] == node.inputs[2] => Simpler::Known(node.inputs[1]),
        Op::Logic(Logic::Not) if input(0).op == Op::Logic(Logic::Not) => Simpler::Known(input(0).inputs[0]),
        Op::Logic(Logic::And | Logic::Or) if node.inputs[0] == node.inputs[1] => Simpler::Known(node.inputs[0]),
        Op::Add => {
            let is_zero = |term: &usize| number(&graph.nodes[*term]) == Some(0.0);
            let terms: Vec<usize> = node.inputs.iter().copied().filter(|term| !is_zero(term)).collect();
            match terms[..] {
                // All terms are zero, and so is the first.
                [] => Simpler::Known(node.inputs[0]),
                [only] => Simpler::Known(only),
                _ if terms.len() < node.inputs.len() => other(Op::Add, &terms),
                _ => match joined(graph, &terms) {
                    Some((axis, parts)) => other(Op::Concatenate(axis), &parts),
                    None => Simpler::Same,
                },
            }
        }
        Op::Einsum(einsum) => simpler_product(graph, node, einsum),
        Op::Leaf
        | Op::Placeholder
        | Op::Map(_)
        | Op::Reshape
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
        | Op::ControlDependency
        | Op::GetOutput(_)
        | Op::Collective(_)
        | Op::Custom(_)
        | Op::Failed(_) => Simpler::Same,
    }
}

/// A sum of parts that are surrounded by zeros and fill the whole between them, as the axis along which they can be joined
/// and the parts in order: what the derivative of slices is.
fn joined(graph: &Graph, terms: &[usize]) -> Option<(usize, Vec<usize>)> {
    let mut parts = Vec::with_capacity(terms.len());
    for term in terms {
        let Op::ReadView(view) = &graph.nodes[*term].op else { return None };
        let (axis, start) = padded(view)?;
        parts.push((axis, start, view.input[axis], graph.nodes[*term].inputs[0]));
    }
    parts.indirect_sort();
    let axis = parts.first()?.0;
    let mut end = 0;
    for (own_axis, start, length, _) in &parts {
        if *own_axis != axis || *start != end {
            return None;
        }
        end += length;
    }
    let whole = graph.nodes[terms[0]].shape[axis];
    (end == whole).then(|| (axis, parts.into_iter().map(|(_, _, _, input)| input).collect()))
}

/// The one axis along which a view surrounds all that it reads with zeros, and how many stand in front.
fn padded(view: &View) -> Option<(usize, usize)> {
    if view.input.rank() != view.output.rank() {
        return None;
    }
    let mut found = None;
    for (axis, own) in view.axes.iter().enumerate() {
        if own.steps != [(axis, 1)] {
            return None;
        }
        if own.offset == 0 && view.input[axis] == view.output[axis] {
            continue;
        }
        let start = usize::try_from(-own.offset).ok()?;
        if found.is_some() || start + view.input[axis] > view.output[axis] {
            return None;
        }
        found = Some((axis, start));
    }
    found
}

/// A cast of a cast, of a number or a unit tensor, and of truth values that are stretched as integers.
fn simpler_cast(graph: &Graph, node: &GraphNode) -> Simpler {
    let input = &graph.nodes[node.inputs[0]];
    let other = |op: Op, inputs: &[usize]| Simpler::Other(GraphNode { op, inputs: inputs.to_vec(), ..node.clone() });
    match &input.op {
        Op::Cast => {
            let first = &graph.nodes[input.inputs[0]];
            if first.dtype.is_exact_in(input.dtype) { other(Op::Cast, &input.inputs) } else { Simpler::Same }
        }
        Op::Einsum(einsum) if einsum.operands.is_empty() && node.dtype != DType::Bool => {
            let coefficient = input.dtype.cast_number(rounded(einsum.coefficient, input.dtype), node.dtype);
            other(Op::Einsum(Einsum { coefficient, ..Einsum::clone(einsum) }.into()), &[])
        }
        Op::Einsum(einsum) if node.dtype == DType::Bool && einsum.coefficient == 1.0 => {
            let Some(view) = as_view(einsum) else { return Simpler::Same };
            let stretched = &graph.nodes[input.inputs[0]];
            let is_truth = stretched.op == Op::Cast && graph.nodes[stretched.inputs[0]].dtype == DType::Bool;
            if is_truth { other(Op::ReadView(view.into()), &stretched.inputs) } else { Simpler::Same }
        }
        _ => Simpler::Same,
    }
}

/// A product of one operand as a view of it, if that is all it is: no sum, no diagonal that is written.
fn as_view(einsum: &Einsum) -> Option<View> {
    let [labels] = &einsum.operands[..] else { return None };
    let axis = |label: &Label| {
        let along = (0..einsum.output.len()).filter(|axis| einsum.output[*axis] == *label);
        AxisView { offset: 0, steps: along.map(|axis| (axis, 1)).collect() }
    };
    (is_view(einsum) && all_differ(&einsum.output)).then(|| View {
        input: einsum.operand_shape(0),
        output: einsum.output_shape(),
        axes: labels.iter().map(axis).collect(),
    })
}

/// Products whose operands are views, multiples or numbers take them in.
fn simpler_product(graph: &Graph, node: &GraphNode, einsum: &Einsum) -> Simpler {
    if einsum.is_identity() {
        return Simpler::Known(node.inputs[0]);
    }
    if (einsum.coefficient == 0.0 || has_empty_sum(einsum)) && !node.inputs.is_empty() {
        return Simpler::Other(number_node(node, 0.0));
    }
    for (place, input) in node.inputs.iter().enumerate() {
        let operand = &graph.nodes[*input];
        let mut outer = std::borrow::Cow::Borrowed(einsum);
        if einsum.strong[place] {
            match number(operand) {
                Some(0.0) => return Simpler::Other(number_node(node, 0.0)),
                // Where there is no zero, none can win.
                Some(_) => outer.to_mut().strong[place] = false,
                None => continue,
            }
        }
        let Some(inner) = product(operand).filter(|inner| is_view(inner)) else { continue };
        if let Some(both) = substituted(&outer, place, inner, node.dtype) {
            let mut inputs = node.inputs.clone();
            inputs.splice(place..=place, operand.inputs.iter().copied());
            return Simpler::Other(GraphNode { op: Op::Einsum(both.into()), inputs, ..node.clone() });
        }
    }
    Simpler::Same
}
