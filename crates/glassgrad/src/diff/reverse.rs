//! Reverse mode: cotangents from outputs back to variables.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::einsum::Einsum;
use crate::expr::{
    MultiNode, MultiOp, Node, Op, Partial, Pass, ProvenanceScope, Request, Tensor, partial, product, product_from,
    sort_by_creation,
};
use crate::formula::Formula;
use crate::hashing::{Numbered, Numbers};
use crate::interning::Shared;
use crate::numbering::NodeIndices;
use crate::shape::Shape;

/// A cotangent, and whether it has come through a choice: then its zeros must win over whatever it accumulates.
#[derive(Default)]
struct Cotangent {
    contributions: SmallVec<[Tensor; 2]>,
    masked: bool,
}

impl Cotangent {
    fn add(&mut self, contribution: Tensor, masked: bool) {
        self.contributions.push(contribution);
        self.masked |= masked;
    }

    fn total(&self) -> Tensor {
        match &self.contributions[..] {
            [only] => only.clone(),
            several => Tensor::add_all("add", &several.iter().collect::<SmallVec<[&Tensor; 4]>>()),
        }
    }
}

/// The cotangents of some variables, from those of some outputs, which have leading axes of these sizes in
/// front. `None` for a variable that no output depends on.
pub(crate) fn pullback(outputs: &[(&Tensor, Tensor)], variables: &[&Tensor], lead: &[usize]) -> Vec<Option<Tensor>> {
    // A tensor that failed depends on nothing: without this its derivative would be zero.
    let failed = outputs.iter().flat_map(|(output, cotangent)| [*output, cotangent]).find(|one| one.error().is_some());
    if let Some(failed) = failed {
        return variables.iter().map(|_| Some(failed.clone())).collect();
    }
    let found = cotangents(outputs, variables, lead, false);
    variables.iter().map(|variable| found.get(&variable.0.id).cloned()).collect()
}

/// The cotangents that a pullback to some variables finds, by the numbers of the nodes: those of the variables, or
/// of every node on the way.
pub(crate) fn cotangents(
    outputs: &[(&Tensor, Tensor)],
    variables: &[&Tensor],
    lead: &[usize],
    every: bool,
) -> Numbered<Tensor> {
    let seed = |(output, cotangent): &(&'_ Tensor, Tensor)| ((*output).clone(), cotangent.clone(), false);
    let seeds: Vec<Seed> = outputs.iter().map(seed).collect();
    let found = swept(&seeds, variables, lead, every, None);
    found.into_iter().map(|(id, (cotangent, _))| (id, cotangent)).collect()
}

/// An output, its cotangent, and whether that has come through a choice.
pub(super) type Seed = (Tensor, Tensor, bool);

/// [`cotangents`] with a flag whether they have passed a selection, as their seeds may have. With a number
/// of snapshots, reverse sweeps of loops keep at most this many states.
pub(super) fn swept(
    outputs: &[Seed],
    variables: &[&Tensor],
    lead: &[usize],
    every: bool,
    snapshots: Option<usize>,
) -> Numbered<(Tensor, bool)> {
    let roots: SmallVec<[&Tensor; 4]> = outputs.iter().map(|(output, ..)| output).collect();
    let Dependents { nodes, places } = dependents(&roots, variables);
    let requested: Numbers = variables.iter().map(|variable| variable.0.id).collect();
    // The cotangents of the nodes on the way, at their places in the order.
    let mut cotangents: Vec<Cotangent> = nodes.iter().map(|_| Cotangent::default()).collect();
    for (output, cotangent, masked) in outputs {
        if let Some(place) = places.get(output.0.id) {
            cotangents[place].add(cotangent.clone(), *masked);
        }
    }
    let mut found: Numbered<(Tensor, bool)> = Numbered::default();
    let mut parts: Numbered<Parts> = Numbered::default();
    let first_outputs = first_outputs(&nodes);
    for (place, node) in nodes.iter().enumerate().rev() {
        let cotangent = std::mem::take(&mut cotangents[place]);
        let is_output = matches!(node.op, Op::GetOutput(_));
        if cotangent.contributions.is_empty() && !is_output {
            continue;
        }
        let _provenance = ProvenanceScope::of(node, Pass::Derivative);
        let behind = node.inputs();
        if !cotangent.contributions.is_empty() {
            let (total, masked) = (cotangent.total(), cotangent.masked);
            let is_requested = requested.contains(&node.id);
            if every || is_requested {
                found.insert(node.id, (total.clone(), masked));
            }
            match (&node.op, behind.multi()) {
                _ if is_requested => {}
                (Op::GetOutput(number), Some(multi)) => {
                    parts.entry(multi.id).or_default().insert(*number, (total, masked));
                }
                _ => {
                    let inputs: SmallVec<[Tensor; 3]> = behind.iter().cloned().map(Tensor::onto).collect();
                    for (number, input) in inputs.iter().enumerate() {
                        let Some(place) = places.get(input.0.id) else { continue };
                        if let Some((contribution, masked)) = rule(node, &inputs, number, &total, lead, masked) {
                            cotangents[place].add(contribution, masked);
                        }
                    }
                }
            }
        }
        // The cotangents of all outputs are known at the first of them, and pulled back together.
        if let Some(multi) = behind.multi()
            && first_outputs.get(&multi.id) == Some(&place)
            && let Some(parts) = parts.remove(&multi.id)
        {
            let is_dependent = |input: &Arc<Node>| places.get(input.id).is_some();
            let pulled = pull_outputs(multi, &parts, &is_dependent, lead, snapshots);
            for (input, contribution) in multi.inputs.iter().zip(pulled) {
                if let (Some((contribution, masked)), Some(place)) = (contribution, places.get(input.id)) {
                    cotangents[place].add(contribution, masked);
                }
            }
        }
    }
    found
}

/// The place of the first output of each operation with several.
fn first_outputs(nodes: &[Arc<Node>]) -> Numbered<usize> {
    let mut places = Numbered::default();
    for (place, node) in nodes.iter().enumerate().filter(|(_, node)| matches!(node.op, Op::GetOutput(_))) {
        if let Some(multi) = node.held_inputs().multi() {
            places.entry(multi.id).or_insert(place);
        }
    }
    places
}

/// The cotangents of outputs that are used, and whether they have passed a selection.
pub(super) type Parts = HashMap<usize, (Tensor, bool)>;

/// The cotangents of the inputs of an operation with several outputs.
fn pull_outputs(
    multi: &Arc<MultiNode>,
    parts: &Parts,
    is_dependent: &dyn Fn(&Arc<Node>) -> bool,
    lead: &[usize],
    snapshots: Option<usize>,
) -> Vec<Option<(Tensor, bool)>> {
    let inputs: Vec<Tensor> = multi.inputs.iter().cloned().map(Tensor::onto).collect();
    let requested: Vec<bool> = inputs.iter().map(|input| input.is_float() && is_dependent(&input.0)).collect();
    match &multi.op {
        MultiOp::Remat(region) => super::checkpoint::pull(
            region,
            &|| MultiNode::all_outputs(multi),
            &inputs,
            &requested,
            parts,
            lead,
            snapshots,
        ),
        MultiOp::Sweep(sweep) => super::scan::pull_sweep(sweep, &inputs, &requested, parts, lead),
        MultiOp::Scan(scan) => {
            // What comes through a choice into one output of a loop may come out at any input.
            let masked = parts.values().any(|(_, masked)| *masked);
            // Unused outputs have no cotangent.
            let zeros = |shape: &Shape, dtype| Tensor::full(Shape::from(lead).followed_by(shape), 0.0, dtype);
            let cotangents: Vec<Tensor> = (multi.op.signature().iter().enumerate())
                .map(|(k, (shape, dtype))| {
                    parts.get(&k).map_or_else(|| zeros(shape, *dtype), |(found, _)| found.clone())
                })
                .collect();
            let pulled = super::batch::over_lead(&cotangents, lead, |cotangents| {
                super::scan::pull(scan, &inputs, cotangents, masked, snapshots)
            });
            pulled.into_iter().map(|found| found.map(|found| (found, masked))).collect()
        }
    }
}

/// The nodes behind some roots that depend on some variables, in the order of creation.
pub(crate) fn dependent_nodes(roots: &[&Tensor], variables: &[&Tensor]) -> Vec<Arc<Node>> {
    dependents(roots, variables).nodes
}

/// Nodes in the order of creation, and the place of each by its number.
struct Dependents {
    nodes: Vec<Arc<Node>>,
    places: NodeIndices,
}

fn dependents(roots: &[&Tensor], variables: &[&Tensor]) -> Dependents {
    let requested: Numbers = variables.iter().map(|variable| variable.0.id).collect();
    let first = requested.iter().min().copied().unwrap_or(u64::MAX);
    let mut seen = NodeIndices::new();
    // A node older than the first variable cannot depend on any.
    let is_new = |seen: &mut NodeIndices, node: &Node| node.id >= first && node.had_variable && seen.insert(node.id, 0);
    let mut stack: Vec<Arc<Node>> = Vec::with_capacity(64);
    stack.extend(roots.iter().map(|root| &root.0).filter(|node| is_new(&mut seen, node)).cloned());
    let mut behind = Vec::with_capacity(64);
    while let Some(node) = stack.pop() {
        if !requested.contains(&node.id) {
            let inputs = node.held_inputs();
            if inputs.multi().is_none_or(|multi| seen.insert(multi.id, 0)) {
                for input in inputs.iter() {
                    if is_new(&mut seen, input) {
                        stack.push(Arc::clone(input));
                    }
                }
            }
        }
        behind.push(node);
    }
    sort_by_creation(&mut behind);
    let (mut places, mut count) = (NodeIndices::new(), 0);
    behind.retain(|node| {
        // Integers and booleans are not differentiable: no derivative reaches or leaves them.
        let depends = node.dtype.is_float()
            && (requested.contains(&node.id)
                || (!node.op.properties().is_flat
                    && node.held_inputs().iter().any(|input| places.get(input.id).is_some())));
        if depends {
            places.insert(node.id, count);
            count += 1;
        }
        depends
    });
    Dependents { nodes: behind, places }
}

/// The contribution of a node's cotangent to that of one input.
fn rule(
    node: &Arc<Node>,
    inputs: &[Tensor],
    number: usize,
    g: &Tensor,
    lead: &[usize],
    masked: bool,
) -> Option<(Tensor, bool)> {
    let input = &inputs[number];
    let led = |shape: &[usize]| Shape::from(lead).followed_by(shape);
    let contribution = match &node.op {
        Op::Variable | Op::Add => g.clone(),
        Op::ControlDependency => match number {
            0 => g.clone(),
            // A control dependency is no value.
            _ => return None,
        },
        Op::Map(formula) => {
            let derivative = match &*partial(formula, inputs.len(), number) {
                Partial::Number(0.0) => return None,
                Partial::Number(number) => return Some((g.scaled(*number), masked)),
                Partial::Formula { formula, inputs: used } => partial_value(node, inputs, formula, used),
            };
            product_with(g, &derivative, lead, masked)
        }
        Op::Einsum(einsum) => {
            let pulled = product_from(Request::Pullback, einsum, &[&[number, usize::from(masked)], lead], || {
                einsum.pullback(number, lead.len()).with_lead(lead).strong_in(0, masked)
            });
            let strong = pulled.is_strong();
            let others = inputs.iter().enumerate().filter(|(k, _)| *k != number).map(|(_, other)| other);
            let operands: SmallVec<[&Tensor; 4]> = std::iter::once(g).chain(others).collect();
            return Some((Tensor::contract(pulled, &operands), strong));
        }
        Op::Cast => g.cast(input.dtype()),
        Op::Reshape => g.reshape(led(input.shape())),
        Op::ReadView(view) => g.spread(view.led(lead)),
        Op::ScatterView(view) => g.read(view.led(lead)),
        Op::Concatenate(axis) => {
            let start: usize = inputs[..number].iter().map(|earlier| earlier.shape()[*axis]).sum();
            g.part_of_axis(lead.len() + axis, start, input.shape()[*axis])
        }
        Op::Gather(axis) => g.scatter_add_at(&inputs[1], lead.len() + axis, input.shape()[*axis], node.origin),
        Op::ScatterAdd(axis) => g.gather_at(&inputs[1], lead.len() + axis, node.origin),
        Op::Select => {
            let (condition, zero) = (inputs[0].broadcast_to(led(&node.shape)), g.zeros_like());
            let chosen = if number == 1 { condition.choose(g, &zero) } else { condition.choose(&zero, g) };
            return Some((chosen, true));
        }
        Op::Max(axes) => {
            let weights = shares(node, input, axes);
            let expanded = g.reshape(led(&kept(input, axes))).broadcast_to(led(input.shape()));
            product_with(&expanded, &weights, lead, masked)
        }
        Op::Collective(collective) => g.collective_at(collective.transposed(lead.len()), node.origin),
        Op::Custom(custom) => {
            let output = Tensor::onto(Arc::clone(node));
            let pulled = super::batch::over_lead(std::slice::from_ref(g), lead, |g| {
                super::custom::pull(custom, inputs, &output, &g[0])
            });
            return pulled.into_iter().nth(number).flatten().map(|contribution| (contribution, masked));
        }
        Op::Compare(_)
        | Op::Logic(_)
        | Op::ArgMax(_)
        | Op::OneHot(_)
        | Op::ArgSort { .. }
        | Op::Draw(_)
        | Op::StopGradient => unreachable!("no derivative passes through {}", node.op.describe()),
        Op::GetOutput(_) => unreachable!("the outputs of an operation are pulled back together"),
        Op::Leaf | Op::Placeholder => unreachable!("a leaf has no inputs"),
        Op::Failed(_) => return None,
    };
    Some((contribution, masked))
}

/// The partial derivative of a pointwise node as a tensor.
pub(super) fn partial_value(node: &Arc<Node>, inputs: &[Tensor], formula: &Shared<Formula>, used: &[usize]) -> Tensor {
    let output = Tensor::onto(Arc::clone(node));
    let operands: SmallVec<[&Tensor; 3]> = used.iter().map(|k| inputs.get(*k).unwrap_or(&output)).collect();
    Tensor::map_formula("derivative", formula.clone(), &operands)
}

/// The product of a (co)tangent with leading axes and a factor without them, element by element.
pub(super) fn product_with(tangent: &Tensor, factor: &Tensor, lead: &[usize], strong: bool) -> Tensor {
    let einsum = product(Request::WithFactor, &[factor.shape(), lead, &[usize::from(strong)]], || {
        let rank = factor.rank();
        let labels: Vec<usize> = (0..rank).collect();
        let led: Vec<usize> = (rank..rank + lead.len()).chain(0..rank).collect();
        let extents = factor.shape().iter().chain(lead).copied().collect();
        Einsum::new(vec![led.clone(), labels], led, extents).strong_in(0, strong)
    });
    Tensor::contract(einsum, &[tangent, factor])
}

/// The subgradient of a maximum: shared evenly among equal elements.
pub(super) fn shares(node: &Arc<Node>, input: &Tensor, axes: &[usize]) -> Tensor {
    let largest = Tensor::onto(Arc::clone(node)).reshape(kept(input, axes)).broadcast_to(input.shape());
    let winners = input.equal(&largest).cast(input.dtype());
    let axes: Vec<isize> = axes.iter().map(|axis| *axis as isize).collect();
    let count = winners.sum_over(crate::expr::Axes::from(&axes[..]).keep());
    winners / count
}

/// The shape of a tensor with some axes of size 1.
fn kept(tensor: &Tensor, axes: &[usize]) -> Shape {
    tensor.shape().iter().enumerate().map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size }).collect()
}
