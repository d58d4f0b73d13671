//! Repairs of an operation that is not finite. A repair is proposed only after it was tested: the
//! graph is rebuilt with it, the value and the derivatives are then finite, and what was finite before is as it
//! was.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::labels::Labels;
use super::place;
use super::provenance::{DerivativeOrder, Traced};
use super::scope::Scope;
use super::search::first_not_finite;
use crate::array::Array;
use crate::expr::{Axes, MultiNode, Node, Op, Product, Tensor, single_row};
use crate::ops::Operation;
use crate::runtime::ValueKey;

/// A change that makes a value and its derivatives finite, and has been tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// What to write.
    pub advice: String,
    /// The line to change.
    pub origin: &'static Location<'static>,
}

impl fmt::Display for Repair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}, at {}; tried: all is finite then, and what was finite stays as it was",
            self.advice,
            place(self.origin)
        )
    }
}

/// Another tensor in the place of a node, and how to write it.
struct Candidate {
    replaced: Arc<Node>,
    tensor: Tensor,
    /// The same with another number where the node is not finite. If nothing changes, those elements are unused.
    control: Option<Tensor>,
    advice: String,
}

/// The first candidate that is finite and changes nothing that was.
pub(super) fn repair(
    traced: &Traced,
    level: &Scope,
    labels: &Labels,
    values: &HashMap<ValueKey, Array>,
    culprit: &Arc<Node>,
    order: DerivativeOrder,
) -> Option<Repair> {
    let (_, inputs) = level.get(culprit.id)?;
    let operands: Vec<Tensor> = inputs.iter().map(|input| Tensor::onto(Arc::clone(input))).collect();
    let Op::Map(formula) = &culprit.op else { return None };
    let operation = single_row(formula)?;
    let names: Vec<String> = inputs.iter().map(|input| labels.text(input.id)).collect();
    let mut candidates = Vec::new();
    if operation == Operation::Exp {
        candidates.extend(without_overflow(level, culprit, &operands[0], &names[0]));
    }
    candidates.extend(guarded(culprit, operation, &operands, &names));
    candidates.extend(moved(level, culprit, operation, &operands, &names, values));
    let holds = |candidate: &Candidate| {
        let repaired = with_replaced(level, &candidate.replaced, &candidate.tensor, &traced.results);
        let unused = candidate.control.as_ref().is_none_or(|control| {
            let control = with_replaced(level, &candidate.replaced, control, &traced.results);
            // What a value does not need, its gradient may.
            orders(order.max(DerivativeOrder::Gradient))
                .all(|order| same(&traced.outputs(order, &repaired), &traced.outputs(order, &control)))
        });
        unused && is_finite(traced, order, &repaired) && is_unchanged(&traced.results, &repaired)
    };
    let found = candidates.into_iter().find(holds)?;
    Some(Repair { advice: found.advice, origin: found.replaced.origin })
}

/// Results with one node replaced, and every node that depends on it rebuilt.
fn with_replaced(level: &Scope, replaced: &Arc<Node>, tensor: &Tensor, results: &[Tensor]) -> Vec<Tensor> {
    let mut rebuilt: HashMap<u64, Arc<Node>> = HashMap::from([(replaced.id, Arc::clone(&tensor.0))]);
    let mut outputs: HashMap<u64, Vec<Tensor>> = HashMap::new();
    for (node, inputs) in &level.nodes {
        if node.id == replaced.id || !inputs.iter().any(|input| rebuilt.contains_key(&input.id)) {
            continue;
        }
        let replaced = inputs.iter().map(|input| Arc::clone(rebuilt.get(&input.id).unwrap_or(input)));
        let again = match (&node.op, inputs.multi()) {
            (Op::GetOutput(number), Some(multi)) => {
                let rebuild = || MultiNode::outputs(multi.op.clone(), replaced.collect(), multi.origin);
                outputs.entry(multi.id).or_insert_with(rebuild)[*number].clone()
            }
            (op, _) => Tensor::make(op.clone(), replaced.collect(), node.shape.clone(), node.dtype, None, node.origin),
        };
        rebuilt.insert(node.id, Arc::clone(&again.0));
    }
    results
        .iter()
        .map(|result| rebuilt.get(&result.0.id).map_or(result.clone(), |node| Tensor::onto(node.clone())))
        .collect()
}

fn orders(last: DerivativeOrder) -> impl Iterator<Item = DerivativeOrder> {
    [DerivativeOrder::Value, DerivativeOrder::Gradient, DerivativeOrder::SecondDerivative]
        .into_iter()
        .filter(move |order| *order <= last)
}

/// Whether the value and all derivatives up to an order are finite.
fn is_finite(traced: &Traced, order: DerivativeOrder, results: &[Tensor]) -> bool {
    orders(order).all(|order| {
        let outputs = traced.outputs(order, results);
        let arrays = Tensor::eval_all(&outputs.iter().collect::<Vec<_>>());
        arrays.is_ok_and(|arrays| arrays.iter().all(|array| first_not_finite(array).is_none()))
    })
}

/// Whether elements that were finite are what they were, up to a few digits: a small number under a root changes
/// the root of 0 by its own root.
fn is_unchanged(before: &[Tensor], after: &[Tensor]) -> bool {
    compared(before, after, |before, after, digits| {
        !before.is_finite() || (before - after).abs() <= digits * before.abs().max(1.0)
    })
}

fn same(first: &[Tensor], second: &[Tensor]) -> bool {
    compared(first, second, |first, second, _| first == second)
}

fn compared(first: &[Tensor], second: &[Tensor], agree: impl Fn(f64, f64, f64) -> bool) -> bool {
    first.iter().zip(second).all(|(first, second)| {
        let digits = if first.dtype() == crate::dtype::DType::F32 { 1e-3 } else { 1e-5 };
        let Ok(arrays) = Tensor::eval_all(&[first, second]) else { return false };
        let number = |array: usize, place: usize| arrays[array].buffer().get(place);
        (0..arrays[0].buffer().len()).all(|place| agree(number(0, place), number(1, place), digits))
    })
}

/// An exponential that overflows inside of a softmax, of ln Σ exp, or of ln(1 + exp), which the library has
/// without overflow.
fn without_overflow(level: &Scope, exponential: &Arc<Node>, x: &Tensor, name: &str) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let candidate = |node: &Arc<Node>, tensor: Tensor, advice: String| {
        let tensor = tensor.reshape(&node.shape);
        Candidate { replaced: Arc::clone(node), tensor, control: None, advice }
    };
    for (node, inputs) in &level.nodes {
        let Op::Map(formula) = &node.op else { continue };
        let sum_of = |number: usize| sum_axes(level, inputs.get(number)?, exponential);
        match single_row(formula) {
            Some(Operation::Div) if behind_broadcasts(level, &inputs[0]).id == exponential.id => {
                if let Some([axis]) = sum_of(1).as_deref() {
                    let advice = format!("use {name}.softmax({axis}), which takes the largest element out first");
                    candidates.push(candidate(node, x.softmax(*axis), advice));
                }
            }
            Some(Operation::Ln) => {
                if let Some(axes) = sum_of(0) {
                    let advice =
                        format!("use {name}.logsumexp_over({axes:?}), which takes the largest element out first");
                    candidates.push(candidate(node, x.logsumexp_over(Axes::from(&axes[..])), advice));
                } else if is_one_more(level, &inputs[0], exponential) {
                    candidates.push(candidate(node, x.softplus(), format!("use {name}.softplus()")));
                }
            }
            Some(Operation::Log1p) if inputs[0].id == exponential.id => {
                candidates.push(candidate(node, x.softplus(), format!("use {name}.softplus()")));
            }
            _ => {}
        }
    }
    candidates
}

/// What a node is before it was stretched or reshaped.
fn behind_broadcasts(level: &Scope, node: &Arc<Node>) -> Arc<Node> {
    let mut node = Arc::clone(node);
    loop {
        let is_shape_only = match &node.op {
            Op::Einsum(einsum) => matches!(Product::of(einsum), Product::Broadcast),
            other => other.name() == "reshape",
        };
        match level.get(node.id).map(|(_, inputs)| &inputs[..]) {
            Some([input]) if is_shape_only => node = Arc::clone(input),
            _ => return node,
        }
    }
}

/// The axes over which a node is the sum of another.
fn sum_axes(level: &Scope, node: &Arc<Node>, of: &Arc<Node>) -> Option<Vec<isize>> {
    let sum = behind_broadcasts(level, node);
    let (Op::Einsum(einsum), Some((_, inputs))) = (&sum.op, level.get(sum.id)) else { return None };
    let (Product::Sum(axes), [input]) = (Product::of(einsum), &inputs[..]) else { return None };
    (input.id == of.id).then(|| axes.iter().map(|axis| *axis as isize).collect())
}

/// Whether a node is another plus 1.
fn is_one_more(level: &Scope, node: &Arc<Node>, of: &Arc<Node>) -> bool {
    let Some((_, inputs)) = level.get(node.id).filter(|_| node.op == Op::Add) else { return false };
    let is_one = |input: &Arc<Node>| {
        let number = behind_broadcasts(level, input);
        number.shape.elements() == 1 && number.value().is_some_and(|value| value.buffer().get(0) == 1.0)
    };
    inputs.len() == 2 && inputs.iter().any(|input| input.id == of.id) && inputs.iter().any(is_one)
}

/// Elements that are unused, because they are multiplied by 0 or not selected later: the argument is selected first.
fn guarded(node: &Arc<Node>, operation: Operation, operands: &[Tensor], names: &[String]) -> Option<Candidate> {
    use Operation::{Acos, Asin, Atanh, Div, Ln, Log1p, Log2, Log10, Pow, Powf, Recip, Rsqrt, Sqrt};
    let first = &operands[0];
    let (number, inside, condition) = match operation {
        Ln | Log2 | Log10 | Sqrt | Rsqrt | Pow | Powf => (0, first.gt(0.0), format!("{}.gt(0.0)", names[0])),
        Log1p => (0, first.gt(-1.0), format!("{}.gt(-1.0)", names[0])),
        Asin | Acos | Atanh => (0, first.abs().lt(1.0), format!("{}.abs().lt(1.0)", names[0])),
        Recip => (0, first.not_equal(0.0), format!("{}.not_equal(0.0)", names[0])),
        Div => (1, operands[1].not_equal(0.0), format!("{}.not_equal(0.0)", names[1])),
        _ => return None,
    };
    let mut chosen = operands.to_vec();
    chosen[number] = inside.choose(&operands[number], &operands[number].literal(0.5));
    let tensor = remade(node, &chosen);
    let control = inside.choose(&tensor, &tensor.literal(3.0));
    let argument = &names[number];
    let advice = format!(
        "choose the argument before {operation}, because what comes of it is not used there: \
         {condition}.choose({argument}, 0.5) in place of {argument}"
    );
    Some(Candidate { replaced: Arc::clone(node), tensor, control: Some(control), advice })
}

/// The same operation on other operands.
fn remade(node: &Arc<Node>, operands: &[Tensor]) -> Tensor {
    let inputs = operands.iter().map(|operand| Arc::clone(&operand.0)).collect();
    Tensor::make(node.op.clone(), inputs, node.shape.clone(), node.dtype, None, node.origin)
}

/// Another function that is the same away from the point where this one is not finite.
fn moved(
    level: &Scope,
    node: &Arc<Node>,
    operation: Operation,
    operands: &[Tensor],
    names: &[String],
    values: &HashMap<ValueKey, Array>,
) -> Vec<Candidate> {
    let candidate =
        |tensor: Tensor, advice: String| Candidate { replaced: Arc::clone(node), tensor, control: None, advice };
    let (x, name) = (&operands[0], &names[0]);
    let is_negative = |tensor: &Tensor| {
        let array = values.get(&(Vec::new(), tensor.0.id));
        array.is_none_or(|array| (0..array.buffer().len()).any(|place| array.buffer().get(place) < 0.0))
    };
    let a_little_more = || remade(node, &[x + 1e-12]);
    let more = format!("add a small number to the argument of {operation}: {name} + 1e-12");
    match operation {
        Operation::Sqrt if is_sum_of_squares(level, &x.0) => {
            let root = x.equal(0.0).choose(&x.zeros_like(), &remade(node, operands));
            let advice = "use norm or norm_over, whose derivative at the origin is 0".to_owned();
            vec![candidate(root, advice), candidate(a_little_more(), more)]
        }
        Operation::Sqrt | Operation::Powf if !is_negative(x) => vec![candidate(a_little_more(), more)],
        Operation::Ln if !is_negative(x) => {
            let kept = x.maximum(1e-12);
            vec![candidate(kept.ln(), format!("keep the argument away from 0: {name}.maximum(1e-12).ln()"))]
        }
        // Only 0 / 0 is a matter of choice; any other division by 0 is infinite.
        Operation::Div if is_nothing_by_nothing(&operands[0], &operands[1], values) => {
            let (nothing, divisor) = (operands[1].equal(0.0), &names[1]);
            let quotient = remade(node, &[x.clone(), nothing.choose(&operands[1].ones_like(), &operands[1])]);
            let advice = format!(
                "say what 0 / 0 is: let none = {divisor}.equal(0.0), then \
                 none.choose(0, {name} / none.choose(1, {divisor}))"
            );
            vec![candidate(nothing.choose(&x.zeros_like(), &quotient), advice)]
        }
        _ => Vec::new(),
    }
}

/// Whether a dividend is 0 wherever the divisor is.
fn is_nothing_by_nothing(dividend: &Tensor, divisor: &Tensor, values: &HashMap<ValueKey, Array>) -> bool {
    let value = |tensor: &Tensor| values.get(&(Vec::new(), tensor.0.id));
    let (Some(above), Some(below)) = (value(dividend), value(divisor)) else { return false };
    (0..above.buffer().len()).all(|place| below.buffer().get(place) != 0.0 || above.buffer().get(place) == 0.0)
}

/// Whether a node is a sum of squares.
fn is_sum_of_squares(level: &Scope, node: &Arc<Node>) -> bool {
    let sum = behind_broadcasts(level, node);
    let (Op::Einsum(einsum), Some((_, inputs))) = (&sum.op, level.get(sum.id)) else { return false };
    match &inputs[..] {
        // x·x in one product.
        [a, b] => a.id == b.id && einsum.operands[0] == einsum.operands[1],
        [square] => match (&square.op, level.get(square.id)) {
            (Op::Map(formula), _) => single_row(formula) == Some(Operation::Square),
            (Op::Einsum(_), Some((_, inputs))) => matches!(&inputs[..], [a, b] if a.id == b.id),
            _ => false,
        },
        _ => false,
    }
}
