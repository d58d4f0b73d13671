//! The search for the beginning of a NaN or an infinity.
//!
//! From an element that is not finite the search goes back to a non-finite element of an input, until there
//! is none: there it began. Whether an input is to blame is tried out, not looked up: the operation is computed
//! again with the input's numbers that are not finite, and with harmless ones in their place. So a branch that was
//! not chosen carries nothing, and the search knows no operation but the pointwise ones.

use std::collections::HashMap;
use std::sync::Arc;

use super::labels::Labels;
use super::provenance::{Carrier, DerivativeOrder, Provenance};
use super::scope::Scope;
use super::summary::Summary;
use crate::array::{Array, Buffer};
use crate::expr::{Inputs, MultiNode, MultiOp, Node, Op, Pass, Subgraph, Tensor};
use crate::runtime::{ValueKey, value_of};
use crate::trace::short;

/// A number in place of one that is not finite: inside of the domain of nearly everything.
const HARMLESS: f64 = 0.5;

/// The first element that is NaN or infinite.
pub(super) fn first_not_finite(array: &Array) -> Option<usize> {
    match array.buffer() {
        Buffer::F32(elements) => elements.iter().position(|number| !number.is_finite()),
        Buffer::F64(elements) => elements.iter().position(|number| !number.is_finite()),
        Buffer::F16(elements) => elements.iter().position(|number| !number.is_finite()),
        Buffer::BF16(elements) => elements.iter().position(|number| !number.is_finite()),
        Buffer::I64(_) | Buffer::I32(_) | Buffer::U8(_) | Buffer::Bool(_) => None,
    }
}

/// A graph with all its values, in which a number is traced back.
pub(super) struct Search<'s> {
    pub(super) level: &'s Scope,
    pub(super) labels: &'s Labels,
    pub(super) values: &'s HashMap<ValueKey, Array>,
}

/// A loop or a region in which the search is, and the nodes of its subgraph.
struct Frame {
    multi: Arc<MultiNode>,
    level: Scope,
}

/// An element of a node, at steps of the loops around it.
#[derive(Clone)]
struct Spot {
    node: Arc<Node>,
    steps: Vec<usize>,
    element: usize,
}

impl Search<'_> {
    /// The way of the first element that is not finite of a tensor.
    pub(super) fn trace(&self, output: &Tensor) -> Option<Provenance> {
        let spots = self.way(output)?;
        let operands = spots.last().map(|(spot, inputs)| self.operands(spot, inputs)).unwrap_or_default();
        let shown = |(number, (spot, _)): &(usize, &(Spot, Inputs))| {
            let is_end = *number == 0 || number + 1 == spots.len();
            is_end || self.labels.is_shown(spot.node.id)
        };
        let mut path: Vec<Carrier> =
            spots.iter().enumerate().filter(shown).map(|(_, (spot, inputs))| self.carrier(spot, inputs)).collect();
        path.reverse();
        Some(Provenance { path, operands })
    }

    /// The forward node that is to blame: where the number began, or what was differentiated there. None if the
    /// function itself differentiates: what it would make of another node cannot be tried from outside.
    pub(super) fn culprit(&self, output: &Tensor, limit: DerivativeOrder) -> Option<Arc<Node>> {
        let (spot, _) = self.way(output)?.pop()?;
        let mut node = spot.node;
        let mut order = 0;
        while let Some(cause) = node.cause.as_ref().filter(|cause| cause.pass == Pass::Derivative) {
            node = cause.node.upgrade()?;
            order += 1;
        }
        (order <= limit as usize).then_some(node)
    }

    /// The elements on the way, from the output back, each with the inputs of its node.
    fn way(&self, output: &Tensor) -> Option<Vec<(Spot, Inputs)>> {
        let element = first_not_finite(self.values.get(&(Vec::new(), output.0.id))?)?;
        let mut frames: Vec<Frame> = Vec::new();
        let mut spot = Spot { node: Arc::clone(&output.0), steps: Vec::new(), element };
        let mut way: Vec<(Spot, Inputs)> = Vec::new();
        loop {
            let level = frames.last().map_or(self.level, |frame| &frame.level);
            let inputs = level.get(spot.node.id).map(|(_, inputs)| inputs.clone()).unwrap_or_default();
            way.push((spot.clone(), inputs.clone()));
            let next = match (&spot.node.op, inputs.multi()) {
                (Op::GetOutput(number), Some(multi)) => enter(&spot, multi, *number, &mut frames),
                _ if inputs.is_empty() && !frames.is_empty() => leave(&spot, &mut frames),
                _ => self.carrying_input(&spot, &inputs),
            };
            match next {
                Some(next) => spot = next,
                None => return Some(way),
            }
        }
    }

    /// The value of a node at steps of loops, or outside of them.
    fn value(&self, steps: &[usize], id: u64) -> Option<&Array> {
        (0..=steps.len()).rev().find_map(|depth| self.values.get(&(steps[..depth].to_vec(), id)))
    }

    /// The element of an input that makes an element not finite.
    fn carrying_input(&self, spot: &Spot, inputs: &[Arc<Node>]) -> Option<Spot> {
        let arrays: Vec<&Array> =
            inputs.iter().map(|input| self.value(&spot.steps, input.id)).collect::<Option<_>>()?;
        let at = |number: usize, element: usize| {
            Some(Spot { node: Arc::clone(&inputs[number]), steps: spot.steps.clone(), element })
        };
        if matches!(spot.node.op, Op::Map(_) | Op::Add) {
            let number = (0..inputs.len()).find(|number| !arrays[*number].buffer().get(spot.element).is_finite())?;
            return at(number, spot.element);
        }
        let ill: Vec<Vec<usize>> = arrays.iter().map(|array| all_not_finite(array)).collect();
        // With these elements of one input as they are, and all else harmless, is the result still not finite?
        let makes = |number: usize, kept: &[usize]| {
            let operands: Vec<Array> = arrays
                .iter()
                .enumerate()
                .map(|(k, array)| harmless(array, &ill[k], if k == number { kept } else { &[] }))
                .collect();
            value_of(&spot.node, &operands).is_ok_and(|value| !value.buffer().get(spot.element).is_finite())
        };
        let number = (0..inputs.len()).find(|number| !ill[*number].is_empty() && makes(*number, &ill[*number]))?;
        // Bisection over the candidates.
        let mut suspects: &[usize] = &ill[number];
        while suspects.len() > 1 {
            let (first, second) = suspects.split_at(suspects.len() / 2);
            suspects = if makes(number, first) { first } else { second };
        }
        // Elements that harm only together leave the last one standing, which is as good as any.
        at(number, suspects[0])
    }

    fn carrier(&self, spot: &Spot, inputs: &Inputs) -> Carrier {
        let array = self.value(&spot.steps, spot.node.id);
        Carrier {
            label: self.labels.text(spot.node.id),
            expression: self.labels.expression(&spot.node, inputs),
            operation: if inputs.is_empty() { "input".to_owned() } else { spot.node.op.name() },
            origin: spot.node.origin,
            derivative_of: self.differentiated(&spot.node),
            index: index_of(spot.element, &spot.node.shape),
            value: array.map_or(f64::NAN, |array| array.buffer().get(spot.element)),
            steps: spot.steps.clone(),
        }
    }

    /// What was differentiated to make a node, in labels.
    fn differentiated(&self, node: &Node) -> Option<String> {
        let cause_of = |node: &Node| {
            node.cause.as_ref().filter(|cause| cause.pass == Pass::Derivative).and_then(|cause| cause.node.upgrade())
        };
        let mut cause = cause_of(node)?;
        while let Some(earlier) = cause_of(&cause) {
            cause = earlier;
        }
        let inputs = self.level.get(cause.id).map_or_else(|| cause.inputs(), |(_, inputs)| inputs.clone());
        let label = self.labels.text(cause.id);
        match (inputs.is_empty() || cause.op == Op::Variable, label.as_str()) {
            (true, _) => Some(label),
            (false, "?") => Some(cause.op.name()),
            (false, _) => Some(format!("{label} = {}", self.labels.expression(&cause, &inputs))),
        }
    }

    fn operands(&self, spot: &Spot, inputs: &[Arc<Node>]) -> Vec<(String, String)> {
        let pointwise = matches!(spot.node.op, Op::Map(_) | Op::Add);
        let shown = |input: &Arc<Node>| {
            let array = self.value(&spot.steps, input.id)?;
            let text = match pointwise {
                true => short(array.buffer().get(spot.element)),
                false => Summary::of(array).to_string(),
            };
            let label = self.labels.text(input.id);
            (label != text).then_some((label, text))
        };
        inputs.iter().filter_map(shown).collect()
    }
}

/// From an output of a loop or a region into it.
fn enter(spot: &Spot, multi: &Arc<MultiNode>, number: usize, frames: &mut Vec<Frame>) -> Option<Spot> {
    let inner = &multi.op.body().outputs[number];
    let (step, element) = match &multi.op {
        MultiOp::Remat(_) => (0, spot.element),
        // The steps inside a sweep are not traced: the path ends here.
        MultiOp::Sweep(_) => return None,
        MultiOp::Scan(scan) if number >= scan.carries => {
            let size = inner.shape().elements();
            (scan.entry_of(spot.element / size), spot.element % size)
        }
        MultiOp::Scan(scan) if scan.length == 0 => {
            return Some(Spot { node: Arc::clone(&multi.inputs[number]), ..spot.clone() });
        }
        MultiOp::Scan(scan) => (scan.length - 1, spot.element),
    };
    frames.push(Frame { multi: Arc::clone(multi), level: Scope::of_body(multi.op.body()) });
    Some(Spot { node: Arc::clone(&inner.0), steps: [&spot.steps[..], &[step]].concat(), element })
}

/// From an input of a subgraph out of it, or to the step before.
fn leave(spot: &Spot, frames: &mut Vec<Frame>) -> Option<Spot> {
    let Frame { multi, .. } = frames.last()?;
    let (step, around) = spot.steps.split_last()?;
    let Subgraph { parameters, outputs, .. } = multi.op.body();
    let outside = |node: &Arc<Node>, element: usize| Spot { node: Arc::clone(node), steps: around.to_vec(), element };
    let next = match (parameters.iter().position(|tensor| tensor.0.id == spot.node.id), multi.op.scan()) {
        (Some(number), Some(scan)) if number < scan.carries && *step > 0 => {
            let node = Arc::clone(&outputs[number].0);
            return Some(Spot { node, steps: [around, &[step - 1]].concat(), element: spot.element });
        }
        (Some(number), Some(scan)) if number >= scan.carries => {
            let size = parameters[number].shape().elements();
            outside(&multi.inputs[number], scan.entry_of(*step) * size + spot.element)
        }
        (Some(number), _) => outside(&multi.inputs[number], spot.element),
        (None, _) => outside(&spot.node, spot.element),
    };
    frames.pop();
    Some(next)
}

fn all_not_finite(array: &Array) -> Vec<usize> {
    if !array.dtype().is_float() {
        return Vec::new();
    }
    (0..array.buffer().len()).filter(|place| !array.buffer().get(*place).is_finite()).collect()
}

/// The array with harmless numbers at some places, but for those that are kept; both ascend.
fn harmless(array: &Array, ill: &[usize], kept: &[usize]) -> Array {
    if ill.len() == kept.len() {
        return array.clone();
    }
    let replaced = |place: usize| ill.binary_search(&place).is_ok() && kept.binary_search(&place).is_err();
    let number = |place: usize| if replaced(place) { HARMLESS } else { array.buffer().get(place) };
    Array::new(array.shape().clone(), Buffer::from_fn(array.dtype(), array.buffer().len(), number))
}

fn index_of(element: usize, shape: &crate::shape::Shape) -> Vec<usize> {
    shape.strides().iter().zip(shape.iter()).map(|(stride, size)| element / stride.max(&1) % size.max(&1)).collect()
}
