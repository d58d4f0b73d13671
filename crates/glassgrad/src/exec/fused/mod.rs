//! Fused loops: blocks of elements stay near while one kernel for each instruction runs over them.
//!
//! The loop is walked in the order of its axes, in blocks of whole rows where rows are short. What lies row by row is
//! read where it is; everything else is gathered into scratch memory first, so that every kernel runs over plain
//! arrays. Long loops are cut into chunks, which several threads take. Where the cuts are depends on the loop alone,
//! so that the result does not depend on the number of threads.

mod chunks;
mod gather;
mod instructions;
mod keep;

use super::machine::Frame;
use crate::dtype::DType;
use crate::opt::program::{Access, Instruction, Loop};
use chunks::Chunks;
pub(super) use keep::Combinable;

/// How many elements are computed at a time.
pub(super) const BLOCK: usize = 1024;
/// The bytes of a slot: elements of the largest type.
pub(super) const SLOT: usize = BLOCK * 8;
/// The most axes that a loop can have.
pub(super) const MOST_AXES: usize = 32;

/// The registers and stores of a loop for which no memory is allocated to hold their addresses.
const FEW: usize = 192;

/// Runs a fused loop.
pub(super) fn run(fused: &Loop, frame: &Frame<'_>, scratch: *mut u8) {
    let mut few = [std::ptr::null_mut(); FEW];
    let mut many = Vec::new();
    let count = fused.slots.len() + fused.stores.len();
    let addresses = match few.get_mut(..count) {
        Some(addresses) => addresses,
        None => {
            many.resize(count, std::ptr::null_mut());
            &mut many[..]
        }
    };
    let (places, targets) = addresses.split_at_mut(fused.slots.len());
    for (target, store) in targets.iter_mut().zip(&fused.stores) {
        *target = frame.at(&store.access, 0);
        keep::prepare(store, *target);
    }
    if fused.extents.contains(&0) {
        return;
    }
    match Chunks::of(fused) {
        Some(chunks) => chunks.run(fused, frame, targets),
        None => blocks(fused, frame, scratch, places, targets, [0, fused.extents.iter().product()]),
    }
    for (target, store) in targets.iter().zip(&fused.stores) {
        keep::finish(store, *target);
    }
}

/// How many elements a block of a loop has: whole rows, if they are short.
fn block_of(fused: &Loop) -> usize {
    match fused.extents[..] {
        [_, .., inner] if inner <= BLOCK => BLOCK / inner * inner,
        _ => BLOCK,
    }
}

/// Computes the elements from one place of a loop to another, block after block. `places` are for the addresses of
/// the registers, `targets` are those of what is stored.
fn blocks(
    fused: &Loop,
    frame: &Frame<'_>,
    scratch: *mut u8,
    places: &mut [*mut u8],
    targets: &[*mut u8],
    [begin, end]: [usize; 2],
) {
    let block = block_of(fused);
    let first = (end - begin).min(block);
    let loads = fused.loads.len();
    for (place, slot) in places.iter_mut().zip(&fused.slots).filter(|(_, slot)| **slot != usize::MAX) {
        *place = scratch.wrapping_add(slot * SLOT);
    }
    let is_uniform = |load: &Access| load.strides.iter().all(|stride| *stride == 0);
    for (number, load) in fused.loads.iter().enumerate() {
        if fused.slots[number] != usize::MAX && is_uniform(load) {
            gather::gather(load, &fused.extents, frame, begin, first, places[number]);
        }
    }
    for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
        if let Instruction::Number(number) = instruction {
            keep::fill(places[loads + place], *dtype, first, *number);
        }
    }
    let mut start = begin;
    while start < end {
        let count = (end - start).min(block);
        for (number, load) in fused.loads.iter().enumerate() {
            if fused.slots[number] == usize::MAX {
                // What lies row by row is read where it is.
                places[number] = frame.at(load, start as isize);
            } else if !is_uniform(load) {
                gather::gather(load, &fused.extents, frame, start, count, places[number]);
            }
        }
        for (store, target) in fused.stores.iter().zip(targets).filter(|(store, _)| store.direct) {
            places[store.register] = target.wrapping_add(start * store.access.dtype.bytes());
        }
        for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
            instructions::execute(*instruction, *dtype, fused, places, places[loads + place], count);
        }
        for (store, target) in fused.stores.iter().zip(targets).filter(|(store, _)| !store.direct) {
            keep::keep(store, &fused.extents, *target, start, count, places[store.register]);
        }
        start += count;
    }
}

/// Calls a function for each piece of a row inside a block: where it begins in the block, how long it is, and the
/// place of its first element by some strides.
#[inline(always)]
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

/// The rows of a block of a loop with two axes, if it begins with a row: the place of the first, and how far it is from
/// one to the next and from one element to the next.
#[inline(always)]
fn whole_rows(extents: &[usize], strides: &[isize], start: usize, count: usize) -> Option<(isize, [isize; 2], usize)> {
    match (extents, strides) {
        (&[_, inner], &[outer_stride, inner_stride]) if start.is_multiple_of(inner) && count.is_multiple_of(inner) => {
            Some(((start / inner) as isize * outer_stride, [outer_stride, inner_stride], inner))
        }
        _ => None,
    }
}

/// The address of an element some places behind another.
fn behind(at: *mut u8, place: isize, dtype: DType) -> *mut u8 {
    at.wrapping_offset(place * dtype.bytes() as isize)
}
