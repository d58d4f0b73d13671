//! Every operation of a graph by its definition, one element at a time.
//!
//! What programs call has its definition in the reference executor; here are the operations that programs fuse into loops and contractions, and
//! the evaluation of nodes and subgraphs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::array::{Array, Buffer};
use crate::dtype::{DType, Element};
use crate::einsum::Einsum;
use crate::error::Error;
use crate::exec::host;
use crate::exec::reference::{
    Task, from_fn_typed, in_compute_types, integer, is_noisy, largest_along, perform, perturbed, perturbed_array,
};
use crate::expr::{Inputs, Logic, MultiOp, Node, Op, Scan, Subgraph, Sweep, with_inputs};
use crate::formula::Formula;
use crate::ops::Algebra;
use crate::opt::program::CallKind;
use crate::shape::Shape;

/// The value of a node from those of its inputs.
pub(crate) fn compute(node: &Node, inputs: &[Array]) -> Result<Array, Error> {
    let task = Task { shape: &node.shape, dtype: node.dtype, origin: node.origin };
    let call = |kind: CallKind| perform(&kind, task, inputs);
    let computed = |rounds: bool, value: &dyn Fn(Task<'_>, &[Array]) -> Buffer| {
        in_compute_types(task, inputs, false, |task, inputs| {
            let made = Array::new(task.shape.clone(), value(task, inputs));
            Ok(if rounds && is_noisy() { perturbed_array(&made) } else { made })
        })
    };
    match &node.op {
        Op::Variable | Op::StopGradient | Op::ControlDependency | Op::Reshape => {
            Ok(inputs[0].reshaped(node.shape.clone()))
        }
        // A conversion rounds as IEEE 754 defines it, in every executor.
        Op::Cast => Ok(Array::new(node.shape.clone(), inputs[0].buffer().cast(node.dtype))),
        Op::Max(axes) => {
            let places = largest_along(&inputs[0], axes).into_iter();
            Ok(Array::new(node.shape.clone(), inputs[0].buffer().pick(places)))
        }
        Op::Map(formula) => computed(true, &|task, inputs| match is_noisy() {
            true => {
                let noisy: Vec<Array> = inputs.iter().map(perturbed_array).collect();
                map(formula, &noisy, task.shape.elements())
            }
            false => map(formula, inputs, task.shape.elements()),
        }),
        Op::Einsum(einsum) => computed(product_rounds(einsum), &|task, inputs| {
            contract(einsum, inputs, task.dtype, task.shape.elements())
        }),
        Op::Add => computed(true, &|task, inputs| {
            from_fn_typed(
                task.dtype,
                task.shape.elements(),
                |k| inputs.iter().map(|input| perturbed(input.buffer().get(k), task.dtype)).sum(),
                |k| inputs.iter().map(|input| integer(input, k)).fold(0, i64::wrapping_add),
            )
        }),
        Op::Compare(relation) => computed(false, &|task, inputs| {
            Buffer::Bool(match (inputs[0].buffer(), inputs[1].buffer()) {
                // Not every integer is a 64-bit floating-point number.
                (Buffer::I64(a), Buffer::I64(b)) => a.iter().zip(b).map(|(a, b)| relation.holds(a, b)).collect(),
                (a, b) => (0..task.shape.elements()).map(|k| relation.holds(a.get(k), b.get(k))).collect(),
            })
        }),
        Op::Logic(logic) => computed(false, &|task, inputs| {
            let holds = |input: usize, k: usize| inputs[input].buffer().get(k) != 0.0;
            let combined = |k: usize| match logic {
                Logic::And => holds(0, k) && holds(1, k),
                Logic::Or => holds(0, k) || holds(1, k),
                Logic::Not => !holds(0, k),
            };
            Buffer::Bool((0..task.shape.elements()).map(combined).collect())
        }),
        Op::Select => computed(false, &|task, inputs| {
            let chosen = |k: usize| &inputs[if inputs[0].buffer().get(k) != 0.0 { 1 } else { 2 }];
            let length = task.shape.elements();
            from_fn_typed(task.dtype, length, |k| chosen(k).buffer().get(k), |k| integer(chosen(k), k))
        }),
        Op::ReadView(view) => call(CallKind::ReadView(view.clone())),
        Op::ScatterView(view) => call(CallKind::ScatterView(view.clone())),
        Op::Concatenate(axis) => call(CallKind::Concatenate(*axis)),
        Op::Gather(axis) => call(CallKind::Gather(*axis)),
        Op::ScatterAdd(axis) => call(CallKind::ScatterAdd(*axis)),
        Op::OneHot(operation) => call(CallKind::OneHot(operation)),
        Op::ArgMax(axis) => call(CallKind::ArgMax(*axis)),
        Op::ArgSort { descending } => call(CallKind::ArgSort { descending: *descending }),
        Op::Draw(distribution) => call(CallKind::Draw(distribution.clone())),
        Op::Collective(collective) => call(CallKind::Collective(*collective)),
        Op::Custom(custom) => {
            let made = host::call_function(custom, inputs, (&node.shape, node.dtype), node.origin)?;
            Ok(if is_noisy() { perturbed_array(&made) } else { made })
        }
        Op::Leaf | Op::Placeholder => Err(Error::new("read", "a leaf has no value").at(node.origin)),
        Op::GetOutput(_) => unreachable!("the outputs of an operation are computed together, by `outputs_of`"),
        Op::Failed(error) => Err(error.clone()),
    }
}

/// Whether a product multiplies or adds: transposes, broadcasts and diagonals do not.
fn product_rounds(einsum: &Einsum) -> bool {
    einsum.operands.len() > 1 || einsum.coefficient != 1.0 || !einsum.summed().is_empty()
}

/// Who is shown the values inside of subgraphs: the steps of the loops around, the number of the node, and its value.
type See<'s> = &'s mut dyn FnMut(&[usize], u64, &Array);

/// The outputs of an operation with several, inside of these steps of loops.
fn outputs_of(
    op: &MultiOp,
    inputs: &[Arc<Node>],
    operands: &[Array],
    steps: &[usize],
    see: See<'_>,
) -> Result<Vec<Array>, Error> {
    match op {
        MultiOp::Scan(scan) => repeat(scan, inputs, operands, steps, see),
        MultiOp::Remat(region) => {
            let captured = &inputs[region.body.parameters.len()..];
            let known = captured.iter().zip(&operands[region.body.parameters.len()..]);
            let known = known.map(|(node, array)| (node.id, array.clone())).collect();
            evaluated(&region.body, &with_inputs(region.body.nodes()), known, operands, &[steps, &[0]].concat(), see)
        }
        MultiOp::Sweep(sweep) => unwound(sweep, inputs, operands),
    }
}

/// A sweep by its definition: the loop with all its states, and the loop back. Its first outputs, the states, have no
/// value that anybody could ask for; the last of them stand there.
fn unwound(sweep: &Sweep, inputs: &[Arc<Node>], operands: &[Array]) -> Result<Vec<Array>, Error> {
    let (carries, entries) = (sweep.scan.carries, sweep.scan.entries().len());
    let outer = carries + entries..;
    let own = carries..carries + sweep.sequences;
    let seeds = carries + sweep.sequences..carries + entries;
    let mut unseen = |_: &[usize], _: u64, _: &Array| {};
    // Only tensors from outside are known by their nodes.
    let chosen = |parts: [&[Arc<Node>]; 2]| parts.concat();
    let forwards = [&operands[..sweep.states], &operands[own.clone()], &operands[outer.clone()]].concat();
    let nodes = chosen([&inputs[..sweep.states + sweep.sequences], &inputs[outer.clone()]]);
    let mut states = repeat(&sweep.history(), &nodes, &forwards, &[], &mut unseen)?;
    let history = states.split_off(sweep.states);
    let sequences = operands[own].iter().chain(&history).chain(&operands[seeds]).cloned();
    let starts = operands[sweep.states..carries].iter().cloned();
    let back: Vec<Array> = starts.chain(sequences).chain(operands[outer.clone()].iter().cloned()).collect();
    // As many nodes as there are carries and entries in the loop back, whose place alone counts.
    let nodes = chosen([&inputs[..carries + entries], &inputs[outer]]);
    let parts = repeat(&sweep.backwards(), &nodes, &back, &[], &mut unseen)?;
    Ok(states.into_iter().chain(parts).collect())
}

/// Runs a loop: the last carries, and the stacked results.
fn repeat(
    scan: &Scan,
    inputs: &[Arc<Node>],
    operands: &[Array],
    steps: &[usize],
    see: See<'_>,
) -> Result<Vec<Array>, Error> {
    let order = with_inputs(scan.body.nodes());
    let (given, outer) = operands.split_at(scan.body.parameters.len());
    let (starts, sequences) = given.split_at(scan.carries);
    let captured: HashMap<u64, Array> =
        inputs[given.len()..].iter().map(|node| node.id).zip(outer.iter().cloned()).collect();
    let mut carried = starts.to_vec();
    let mut stacked: Vec<Vec<Array>> = vec![Vec::new(); scan.results().len()];
    for step in 0..scan.length {
        let mut given = carried;
        for (placeholder, sequence) in scan.entries().iter().zip(sequences) {
            let size = placeholder.shape().elements();
            let place = scan.entry_of(step);
            let entry = sequence.buffer().pick((place * size..(place + 1) * size).map(Some));
            given.push(Array::new(placeholder.shape().clone(), entry));
        }
        let inside = [steps, &[step]].concat();
        carried = evaluated(&scan.body, &order, captured.clone(), &given, &inside, see)?;
        stacked.iter_mut().zip(carried.split_off(scan.carries)).for_each(|(stack, result)| stack.push(result));
    }
    let joined = stacked.iter_mut().zip(scan.results()).map(|(entries, result)| {
        if scan.reversed {
            entries.reverse();
        }
        let shape = Shape::from(scan.length).followed_by(result.shape());
        let size = result.shape().elements();
        let buffer = from_fn_typed(
            result.dtype(),
            shape.elements(),
            |k| entries[k / size].buffer().get(k % size),
            |k| integer(&entries[k / size], k % size),
        );
        Array::new(shape, buffer)
    });
    let joined: Vec<Array> = joined.collect();
    Ok(carried.into_iter().chain(joined).collect())
}

/// The outputs of a subgraph with these nodes inside, from the values of its parameters and of what it captures.
fn evaluated(
    body: &Subgraph,
    nodes: &[(Arc<Node>, Inputs)],
    captured: HashMap<u64, Array>,
    parameters: &[Array],
    steps: &[usize],
    see: See<'_>,
) -> Result<Vec<Array>, Error> {
    let mut values = captured;
    for (parameter, value) in body.parameters.iter().zip(parameters) {
        see(steps, parameter.0.id, value);
        values.insert(parameter.0.id, value.clone());
    }
    compute_all(nodes, &mut values, steps, see)?;
    body.outputs.iter().map(|output| known(&values, &output.0)).collect()
}

fn known(values: &HashMap<u64, Array>, node: &Node) -> Result<Array, Error> {
    let value = values.get(&node.id).or_else(|| node.value()).cloned();
    value.ok_or_else(|| Error::new("read", "a value was not computed"))
}

/// Adds the values of nodes, in which inputs stand before what uses them, to those that are known. Every value is shown
/// to `see`, those inside of subgraphs at every step included.
pub(crate) fn compute_all(
    nodes: &[(Arc<Node>, Inputs)],
    values: &mut HashMap<u64, Array>,
    steps: &[usize],
    see: See<'_>,
) -> Result<(), Error> {
    let mut parts: HashMap<u64, Vec<Array>> = HashMap::new();
    for (node, inputs) in nodes {
        let operands = || inputs.iter().map(|input| known(values, input)).collect::<Result<Vec<Array>, Error>>();
        let value = match (node.value(), &node.op, inputs.multi()) {
            (Some(value), ..) => value.clone(),
            (None, Op::GetOutput(number), Some(multi)) => {
                let outputs = match parts.entry(multi.id) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => place.insert(outputs_of(&multi.op, inputs, &operands()?, steps, see)?),
                };
                outputs[*number].clone()
            }
            _ => compute(node, &operands()?)?,
        };
        see(steps, node.id, &value);
        values.insert(node.id, value);
    }
    Ok(())
}

fn map(formula: &Formula, inputs: &[Array], length: usize) -> Buffer {
    fn run<E: Element + Algebra>(formula: &Formula, inputs: &[&[E]], length: usize) -> Vec<E> {
        let mut operands: Vec<E> = Vec::with_capacity(inputs.len());
        (0..length)
            .map(|k| {
                operands.clear();
                operands.extend(inputs.iter().map(|input| input[k]));
                formula.evaluate(&operands)[0]
            })
            .collect()
    }
    match inputs[0].dtype() {
        DType::F32 => {
            let opened: Vec<&[f32]> =
                inputs.iter().filter_map(|input| crate::array::Stored::open(input.buffer())).collect();
            Buffer::F32(run(formula, &opened, length))
        }
        _ => {
            let opened: Vec<&[f64]> =
                inputs.iter().filter_map(|input| crate::array::Stored::open(input.buffer())).collect();
            Buffer::F64(run(formula, &opened, length))
        }
    }
}

/// The product by its definition: for every value of the output's labels, the sum over all values of the
/// others of the product of the operands. Sums are taken in 64 bits.
fn contract(einsum: &Einsum, inputs: &[Array], dtype: DType, length: usize) -> Buffer {
    let walk = Walk::new(einsum);
    if dtype == DType::I64 {
        let mut result = vec![0_i64; length];
        walk.run(|output, places| {
            let product =
                inputs.iter().zip(places).map(|(input, place)| integer(input, *place)).fold(1_i64, i64::wrapping_mul);
            result[output] = result[output].wrapping_add(product.wrapping_mul(einsum.coefficient as i64));
        });
        return Buffer::I64(result);
    }
    let rounds = is_noisy() && product_rounds(einsum);
    let mut result = vec![0.0_f64; length];
    walk.run(|output, places| {
        let mut product = einsum.coefficient;
        for (operand, (input, place)) in inputs.iter().zip(places).enumerate() {
            let factor = input.buffer().get(*place);
            if einsum.strong[operand] && factor == 0.0 {
                return;
            }
            product *= factor;
        }
        result[output] += if rounds { perturbed(product, dtype) } else { product };
    });
    Buffer::from_fn(dtype, length, |k| result[k])
}

/// A walk over all values of all labels, with the place in the output and in each operand.
struct Walk {
    extents: Vec<usize>,
    output_strides: Vec<usize>,
    operand_strides: Vec<Vec<usize>>,
}

impl Walk {
    fn new(einsum: &Einsum) -> Walk {
        // Labels that occur nowhere are not walked; those in the output come first, so that each output
        // element is finished before the next.
        let used = |label: &usize| {
            einsum.output.contains(label) || einsum.operands.iter().any(|labels| labels.contains(label))
        };
        let (outer, inner): (Vec<usize>, Vec<usize>) =
            (0..einsum.extents.len()).filter(used).partition(|label| einsum.output.contains(label));
        let labels: Vec<usize> = outer.into_iter().chain(inner).collect();
        let strides = |axes: &[usize], shape: &Shape| -> Vec<usize> {
            let memory = shape.strides();
            // A label that repeats walks its diagonal: the strides add.
            labels
                .iter()
                .map(|label| {
                    axes.iter().zip(&memory).filter(|(axis, _)| *axis == label).map(|(_, stride)| stride).sum()
                })
                .collect()
        };
        Walk {
            extents: labels.iter().map(|label| einsum.extents[*label]).collect(),
            output_strides: strides(&einsum.output, &einsum.output_shape()),
            operand_strides: (0..einsum.operands.len())
                .map(|k| strides(&einsum.operands[k], &einsum.operand_shape(k)))
                .collect(),
        }
    }

    fn run(&self, mut visit: impl FnMut(usize, &[usize])) {
        if self.extents.contains(&0) {
            return;
        }
        let mut counters = vec![0; self.extents.len()];
        let mut output = 0;
        let mut places = vec![0; self.operand_strides.len()];
        loop {
            visit(output, &places);
            let mut axis = self.extents.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                counters[axis] += 1;
                output += self.output_strides[axis];
                for (place, strides) in places.iter_mut().zip(&self.operand_strides) {
                    *place += strides[axis];
                }
                if counters[axis] < self.extents[axis] {
                    break;
                }
                counters[axis] = 0;
                output -= self.output_strides[axis] * self.extents[axis];
                for (place, strides) in places.iter_mut().zip(&self.operand_strides) {
                    *place -= strides[axis] * self.extents[axis];
                }
            }
        }
    }
}
