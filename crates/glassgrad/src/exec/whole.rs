//! Operations on whole arrays that only move elements or add them up: padding, windows and their transposes, joining,
//! gathering and scattering, unit vectors, places of largest elements. All arrays lie row by row.

use smallvec::SmallVec;

use super::fused::Combinable;
use super::machine::{Frame, elements, elements_mut};
use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::expr::Op;
use crate::opt::program::Call;
use crate::shape::Shape;
use crate::view::View;

/// Runs an operation; `None` if it is not one of these.
pub(super) fn run(call: &Call, frame: &Frame<'_>) -> Option<Result<(), Error>> {
    match call.output.0.dtype {
        DType::F32 => typed::<f32>(call, frame),
        DType::F64 => typed::<f64>(call, frame),
        DType::I64 => typed::<i64>(call, frame),
        DType::Bool => typed::<bool>(call, frame),
    }
}

fn typed<E: Combinable + Element>(call: &Call, frame: &Frame<'_>) -> Option<Result<(), Error>> {
    let (access, shape) = &call.output;
    let output = elements_mut::<E>(frame.at(access, 0), shape.elements());
    let input = |number: usize| {
        let (access, shape) = &call.inputs[number];
        elements::<E>(frame.at(access, 0), shape.elements())
    };
    let indices = |number: usize| {
        let (access, shape) = &call.inputs[number];
        elements::<i64>(frame.at(access, 0), shape.elements())
    };
    match &call.op {
        Op::Read(view) => read(view, input(0), output),
        Op::Spread(view) => spread(view, input(0), output),
        Op::Concatenate(axis) => concatenate(call, *axis, &input, output),
        Op::Gather(axis) => {
            let taken = gathered("gather", &call.inputs[0].1, indices(1), *axis, |to, from, count| {
                output[to..to + count].copy_from_slice(&input(0)[from..from + count]);
            });
            return Some(taken);
        }
        Op::ScatterAdd(axis) => {
            output.fill(E::ZERO);
            let added = gathered("scatter_add", shape, indices(1), *axis, |from, to, count| {
                let sums = &mut output[to..to + count];
                sums.iter_mut().zip(&input(0)[from..from + count]).for_each(|(sum, element)| *sum = sum.plus(*element));
            });
            return Some(added);
        }
        Op::OneHot => {
            output.fill(E::ZERO);
            let size = shape.last().copied().unwrap_or(1);
            for (row, place) in indices(0).iter().enumerate() {
                if let Some(place) = usize::try_from(*place).ok().filter(|place| *place < size) {
                    output[row * size + place] = E::from_f64(1.0);
                }
            }
        }
        Op::LargestPlace(axis) => {
            let (source, from) = &call.inputs[0];
            let places = elements_mut::<i64>(frame.at(access, 0), shape.elements());
            let at = frame.at(source, 0);
            match source.dtype {
                DType::F32 => largest_places::<f32>(elements(at, from.elements()), from, *axis, places),
                DType::F64 => largest_places::<f64>(elements(at, from.elements()), from, *axis, places),
                DType::I64 => largest_places::<i64>(elements(at, from.elements()), from, *axis, places),
                DType::Bool => return None,
            }
        }
        _ => return None,
    }
    Some(Ok(()))
}

/// Part of a row of a view: its elements from the first number to the second read something, the first of the whole row
/// would read this place, and each next one so many places further.
struct Row {
    start: usize,
    inside: [usize; 2],
    place: isize,
    step: isize,
}

/// A number for each axis.
type Few = SmallVec<[isize; 8]>;

/// Calls a function for every row of what a view makes.
fn rows(view: &View, mut visit: impl FnMut(&Row)) {
    let (rank, length) = (view.output.rank(), view.output.last().copied().unwrap_or(1));
    if view.output.contains(&0) {
        return;
    }
    let outer = &view.output[..rank.saturating_sub(1)];
    let mut strides: Few = SmallVec::from_elem(1, view.input.rank());
    for axis in (1..view.input.rank()).rev() {
        strides[axis - 1] = strides[axis] * view.input[axis] as isize;
    }
    let step_along = |axis: usize, along: usize| -> isize {
        view.axes[axis].steps.iter().filter(|(own, _)| *own == along).map(|(_, step)| *step).sum()
    };
    // How far each axis of what is read moves along the last axis.
    let last: Few = (0..view.axes.len()).map(|axis| if rank > 0 { step_along(axis, rank - 1) } else { 0 }).collect();
    let step = last.iter().zip(&strides).map(|(step, stride)| step * stride).sum();
    let mut index: SmallVec<[usize; 8]> = SmallVec::from_elem(0, outer.len());
    let mut along: Few = view.axes.iter().map(|axis| axis.offset).collect();
    let mut start = 0;
    loop {
        let (mut from, mut to) = (0, length as isize);
        let mut place = 0;
        for (((at, step), size), stride) in along.iter().zip(&last).zip(view.input.iter()).zip(&strides) {
            let size = *size as isize;
            place += at * stride;
            // Where 0 ≤ at + k·step < size.
            let (first, behind) = match step.signum() {
                0 if (0..size).contains(at) => (0, to),
                0 => (0, 0),
                1 => ((-at + step - 1).div_euclid(*step), (size - at + step - 1).div_euclid(*step)),
                _ => ((at - size + 1 - step - 1).div_euclid(-step), at.div_euclid(-step) + 1),
            };
            (from, to) = (from.max(first), to.min(behind));
        }
        let from = from.clamp(0, length as isize);
        let inside = [from as usize, to.max(from) as usize];
        visit(&Row { start, inside, place, step });
        start += length;
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            let is_over = index[axis] == outer[axis];
            let moved = if is_over { 1 - outer[axis] as isize } else { 1 };
            along.iter_mut().enumerate().for_each(|(own, at)| *at += moved * step_along(own, axis));
            if !is_over {
                break;
            }
            index[axis] = 0;
        }
    }
}

fn read<E: Combinable>(view: &View, from: &[E], to: &mut [E]) {
    let length = view.output.last().copied().unwrap_or(1);
    rows(view, |row| {
        let [first, behind] = row.inside;
        let own = &mut to[row.start..row.start + length];
        own[..first].fill(E::ZERO);
        own[behind..].fill(E::ZERO);
        let place = (row.place + first as isize * row.step) as usize;
        match row.step {
            _ if first == behind => {}
            1 => own[first..behind].copy_from_slice(&from[place..place + behind - first]),
            step => {
                let places = (0..).map(|k: isize| (place as isize + k * step) as usize);
                own[first..behind].iter_mut().zip(places).for_each(|(own, place)| *own = from[place]);
            }
        }
    });
}

fn spread<E: Combinable>(view: &View, from: &[E], to: &mut [E]) {
    to.fill(E::ZERO);
    rows(view, |row| {
        let [first, behind] = row.inside;
        let place = row.place + first as isize * row.step;
        let source = &from[row.start + first..row.start + behind];
        match row.step {
            _ if first == behind => {}
            1 => {
                let sums = &mut to[place as usize..place as usize + source.len()];
                sums.iter_mut().zip(source).for_each(|(sum, element)| *sum = sum.plus(*element));
            }
            step => {
                for (k, element) in source.iter().enumerate() {
                    let sum = &mut to[(place + k as isize * step) as usize];
                    *sum = sum.plus(*element);
                }
            }
        }
    });
}

fn concatenate<'i, E: Copy + 'i>(call: &Call, axis: usize, input: &dyn Fn(usize) -> &'i [E], to: &mut [E]) {
    let shape = &call.output.1;
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let mut place = 0;
    for block in 0..outer {
        for (number, (_, shape)) in call.inputs.iter().enumerate() {
            let width = shape[axis] * inner;
            to[place..place + width].copy_from_slice(&input(number)[block * width..(block + 1) * width]);
            place += width;
        }
    }
}

/// Calls a function for every index: where its entry begins among those gathered, where in the whole, and how long it is.
fn gathered(
    name: &str,
    whole: &Shape,
    indices: &[i64],
    axis: usize,
    mut visit: impl FnMut(usize, usize, usize),
) -> Result<(), Error> {
    let (size, inner) = (whole[axis], whole[axis + 1..].iter().product::<usize>());
    let outer: usize = whole[..axis].iter().product();
    let mut start = 0;
    for block in 0..outer {
        for index in indices {
            let from_front = if *index < 0 { *index + size as i64 } else { *index };
            if !(0..size as i64).contains(&from_front) {
                return Err(Error::new(name, format!("index {index} is not on axis {axis}, which has size {size}")));
            }
            visit(start, (block * size + from_front as usize) * inner, inner);
            start += inner;
        }
    }
    Ok(())
}

fn largest_places<E: PartialOrd + Copy>(from: &[E], shape: &Shape, axis: usize, places: &mut [i64]) {
    let size = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    // NaN is larger than every number, and equals nothing.
    let is_nan = |element: E| element.partial_cmp(&element).is_none();
    for (line, place) in places.iter_mut().enumerate() {
        let first = line / inner * size * inner + line % inner;
        let mut best = 0;
        for k in 1..size {
            let (element, largest) = (from[first + k * inner], from[first + best * inner]);
            if element > largest || (is_nan(element) && !is_nan(largest)) {
                best = k;
            }
        }
        *place = best as i64;
    }
}
