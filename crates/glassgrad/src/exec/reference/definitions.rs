//! The reference executor: every operation by its definition, one element at a time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::super::host;
use super::noise::{self, perturbed};
use crate::array::{Array, Buffer, with_elements};
use crate::collective;
use crate::dtype::{DType, Element};
use crate::einsum::Einsum;
use crate::error::Error;
use crate::expr::{Inputs, Logic, MultiOp, Node, Op, Scan, Subgraph, Sweep, with_inputs};
use crate::formula::Formula;
use crate::ops::Algebra;
use crate::rng::Key;
use crate::shape::Shape;
use crate::view::View;

/// What is to be computed: an operation, and what it promises to make.
pub(in crate::exec) struct Task<'t> {
    pub(in crate::exec) op: &'t Op,
    pub(in crate::exec) shape: &'t Shape,
    pub(in crate::exec) dtype: DType,
    pub(in crate::exec) origin: &'static std::panic::Location<'static>,
}

/// The value of a node from those of its inputs.
pub(crate) fn compute(node: &Node, inputs: &[Array]) -> Result<Array, Error> {
    perform(&Task { op: &node.op, shape: &node.shape, dtype: node.dtype, origin: node.origin }, inputs)
}

/// Whether an operation takes elements of storage types as they are: it moves or converts them, or is host code.
fn takes_stored(op: &Op) -> bool {
    match op {
        Op::Variable
        | Op::StopGradient
        | Op::ControlDependency
        | Op::Reshape
        | Op::Cast
        | Op::ReadView(_)
        | Op::Concatenate(_)
        | Op::Gather(_)
        | Op::Max(_)
        | Op::Custom(_)
        | Op::Leaf
        | Op::Placeholder
        | Op::GetOutput(_)
        | Op::Failed(_) => true,
        Op::Map(_)
        | Op::Einsum(_)
        | Op::Add
        | Op::ScatterView(_)
        | Op::ScatterAdd(_)
        | Op::Collective(_)
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::Select
        | Op::ArgMax(_)
        | Op::OneHot(_)
        | Op::ArgSort { .. }
        | Op::Draw(_) => false,
    }
}

/// The value of an operation from those of its operands. Elements of storage types are computed with in the compute type, and
/// every result is rounded, or wrapped, once.
pub(in crate::exec) fn perform(node: &Task<'_>, inputs: &[Array]) -> Result<Array, Error> {
    let is_stored = node.dtype.is_storage_only() || inputs.iter().any(|input| input.dtype().is_storage_only());
    if !is_stored || takes_stored(node.op) {
        return with_noise(node, inputs);
    }
    let widened: Vec<Array> = inputs
        .iter()
        .map(|input| Array::new(input.shape().clone(), input.buffer().cast(input.dtype().compute_type())))
        .collect();
    let made = with_noise(&Task { dtype: node.dtype.compute_type(), ..*node }, &widened)?;
    Ok(Array::new(node.shape.clone(), made.buffer().cast(node.dtype)))
}

/// As [`computed`]; inside of `with_rounding_noise` operands of formulas and results that are rounded are perturbed.
fn with_noise(node: &Task<'_>, inputs: &[Array]) -> Result<Array, Error> {
    if !noise::is_on() || !rounds(node.op) {
        return computed(node, inputs);
    }
    let made = match node.op {
        Op::Map(_) => computed(node, &inputs.iter().map(noise::perturbed_array).collect::<Vec<Array>>())?,
        _ => computed(node, inputs)?,
    };
    Ok(noise::perturbed_array(&made))
}

/// Whether the results of an operation on floating-point numbers are rounded.
fn rounds(op: &Op) -> bool {
    match op {
        Op::Map(_) | Op::Add | Op::ScatterView(_) | Op::ScatterAdd(_) | Op::Collective(_) | Op::Custom(_) => true,
        Op::Einsum(einsum) => product_rounds(einsum),
        Op::Variable
        | Op::StopGradient
        | Op::ControlDependency
        | Op::Reshape
        // A conversion rounds as IEEE 754 defines it, in every executor.
        | Op::Cast
        | Op::ReadView(_)
        | Op::Concatenate(_)
        | Op::Gather(_)
        | Op::Max(_)
        | Op::Leaf
        | Op::Placeholder
        | Op::GetOutput(_)
        | Op::Failed(_)
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::Select
        | Op::ArgMax(_)
        | Op::OneHot(_)
        | Op::ArgSort { .. }
        | Op::Draw(_) => false,
    }
}

/// Whether a product multiplies or adds: transposes, broadcasts and diagonals do not.
fn product_rounds(einsum: &Einsum) -> bool {
    einsum.operands.len() > 1 || einsum.coefficient != 1.0 || !einsum.summed().is_empty()
}

/// The value of an operation from those of its operands, of types that are computed in themselves or only moved.
fn computed(node: &Task<'_>, inputs: &[Array]) -> Result<Array, Error> {
    let length = node.shape.elements();
    let buffer = match node.op {
        Op::Variable | Op::StopGradient | Op::ControlDependency | Op::Reshape => {
            return Ok(inputs[0].reshaped(node.shape.clone()));
        }
        Op::Map(formula) => map(formula, inputs, length),
        Op::Einsum(einsum) => contract(einsum, inputs, node.dtype, length),
        Op::Add => from_fn_typed(
            node.dtype,
            length,
            |k| inputs.iter().map(|input| perturbed(input.buffer().get(k), node.dtype)).sum(),
            |k| inputs.iter().map(|input| integer(input, k)).fold(0, i64::wrapping_add),
        ),
        Op::Cast => inputs[0].buffer().cast(node.dtype),
        Op::ReadView(view) => inputs[0].buffer().pick(view.places()),
        Op::ScatterView(view) => spread(view, &inputs[0], length),
        Op::Concatenate(axis) => concatenate(inputs, *axis, node.shape),
        Op::Gather(axis) => gather(&inputs[0], &inputs[1], *axis, node)?,
        Op::ScatterAdd(axis) => scatter_add(&inputs[0], &inputs[1], *axis, node)?,
        Op::Compare(relation) => Buffer::Bool(match (inputs[0].buffer(), inputs[1].buffer()) {
            // Not every integer is a 64-bit floating-point number.
            (Buffer::I64(a), Buffer::I64(b)) => a.iter().zip(b).map(|(a, b)| relation.holds(a, b)).collect(),
            (a, b) => (0..length).map(|k| relation.holds(a.get(k), b.get(k))).collect(),
        }),
        Op::Logic(logic) => {
            let holds = |input: usize, k: usize| inputs[input].buffer().get(k) != 0.0;
            Buffer::Bool(
                (0..length)
                    .map(|k| match logic {
                        Logic::And => holds(0, k) && holds(1, k),
                        Logic::Or => holds(0, k) || holds(1, k),
                        Logic::Not => !holds(0, k),
                    })
                    .collect(),
            )
        }
        Op::Select => {
            let chosen = |k: usize| &inputs[if inputs[0].buffer().get(k) != 0.0 { 1 } else { 2 }];
            from_fn_typed(node.dtype, length, |k| chosen(k).buffer().get(k), |k| integer(chosen(k), k))
        }
        Op::Max(axes) => inputs[0].buffer().pick(largest_along(&inputs[0], axes).into_iter()),
        Op::ArgMax(axis) => Buffer::I64(largest_places(&inputs[0], *axis).into_iter().map(|(k, _)| k as i64).collect()),
        Op::OneHot(operation) => {
            let size = node.shape[node.shape.rank() - 1];
            let rows = inputs[0].shape().elements();
            let no_class = |row: &usize| !(0..size as i64).contains(&integer(&inputs[0], *row));
            if let Some(row) = (0..rows).find(no_class) {
                let class = integer(&inputs[0], row);
                return Err(host::no_class(operation, class, row, inputs[0].shape(), size).at(node.origin));
            }
            Buffer::from_fn(node.dtype, length, |k| {
                f64::from(u8::from(integer(&inputs[0], k / size) == (k % size) as i64))
            })
        }
        Op::Leaf | Op::Placeholder => return Err(Error::new("read", "a leaf has no value").at(node.origin)),
        Op::GetOutput(_) => unreachable!("the outputs of an operation are computed together, by `outputs_of`"),
        Op::ArgSort { descending } => {
            let mut places = vec![0; length];
            let size = node.shape.last().copied().unwrap_or(1).max(1);
            with_elements!(inputs[0].buffer(), elements => argsort(elements, size, *descending, &mut places));
            Buffer::I64(places)
        }
        Op::Draw(distribution) => {
            let keys = (0..inputs[0].shape().elements()).map(|k| Key(integer(&inputs[0], k) as u64));
            let each = length.checked_div(inputs[0].shape().elements()).unwrap_or(0);
            let mut drawn = Buffer::zeros(node.dtype, 0);
            keys.for_each(|key| drawn.append(distribution.numbers(key, each)));
            drawn
        }
        Op::Custom(custom) => return host::call(custom, inputs, (node.shape, node.dtype), node.origin),
        Op::Collective(collective) => return collective::perform(*collective, &inputs[0], node.shape),
        Op::Failed(error) => return Err(error.clone()),
    };
    Ok(Array::new(node.shape.clone(), buffer))
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

/// Elements of a floating-point type from 64-bit numbers, of an integer type from integers.
fn from_fn_typed(
    dtype: DType,
    length: usize,
    number: impl FnMut(usize) -> f64,
    whole: impl FnMut(usize) -> i64,
) -> Buffer {
    match dtype {
        DType::I64 => Buffer::I64((0..length).map(whole).collect()),
        dtype => Buffer::from_fn(dtype, length, number),
    }
}

/// Whether the element at one place is larger than that at another. NaN is larger than every number.
fn exceeds(buffer: &Buffer, place: usize, other: usize) -> bool {
    if let Buffer::I64(elements) = buffer {
        return elements[place] > elements[other];
    }
    let (value, largest) = (buffer.get(place), buffer.get(other));
    value > largest || (value.is_nan() && !largest.is_nan())
}

fn integer(array: &Array, k: usize) -> i64 {
    match array.buffer() {
        Buffer::I64(elements) => elements[k],
        other => other.get(k) as i64,
    }
}

/// Adds elements up where a view would read them.
fn spread(view: &View, input: &Array, length: usize) -> Buffer {
    let places = view.places().enumerate().filter_map(|(from, to)| to.map(|to| (from, to)));
    if input.dtype() == DType::I64 {
        let mut sums = vec![0_i64; length];
        places.for_each(|(from, to)| sums[to] = sums[to].wrapping_add(integer(input, from)));
        return Buffer::I64(sums);
    }
    let mut sums = vec![0.0; length];
    places.for_each(|(from, to)| sums[to] += perturbed(input.buffer().get(from), input.dtype()));
    Buffer::from_fn(input.dtype(), length, |k| sums[k])
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
    let rounds = noise::is_on() && product_rounds(einsum);
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

fn concatenate(inputs: &[Array], axis: usize, shape: &Shape) -> Buffer {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let mut sources = Vec::with_capacity(shape.elements());
    for block in 0..outer {
        for (number, input) in inputs.iter().enumerate() {
            let width = input.shape()[axis] * inner;
            sources.extend((block * width..(block + 1) * width).map(|place| (number, place)));
        }
    }
    let dtype = inputs[0].dtype();
    from_fn_typed(
        dtype,
        sources.len(),
        |k| inputs[sources[k].0].buffer().get(sources[k].1),
        |k| integer(&inputs[sources[k].0], sources[k].1),
    )
}

/// For each element of a gathered array, its place in the array it is gathered from.
fn gathered_places(whole: &Shape, indices: &Array, axis: usize, node: &Task<'_>) -> Result<Vec<usize>, Error> {
    let size = whole[axis];
    let inner: usize = whole[axis + 1..].iter().product();
    let outer: usize = whole[..axis].iter().product();
    let count = indices.shape().elements();
    let mut places = Vec::with_capacity(outer * count * inner);
    for block in 0..outer {
        for k in 0..count {
            let index = integer(indices, k);
            let from_front = if index < 0 { index + size as i64 } else { index };
            if !(0..size as i64).contains(&from_front) {
                let name = if matches!(node.op, Op::ScatterAdd(_)) { "scatter_add" } else { "gather" };
                let error = Error::new(name, format!("index {index} is not on axis {axis}, which has size {size}"));
                return Err(error.at(node.origin));
            }
            let start = (block * size + from_front as usize) * inner;
            places.extend(start..start + inner);
        }
    }
    Ok(places)
}

fn gather(source: &Array, indices: &Array, axis: usize, node: &Task<'_>) -> Result<Buffer, Error> {
    let places = gathered_places(source.shape(), indices, axis, node)?;
    Ok(source.buffer().pick(places.into_iter().map(Some)))
}

fn scatter_add(entries: &Array, indices: &Array, axis: usize, node: &Task<'_>) -> Result<Buffer, Error> {
    let places = gathered_places(node.shape, indices, axis, node)?;
    if let Buffer::I64(entries) = entries.buffer() {
        let mut sums = vec![0_i64; node.shape.elements()];
        for (entry, place) in entries.iter().zip(places) {
            sums[place] = sums[place].wrapping_add(*entry);
        }
        return Ok(Buffer::I64(sums));
    }
    let mut sums = vec![0.0; node.shape.elements()];
    for (k, place) in places.into_iter().enumerate() {
        sums[place] += perturbed(entries.buffer().get(k), node.dtype);
    }
    Ok(Buffer::from_fn(node.dtype, sums.len(), |k| sums[k]))
}

/// For each line along an axis, the index of its first largest element and that element's place. NaN wins.
/// For each index of the other axes, the place of the first of the largest elements along some axes.
fn largest_along(array: &Array, axes: &[usize]) -> Vec<Option<usize>> {
    let shape = array.shape();
    let kept: Vec<usize> = (0..shape.rank()).filter(|axis| !axes.contains(axis)).collect();
    let strides = shape.strides();
    let mut found = vec![None; kept.iter().map(|axis| shape[*axis]).product()];
    for place in 0..shape.elements() {
        let index = |axis: usize| place / strides[axis] % shape[axis];
        let own = kept.iter().fold(0, |own, axis| own * shape[*axis] + index(*axis));
        if found[own].is_none_or(|best| exceeds(array.buffer(), place, best)) {
            found[own] = Some(place);
        }
    }
    found
}

fn largest_places(array: &Array, axis: usize) -> Vec<(usize, usize)> {
    let shape = array.shape();
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let mut found = Vec::with_capacity(outer * inner);
    for block in 0..outer {
        for offset in 0..inner {
            let place_of = |k: usize| (block * shape[axis] + k) * inner + offset;
            let mut best = 0;
            for k in 1..shape[axis] {
                if exceeds(array.buffer(), place_of(k), place_of(best)) {
                    best = k;
                }
            }
            found.push((best, place_of(best)));
        }
    }
    found
}

/// The stable sorting permutation of each line of `size` elements; NaN comes last in ascending order.
pub(crate) fn argsort<E: Element + PartialOrd>(elements: &[E], size: usize, descending: bool, places: &mut [i64]) {
    // Two elements without an order differ in being NaN, or both are.
    let compare = |a: E, b: E| {
        let by_nan = || a.to_f64().is_nan().cmp(&b.to_f64().is_nan());
        a.partial_cmp(&b).unwrap_or_else(by_nan)
    };
    let directed = |order: Ordering| if descending { order.reverse() } else { order };
    for (line, places) in elements.chunks(size).zip(places.chunks_mut(size)) {
        places.iter_mut().zip(0..).for_each(|(place, number)| *place = number);
        places.sort_by(|a, b| directed(compare(line[*a as usize], line[*b as usize])));
    }
}
