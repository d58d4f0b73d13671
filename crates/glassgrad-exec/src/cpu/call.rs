//! Calls on whole row-major arrays: data movement, sorting, random draws and host code.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::fused::Combinable;
use super::interpreter::{Frame, Origin, address, address_mut, elements, elements_mut};
use super::isa::Isa;
use super::vector::draws::{self, Drawn, Normal, OpenUniform, Uniform};
use super::{cumulative, thread_pool, top_k};
use crate::array::{Array, Buffer};
use crate::collective::{self, Collective, Ticket};
use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::host;
use crate::host::{Elements, ElementsMut, Operand};
use crate::program::{Access, Call, CallKind, Signature};
use crate::program::{Distribution, FusedKernel, HostCall};
use crate::reference::argsort;
use crate::rng::Key;
use crate::shape::Shape;
use crate::view::View;

/// Evaluates an expression with a name for the type of elements.
macro_rules! for_dtype {
    ($dtype:expr, $Element:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $Element = f32;
                $body
            }
            DType::F64 => {
                type $Element = f64;
                $body
            }
            DType::I64 => {
                type $Element = i64;
                $body
            }
            DType::Bool => {
                type $Element = bool;
                $body
            }
            dtype @ (DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
                unreachable!("operands of {dtype} are converted before a call that computes with them")
            }
        }
    };
}

/// Runs a call.
pub(super) unsafe fn run(call: &Call, frame: &Frame<'_>, origin: Origin<'_>) -> Result<(), Error> {
    let done = match (&call.kind, call.output().0.dtype) {
        (CallKind::Host(custom), _) => host_call(custom, call, frame, origin),
        (CallKind::Collective(collective), _) => {
            begin(*collective, call, frame).and_then(|begun| finish(begun, call, frame))
        }
        (CallKind::Fused(kernel), _) => {
            fused_kernel(kernel, call, frame);
            Ok(())
        }
        // Elements of storage types are moved by their bits.
        (_, DType::F16 | DType::BF16) => moved::<u16>(call, frame),
        (_, DType::I32) => moved::<u32>(call, frame),
        (_, DType::U8) => moved::<u8>(call, frame),
        (_, DType::F32 | DType::F64 | DType::I64 | DType::Bool) => {
            for_dtype!(call.output().0.dtype, E => typed::<E>(call, frame))
        }
    };
    done.map_err(|error| error.at(origin(call.source)))
}

/// Begins a collective: its operand is copied, and messages are made while later steps run.
pub(super) unsafe fn begin(collective: Collective, call: &Call, frame: &Frame<'_>) -> Result<Ticket, Error> {
    let (access, shape) = &call.inputs[0];
    let operand = elements::<u8>(frame.at(access, 0), shape.elements() * access.dtype.bytes());
    collective::post(collective, access.dtype, shape, operand)
}

/// Waits for a collective, and writes its result.
pub(super) unsafe fn finish(ticket: Ticket, call: &Call, frame: &Frame<'_>) -> Result<(), Error> {
    let (access, shape) = call.output();
    ticket.wait(elements_mut::<u8>(frame.at(access, 0), shape.elements() * access.dtype.bytes()))
}

/// Calls that only move elements, by element size; the bits of zero are those of the default.
unsafe fn moved<E: Copy + Default + Send + Sync>(call: &Call, frame: &Frame<'_>) -> Result<(), Error> {
    let (access, shape) = call.output();
    let output = elements_mut::<E>(frame.at(access, 0), shape.elements());
    let input = |number: usize| {
        let (access, shape) = &call.inputs[number];
        elements::<E>(frame.at(access, 0), shape.elements())
    };
    match &call.kind {
        CallKind::ReadView(view) => read(view, input(0), output),
        CallKind::Concatenate(axis) => concatenate(call, *axis, &input, output),
        CallKind::Gather(axis) => {
            let (access, of) = &call.inputs[1];
            let indices = elements::<i64>(frame.at(access, 0), of.elements());
            Gathered::new(&call.inputs[0].1, indices, *axis).read("gather", input(0), output)?;
        }
        CallKind::ScatterView(_)
        | CallKind::ScatterAdd(_)
        | CallKind::OneHot(_)
        | CallKind::ArgMax(_)
        | CallKind::ArgSort { .. }
        | CallKind::Draw(_)
        | CallKind::Collective(_)
        | CallKind::Fused(_)
        | CallKind::Host(_) => unreachable!("the call computes with elements, in their compute type"),
    }
    Ok(())
}

/// Whether a call runs on arrays where they are; host code is given copies.
pub(super) fn is_native(kind: &CallKind) -> bool {
    match kind {
        // Memory for operands and results beside that of the program.
        CallKind::Host(_) | CallKind::Collective(_) => false,
        CallKind::ReadView(_)
        | CallKind::ScatterView(_)
        | CallKind::Concatenate(_)
        | CallKind::Gather(_)
        | CallKind::ScatterAdd(_)
        | CallKind::OneHot(_)
        | CallKind::ArgMax(_)
        | CallKind::ArgSort { .. }
        | CallKind::Fused(_)
        | CallKind::Draw(_) => true,
    }
}

unsafe fn typed<E: Combinable + Element + Default>(call: &Call, frame: &Frame<'_>) -> Result<(), Error> {
    let (access, shape) = call.output();
    let output = elements_mut::<E>(frame.at(access, 0), shape.elements());
    let input = |number: usize| {
        let (access, shape) = &call.inputs[number];
        elements::<E>(frame.at(access, 0), shape.elements())
    };
    let indices = |number: usize| {
        let (access, shape) = &call.inputs[number];
        elements::<i64>(frame.at(access, 0), shape.elements())
    };
    match &call.kind {
        CallKind::ReadView(_) | CallKind::Concatenate(_) | CallKind::Gather(_) => return moved::<E>(call, frame),
        CallKind::ScatterView(view) => scatter(view, input(0), output),
        CallKind::ScatterAdd(axis) => {
            let gathered = Gathered::new(shape, indices(1), *axis);
            gathered.check("scatter_add")?;
            gathered.add(input(0), output);
        }
        CallKind::OneHot(operation) => {
            let classes = shape.last().copied().unwrap_or(1);
            let rows = indices(0);
            let is_class = |class: &i64| usize::try_from(*class).is_ok_and(|class| class < classes);
            if let Some(row) = rows.iter().position(|class| !is_class(class)) {
                return Err(host::no_class(operation, rows[row], row, &call.inputs[0].1, classes));
            }
            let together = PART.div_ceil(classes.max(1));
            thread_pool::each_part(output, together * classes, |part, output| {
                output.fill(E::ZERO);
                for (row, class) in output.chunks_exact_mut(classes.max(1)).zip(&rows[part * together..]) {
                    row[*class as usize] = E::from_f64(1.0);
                }
            });
        }
        CallKind::ArgMax(axis) => {
            let (from, of) = &call.inputs[0];
            let to = elements_mut::<i64>(frame.at(access, 0), shape.elements());
            for_dtype!(from.dtype, T => argmax::<T>(elements::<T>(frame.at(from, 0), of.elements()), of, *axis, to));
        }
        CallKind::ArgSort { descending } => {
            let (from, of) = &call.inputs[0];
            let to = elements_mut::<i64>(frame.at(access, 0), shape.elements());
            for_dtype!(from.dtype, T => sorted(elements::<T>(frame.at(from, 0), of.elements()), of, *descending, to));
        }
        CallKind::Draw(distribution) => {
            draw(distribution, frame.isa, indices(0), frame.at(access, 0), shape.elements());
        }
        CallKind::Collective(_) => unreachable!("collectives are begun and finished by their bytes"),
        CallKind::Fused(kernel) => unreachable!("{} runs by itself", kernel.describe()),
        CallKind::Host(_) => unreachable!("host code is given copies of its operands, of any type"),
    }
    Ok(())
}

/// The permutations that sort along the last axis.
fn sorted<E: Element + PartialOrd + Sync>(from: &[E], shape: &Shape, descending: bool, to: &mut [i64]) {
    let size = shape.last().copied().unwrap_or(1).max(1);
    let lines = (PART / size).max(1);
    thread_pool::each_part(to, lines * size, |part, to| {
        let from = &from[part * lines * size..][..to.len()];
        for (from, to) in from.chunks(size).zip(to.chunks_mut(size)) {
            // Four bytes and a place are one integer to sort, which takes a fraction of the time of comparing through places.
            match E::DTYPE {
                DType::F32 if u32::try_from(size).is_ok() => sort_packed(from, descending, to),
                DType::F32 | DType::F64 | DType::I64 | DType::Bool => argsort(from, size, descending, to),
                DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
                    unreachable!("{} is sorted in its compute type", E::DTYPE)
                }
            }
        }
    });
}

/// The stable sorting permutation of numbers of 32 bits: each number, as an integer of the same order, above its place.
fn sort_packed<E: Element>(from: &[E], descending: bool, to: &mut [i64]) {
    for (place, (own, element)) in to.iter_mut().zip(from).enumerate() {
        let key = descending_key(element.to_f64() as f32);
        let ordered = if descending { key } else { !key };
        // The upper bit is turned: the list is one of signed integers.
        *own = ((u64::from(ordered) << 32 | place as u64) ^ 1 << 63) as i64;
    }
    to.sort_unstable();
    to.iter_mut().for_each(|own| *own &= i64::from(u32::MAX));
}

/// An integer for a number, the smaller the larger the number is. Zeros are equal, and so is all that is no number; that is the largest.
#[inline(always)]
pub(super) fn descending_key(number: f32) -> u32 {
    let bits = if number.is_nan() { u32::MAX >> 1 } else { (number + 0.0).to_bits() };
    !(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 })
}

/// A kernel for a whole region.
unsafe fn fused_kernel(kernel: &FusedKernel, call: &Call, frame: &Frame<'_>) {
    match kernel {
        FusedKernel::Cumulative(kernel) => cumulative::run(kernel, call, frame),
        FusedKernel::CumulativePullback(kernel) => cumulative::pull_back(kernel, call, frame),
        FusedKernel::TopK(count) => top_k::run(*count, call, frame),
        FusedKernel::Attention(_)
        | FusedKernel::AttentionPullback(_)
        | FusedKernel::CrossEntropy(_)
        | FusedKernel::CrossEntropyPullback(_)
        | FusedKernel::BatchNorm(_)
        | FusedKernel::BatchNormPullback(_) => {
            unreachable!("the region of {} is opened for this target", kernel.describe())
        }
    }
}

/// Which regions this executor has a kernel for.
pub(super) fn has_kernel(kernel: &FusedKernel, inputs: &[Signature]) -> bool {
    match kernel {
        FusedKernel::Cumulative(kernel) => cumulative::is_supported(kernel, inputs),
        FusedKernel::CumulativePullback(kernel) => cumulative::is_pullback_supported(kernel, inputs),
        FusedKernel::TopK(_) => top_k::is_supported(inputs),
        FusedKernel::Attention(_)
        | FusedKernel::AttentionPullback(_)
        | FusedKernel::CrossEntropy(_)
        | FusedKernel::CrossEntropyPullback(_)
        | FusedKernel::BatchNorm(_)
        | FusedKernel::BatchNormPullback(_) => false,
    }
}

/// Random numbers of each key, one after another.
unsafe fn draw(distribution: &Distribution, isa: Isa, keys: &[i64], at: *mut u8, count: usize) {
    let each = count.checked_div(keys.len()).unwrap_or(0);
    if each == 0 {
        return;
    }
    fn parts<D: Drawn<Number: Send>>(isa: Isa, to: &mut [D::Number], keys: &[i64], each: usize) {
        for (key, to) in keys.iter().zip(to.chunks_exact_mut(each)) {
            let key = Key(*key as u64);
            thread_pool::each_part(to, DRAWN, |part, to| draws::draw::<D>(isa, key, (part * DRAWN) as u64, to));
        }
    }
    match distribution {
        Distribution::Uniform => parts::<Uniform>(isa, elements_mut(at, count), keys, each),
        Distribution::OpenUniform => parts::<OpenUniform>(isa, elements_mut(at, count), keys, each),
        Distribution::Normal => parts::<Normal>(isa, elements_mut(at, count), keys, each),
        Distribution::Permutation => {
            for (key, to) in keys.iter().zip(elements_mut::<i64>(at, count).chunks_exact_mut(each)) {
                let order = Key(*key as u64).permutation(each);
                to.iter_mut().zip(order).for_each(|(to, place)| *to = place as i64);
            }
        }
        Distribution::Keys(numbers) => {
            for (key, to) in keys.iter().zip(elements_mut::<i64>(at, count).chunks_exact_mut(each)) {
                to.iter_mut().zip(&**numbers).for_each(|(to, number)| *to = Key(*key as u64).fold(*number).0 as i64);
            }
        }
    }
}

/// The random numbers that a thread draws at a time.
const DRAWN: usize = 1 << 14;

/// Host code on operands where they lie, if it is one of the library's that can do that.
unsafe fn host_call_in_place(custom: &HostCall, call: &Call, frame: &Frame<'_>) -> Option<Result<(), Error>> {
    let operand = |(access, shape): &'_ (Access, Shape)| {
        let (at, count) = (frame.at(access, 0), shape.elements());
        match access.dtype {
            DType::F32 => Elements::F32(elements(at, count)),
            DType::F64 => Elements::F64(elements(at, count)),
            DType::I64 => Elements::I64(elements(at, count)),
            DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => Elements::Other,
        }
    };
    let operands: SmallVec<[Operand<'_>; 4]> =
        call.inputs.iter().map(|input| Operand { shape: &input.1, elements: operand(input) }).collect();
    let (access, shape) = call.output();
    let (at, count) = (frame.at(access, 0), shape.elements());
    let output = match access.dtype {
        DType::F32 => ElementsMut::F32(elements_mut(at, count)),
        DType::F64 => ElementsMut::F64(elements_mut(at, count)),
        DType::I64 => ElementsMut::I64(elements_mut(at, count)),
        DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => ElementsMut::Other,
    };
    let done = custom.value_into(&operands, output)?;
    Some(done.map_err(|message| Error::new(custom.name(), message)))
}

/// Host code, on copies of its operands unless it takes them where they lie.
unsafe fn host_call(custom: &HostCall, call: &Call, frame: &Frame<'_>, origin: Origin<'_>) -> Result<(), Error> {
    if let Some(done) = host_call_in_place(custom, call, frame) {
        return done;
    }
    let array = |(access, shape): &(Access, Shape)| {
        let mut buffer = Buffer::zeros(access.dtype, shape.elements());
        let bytes = shape.elements() * access.dtype.bytes();
        // SAFETY: both sides hold the elements of the shape, in memory of their own.
        unsafe { std::ptr::copy_nonoverlapping(frame.at(access, 0), address_mut(&mut buffer), bytes) };
        Array::new(shape.clone(), buffer)
    };
    let inputs: Vec<Array> = call.inputs.iter().map(array).collect();
    let (access, shape) = call.output();
    let value = host::call(custom, &inputs, (shape, access.dtype), origin(call.source))?;
    let bytes = shape.elements() * access.dtype.bytes();
    // SAFETY: the host code made the elements of this shape and type, which was checked.
    unsafe { std::ptr::copy_nonoverlapping(address(value.buffer()), frame.at(access, 0), bytes) };
    Ok(())
}

/// A line of the output of a view: the elements in the range `inside` read the input, at `place` for the first element of the line and
/// with stride `step`; the others are padding.
struct Line {
    /// The offset of its first element in the output.
    start: usize,
    inside: [usize; 2],
    place: isize,
    step: isize,
}

/// The lines of the output of a view: along `axis`, with `length` elements at a stride of `apart`.
struct Lines {
    axis: usize,
    length: usize,
    apart: usize,
}

/// Shorter last axes than this do not make good lines.
const SHORT: usize = 16;

impl Lines {
    /// Lines along the last axis, or along the longest if that is short.
    fn of(view: &View) -> Lines {
        let last = view.output.rank().saturating_sub(1);
        let longest = (0..view.output.rank()).max_by_key(|axis| view.output[*axis]).unwrap_or(0);
        let axis = if view.output.last().is_none_or(|size| *size >= SHORT) { last } else { longest };
        let apart = view.output[(axis + 1).min(view.output.rank())..].iter().product();
        Lines { axis, length: view.output.get(axis).copied().unwrap_or(1), apart }
    }

    /// Calls a function for every line, of some entries along the first axis if lines run along another.
    fn visit(&self, view: &View, entries: Range<usize>, mut visit: impl FnMut(&Line)) {
        if view.output.contains(&0) || entries.is_empty() {
            return;
        }
        let (rank, inputs) = (view.output.rank(), view.axes.len());
        let mut strides: Few = SmallVec::from_elem(1, inputs);
        for axis in (1..inputs).rev() {
            strides[axis - 1] = strides[axis] * view.input[axis] as isize;
        }
        let mut own_strides: Few = SmallVec::from_elem(1, rank);
        for axis in (1..rank).rev() {
            own_strides[axis - 1] = own_strides[axis] * view.output[axis] as isize;
        }
        // How far each axis of what is read moves along each axis of the result.
        let mut steps: SmallVec<[isize; 32]> = SmallVec::from_elem(0, rank * inputs);
        for (input, own) in view.axes.iter().enumerate() {
            own.steps.iter().for_each(|(along, step)| steps[along * inputs + input] += step);
        }
        let along_line = |input: usize| if rank == 0 { 0 } else { steps[self.axis * inputs + input] };
        let step = (0..inputs).map(|input| along_line(input) * strides[input]).sum();
        let mut index: SmallVec<[usize; 8]> = SmallVec::from_elem(0, rank);
        let mut along: Few = view.axes.iter().map(|axis| axis.offset).collect();
        let mut start = 0_isize;
        if self.axis > 0 {
            let skipped = entries.start as isize;
            index[0] = entries.start;
            start = skipped * own_strides[0];
            along.iter_mut().zip(&steps[..inputs]).for_each(|(at, step)| *at += skipped * step);
        }
        loop {
            let (mut from, mut to) = (0, self.length as isize);
            let mut place = 0;
            for input in 0..inputs {
                let (at, size, step) = (along[input], view.input[input] as isize, along_line(input));
                place += at * strides[input];
                // Where 0 ≤ at + k·step < size.
                let (first, behind) = match step {
                    0 if (0..size).contains(&at) => continue,
                    0 => (0, 0),
                    1 => (-at, size - at),
                    2.. => ((step - 1 - at).div_euclid(step), (size - at + step - 1).div_euclid(step)),
                    _ => ((at - size - step).div_euclid(-step), at.div_euclid(-step) + 1),
                };
                (from, to) = (from.max(first), to.min(behind));
            }
            let from = from.clamp(0, self.length as isize);
            let inside = [from as usize, to.max(from) as usize];
            visit(&Line { start: start as usize, inside, place, step });
            let mut axis = rank;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                if axis == self.axis {
                    continue;
                }
                index[axis] += 1;
                if axis == 0 && index[0] == entries.end {
                    return;
                }
                let is_over = index[axis] == view.output[axis];
                let moved = if is_over { 1 - view.output[axis] as isize } else { 1 };
                start += moved * own_strides[axis];
                let own_steps = &steps[axis * inputs..(axis + 1) * inputs];
                along.iter_mut().zip(own_steps).for_each(|(at, step)| *at += moved * step);
                if !is_over {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

/// A number for each axis.
type Few = SmallVec<[isize; 8]>;

/// Data movement of more elements runs on several threads, in chunks of about this size.
const PART: usize = 1 << 16;

/// Whether the entries of a view along its first axis are apart from each other: each reads the entry at its own place.
fn is_apart(view: &View, lines: &Lines) -> bool {
    let own = |axis: usize| view.axes[axis].steps.iter().any(|(along, _)| *along == 0);
    let is_first = || view.axes[0].offset == 0 && view.axes[0].steps == [(0, 1)] && view.input[0] == view.output[0];
    view.output.rank() > 1 && !view.axes.is_empty() && lines.axis > 0 && is_first() && !(1..view.axes.len()).any(own)
}

/// Calls a function for parts of what is written, on several threads if the entries of a view are apart from each other: with
/// the part, the place of its first element, and the entries that belong to it. `size` is that of an entry.
fn in_parts<E: Send>(
    view: &View,
    lines: &Lines,
    to: &mut [E],
    size: usize,
    work: usize,
    part: impl Fn(&mut [E], usize, Range<usize>) + Sync,
) {
    let entries = view.output.first().copied().unwrap_or(1);
    if work < 2 * PART || entries < 2 || size == 0 || !is_apart(view, lines) {
        return part(to, 0, 0..entries);
    }
    let together = (entries * PART).div_ceil(work).max(1);
    thread_pool::each_part(to, together * size, |number, to| {
        let first = number * together;
        part(to, first * size, first..(first + together).min(entries));
    });
}

fn read<E: Copy + Default + Send + Sync>(view: &View, from: &[E], to: &mut [E]) {
    let lines = Lines::of(view);
    let (length, apart, work) = (lines.length, lines.apart, to.len());
    let size = view.output.iter().skip(1).product();
    in_parts(view, &lines, to, size, work, |to, begin, entries| {
        lines.visit(view, entries, |line| {
            let [first, behind] = line.inside;
            let (start, place) = (line.start - begin, line.place + first as isize * line.step);
            if apart == 1 {
                let own = &mut to[start..start + length];
                own[..first].fill(E::default());
                own[behind..].fill(E::default());
                if line.step == 1 && first < behind {
                    own[first..behind].copy_from_slice(&from[place as usize..place as usize + behind - first]);
                    return;
                }
            } else {
                (0..first).chain(behind..length).for_each(|k| to[start + k * apart] = E::default());
            }
            for k in first..behind {
                to[start + k * apart] = from[(place + (k - first) as isize * line.step) as usize];
            }
        });
    });
}

fn scatter<E: Combinable + Send + Sync>(view: &View, from: &[E], to: &mut [E]) {
    let lines = Lines::of(view);
    let (apart, size) = (lines.apart, view.input.iter().skip(1).product());
    in_parts(view, &lines, to, size, from.len(), |to, begin, entries| {
        to.fill(E::ZERO);
        lines.visit(view, entries, |line| {
            let [first, behind] = line.inside;
            let place = line.place + first as isize * line.step - begin as isize;
            if line.step >= 1 && first < behind {
                let (place, step) = (place as usize, line.step as usize);
                let sums = to[place..place + (behind - first - 1) * step + 1].iter_mut();
                let own = &from[line.start + first * apart..];
                let add = |(sum, own): (&mut E, &E)| *sum = sum.plus(*own);
                // Steps that the compiler knows become shuffles of vectors.
                match (apart, step) {
                    (1, 1) => sums.zip(own).for_each(add),
                    (1, 2) => sums.step_by(2).zip(own).for_each(add),
                    (1, _) => sums.step_by(step).zip(own).for_each(add),
                    _ => {
                        sums.step_by(step).zip(own.iter().step_by(apart)).for_each(add);
                    }
                }
                return;
            }
            for k in first..behind {
                let sum = &mut to[(place + (k - first) as isize * line.step) as usize];
                *sum = sum.plus(from[line.start + k * apart]);
            }
        });
    });
}

/// Rows of at most this many elements are narrow.
const NARROW: usize = 32;

/// Concatenates rows of several arrays, on several threads if there are many elements.
fn concatenate<'i, E: Copy + Send + Sync + 'i>(
    call: &Call,
    axis: usize,
    input: &dyn Fn(usize) -> &'i [E],
    to: &mut [E],
) {
    let inner: usize = call.output().1[axis + 1..].iter().product();
    // For each input, how many neighbouring elements of it stand in a row of the result.
    let inputs: SmallVec<[(&[E], usize); 8]> =
        call.inputs.iter().enumerate().map(|(number, (_, shape))| (input(number), shape[axis] * inner)).collect();
    let row: usize = inputs.iter().map(|(_, width)| width).sum();
    if row == 0 {
        return;
    }
    if row <= NARROW {
        // Whole rows, one input after another: most of what is copied at a time would be an element.
        let rows = PART / row;
        return thread_pool::each_part(to, rows * row, |part, to| {
            let mut column = 0;
            for (from, width) in &inputs {
                let from = &from[part * rows * width..];
                match width {
                    0 => {}
                    1 => to.chunks_exact_mut(row).zip(from).for_each(|(to, from)| to[column] = *from),
                    _ => {
                        let pairs = to.chunks_exact_mut(row).zip(from.chunks_exact(*width));
                        pairs.for_each(|(to, from)| to[column..column + width].copy_from_slice(from));
                    }
                }
                column += width;
            }
        });
    }
    thread_pool::each_part(to, PART, |part, to| {
        let (mut place, end) = (part * PART, part * PART + to.len());
        let begin = place;
        while place < end {
            let (block, mut column) = (place / row, place % row);
            for (from, width) in &inputs {
                if column >= *width {
                    column -= width;
                    continue;
                }
                let count = (width - column).min(end - place);
                let first = block * width + column;
                to[place - begin..place - begin + count].copy_from_slice(&from[first..first + count]);
                (place, column) = (place + count, 0);
                if place == end {
                    break;
                }
            }
        }
    });
}

/// Entries along an axis of an array at indices that are on it.
struct Gathered<'g> {
    indices: &'g [i64],
    axis: usize,
    /// The blocks in front of the axis, the entries of the axis, and the elements of one.
    outer: usize,
    size: usize,
    inner: usize,
}

impl<'g> Gathered<'g> {
    fn new(whole: &Shape, indices: &'g [i64], axis: usize) -> Gathered<'g> {
        let [outer, inner] = [&whole[..axis], &whole[axis + 1..]].map(|sizes| sizes.iter().product());
        Gathered { indices, axis, outer, size: whole[axis], inner }
    }

    /// Checks all indices. No index is read where there is nothing in front of the axis.
    fn check(&self, name: &str) -> Result<(), Error> {
        let Gathered { size, axis, .. } = *self;
        let is_there = |index: &i64| (-(size as i64)..size as i64).contains(index);
        // Blocks without an exit are compared in vectors.
        let are_there = |block: &[i64]| block.iter().fold(true, |all, index| all & is_there(index));
        let outside = self.indices.chunks(1024).filter(|_| self.outer > 0).find(|block| !are_there(block));
        match outside.and_then(|block| block.iter().find(|index| !is_there(index))) {
            Some(index) => Err(Error::new(name, format!("index {index} is not on axis {axis}, which has size {size}"))),
            None => Ok(()),
        }
    }

    /// The entry that an index leads to: negative ones count from behind.
    fn entry(&self, index: i64) -> usize {
        (if index < 0 { index.wrapping_add(self.size as i64) } else { index }) as usize
    }

    /// Reads the entries; of an index that is not on the axis nothing is read, and the error tells it.
    fn read<E: Copy + Send + Sync>(&self, name: &str, from: &[E], to: &mut [E]) -> Result<(), Error> {
        let Gathered { indices, size, inner, .. } = *self;
        if to.is_empty() || size == 0 {
            return self.check(name);
        }
        let all_there = AtomicBool::new(true);
        let together = PART.div_ceil(inner);
        thread_pool::each_part(to, together * inner, |part, to| {
            let (mut block, mut number) = (part * together / indices.len(), part * together % indices.len());
            let mut rest = to;
            let mut are_there = true;
            while !rest.is_empty() {
                let count = (indices.len() - number).min(rest.len() / inner);
                let (own, after) = rest.split_at_mut(count * inner);
                let (from, indices) = (&from[block * size * inner..][..size * inner], &indices[number..number + count]);
                match inner {
                    1 => {
                        for (to, index) in own.iter_mut().zip(indices) {
                            let entry = self.entry(*index);
                            are_there &= entry < size;
                            *to = from[entry.min(size - 1)];
                        }
                    }
                    _ => {
                        for (to, index) in own.chunks_exact_mut(inner).zip(indices) {
                            let entry = self.entry(*index);
                            are_there &= entry < size;
                            let first = entry.min(size - 1) * inner;
                            to.copy_from_slice(&from[first..first + inner]);
                        }
                    }
                }
                (rest, number, block) = (after, 0, block + 1);
            }
            all_there.fetch_and(are_there, Ordering::Relaxed);
        });
        if all_there.into_inner() { Ok(()) } else { self.check(name) }
    }

    /// Adds entries up where indices lead, those of one place in the order of the indices. Threads take blocks in front of the
    /// axis, or entries of one block.
    fn add<E: Combinable + Send + Sync>(&self, from: &[E], to: &mut [E]) {
        let Gathered { indices, size, inner, .. } = *self;
        let block = size * inner;
        if block == 0 {
            return;
        }
        let each = indices.len() * inner;
        if to.len() == block && from.len() >= PART && size >= 2 * thread_pool::threads() {
            // Threads take entries: each looks at all indices, and adds up those that lead to its own.
            let together = size.div_ceil(thread_pool::threads());
            return thread_pool::each_part(to, together * inner, |part, to| {
                to.fill(E::ZERO);
                let (first, count) = (part * together, to.len() / inner);
                for (index, own) in indices.iter().zip(from.chunks_exact(inner)) {
                    let entry = self.entry(*index).wrapping_sub(first);
                    if entry < count {
                        let sums = &mut to[entry * inner..][..inner];
                        sums.iter_mut().zip(own).for_each(|(sum, element)| *sum = sum.plus(*element));
                    }
                }
            });
        }
        let together = (PART / each.max(block)).max(1);
        thread_pool::each_part(to, together * block, |part, to| {
            to.fill(E::ZERO);
            for (number, to) in to.chunks_exact_mut(block).enumerate() {
                let first = (part * together + number) * each;
                for (number, index) in indices.iter().enumerate() {
                    let sums = &mut to[self.entry(*index) * inner..][..inner];
                    let own = &from[first + number * inner..][..inner];
                    sums.iter_mut().zip(own).for_each(|(sum, element)| *sum = sum.plus(*element));
                }
            }
        });
    }
}

/// The places of the first largest elements along an axis.
fn argmax<E: Combinable + PartialOrd + Send + Sync>(from: &[E], shape: &Shape, axis: usize, places: &mut [i64]) {
    /// The columns that are searched together.
    const COLUMNS: usize = 64;
    let size = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    // NaN is larger than every number, and equals nothing.
    let is_nan = |element: E| element.partial_cmp(&element).is_none();
    let together = PART.div_ceil(size.max(1)).max(COLUMNS);
    thread_pool::each_part(places, together, |part, places| {
        let first = part * together;
        if u32::try_from(size).is_err() {
            // Places of 32 bits are too few.
            for (line, place) in places.iter_mut().enumerate() {
                let start = (first + line) / inner * size * inner + (first + line) % inner;
                let of = |k: usize| from[start + k * inner];
                let is_larger = |k: usize, best: usize| of(k) > of(best) || (is_nan(of(k)) && !is_nan(of(best)));
                *place = (1..size).fold(0, |best, k| if is_larger(k, best) { k } else { best }) as i64;
            }
            return;
        }
        if inner == 1 {
            for (line, place) in places.iter_mut().enumerate() {
                let line = &from[(first + line) * size..][..size];
                let largest = line[0].largest_of(line);
                let is_largest = |element: &E| *element == largest || (is_nan(largest) && is_nan(*element));
                *place = line.iter().position(is_largest).unwrap_or(0) as i64;
            }
            return;
        }
        let mut done = 0;
        while done < places.len() {
            let (block, column) = ((first + done) / inner, (first + done) % inner);
            let count = (inner - column).min(places.len() - done).min(COLUMNS);
            let (mut largest, mut best) = ([from[0]; COLUMNS], [0_u32; COLUMNS]);
            let row = |k: usize| &from[(block * size + k) * inner + column..][..count];
            largest[..count].copy_from_slice(row(0));
            for k in 1..size {
                for ((element, largest), best) in row(k).iter().zip(&mut largest).zip(&mut best) {
                    let is_larger = *element > *largest || (is_nan(*element) && !is_nan(*largest));
                    *largest = if is_larger { *element } else { *largest };
                    *best = if is_larger { k as u32 } else { *best };
                }
            }
            places[done..done + count].iter_mut().zip(best).for_each(|(place, best)| *place = i64::from(best));
            done += count;
        }
    });
}
