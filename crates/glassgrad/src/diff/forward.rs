//! Forward mode: tangents from variables on to outputs.

use std::collections::HashMap;

use super::reverse::{dependent_nodes, partial_value, product_with, shares};
use crate::expr::{MultiOp, Op, Partial, Pass, ProvenanceScope, Request, Tensor, partial, product_from};
use crate::shape::Shape;

/// The tangents of some outputs, from those of some variables, which have leading axes of these sizes in
/// front. `None` for an output that depends on no variable.
pub(crate) fn pushforward(outputs: &[&Tensor], variables: &[(&Tensor, Tensor)], lead: &[usize]) -> Vec<Option<Tensor>> {
    // A tensor that failed depends on nothing: without this its derivative would be zero.
    let tangents = variables.iter().map(|(_, tangent)| tangent);
    if let Some(failed) = outputs.iter().copied().chain(tangents).find(|one| one.error().is_some()) {
        return outputs.iter().map(|_| Some(failed.clone())).collect();
    }
    let wrt: Vec<&Tensor> = variables.iter().map(|(variable, _)| *variable).collect();
    let mut tangents: HashMap<u64, Tensor> =
        variables.iter().map(|(variable, tangent)| (variable.0.id, tangent.clone())).collect();
    let mut parts: HashMap<u64, Vec<Option<Tensor>>> = HashMap::new();
    for node in dependent_nodes(outputs, &wrt) {
        if tangents.contains_key(&node.id) {
            continue;
        }
        let _provenance = ProvenanceScope::of(&node, Pass::Derivative);
        let behind = node.inputs();
        let given = || {
            let inputs: Vec<Tensor> = behind.iter().cloned().map(Tensor::onto).collect();
            let moved: Vec<Option<Tensor>> = inputs.iter().map(|input| tangents.get(&input.0.id).cloned()).collect();
            (inputs, moved)
        };
        if let (Op::GetOutput(number), Some(multi)) = (&node.op, behind.multi()) {
            let outputs = parts.entry(multi.id).or_insert_with(|| {
                let (inputs, moved) = given();
                match &multi.op {
                    MultiOp::Scan(scan) => push_scan(scan, &inputs, &moved, lead).into_iter().map(Some).collect(),
                    MultiOp::Remat(region) => super::checkpoint::push(region, &inputs, &moved, lead),
                    MultiOp::Sweep(sweep) => super::scan::push_sweep(sweep, &inputs, &moved, lead),
                }
            });
            tangents.extend(outputs[*number].clone().map(|tangent| (node.id, tangent)));
            continue;
        }
        let (inputs, moved) = given();
        let contributions = rule(&node, &inputs, &moved, lead);
        if !contributions.is_empty() {
            tangents.insert(node.id, Tensor::add_all("add", &contributions.iter().collect::<Vec<_>>()));
        }
    }
    outputs.iter().map(|output| tangents.get(&output.0.id).cloned()).collect()
}

/// The tangents of a loop's outputs.
fn push_scan(scan: &crate::expr::Scan, inputs: &[Tensor], moved: &[Option<Tensor>], lead: &[usize]) -> Vec<Tensor> {
    let present: Vec<Tensor> = moved.iter().flatten().cloned().collect();
    let pushed = super::batch::over_lead(&present, lead, |plain| {
        let mut plain = plain.iter();
        let moved: Vec<Option<Tensor>> =
            moved.iter().map(|tangent| tangent.as_ref().and_then(|_| plain.next().cloned())).collect();
        super::scan::push(scan, inputs, &moved).into_iter().map(Some).collect()
    });
    pushed.into_iter().flatten().collect()
}

/// The contributions of the inputs' tangents to that of a node.
fn rule(
    node: &std::sync::Arc<crate::expr::Node>,
    inputs: &[Tensor],
    moved: &[Option<Tensor>],
    lead: &[usize],
) -> Vec<Tensor> {
    let led = |shape: &[usize]| Shape::from(lead).followed_by(shape);
    let zeros = |input: &Tensor| Tensor::full(led(input.shape()), 0.0, input.dtype());
    let or_zeros = |number: usize| moved[number].clone().unwrap_or_else(|| zeros(&inputs[number]));
    let present =
        || moved.iter().enumerate().filter_map(|(number, tangent)| tangent.as_ref().map(|tangent| (number, tangent)));
    let only = |linear: &dyn Fn(&Tensor) -> Tensor| moved[0].iter().map(linear).collect::<Vec<_>>();
    match &node.op {
        Op::Variable | Op::ControlDependency => only(&Tensor::clone),
        Op::Add => present().map(|(_, tangent)| tangent.clone()).collect(),
        Op::Map(formula) => present()
            .filter_map(|(number, tangent)| match &*partial(formula, inputs.len(), number) {
                Partial::Number(0.0) => None,
                Partial::Number(number) => Some(tangent.scaled(*number)),
                Partial::Formula { formula, inputs: used } => {
                    Some(product_with(tangent, &partial_value(node, inputs, formula, used), lead, false))
                }
            })
            .collect(),
        Op::Einsum(einsum) => present()
            .map(|(number, tangent)| {
                let pushed = product_from(Request::Pushforward, einsum, &[&[number], lead], || {
                    einsum.pushforward(number, lead.len()).with_lead(lead)
                });
                let operands: Vec<&Tensor> =
                    inputs.iter().enumerate().map(|(k, input)| if k == number { tangent } else { input }).collect();
                Tensor::contract(pushed, &operands)
            })
            .collect(),
        Op::Cast => match node.dtype.is_float() {
            true => only(&|tangent| tangent.cast(node.dtype)),
            false => Vec::new(),
        },
        Op::Reshape => only(&|tangent| tangent.reshape(led(&node.shape))),
        Op::ReadView(view) => only(&|tangent| tangent.read(view.led(lead))),
        Op::ScatterView(view) => only(&|tangent| tangent.spread(view.led(lead))),
        Op::Concatenate(axis) => {
            let tangents: Vec<Tensor> = (0..inputs.len()).map(or_zeros).collect();
            vec![Tensor::concatenate(tangents.iter().collect::<Vec<_>>(), lead.len() + axis)]
        }
        Op::Gather(axis) => only(&|tangent| tangent.gather_at(&inputs[1], lead.len() + axis, node.origin)),
        Op::ScatterAdd(axis) => {
            only(&|tangent| tangent.scatter_add_at(&inputs[1], lead.len() + axis, node.shape[*axis], node.origin))
        }
        Op::Select => vec![inputs[0].broadcast_to(led(&node.shape)).choose(&or_zeros(1), &or_zeros(2))],
        Op::Max(axes) => {
            let weights = shares(node, &inputs[0], axes);
            let axes: Vec<isize> = axes.iter().map(|axis| (lead.len() + axis) as isize).collect();
            only(&|tangent| product_with(tangent, &weights, lead, false).sum_over(&axes[..]))
        }
        Op::Collective(collective) => {
            only(&|tangent| tangent.collective_at(collective.with_lead(lead.len()), node.origin))
        }
        Op::Custom(custom) => {
            let output = Tensor::onto(std::sync::Arc::clone(node));
            let tangents: Vec<Tensor> = moved.iter().flatten().cloned().collect();
            let pushed = super::batch::over_lead(&tangents, lead, |plain| {
                let mut plain = plain.iter();
                let moved: Vec<Option<Tensor>> =
                    moved.iter().map(|tangent| tangent.as_ref().and_then(|_| plain.next().cloned())).collect();
                vec![Some(super::custom::push(custom, inputs, &output, &moved))]
            });
            pushed.into_iter().flatten().collect()
        }
        // No derivative passes through these.
        Op::Compare(_)
        | Op::Logic(_)
        | Op::ArgMax(_)
        | Op::OneHot(_)
        | Op::ArgSort { .. }
        | Op::Draw(_)
        | Op::StopGradient
        | Op::Failed(_) => Vec::new(),
        Op::GetOutput(_) => unreachable!("the outputs of an operation are pushed forward together"),
        Op::Leaf | Op::Placeholder => unreachable!("a leaf has no inputs"),
    }
}
