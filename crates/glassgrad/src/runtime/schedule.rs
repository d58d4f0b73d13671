//! Scheduling of reads: which nodes are evaluated, which values are kept, and when inputs are released.
//!
//! A read evaluates the roots that were asked for, and keeps their values and those of all nodes to which
//! a live handle exists. An evaluated node without a live variable behind it releases its
//! inputs; one that has keeps them, so that it can still be differentiated. A variable is live as long as
//! a live handle exists, of the user or of a transform in progress.

use std::panic::Location;
use std::sync::Arc;

use super::context::{compute, executable_for};
use super::eval_all::every_value;
use crate::array::Array;
use crate::error::Error;
use crate::expr::{Node, Op, Tensor, sort_by_creation, with_inputs};
use crate::hashing::{Numbered, Numbers};
use crate::numbering::NodeIndices;
use crate::opt::Capture;
use crate::opt::program::Program;

type Nodes = Vec<Arc<Node>>;

/// The most elements that one array may have.
const LARGEST: u64 = 1 << 34;

/// How many unevaluated nodes a tensor may depend on when a transform begins, before they are evaluated.
const EVAL_THRESHOLD: usize = 4096;

/// The value of a tensor that needs no computation and no release of inputs.
pub(crate) fn known(tensor: &Tensor) -> Option<Array> {
    tensor.0.value().filter(|_| tensor.0.held_inputs().is_empty()).cloned()
}

/// Computes the values of some tensors.
#[track_caller]
pub(crate) fn evaluate(roots: &[&Tensor]) -> Result<Vec<Array>, Error> {
    if let Some(values) = roots.iter().map(|root| known(root)).collect() {
        return Ok(values);
    }
    let (order, known) = computable(roots)?;
    let mut asked = NodeIndices::new();
    roots.iter().for_each(|root| _ = asked.insert(root.0.id, 0));
    // Another thread may compute and release nodes meanwhile: then there is less to do.
    let kept = |node: &Node| asked.get(node.id).is_some() || node.is_held();
    let Some(extract) = Capture::new(&order, kept) else { return evaluate(roots) };
    let values = compute(&extract)?;
    for (node, value) in extract.results().zip(values) {
        node.keep_value(value);
    }
    release(&order, &known);
    roots
        .iter()
        .map(|root| root.0.value().cloned().ok_or_else(|| Error::new("read", "the value was not kept")))
        .collect()
}

/// The program that computes some tensors.
#[track_caller]
pub(crate) fn program(roots: &[&Tensor]) -> Result<Arc<Program>, Error> {
    Ok(Arc::clone(executable_for(&capture(roots)?)?.program()))
}

/// The unevaluated graph of some tensors.
#[track_caller]
pub(crate) fn capture(roots: &[&Tensor]) -> Result<Capture, Error> {
    computable(roots)?;
    capture_function(roots)
}

/// The graph of some tensors as a function of arguments without values.
pub(crate) fn capture_function(roots: &[&Tensor]) -> Result<Capture, Error> {
    let asked: Numbers = roots.iter().map(|root| root.0.id).collect();
    match Capture::new(&sound(roots)?.0, |node| asked.contains(&node.id)) {
        Some(extract) => Ok(extract),
        None => capture_function(roots),
    }
}

/// The values of some tensors by the reference executor, one element at a time and by definition. Nothing is kept.
#[track_caller]
pub(crate) fn evaluate_by_reference(roots: &[&Tensor]) -> Result<Vec<Array>, Error> {
    let (order, known) = computable(roots)?;
    let values = every_value(&with_inputs(known.into_iter().chain(order)))?;
    let missing = || Error::new("read", "an input was released before it was computed");
    roots.iter().map(|root| values.get(&(Vec::new(), root.0.id)).cloned().ok_or_else(missing)).collect()
}

/// [`unevaluated`], if nothing has failed and nothing is larger than any memory: a slip of the pen is an error, before
/// anything is planned or allocated, and not a crash.
fn sound(roots: &[&Tensor]) -> Result<(Nodes, Nodes), Error> {
    if let Some(error) = roots.iter().find_map(|root| root.error()) {
        return Err(error.clone());
    }
    let (order, known) = unevaluated(roots);
    if let Some(node) = order.iter().find(|node| node.shape.elements() as u64 > LARGEST) {
        let message = format!("an array of the shape {} has too many elements", node.shape);
        return Err(Error::new("read", message).at(node.origin));
    }
    Ok((order, known))
}

/// [`sound`], if no argument of a function is still unknown.
#[track_caller]
fn computable(roots: &[&Tensor]) -> Result<(Nodes, Nodes), Error> {
    let (order, known) = sound(roots)?;
    if let Some(placeholder) = order.iter().find(|node| node.op == Op::Placeholder) {
        let tensor = Tensor::onto(Arc::clone(placeholder));
        let error = Error::new("read", "the value of an argument is not known while its function is transformed");
        return Err(error.with_operands(vec![tensor.describe()]).at(Location::caller()));
    }
    Ok((order, known))
}

/// The nodes behind some roots that have no value yet, inputs before what uses them, and the nodes with
/// values at which they begin.
fn unevaluated(roots: &[&Tensor]) -> (Nodes, Nodes) {
    let mut seen = NodeIndices::new();
    let mut stack: Nodes = Vec::with_capacity(64);
    stack.extend(roots.iter().map(|root| &root.0).filter(|node| seen.insert(node.id, 0)).cloned());
    let (mut found, mut known) = (Vec::with_capacity(64), Vec::with_capacity(32));
    while let Some(node) = stack.pop() {
        if node.value().is_none() {
            let inputs = node.held_inputs();
            if inputs.multi().is_none_or(|multi| seen.insert(multi.id, 0)) {
                for input in inputs.iter() {
                    if seen.insert(input.id, 0) {
                        stack.push(Arc::clone(input));
                    }
                }
            }
        }
        if node.value().is_some() { known.push(node) } else { found.push(node) }
    }
    sort_by_creation(&mut found);
    (found, known)
}

/// Lets nodes with a value and without a live variable behind them go of their inputs: those that were computed, and
/// those that were known before.
fn release(order: &[Arc<Node>], known: &[Arc<Node>]) {
    // After a step of training no variable is live. Nothing has to be searched then: what was computed reaches
    // variables that are in the order itself, or behind a node that was known and has kept its inputs.
    let has_history =
        |node: &Arc<Node>| node.had_variable && (is_live_variable(node) || !node.held_inputs().is_empty());
    let none_live = !order.iter().any(|node| is_live_variable(node)) && !known.iter().any(has_history);
    let mut live = LiveSearch::default();
    for node in order.iter().chain(known) {
        if node.value().is_some() && (none_live || !(node.had_variable && live.is_live(node))) {
            node.release_inputs();
        }
    }
}

/// Whether a node is a live variable, with respect to which a derivative may still be taken.
fn is_live_variable(node: &Node) -> bool {
    matches!(node.op, Op::Variable | Op::Placeholder) && node.is_held()
}

/// Whether a tensor depends on a live variable, or an argument of a function that is being transformed, that fulfils a
/// condition on its number. Behind `stop_gradient` variables do not count, but the values of arguments are still unknown. The
/// search ends with the first.
pub(crate) fn reaches_variable(root: &Tensor, condition: impl Fn(u64) -> bool) -> bool {
    let mut seen = [NodeIndices::new(), NodeIndices::new()];
    let mut stack = vec![(Arc::clone(&root.0), false)];
    while let Some((node, is_stopped)) = stack.pop() {
        let counts = is_live_variable(&node) && (!is_stopped || node.op == Op::Placeholder);
        if counts && condition(node.id) {
            return true;
        }
        let is_stopped = is_stopped || node.op == Op::StopGradient;
        let leads_on = |input: &Node| input.has_placeholder || (input.had_variable && !is_stopped);
        let inputs = node.held_inputs();
        let found = inputs.iter().filter(|input| leads_on(input) && seen[usize::from(is_stopped)].insert(input.id, 0));
        stack.extend(found.map(|input| (Arc::clone(input), is_stopped)));
    }
    false
}

/// Finds out whether live variables stand behind nodes, remembering what it found for all in between.
#[derive(Default)]
struct LiveSearch {
    known: Numbered<bool>,
}

impl LiveSearch {
    fn is_live(&mut self, root: &Arc<Node>) -> bool {
        let mut stack: Vec<(Arc<Node>, bool)> = vec![(Arc::clone(root), false)];
        while let Some((node, returned)) = stack.pop() {
            if self.known.contains_key(&node.id) {
                continue;
            }
            if !node.had_variable || node.op == Op::StopGradient {
                self.known.insert(node.id, false);
                continue;
            }
            if is_live_variable(&node) {
                self.known.insert(node.id, true);
                continue;
            }
            let inputs = node.inputs();
            if returned {
                let live = inputs.iter().any(|input| self.known.get(&input.id).copied().unwrap_or(false));
                self.known.insert(node.id, live);
            } else {
                stack.push((Arc::clone(&node), true));
                stack.extend(inputs.into_iter().map(|input| (input, false)));
            }
        }
        self.known.get(&root.id).copied().unwrap_or(false)
    }
}

impl Tensor {
    /// Evaluates a long unevaluated history when a transform begins, unless a live variable needs it, and releases it.
    ///
    /// Building a node never evaluates anything, so this and reading are what bounds the graph of a training loop that
    /// never reads: inside a transform there always is a live variable.
    pub(crate) fn flush(&self) {
        if self.0.pending <= EVAL_THRESHOLD {
            return;
        }
        let mut live = LiveSearch::default();
        let mut seen = Numbers::default();
        let mut stack = vec![Arc::clone(&self.0)];
        let mut dead: Vec<Tensor> = Vec::new();
        while let Some(node) = stack.pop() {
            if !seen.insert(node.id) || node.op == Op::Placeholder {
                continue;
            }
            // What depends on an argument that is not known has no value.
            if node.has_placeholder || (node.had_variable && live.is_live(&node)) {
                stack.extend(node.inputs());
            } else {
                dead.push(Tensor::onto(node));
            }
        }
        // An error stays in the graph and is returned by the first read.
        let _ = evaluate(&dead.iter().collect::<Vec<_>>());
    }

    /// Whether a variable that a derivative may still be taken by, or an argument of a function that is being
    /// transformed, is among what this tensor depends on.
    pub(crate) fn is_tracked(&self) -> bool {
        (self.0.had_variable || self.0.has_placeholder) && reaches_variable(self, |_| true)
    }
}
