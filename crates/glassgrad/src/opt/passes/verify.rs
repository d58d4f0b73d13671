//! Whether a graph is legal: every node has inputs before it, of the shapes and types that its operation demands.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::expr::{Distribution, Logic, MultiOp, Op};
use crate::formula::{Formula, Node as FormulaNode};
use crate::opt::graph::{Graph, GraphMulti, GraphNode};
use crate::shape::Shape;
use crate::view::View;

/// A violation that the verifier found.
///
/// ```
/// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::verify};
/// let (mut graph, _) = Graph::of(&[&Tensor::from([1.0, 2.0]).exp()]).unwrap();
/// graph.nodes[1].inputs = vec![1];
/// assert_eq!(verify(&graph).unwrap_err().to_string(), "node 1, map: input 1 does not stand before it");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// The node, if it is about one.
    pub node: Option<usize>,
    /// The operation of that node, in words.
    pub operation: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Illegal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(formatter, "node {node}, {}: {}", self.operation, self.message),
            None => formatter.write_str(&self.message),
        }
    }
}

impl std::error::Error for Illegal {}

/// Checks that a graph is legal.
///
/// ```
/// use glassgrad::{Tensor, opt::graph::Graph, opt::passes::verify};
/// let (graph, _) = Graph::of(&[&Tensor::from([1.0, 2.0]).exp()]).unwrap();
/// assert_eq!(verify(&graph), Ok(()));
/// ```
pub fn verify(graph: &Graph) -> Result<(), Illegal> {
    let whole = |message: String| Illegal { node: None, operation: String::new(), message };
    let mut leaves = HashSet::new();
    // The first output of each operation with several.
    let mut multis: HashMap<usize, usize> = HashMap::new();
    let constants = graph.constants.iter().map(|(node, _)| node);
    for (what, leaf) in graph.inputs.iter().map(|leaf| ("input", leaf)).chain(constants.map(|leaf| ("constant", leaf)))
    {
        let is_leaf = graph.nodes.get(*leaf).is_some_and(|node| node.op == Op::Leaf);
        check(is_leaf, || format!("the {what} {leaf} is no leaf")).map_err(whole)?;
        check(leaves.insert(*leaf), || format!("the {what} {leaf} is listed twice")).map_err(whole)?;
    }
    for (leaf, array) in &graph.constants {
        let node = &graph.nodes[*leaf];
        let fits = (&node.shape, node.dtype) == (array.shape(), array.dtype());
        let (promised, given) = (signature(node), format!("{}{}", array.dtype(), array.shape()));
        check(fits, || format!("the constant {leaf} is {given}, not {promised}")).map_err(whole)?;
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        let illegal = |message| Illegal { node: Some(number), operation: word(&node.op), message };
        let late = node.inputs.iter().find(|input| **input >= number);
        check(late.is_none(), || format!("input {} does not stand before it", late.unwrap_or(&0))).map_err(illegal)?;
        if node.op == Op::Leaf {
            check(leaves.contains(&number), || "it is neither input nor constant".to_owned()).map_err(illegal)?;
            check(node.inputs.is_empty(), || "a leaf has no inputs".to_owned()).map_err(illegal)?;
        } else {
            legal_node(graph, node).map_err(illegal)?;
        }
        if let Some(multi) = &node.multi {
            let first = *multis.entry(multi.source).or_insert(number);
            let other = &graph.nodes[first];
            if first == number {
                verify(&multi.body).map_err(|inner| illegal(format!("in its body: {inner}")))?;
            }
            let is_shared = other.multi.as_ref().is_some_and(|other| Arc::ptr_eq(other, multi));
            check(is_shared && other.inputs == node.inputs, || format!("it shares no operation with node {first}"))
                .map_err(illegal)?;
        }
    }
    for result in &graph.results {
        let is_there = *result < graph.nodes.len();
        check(is_there, || format!("the result {result} is not in the graph")).map_err(whole)?;
    }
    Ok(())
}

/// An operation in words; of formulas and views only the kind, for what is illegal may not be printable.
fn word(op: &Op) -> String {
    match op {
        Op::Map(_) => "map".to_owned(),
        Op::ReadView(_) => "view".to_owned(),
        Op::ScatterView(_) => "scatter_view".to_owned(),
        other => other.describe(),
    }
}

type Legal = Result<(), String>;

fn check(holds: bool, message: impl FnOnce() -> String) -> Legal {
    if holds { Ok(()) } else { Err(message()) }
}

fn signature(node: &GraphNode) -> String {
    format!("{}{}", node.dtype, node.shape)
}

fn has_shape(node: &GraphNode, shape: &[usize]) -> Legal {
    check(*node.shape == *shape, || format!("its shape is {}, not {}", node.shape, Shape::from(shape)))
}

fn has_type(node: &GraphNode, dtype: DType) -> Legal {
    check(node.dtype == dtype, || format!("its type is {}, not {dtype}", node.dtype))
}

/// What each operation demands of its inputs and its result.
fn legal_node(graph: &Graph, node: &GraphNode) -> Legal {
    let inputs: Vec<&GraphNode> = node.inputs.iter().map(|input| &graph.nodes[*input]).collect();
    let is_output = matches!(node.op, Op::GetOutput(_));
    check(is_output || node.multi.is_none(), || "an operation with several outputs is no value".to_owned())?;
    let counted =
        |count: usize| check(inputs.len() == count, || format!("it has {} inputs, not {count}", inputs.len()));
    let alike = |place: usize| {
        let other = inputs[place];
        let is_alike = (&node.shape, node.dtype) == (&other.shape, other.dtype);
        check(is_alike, || format!("input {place} is {}, and it is {}", signature(other), signature(node)))
    };
    let input_is = |place: usize, dtype: DType| {
        let other = inputs[place].dtype;
        check(other == dtype, || format!("input {place} is {other}, not {dtype}"))
    };
    let input_shape = |place: usize, shape: &[usize]| {
        let other = &inputs[place].shape;
        check(**other == *shape, || format!("input {place} has the shape {other}, not {}", Shape::from(shape)))
    };
    let axis_of = |place: usize, axis: usize| {
        let shape = &inputs[place].shape;
        check(axis < shape.rank(), || format!("there is no axis {axis} in the shape {shape}"))
    };
    match &node.op {
        Op::Leaf => Ok(()),
        Op::Variable | Op::StopGradient => counted(1).and_then(|()| alike(0)),
        Op::Map(formula) => {
            check(!inputs.is_empty(), || "it has no inputs".to_owned())?;
            (0..inputs.len()).try_for_each(alike)?;
            check(node.dtype.is_float(), || format!("its type is {}", node.dtype))?;
            legal_formula(formula, inputs.len())
        }
        Op::Einsum(einsum) => {
            counted(einsum.operands.len())?;
            legal_einsum(einsum)?;
            check(node.dtype != DType::Bool, || "truth values are no numbers".to_owned())?;
            for place in 0..inputs.len() {
                input_is(place, node.dtype)?;
                input_shape(place, &einsum.operand_shape(place))?;
            }
            has_shape(node, &einsum.output_shape())
        }
        Op::Add => {
            check(!inputs.is_empty(), || "it has no inputs".to_owned())?;
            (0..inputs.len()).try_for_each(alike)?;
            check(node.dtype != DType::Bool, || "truth values are no numbers".to_owned())
        }
        Op::Cast => counted(1).and_then(|()| has_shape(node, &inputs[0].shape)),
        Op::Reshape => {
            counted(1)?;
            input_is(0, node.dtype)?;
            let (own, other) = (node.shape.elements(), inputs[0].shape.elements());
            check(own == other, || format!("{other} elements do not fill the shape {}", node.shape))
        }
        Op::ReadView(view) | Op::ScatterView(view) => {
            counted(1)?;
            legal_view(view)?;
            input_is(0, node.dtype)?;
            let reads = matches!(node.op, Op::ReadView(_));
            let (from, to) = if reads { (&view.input, &view.output) } else { (&view.output, &view.input) };
            input_shape(0, from).and_then(|()| has_shape(node, to))
        }
        Op::Concatenate(axis) => {
            check(!inputs.is_empty(), || "it has no inputs".to_owned())?;
            let mut shape = node.shape.to_vec();
            check(*axis < shape.len(), || format!("there is no axis {axis} in the shape {}", node.shape))?;
            for (place, input) in inputs.iter().enumerate() {
                axis_of(place, *axis)?;
                input_is(place, node.dtype)?;
                shape[*axis] = input.shape[*axis];
                input_shape(place, &shape)?;
            }
            shape[*axis] = inputs.iter().map(|input| input.shape[*axis]).sum();
            has_shape(node, &shape)
        }
        Op::Gather(axis) => {
            counted(2)?;
            axis_of(0, *axis)?;
            input_is(0, node.dtype)?;
            input_is(1, DType::I64)?;
            let whole = &inputs[0].shape;
            has_shape(node, &[&whole[..*axis], &inputs[1].shape, &whole[axis + 1..]].concat())
        }
        Op::ScatterAdd(axis) => {
            counted(2)?;
            input_is(0, node.dtype)?;
            input_is(1, DType::I64)?;
            check(*axis < node.shape.rank(), || format!("there is no axis {axis} in the shape {}", node.shape))?;
            input_shape(0, &[&node.shape[..*axis], &inputs[1].shape, &node.shape[axis + 1..]].concat())
        }
        Op::Compare(_) => {
            counted(2)?;
            input_is(1, inputs[0].dtype)?;
            (0..2).try_for_each(|place| input_shape(place, &node.shape))?;
            has_type(node, DType::Bool)
        }
        Op::Logic(logic) => {
            counted(if *logic == Logic::Not { 1 } else { 2 })?;
            (0..inputs.len()).try_for_each(alike)?;
            has_type(node, DType::Bool)
        }
        Op::Select => {
            counted(3)?;
            input_is(0, DType::Bool)?;
            input_shape(0, &node.shape)?;
            alike(1).and_then(|()| alike(2))
        }
        Op::Max(axes) => {
            counted(1)?;
            axes.iter().try_for_each(|axis| axis_of(0, *axis))?;
            let kept = inputs[0].shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
            has_shape(node, &kept.map(|(_, size)| *size).collect::<Vec<_>>())?;
            has_type(node, inputs[0].dtype)
        }
        Op::ArgMax(axis) => {
            counted(1)?;
            axis_of(0, *axis)?;
            let mut shape = inputs[0].shape.to_vec();
            shape.remove(*axis);
            has_shape(node, &shape)?;
            has_type(node, DType::I64)
        }
        Op::OneHot(_) => {
            counted(1)?;
            input_is(0, DType::I64)?;
            let own = node.shape.to_vec();
            check(!own.is_empty(), || "it has no axis for the places".to_owned())?;
            input_shape(0, &own[..own.len() - 1])
        }
        Op::ArgSort { .. } => {
            counted(1)?;
            has_shape(node, &inputs[0].shape)?;
            has_type(node, DType::I64)
        }
        Op::Draw(distribution) => {
            counted(1)?;
            input_is(0, DType::I64)?;
            let keys = &inputs[0].shape;
            check(node.shape.starts_with(keys), || format!("the shape {} does not begin with {keys}", node.shape))?;
            if let Distribution::Keys(numbers) = distribution {
                let each: usize = node.shape[keys.rank()..].iter().product();
                check(each == numbers.len(), || format!("{} keys for {each} places", numbers.len()))?;
            }
            has_type(node, distribution.dtype())
        }
        Op::ControlDependency => {
            check(inputs.len() > 1, || "it waits for nothing".to_owned())?;
            alike(0)
        }
        Op::GetOutput(output) => {
            let Some(multi) = &node.multi else { return Err("it is an output of no operation".to_owned()) };
            legal_multi(multi, &inputs)?;
            let result = multi.body.results.get(*output).and_then(|result| multi.body.nodes.get(*result));
            let Some(result) = result else { return Err(format!("its operation has no output {output}")) };
            let lead = multi.op.output_lead(*output);
            has_shape(node, &lead.followed_by(&result.shape)).and_then(|()| has_type(node, result.dtype))
        }
        Op::Collective(collective) => {
            counted(1)?;
            has_shape(node, &collective.output(&inputs[0].shape, node.dtype)?)?;
            has_type(node, inputs[0].dtype)
        }
        Op::Custom(_) => Ok(()),
        Op::Placeholder => Err("its value is not known".to_owned()),
        Op::Failed(_) => Err("it has no value".to_owned()),
    }
}

fn legal_formula(formula: &Formula, inputs: usize) -> Legal {
    for (number, node) in formula.nodes.iter().enumerate() {
        check(node.operands().all(|operand| operand < number), || {
            format!("number {number} of the formula uses one that does not stand before it")
        })?;
        if let FormulaNode::Variable(variable) = node {
            check(*variable < inputs, || format!("the formula has no input {variable}"))?;
        }
    }
    let has_result = matches!(formula.outputs[..], [output] if output < formula.nodes.len());
    check(has_result, || "the formula has no result".to_owned())
}

fn legal_einsum(einsum: &Einsum) -> Legal {
    let (operands, count) = (einsum.operands.len(), einsum.extents.len());
    check(einsum.strong.len() == operands, || format!("{operands} operands, {} marks", einsum.strong.len()))?;
    let unknown = einsum.operands.iter().flatten().chain(&einsum.output).find(|label| **label >= count);
    check(unknown.is_none(), || format!("label {} has no size", unknown.unwrap_or(&0)))
}

fn legal_view(view: &View) -> Legal {
    let (axes, rank) = (view.axes.len(), view.input.rank());
    check(axes == rank, || format!("the view has {axes} axes for {rank}"))?;
    let unknown = view.axes.iter().flat_map(|axis| &axis.steps).find(|(along, _)| *along >= view.output.rank());
    check(unknown.is_none(), || format!("the view has no axis {}", unknown.map_or(0, |(along, _)| *along)))
}

/// The inputs of an operation with several outputs are those of its body, sequences with an axis of the length in front.
/// The outputs of its body are those that it promises, and what is carried stays as it is.
fn legal_multi(multi: &GraphMulti, inputs: &[&GraphNode]) -> Legal {
    let (body, promised) = (&multi.body, &multi.op.body().outputs);
    let (given, taken, least) = (inputs.len(), body.inputs.len(), multi.op.body().parameters.len());
    check(given == taken, || format!("it has {given} inputs, and its body {taken}"))?;
    check(least <= given, || format!("it has {given} inputs for {least} parameters"))?;
    let (results, expected) = (body.results.len(), promised.len());
    check(results == expected, || format!("its body has {results} results, not {expected}"))?;
    for (place, (input, inner)) in inputs.iter().zip(&body.inputs).enumerate() {
        let Some(inner) = body.nodes.get(*inner) else { return Err(format!("its body has no input {inner}")) };
        let expected = format!("{}{}", inner.dtype, multi.op.input_lead(place).followed_by(&inner.shape));
        check(signature(input) == expected, || format!("input {place} is {}, not {expected}", signature(input)))?;
    }
    for (place, (result, promised)) in body.results.iter().zip(promised).enumerate() {
        let Some(result) = body.nodes.get(*result) else { return Err(format!("its body has no result {result}")) };
        let fits = (&result.shape, result.dtype) == (promised.shape(), promised.dtype());
        let (found, expected) = (signature(result), format!("{}{}", promised.dtype(), promised.shape()));
        check(fits, || format!("output {place} of its body is {found}, not {expected}"))?;
    }
    if let MultiOp::Remat(region) = &multi.op {
        let late = region.awaited.iter().find(|place| **place >= given);
        check(late.is_none(), || format!("it waits for input {}", late.unwrap_or(&0)))?;
    }
    let carries = multi.op.scan().map_or(0, |scan| scan.carries);
    for (carry, result) in body.results[..carries].iter().enumerate() {
        let (before, after) = (signature(&body.nodes[body.inputs[carry]]), signature(&body.nodes[*result]));
        check(before == after, || format!("carry {carry} is {before} before a step and {after} after it"))?;
    }
    Ok(())
}
