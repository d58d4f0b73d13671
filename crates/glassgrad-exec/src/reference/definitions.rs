//! Calls by the definition of their operation, one element at a time.

use std::cmp::Ordering;
use std::panic::Location;

use super::noise::{self, perturbed};
use crate::array::{Array, Buffer, with_elements};
use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::program::CallKind;
use crate::rng::Key;
use crate::shape::Shape;
use crate::view::View;
use crate::{collective, host};

/// What an operation promises to make, and where it was called.
#[derive(Clone, Copy)]
pub struct Task<'t> {
    /// The shape of the result.
    pub shape: &'t Shape,
    /// Its element type.
    pub dtype: DType,
    /// The user's line.
    pub origin: &'static Location<'static>,
}

/// Whether a call takes elements of storage types as they are: it moves them, or is host code.
fn takes_stored(kind: &CallKind) -> bool {
    match kind {
        CallKind::ReadView(_) | CallKind::Concatenate(_) | CallKind::Gather(_) | CallKind::Host(_) => true,
        CallKind::ScatterView(_)
        | CallKind::ScatterAdd(_)
        | CallKind::Collective(_)
        | CallKind::ArgMax(_)
        | CallKind::OneHot(_)
        | CallKind::ArgSort { .. }
        | CallKind::Draw(_)
        | CallKind::Fused(_) => false,
    }
}

/// Whether the results of a call on floating-point numbers are rounded.
fn rounds(kind: &CallKind) -> bool {
    match kind {
        CallKind::ScatterView(_) | CallKind::ScatterAdd(_) | CallKind::Collective(_) | CallKind::Host(_) => true,
        CallKind::ReadView(_)
        | CallKind::Concatenate(_)
        | CallKind::Gather(_)
        | CallKind::ArgMax(_)
        | CallKind::OneHot(_)
        | CallKind::ArgSort { .. }
        | CallKind::Draw(_)
        | CallKind::Fused(_) => false,
    }
}

/// The result of a call from its operands.
pub fn perform(kind: &CallKind, task: Task<'_>, inputs: &[Array]) -> Result<Array, Error> {
    in_compute_types(task, inputs, takes_stored(kind), |task, inputs| {
        let made = computed(kind, task, inputs)?;
        Ok(if noise::is_on() && rounds(kind) { noise::perturbed_array(&made) } else { made })
    })
}

/// A result from operands of compute types: elements of storage types are computed with in the compute type, and every result is rounded, or
/// wrapped, once. Operations that only move or convert elements take them as they are stored.
pub fn in_compute_types(
    task: Task<'_>,
    inputs: &[Array],
    takes_stored: bool,
    compute: impl Fn(Task<'_>, &[Array]) -> Result<Array, Error>,
) -> Result<Array, Error> {
    let is_stored = task.dtype.is_storage_only() || inputs.iter().any(|input| input.dtype().is_storage_only());
    if !is_stored || takes_stored {
        return compute(task, inputs);
    }
    let widened: Vec<Array> = inputs
        .iter()
        .map(|input| Array::new(input.shape().clone(), input.buffer().cast(input.dtype().compute_type())))
        .collect();
    let made = compute(Task { dtype: task.dtype.compute_type(), ..task }, &widened)?;
    Ok(Array::new(task.shape.clone(), made.buffer().cast(task.dtype)))
}

/// The result of a call from operands of types that are computed in themselves or only moved.
fn computed(kind: &CallKind, task: Task<'_>, inputs: &[Array]) -> Result<Array, Error> {
    let length = task.shape.elements();
    let buffer = match kind {
        CallKind::ReadView(view) => inputs[0].buffer().pick(view.places()),
        CallKind::ScatterView(view) => spread(view, &inputs[0], length),
        CallKind::Concatenate(axis) => concatenate(inputs, *axis, task.shape),
        CallKind::Gather(axis) => gather(&inputs[0], &inputs[1], *axis, task)?,
        CallKind::ScatterAdd(axis) => scatter_add(&inputs[0], &inputs[1], *axis, task)?,
        CallKind::ArgMax(axis) => {
            Buffer::I64(largest_places(&inputs[0], *axis).into_iter().map(|(k, _)| k as i64).collect())
        }
        CallKind::OneHot(operation) => one_hot(operation, &inputs[0], task)?,
        CallKind::ArgSort { descending } => {
            let mut places = vec![0; length];
            let size = task.shape.last().copied().unwrap_or(1).max(1);
            with_elements!(inputs[0].buffer(), elements => argsort(elements, size, *descending, &mut places));
            Buffer::I64(places)
        }
        CallKind::Draw(distribution) => {
            let keys = (0..inputs[0].shape().elements()).map(|k| Key(integer(&inputs[0], k) as u64));
            let each = length.checked_div(inputs[0].shape().elements()).unwrap_or(0);
            let mut drawn = Buffer::zeros(task.dtype, 0);
            keys.for_each(|key| drawn.append(distribution.numbers(key, each)));
            drawn
        }
        CallKind::Host(call) => return host::call(call, inputs, (task.shape, task.dtype), task.origin),
        CallKind::Collective(collective) => return collective::perform(*collective, &inputs[0], task.shape),
        CallKind::Fused(kernel) => unreachable!("the region of {} is opened for this target", kernel.describe()),
    };
    Ok(Array::new(task.shape.clone(), buffer))
}

fn one_hot(operation: &'static str, classes: &Array, task: Task<'_>) -> Result<Buffer, Error> {
    let size = task.shape[task.shape.rank() - 1];
    let no_class = |row: &usize| !(0..size as i64).contains(&integer(classes, *row));
    if let Some(row) = (0..classes.shape().elements()).find(no_class) {
        let class = integer(classes, row);
        return Err(host::no_class(operation, class, row, classes.shape(), size).at(task.origin));
    }
    Ok(Buffer::from_fn(task.dtype, task.shape.elements(), |k| {
        f64::from(u8::from(integer(classes, k / size) == (k % size) as i64))
    }))
}

/// Elements of a floating-point type from 64-bit numbers, of an integer type from integers.
pub fn from_fn_typed(
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

/// An element as an integer.
pub fn integer(array: &Array, k: usize) -> i64 {
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
fn gathered_places(
    name: &'static str,
    whole: &Shape,
    indices: &Array,
    axis: usize,
    task: Task<'_>,
) -> Result<Vec<usize>, Error> {
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
                let error = Error::new(name, format!("index {index} is not on axis {axis}, which has size {size}"));
                return Err(error.at(task.origin));
            }
            let start = (block * size + from_front as usize) * inner;
            places.extend(start..start + inner);
        }
    }
    Ok(places)
}

fn gather(source: &Array, indices: &Array, axis: usize, task: Task<'_>) -> Result<Buffer, Error> {
    let places = gathered_places("gather", source.shape(), indices, axis, task)?;
    Ok(source.buffer().pick(places.into_iter().map(Some)))
}

fn scatter_add(entries: &Array, indices: &Array, axis: usize, task: Task<'_>) -> Result<Buffer, Error> {
    let places = gathered_places("scatter_add", task.shape, indices, axis, task)?;
    if let Buffer::I64(entries) = entries.buffer() {
        let mut sums = vec![0_i64; task.shape.elements()];
        for (entry, place) in entries.iter().zip(places) {
            sums[place] = sums[place].wrapping_add(*entry);
        }
        return Ok(Buffer::I64(sums));
    }
    let mut sums = vec![0.0; task.shape.elements()];
    for (k, place) in places.into_iter().enumerate() {
        sums[place] += perturbed(entries.buffer().get(k), task.dtype);
    }
    Ok(Buffer::from_fn(task.dtype, sums.len(), |k| sums[k]))
}

/// For each index of the other axes, the place of the first of the largest elements along some axes.
pub fn largest_along(array: &Array, axes: &[usize]) -> Vec<Option<usize>> {
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

/// For each line along an axis, the index of its first largest element and the place of that element. NaN is larger than every number.
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
pub fn argsort<E: Element + PartialOrd>(elements: &[E], size: usize, descending: bool, places: &mut [i64]) {
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
