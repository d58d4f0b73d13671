//! Batching: a leading axis carried through a graph that was built without it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::expr::{MultiOp, Node, Op, Pass, ProvenanceScope, Sweep, Tensor, nodes_behind};
use crate::shape::Shape;

/// The outputs with a leading axis of `size`, when some placeholders are replaced by tensors that have one.
pub(crate) fn batched(outputs: &[&Tensor], replaced: &[(&Tensor, Tensor)], size: usize) -> Vec<Tensor> {
    let mut known: HashMap<u64, Tensor> =
        replaced.iter().map(|(placeholder, tensor)| (placeholder.0.id, tensor.clone())).collect();
    let first = known.keys().min().copied().unwrap_or(u64::MAX);
    let mut parts: HashMap<u64, Vec<Tensor>> = HashMap::new();
    for node in nodes_behind(outputs, first) {
        if known.contains_key(&node.id) {
            continue;
        }
        let _provenance = ProvenanceScope::of(&node, Pass::Batch);
        let behind = node.inputs();
        if let (Op::GetOutput(number), Some(outputs)) = (&node.op, behind.multi().and_then(|k| parts.get(&k.id))) {
            known.insert(node.id, outputs[*number].clone());
            continue;
        }
        let inputs: Vec<Tensor> = behind.iter().cloned().map(Tensor::onto).collect();
        let with_axis: Vec<bool> = inputs.iter().map(|input| known.contains_key(&input.0.id)).collect();
        if !with_axis.contains(&true) {
            continue;
        }
        let led: Vec<Tensor> = inputs.iter().map(|input| known.get(&input.0.id).unwrap_or(input).clone()).collect();
        let found = match (&node.op, behind.multi()) {
            (Op::GetOutput(number), Some(multi)) => {
                let outputs = match &multi.op {
                    MultiOp::Remat(region) => super::checkpoint::batch(region, &inputs, &led, &with_axis, size),
                    MultiOp::Scan(scan) => {
                        let as_scan = |wide| MultiOp::Scan(Arc::new(wide));
                        super::scan::batch(scan, as_scan, &inputs, &led, &with_axis, size)
                    }
                    MultiOp::Sweep(sweep) => {
                        let as_sweep = |scan| MultiOp::Sweep(Arc::new(Sweep { scan, ..**sweep }));
                        super::scan::batch(&sweep.scan, as_sweep, &inputs, &led, &with_axis, size)
                    }
                };
                parts.entry(multi.id).or_insert(outputs)[*number].clone()
            }
            _ => rule(&node, &led, &with_axis, size),
        };
        known.insert(node.id, found);
    }
    let spread = |output: &Tensor| spread(output, size);
    outputs.iter().map(|output| known.get(&output.0.id).cloned().unwrap_or_else(|| spread(output))).collect()
}

/// Results of a function that knows no leading axes, for tensors that have them: the axes are taken as one, and
/// the graph of the function is batched over it.
pub(super) fn over_lead(
    tensors: &[Tensor],
    lead: &[usize],
    function: impl FnOnce(&[Tensor]) -> Vec<Option<Tensor>>,
) -> Vec<Option<Tensor>> {
    if lead.is_empty() {
        return function(tensors);
    }
    let size = lead.iter().product();
    let bare = |tensor: &Tensor| Shape::from(&tensor.shape()[lead.len()..]);
    let plain: Vec<Tensor> = tensors.iter().map(|tensor| Tensor::placeholder(bare(tensor), tensor.dtype())).collect();
    let results = function(&plain);
    let merged = tensors.iter().map(|tensor| tensor.reshape(Shape::from(size).followed_by(&bare(tensor))));
    let replaced: Vec<(&Tensor, Tensor)> = plain.iter().zip(merged).collect();
    let present: Vec<&Tensor> = results.iter().flatten().collect();
    let mut wide = batched(&present, &replaced, size).into_iter();
    let split = |tensor: Tensor| tensor.reshape(Shape::from(lead).followed_by(&tensor.shape()[1..]));
    results.iter().map(|found| found.as_ref().and_then(|_| wide.next()).map(split)).collect()
}

/// A tensor repeated along a new leading axis.
fn spread(tensor: &Tensor, size: usize) -> Tensor {
    tensor.broadcast_to(Shape::from(size).followed_by(tensor.shape()))
}

fn rule(node: &Arc<Node>, inputs: &[Tensor], with_axis: &[bool], size: usize) -> Tensor {
    let led = |shape: &[usize]| Shape::from(size).followed_by(shape);
    let all = || -> Vec<Tensor> {
        inputs
            .iter()
            .zip(with_axis)
            .map(|(input, has)| if *has { input.clone() } else { spread(input, size) })
            .collect()
    };
    let x = &inputs[0];
    match &node.op {
        Op::Variable => x.clone(),
        Op::StopGradient => x.stop_gradient(),
        Op::Map(formula) => Tensor::map_formula("map", formula.clone(), &all().iter().collect::<Vec<_>>()),
        Op::Einsum(einsum) => Tensor::contract(einsum.batched(size, with_axis), &inputs.iter().collect::<Vec<_>>()),
        Op::Add => Tensor::add_all("add", &all().iter().collect::<Vec<_>>()),
        Op::Cast => x.cast(node.dtype),
        Op::Reshape => x.reshape(led(&node.shape)),
        Op::ReadView(view) => x.read(view.led(&[size])),
        Op::ScatterView(view) => x.spread(view.led(&[size])),
        Op::Concatenate(axis) => Tensor::concatenate(all().iter().collect::<Vec<_>>(), axis + 1),
        Op::Gather(axis) => match with_axis {
            [true, false] => x.gather_at(&inputs[1], axis + 1, node.origin),
            [false, true] => move_axis(&x.gather_at(&inputs[1], *axis, node.origin), *axis, 0),
            _ => gather_each(node, x, &inputs[1], *axis, size),
        },
        Op::ScatterAdd(axis) => match with_axis {
            [true, false] => x.scatter_add_at(&inputs[1], axis + 1, node.shape[*axis], node.origin),
            _ => scatter_each(node, &all()[0], &all()[1], *axis, size),
        },
        Op::Compare(relation) => {
            let all = all();
            all[0].compare(*relation, &all[1])
        }
        Op::Logic(logic) => Tensor::logic(*logic, "logic", &all().iter().collect::<Vec<_>>()),
        Op::Select => {
            let all = all();
            all[0].choose(&all[1], &all[2])
        }
        Op::Max(axes) => x.largest(&axes.iter().map(|axis| axis + 1).collect::<Vec<_>>()),
        Op::ArgMax(axis) => x.largest_place(axis + 1),
        Op::OneHot(name) => x.one_hot_as(name, node.shape[node.shape.rank() - 1], node.dtype),
        Op::ArgSort { descending } => {
            let op = Op::ArgSort { descending: *descending };
            Tensor::node_at(op, &[x], led(&node.shape), node.dtype, node.origin)
        }
        Op::Draw(distribution) => {
            let each = Shape::from(&node.shape[node.inputs()[0].shape.rank()..]);
            Tensor::draw_at(distribution.clone(), x, &each, node.origin)
        }
        Op::Collective(collective) => x.collective_at(collective.with_lead(1), node.origin),
        Op::Custom(custom) => super::custom::batch(node, custom, inputs, with_axis, size),
        Op::ControlDependency => x.clone(),
        Op::Leaf | Op::Placeholder | Op::Failed(_) | Op::GetOutput(_) => {
            unreachable!("{} is batched by its caller, or depends on nothing", node.op.describe())
        }
    }
}

/// The tensor with one axis moved to another place.
pub(super) fn move_axis(tensor: &Tensor, from: usize, to: usize) -> Tensor {
    if tensor.error().is_some() || from == to {
        return tensor.clone();
    }
    if from.max(to) >= tensor.rank() {
        let message = format!("there is no axis {} in the shape {}", from.max(to), tensor.shape());
        return Tensor::refused_at(crate::error::Error::new("vmap", message), &[tensor], tensor.origin());
    }
    let mut order: Vec<usize> = (0..tensor.rank()).collect();
    let axis = order.remove(from);
    order.insert(to, axis);
    tensor.permute(&order)
}

/// Indices into a table of `size` blocks of `length` places, each example into its own block.
fn shifted(indices: &Tensor, size: usize, length: usize) -> Tensor {
    let offsets = Tensor::arange(size as i64) * length as i64;
    let mut shape = vec![1; indices.rank()];
    shape[0] = size;
    // An index that leaves its own block must not read the neighbour's: it becomes one that is on no block.
    let length = length as i64;
    let from_front = indices.lt(0).choose(&(indices + length), indices);
    let inside = from_front.ge(0).and(&from_front.lt(length));
    inside.choose(&(from_front + offsets.reshape(shape)), &indices.literal(size as i64 * length))
}

/// A gather in which table and indices both have the leading axis.
fn gather_each(node: &Node, table: &Tensor, indices: &Tensor, axis: usize, size: usize) -> Tensor {
    // The axis moves to the front of each example, and all tables become one.
    let front = move_axis(table, axis + 1, 1);
    let length = front.shape()[1];
    let merged = front.reshape(Shape::from(size * length).followed_by(&front.shape()[2..]));
    let taken = merged.gather_at(&shifted(indices, size, length), 0, node.origin);
    // The axes of the indices stand behind the leading one; they go back to where the axis was.
    let count = indices.rank() - 1;
    let mut order: Vec<usize> = (0..taken.rank()).collect();
    let moved: Vec<usize> = order.drain(1..=count).collect();
    order.splice(1 + axis..1 + axis, moved);
    taken.permute(&order)
}

/// A scatter in which entries and indices both have the leading axis.
fn scatter_each(node: &Node, entries: &Tensor, indices: &Tensor, axis: usize, size: usize) -> Tensor {
    let length = node.shape[axis];
    let count = indices.rank() - 1;
    let mut order: Vec<usize> = (0..entries.rank()).collect();
    let moved: Vec<usize> = order.drain(1 + axis..1 + axis + count).collect();
    order.splice(1..1, moved);
    let front = entries.permute(&order);
    let sums = front.scatter_add_at(&shifted(indices, size, length), 0, size * length, node.origin);
    let split = sums.reshape(Shape::from([size, length]).followed_by(&sums.shape()[1..]));
    move_axis(&split, 1, axis + 1)
}
