//! Whether a graph is legal: every node has inputs before it, of the shapes and types that its operation demands.

use std::collections::HashSet;
use std::fmt;

use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::expr::{Distribution, Logic, Op};
use crate::formula::{Formula, Node as FormulaNode};
use crate::opt::graph::{Graph, GraphNode};
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
        if let Some(body) = &node.body {
            verify(body).map_err(|inner| illegal(format!("in its body: {inner}")))?;
        }
    }
    for result in &graph.results {
        let place = graph.nodes.get(*result);
        check(place.is_some(), || format!("the result {result} is not in the graph")).map_err(whole)?;
        let is_loop = place.is_some_and(|node| node.op.body().is_some());
        check(!is_loop, || format!("the result {result} is a loop and not a part of it")).map_err(whole)?;
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
    let read_loop = inputs.iter().any(|input| input.op.body().is_some());
    check(!read_loop || matches!(node.op, Op::GetOutput(_)), || "a loop is read by its parts alone".to_owned())?;
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
        Op::Scan(_) | Op::Sweep(_) => legal_loop(node, &inputs),
        Op::Remat(region) => {
            let late = region.awaited.iter().find(|place| **place >= inputs.len());
            check(late.is_none(), || format!("it waits for input {}", late.unwrap_or(&0)))?;
            legal_loop(node, &inputs)
        }
        Op::ControlDependency => {
            check(inputs.len() > 1, || "it waits for nothing".to_owned())?;
            alike(0)
        }
        Op::GetOutput(part) => {
            counted(1)?;
            let (Some(scan), Some(body)) = (inputs[0].op.body(), &inputs[0].body) else {
                return Err("its input is no loop".to_owned());
            };
            let result = body.results.get(*part).and_then(|result| body.nodes.get(*result));
            let Some(result) = result else { return Err(format!("the loop has no part {part}")) };
            let stacked = if *part < scan.carried.len() { Shape::scalar() } else { Shape::from(scan.length) };
            has_shape(node, &stacked.followed_by(&result.shape)).and_then(|()| has_type(node, result.dtype))
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

/// The inputs of a loop are those of its body, sequences with an axis of the length in front.
fn legal_loop(node: &GraphNode, inputs: &[&GraphNode]) -> Legal {
    let (Some(scan), Some(body)) = (node.op.body(), &node.body) else { return Err("it has no body".to_owned()) };
    let (carries, sequences) = (scan.carries.len(), scan.entries.len());
    let (given, taken) = (inputs.len(), body.inputs.len());
    check(given == taken, || format!("it has {given} inputs, and its body {taken}"))?;
    check(carries + sequences <= given, || format!("it has {given} inputs for {carries} and {sequences}"))?;
    let results = scan.carried.len() + scan.results.len();
    check(body.results.len() == results, || format!("its body has {} results, not {results}", body.results.len()))?;
    for (place, (input, inner)) in inputs.iter().zip(&body.inputs).enumerate() {
        let Some(inner) = body.nodes.get(*inner) else { return Err(format!("its body has no input {inner}")) };
        let is_sequence = (carries..carries + sequences).contains(&place);
        let lead = if is_sequence { Shape::from(scan.length) } else { Shape::scalar() };
        let expected = format!("{}{}", inner.dtype, lead.followed_by(&inner.shape));
        check(signature(input) == expected, || format!("input {place} is {}, not {expected}", signature(input)))?;
    }
    // The results of a region are not its arguments once more.
    let carries = if matches!(node.op, Op::Remat(_)) { 0 } else { carries };
    for (carry, result) in body.results[..carries].iter().enumerate() {
        let (Some(before), Some(after)) = (body.nodes.get(body.inputs[carry]), body.nodes.get(*result)) else {
            return Err(format!("its body has no carry {carry}"));
        };
        let (before, after) = (signature(before), signature(after));
        check(before == after, || format!("carry {carry} is {before} before a step and {after} after it"))?;
    }
    Ok(())
}
