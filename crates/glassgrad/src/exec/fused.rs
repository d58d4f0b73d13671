//! Fused loops: blocks of elements stay near while one kernel for each instruction runs over them.
//!
//! The loop is walked in the order of its axes, in blocks that may span several rows. What lies row by row is read
//! where it is; everything else is gathered into scratch memory first, so that every kernel runs over plain arrays.

use super::machine::{Frame, elements, elements_mut};
use super::vector::Vectorised;
use crate::algebra::Float;
use crate::dtype::DType;
use crate::expr::Logic;
use crate::ops::Operation;
use crate::opt::program::{Access, Combine, Instruction, Loop, Store};

/// How many elements are computed at a time.
pub(super) const BLOCK: usize = 1024;
/// The bytes of a slot: elements of the largest type.
pub(super) const SLOT: usize = BLOCK * 8;

/// The registers of a loop for which no memory is allocated to hold their addresses.
const FEW: usize = 192;

/// Runs a fused loop.
pub(super) fn run(fused: &Loop, frame: &Frame<'_>, scratch: *mut u8) {
    for store in &fused.stores {
        prepare(store, frame);
    }
    if fused.extents.contains(&0) {
        return;
    }
    let mut few = [std::ptr::null_mut(); FEW];
    let mut many = Vec::new();
    let count = fused.slots.len();
    let places = match few.get_mut(..count) {
        Some(places) => places,
        None => {
            many.resize(count, std::ptr::null_mut());
            &mut many[..]
        }
    };
    blocks(fused, frame, scratch, places);
    for store in &fused.stores {
        finish(store, frame);
    }
}

/// Computes block after block; `places` are the addresses of the registers.
fn blocks(fused: &Loop, frame: &Frame<'_>, scratch: *mut u8, places: &mut [*mut u8]) {
    let total: usize = fused.extents.iter().product();
    let first = total.min(BLOCK);
    let loads = fused.loads.len();
    for (place, slot) in places.iter_mut().zip(&fused.slots).filter(|(_, slot)| **slot != usize::MAX) {
        *place = scratch.wrapping_add(slot * SLOT);
    }
    let is_uniform = |load: &Access| load.strides.iter().all(|stride| *stride == 0);
    for (number, load) in fused.loads.iter().enumerate() {
        if fused.slots[number] != usize::MAX && is_uniform(load) {
            gather(load, &fused.extents, frame, 0, first, places[number]);
        }
    }
    for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
        if let Instruction::Number(number) = instruction {
            fill(places[loads + place], *dtype, first, *number);
        }
    }
    let mut start = 0;
    while start < total {
        let count = (total - start).min(BLOCK);
        for (number, load) in fused.loads.iter().enumerate() {
            if fused.slots[number] == usize::MAX {
                // What lies row by row is read where it is.
                places[number] = frame.at(load, start as isize);
            } else if !is_uniform(load) {
                gather(load, &fused.extents, frame, start, count, places[number]);
            }
        }
        for store in fused.stores.iter().filter(|store| store.direct) {
            places[store.register] = frame.at(&store.access, start as isize);
        }
        for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
            let own = places[loads + place];
            execute(*instruction, *dtype, fused, places, own, count);
        }
        for store in fused.stores.iter().filter(|store| !store.direct) {
            keep(store, fused, frame, start, count, places[store.register]);
        }
        start += count;
    }
}

/// Sets what is put together to where it begins.
fn prepare(store: &Store, frame: &Frame<'_>) {
    let Some(count) = store.clear else { return };
    let start = match store.combine {
        Some(Combine::Largest) => f64::NEG_INFINITY,
        _ => 0.0,
    };
    fill(frame.at(&store.access, 0), store.access.dtype, count, start);
}

fn finish(store: &Store, frame: &Frame<'_>) {
    let Some(count) = store.clear.filter(|_| store.scale != 1.0) else { return };
    fn scale<F: Float>(at: *mut u8, count: usize, factor: f64) {
        let factor = F::literal(factor);
        elements_mut::<F>(at, count).iter_mut().for_each(|element| *element = *element * factor);
    }
    match store.access.dtype {
        DType::F32 => scale::<f32>(frame.at(&store.access, 0), count, store.scale),
        DType::F64 => scale::<f64>(frame.at(&store.access, 0), count, store.scale),
        DType::I64 | DType::Bool => {}
    }
}

fn fill(at: *mut u8, dtype: DType, count: usize, number: f64) {
    match dtype {
        DType::F32 => elements_mut::<f32>(at, count).fill(number as f32),
        DType::F64 => elements_mut::<f64>(at, count).fill(number),
        DType::I64 => elements_mut::<i64>(at, count).fill(number as i64),
        DType::Bool => elements_mut::<bool>(at, count).fill(number != 0.0),
    }
}

/// Calls a function for each piece of a row inside a block: where it begins in the block, how long it is, and the
/// place of its first element by some strides.
fn pieces(
    extents: &[usize],
    strides: &[isize],
    start: usize,
    count: usize,
    mut piece: impl FnMut(usize, usize, isize),
) {
    let Some((inner, outer)) = extents.split_last() else { return piece(0, count, 0) };
    let (inner_stride, outer_strides) = (strides[outer.len()], &strides[..outer.len()]);
    let mut index = [0_usize; MOST_AXES];
    let (mut row, mut column) = (start / inner, start % inner);
    for axis in (0..outer.len()).rev() {
        index[axis] = row % outer[axis];
        row /= outer[axis];
    }
    let mut place: isize = (0..outer.len()).map(|axis| index[axis] as isize * outer_strides[axis]).sum();
    let mut done = 0;
    while done < count {
        let length = (inner - column).min(count - done);
        piece(done, length, place + column as isize * inner_stride);
        done += length;
        column = 0;
        for axis in (0..outer.len()).rev() {
            index[axis] += 1;
            place += outer_strides[axis];
            if index[axis] < outer[axis] {
                break;
            }
            place -= outer[axis] as isize * outer_strides[axis];
            index[axis] = 0;
        }
    }
}

/// The most axes that a loop can have.
pub(super) const MOST_AXES: usize = 32;

/// Reads strided elements of a block into scratch memory.
fn gather(load: &Access, extents: &[usize], frame: &Frame<'_>, start: usize, count: usize, to: *mut u8) {
    fn typed<E: Copy>(load: &Access, extents: &[usize], frame: &Frame<'_>, start: usize, count: usize, to: *mut u8) {
        let to = elements_mut::<E>(to, count);
        let stride = load.strides.last().copied().unwrap_or(0);
        pieces(extents, &load.strides, start, count, |at, length, place| {
            let piece = &mut to[at..at + length];
            match stride {
                0 => piece.fill(*frame.element::<E>(load, place)),
                1 => piece.copy_from_slice(elements::<E>(frame.at(load, place), length)),
                _ => {
                    for (k, element) in piece.iter_mut().enumerate() {
                        *element = *frame.element::<E>(load, place + k as isize * stride);
                    }
                }
            }
        });
    }
    match load.dtype {
        DType::F32 => typed::<f32>(load, extents, frame, start, count, to),
        DType::F64 => typed::<f64>(load, extents, frame, start, count, to),
        DType::I64 => typed::<i64>(load, extents, frame, start, count, to),
        DType::Bool => typed::<bool>(load, extents, frame, start, count, to),
    }
}

/// Writes a block of a register to where it belongs.
fn keep(store: &Store, fused: &Loop, frame: &Frame<'_>, start: usize, count: usize, from: *mut u8) {
    match store.access.dtype {
        DType::F32 => keep_typed::<f32>(store, fused, frame, start, count, from),
        DType::F64 => keep_typed::<f64>(store, fused, frame, start, count, from),
        DType::I64 => keep_typed::<i64>(store, fused, frame, start, count, from),
        DType::Bool => keep_typed::<bool>(store, fused, frame, start, count, from),
    }
}

/// What a sum or a largest element needs of an element type.
trait Combinable: Copy {
    fn sum_of(elements: &[Self]) -> Self;
    fn plus(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
}

macro_rules! combinable_floats {
    ($($Float:ty),*) => {$(
        impl Combinable for $Float {
            /// Sixteen sums side by side, added up as a tree: the same on every machine.
            fn sum_of(elements: &[Self]) -> Self {
                const LANES: usize = 16;
                let mut lanes = [0.0; LANES];
                let (chunks, rest) = elements.as_chunks::<LANES>();
                for chunk in chunks {
                    lanes.iter_mut().zip(chunk).for_each(|(lane, element)| *lane += element);
                }
                lanes.iter_mut().zip(rest).for_each(|(lane, element)| *lane += element);
                let mut width = LANES / 2;
                while width > 0 {
                    for k in 0..width {
                        lanes[k] += lanes[k + width];
                    }
                    width /= 2;
                }
                lanes[0]
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if other > self || other.is_nan() { other } else { self }
            }
        }
    )*};
}
combinable_floats!(f32, f64);

impl Combinable for i64 {
    fn sum_of(elements: &[Self]) -> Self {
        elements.iter().fold(0, |sum, element| sum.wrapping_add(*element))
    }
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Combinable for bool {
    fn sum_of(elements: &[Self]) -> Self {
        elements.contains(&true)
    }
    fn plus(self, other: Self) -> Self {
        self || other
    }
    fn larger(self, other: Self) -> Self {
        self || other
    }
}

fn keep_typed<E: Combinable>(
    store: &Store,
    fused: &Loop,
    frame: &Frame<'_>,
    start: usize,
    count: usize,
    from: *mut u8,
) {
    let from = elements::<E>(from, count);
    let access = &store.access;
    if store.in_order {
        return super::machine::copy(from, frame.at(access, start as isize));
    }
    let stride = access.strides.last().copied().unwrap_or(0);
    pieces(&fused.extents, &access.strides, start, count, |at, length, place| {
        let piece = &from[at..at + length];
        match (store.combine, stride) {
            (None, 1) => {
                super::machine::copy(piece, frame.at(access, place));
            }
            (None, stride) => {
                for (k, element) in piece.iter().enumerate() {
                    *frame.element_mut::<E>(access, place + k as isize * stride) = *element;
                }
            }
            (Some(Combine::Sum), 0) => {
                let sum = frame.element_mut::<E>(access, place);
                *sum = sum.plus(E::sum_of(piece));
            }
            (Some(Combine::Sum), 1) => {
                let sums = elements_mut::<E>(frame.at(access, place), length);
                sums.iter_mut().zip(piece).for_each(|(sum, element)| *sum = sum.plus(*element));
            }
            (Some(Combine::Largest), 0) => {
                let largest = frame.element_mut::<E>(access, place);
                *largest = piece.iter().fold(*largest, |largest, element| largest.larger(*element));
            }
            (Some(combine), stride) => {
                for (k, element) in piece.iter().enumerate() {
                    let combined = frame.element_mut::<E>(access, place + k as isize * stride);
                    *combined = match combine {
                        Combine::Sum => combined.plus(*element),
                        Combine::Largest => combined.larger(*element),
                    };
                }
            }
        }
    });
}

/// Runs one instruction over a block.
fn execute(instruction: Instruction, dtype: DType, fused: &Loop, places: &[*mut u8], own: *mut u8, count: usize) {
    let type_of = |register: usize| match register.checked_sub(fused.loads.len()) {
        None => fused.loads[register].dtype,
        Some(place) => fused.code[place].1,
    };
    match dtype {
        DType::F32 => numbers::<f32>(instruction, type_of, places, own, count),
        DType::F64 => numbers::<f64>(instruction, type_of, places, own, count),
        DType::I64 => integers(instruction, type_of, places, own, count),
        DType::Bool => truths(instruction, type_of, places, own, count),
    }
}

fn numbers<F: Float + crate::dtype::Element + Vectorised>(
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    count: usize,
) {
    let read = |register: usize| elements::<F>(places[register], count);
    let own_elements = elements_mut::<F>(own, count);
    match instruction {
        Instruction::Number(_) | Instruction::Compare(..) | Instruction::Logic(..) => {}
        Instruction::Unary(operation, a, parameter) => {
            if !F::unary(operation, read(a), own_elements) {
                operation.run_unary(parameter, read(a), own_elements);
            }
        }
        Instruction::Binary(operation, a, b) => {
            if !F::binary(operation, read(a), read(b), own_elements) {
                operation.run_binary(read(a), read(b), own_elements);
            }
        }
        Instruction::Strong(a, b) => {
            let zero = F::literal(0.0);
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = if *a == zero { zero } else { *a * *b };
            }
        }
        Instruction::Choose(condition, a, b) => choose::<F>(places, condition, a, b, own, count),
        Instruction::Cast(a) => cast(places[a], type_of(a), own_elements),
    }
}

fn choose<E: Copy>(places: &[*mut u8], condition: usize, a: usize, b: usize, own: *mut u8, count: usize) {
    let condition = elements::<bool>(places[condition], count);
    let (a, b) = (elements::<E>(places[a], count), elements::<E>(places[b], count));
    for (k, y) in elements_mut::<E>(own, count).iter_mut().enumerate() {
        *y = if condition[k] { a[k] } else { b[k] };
    }
}

fn cast<E: crate::dtype::Element>(from: *mut u8, dtype: DType, to: &mut [E]) {
    fn each<A: crate::dtype::Element, E: crate::dtype::Element>(from: *mut u8, to: &mut [E]) {
        let count = to.len();
        to.iter_mut().zip(elements::<A>(from, count)).for_each(|(y, x)| *y = E::from_f64(x.to_f64()));
    }
    match dtype {
        DType::F32 => each::<f32, E>(from, to),
        DType::F64 => each::<f64, E>(from, to),
        DType::I64 => each::<i64, E>(from, to),
        DType::Bool => each::<bool, E>(from, to),
    }
}

fn integers(
    instruction: Instruction,
    type_of: impl Fn(usize) -> DType,
    places: &[*mut u8],
    own: *mut u8,
    count: usize,
) {
    let read = |register: usize| elements::<i64>(places[register], count);
    let own_elements = elements_mut::<i64>(own, count);
    match instruction {
        Instruction::Binary(operation, a, b) => {
            let combine: fn(i64, i64) -> i64 = match operation {
                Operation::Mul => i64::wrapping_mul,
                Operation::Sub => i64::wrapping_sub,
                _ => i64::wrapping_add,
            };
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = combine(*a, *b);
            }
        }
        Instruction::Strong(a, b) => {
            for (y, (a, b)) in own_elements.iter_mut().zip(read(a).iter().zip(read(b))) {
                *y = a.wrapping_mul(*b);
            }
        }
        Instruction::Unary(_, a, _) => {
            own_elements.iter_mut().zip(read(a)).for_each(|(y, x)| *y = x.wrapping_neg());
        }
        Instruction::Choose(condition, a, b) => choose::<i64>(places, condition, a, b, own, count),
        Instruction::Cast(a) => cast(places[a], type_of(a), own_elements),
        Instruction::Number(_) | Instruction::Compare(..) | Instruction::Logic(..) => {}
    }
}

fn truths(instruction: Instruction, type_of: impl Fn(usize) -> DType, places: &[*mut u8], own: *mut u8, count: usize) {
    fn compare<E: PartialOrd + Copy>(
        relation: crate::ops::Relation,
        a: *mut u8,
        b: *mut u8,
        own: *mut u8,
        count: usize,
    ) {
        let (a, b) = (elements::<E>(a, count), elements::<E>(b, count));
        for (k, y) in elements_mut::<bool>(own, count).iter_mut().enumerate() {
            *y = relation.holds(a[k], b[k]);
        }
    }
    match instruction {
        Instruction::Compare(relation, a, b) => {
            let (first, second) = (places[a], places[b]);
            match type_of(a) {
                DType::F32 => compare::<f32>(relation, first, second, own, count),
                DType::F64 => compare::<f64>(relation, first, second, own, count),
                DType::I64 => compare::<i64>(relation, first, second, own, count),
                DType::Bool => compare::<bool>(relation, first, second, own, count),
            }
        }
        Instruction::Logic(logic, a, b) => {
            let (a, b) = (elements::<bool>(places[a], count), elements::<bool>(places[b], count));
            for (k, y) in elements_mut::<bool>(own, count).iter_mut().enumerate() {
                *y = match logic {
                    Logic::And => a[k] && b[k],
                    Logic::Or => a[k] || b[k],
                    Logic::Not => !a[k],
                };
            }
        }
        Instruction::Choose(condition, a, b) => choose::<bool>(places, condition, a, b, own, count),
        Instruction::Cast(a) => cast(places[a], type_of(a), elements_mut::<bool>(own, count)),
        Instruction::Number(_) | Instruction::Unary(..) | Instruction::Binary(..) | Instruction::Strong(..) => {}
    }
}
