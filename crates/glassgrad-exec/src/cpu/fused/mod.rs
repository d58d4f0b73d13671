//! Fused loops: blocks of elements stay near while one kernel for each instruction runs over them.
//!
//! The loop is walked in the order of its axes, in blocks of whole rows where rows are short. What lies row by row is
//! read where it is; everything else is gathered into scratch memory first, so that every kernel runs over plain
//! arrays. Long loops are cut into chunks, which several threads take. Where the cuts are depends on the loop alone,
//! so that the result does not depend on the number of threads.

mod chunks;
mod convert;
mod gather;
mod instructions;
mod keep;

use smallvec::SmallVec;

use super::interpreter::{Frame, elements_mut};
use super::plan::{LoadMode, PlannedLoop};
use crate::dtype::DType;
use crate::program::{Instruction, Loop, Store};
use chunks::Chunks;
pub use chunks::WORTH;
pub(super) use keep::Combinable;
use keep::Kept;

/// How many elements of a loop are computed at a time; rows that are reduced lie in one block.
pub(super) const BLOCK: usize = 1024;
/// The bytes of a slot: elements of the largest type.
const SLOT: usize = BLOCK * 8;
/// The most axes that a loop can have.
pub(super) const MOST_AXES: usize = 32;

/// The bytes of scratch memory that a loop needs: slots, and the addresses of registers and of what is stored.
pub(super) fn scratch_bytes(fused: PlannedLoop<'_>) -> usize {
    fused.plan.slot_count * SLOT + (fused.plan.slots.len() + fused.stores.len()) * size_of::<*mut u8>()
}

/// The bytes of partial sums of a loop that is cut into chunks, and of registers for each thread that runs one.
pub(super) fn chunk_bytes(fused: PlannedLoop<'_>) -> (usize, usize) {
    let total: usize = fused.extents.iter().product();
    let chunks = if total == 0 { None } else { Chunks::of(fused, total) };
    chunks.map_or((0, 0), |chunks| (chunks.sum_bytes(), scratch_bytes(fused)))
}

/// Scratch memory for the addresses of the registers of a loop and of what it stores, behind its slots.
unsafe fn addresses<'a>(fused: PlannedLoop<'_>, scratch: *mut u8) -> (&'a mut [*mut u8], &'a mut [*mut u8]) {
    let registers = fused.plan.slots.len();
    let lists = elements_mut(scratch.wrapping_add(fused.plan.slot_count * SLOT), registers + fused.stores.len());
    lists.split_at_mut(registers)
}

/// Runs a fused loop.
pub(super) unsafe fn run(fused: PlannedLoop<'_>, frame: &Frame<'_>, scratch: *mut u8) {
    let (places, targets) = addresses(fused, scratch);
    for (target, store) in targets.iter_mut().zip(&fused.stores) {
        *target = frame.at(&store.access, 0);
        keep::prepare(store, *target);
    }
    let total: usize = fused.extents.iter().product();
    if total == 0 {
        return;
    }
    match Chunks::of(fused, total) {
        Some(chunks) => chunks.run(fused, frame, targets),
        None => blocks(fused, frame, scratch, places, targets, [0, total]),
    }
    for (target, store) in targets.iter().zip(&fused.stores) {
        keep::finish(store, *target);
    }
}

/// Runs a part of a loop that puts nothing together, from one element to another.
pub(super) unsafe fn part(fused: PlannedLoop<'_>, frame: &Frame<'_>, scratch: *mut u8, range: [usize; 2]) {
    let (places, targets) = addresses(fused, scratch);
    for (target, store) in targets.iter_mut().zip(&fused.stores) {
        *target = frame.at(&store.access, 0);
    }
    blocks(fused, frame, scratch, places, targets, range);
}

/// The elements of a block whose registers all lie in place: no scratch memory limits it, and what is done once for each block is done
/// less often.
const LONG_BLOCK: usize = 16 * BLOCK;

/// The most elements of a block of a loop. Scratch memory holds [`BLOCK`] elements of a register, and so do conversions and rows.
fn most_elements(fused: PlannedLoop<'_>) -> usize {
    let is_stored_wide = |store: &Store| !store.access.dtype.is_storage_only();
    let in_place = fused.plan.slot_count == 0 && fused.along_rows.is_empty();
    if in_place && fused.stores.iter().all(is_stored_wide) { LONG_BLOCK } else { BLOCK }
}

/// How many elements a block of a loop has: whole rows, if they are short.
fn block_of(fused: PlannedLoop<'_>) -> usize {
    let most = most_elements(fused);
    match fused.extents[..] {
        _ if !fused.along_rows.is_empty() => {
            let among = fused.rows().elements();
            BLOCK / among * among
        }
        [_, .., inner] if inner <= most => most / inner * inner,
        _ => most,
    }
}

/// Computes the elements from one place of a loop to another, block after block. `places` are for the addresses of
/// the registers, `targets` are those of what is stored.
unsafe fn blocks(
    fused: PlannedLoop<'_>,
    frame: &Frame<'_>,
    scratch: *mut u8,
    places: &mut [*mut u8],
    targets: &[*mut u8],
    [begin, end]: [usize; 2],
) {
    let block = block_of(fused);
    let loads = fused.loads.len();
    let rows = fused.rows();
    let among = rows.elements();
    // Elements and places of elements, or of rows where a register holds one number for each row.
    let units = |by_row: bool, elements: usize| if by_row { elements / among * rows.side_by_side } else { elements };
    for (place, slot) in places.iter_mut().zip(&fused.plan.slots) {
        // What has no slot lies in place, and has its address in each block.
        *place = slot.map_or(std::ptr::null_mut(), |slot| scratch.wrapping_add(slot * SLOT));
    }
    // The axes of what is not read or written in the order of the loop, of as many as fit without an allocation.
    let gathered: SmallVec<[Option<Axes>; 16]> = fused
        .loads
        .iter()
        .zip(&fused.plan.modes)
        .enumerate()
        .take(16)
        .map(|(number, (load, mode))| {
            (*mode == LoadMode::Gathered).then(|| Axes::of(&fused, fused.by_row[number], &load.strides))
        })
        .collect();
    let scattered: SmallVec<[Axes; 8]> = fused
        .planned_stores()
        .filter(|(_, plan)| !plan.direct)
        .take(8)
        .map(|(store, _)| Axes::of(&fused, fused.by_row[store.register], &store.access.strides))
        .collect();
    let mut start = begin;
    while start < end {
        let count = (end - start).min(block);
        let is_first = start == begin;
        for (number, (load, mode)) in fused.loads.iter().zip(&fused.plan.modes).enumerate() {
            let by_row = fused.by_row[number];
            match mode {
                LoadMode::InPlace if is_first => places[number] = frame.at(load, units(by_row, begin) as isize),
                LoadMode::InPlace => {
                    places[number] = behind(places[number], units(by_row, block) as isize, load.dtype);
                }
                LoadMode::Converted => {
                    let from = frame.at(load, units(by_row, start) as isize);
                    convert::widen(frame.isa, load.dtype, from, places[number], units(by_row, count));
                }
                LoadMode::Broadcast if is_first => gather::once(load, frame, count, places[number]),
                LoadMode::Broadcast => {}
                LoadMode::Gathered => {
                    let (start, count) = (units(by_row, start), units(by_row, count));
                    let own;
                    let axes = match gathered.get(number) {
                        Some(Some(axes)) => axes,
                        Some(None) => unreachable!("a gathered load has axes"),
                        None => {
                            own = Axes::of(&fused, by_row, &load.strides);
                            &own
                        }
                    };
                    // A block of contiguous elements is read where it lies, unless the loop writes there.
                    let is_apart = || fused.stores.iter().all(|store| store.access.memory != load.memory);
                    let contiguous =
                        axes.contiguous(start, count).filter(|_| !load.dtype.is_storage_only() && is_apart());
                    let slot = || fused.plan.slots[number].map(|slot| scratch.wrapping_add(slot * SLOT));
                    match (contiguous, slot()) {
                        (Some(place), _) => places[number] = frame.at(load, place),
                        (None, Some(slot)) => {
                            places[number] = slot;
                            gather::gather(load, axes, frame, start, count, slot);
                        }
                        (None, None) => unreachable!("a gathered load has a slot"),
                    }
                }
            }
        }
        for ((store, _), target) in fused.planned_stores().zip(targets).filter(|((_, plan), _)| plan.direct) {
            let start = units(fused.by_row[store.register], start);
            places[store.register] = target.wrapping_add(start * store.access.dtype.bytes());
        }
        for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
            let own = loads + place;
            match instruction {
                Instruction::Constant(number) if is_first => keep::fill(places[own], *dtype, count, *number),
                Instruction::Constant(_) => {}
                Instruction::Narrow(a, target) => {
                    let count = units(fused.by_row[own], count);
                    convert::hold(frame.isa, fused.dtype(*a), places[*a], *target, places[own], count);
                }
                Instruction::Unary(..)
                | Instruction::Binary(..)
                | Instruction::MaskedMul(..)
                | Instruction::Compare(..)
                | Instruction::Logic(..)
                | Instruction::Select(..)
                | Instruction::Cast(_)
                | Instruction::RowReduce(..)
                | Instruction::BroadcastRow(_) => instructions::execute(
                    frame.isa,
                    *instruction,
                    *dtype,
                    &fused,
                    places,
                    places[own],
                    units(fused.by_row[own], count),
                    rows,
                ),
            }
        }
        let stored = fused.planned_stores().zip(targets).filter(|((_, plan), _)| !plan.direct);
        for (number, ((store, plan), target)) in stored.enumerate() {
            let by_row = fused.by_row[store.register];
            let own;
            let axes = match scattered.get(number) {
                Some(axes) => axes,
                None => {
                    own = Axes::of(&fused, by_row, &store.access.strides);
                    &own
                }
            };
            let (start, count) = (units(by_row, start), units(by_row, count));
            let kept = Kept { store, in_order: plan.in_order, axes, target: *target, start, count };
            keep::keep(frame.isa, kept, places[store.register]);
        }
        start += count;
    }
}

/// The axes of a loop, or of its rows, as far as something that it reads or writes tells them apart: neighbours that follow
/// one another there are one.
struct Axes {
    extents: SmallVec<[usize; 8]>,
    strides: SmallVec<[isize; 8]>,
}

impl Axes {
    fn of(fused: &Loop, by_row: bool, strides: &[isize]) -> Axes {
        let mut axes = Axes { extents: SmallVec::new(), strides: SmallVec::new() };
        for (axis, (extent, stride)) in fused.extents.iter().zip(strides).enumerate() {
            if by_row && fused.along_rows[axis] {
                continue;
            }
            match (axes.extents.last_mut(), axes.strides.last_mut()) {
                (Some(last), Some(step)) if *step == stride * *extent as isize => {
                    *last *= extent;
                    *step = *stride;
                }
                _ => {
                    axes.extents.push(*extent);
                    axes.strides.push(*stride);
                }
            }
        }
        axes
    }

    /// The place of the first of some elements, if they are contiguous.
    fn contiguous(&self, start: usize, count: usize) -> Option<isize> {
        let ((inner, outer), (stride, strides)) = (self.extents.split_last()?, self.strides.split_last()?);
        let column = start % inner;
        if *stride != 1 || column + count > *inner {
            return None;
        }
        let mut row = start / inner;
        let mut place = column as isize;
        for (extent, stride) in outer.iter().zip(strides).rev() {
            place += (row % extent) as isize * stride;
            row /= extent;
        }
        Some(place)
    }
}

/// The pieces of rows inside a block: for each where it begins in the block, how long it is, and the place of its first
/// element by some strides. An iterator, so that what is done with them is compiled where it stands, for the level of the function
/// around it.
struct Pieces<'p> {
    /// The sizes and strides of all axes but the last.
    outer: &'p [usize],
    strides: &'p [isize],
    inner: usize,
    inner_stride: isize,
    index: [usize; MOST_AXES],
    column: usize,
    place: isize,
    done: usize,
    count: usize,
}

impl<'p> Pieces<'p> {
    #[inline(always)]
    fn new(extents: &'p [usize], strides: &'p [isize], start: usize, count: usize) -> Pieces<'p> {
        let Some((inner, outer)) = extents.split_last() else {
            let (index, inner) = ([0; MOST_AXES], count);
            return Pieces {
                outer: &[],
                strides: &[],
                inner,
                inner_stride: 0,
                index,
                column: 0,
                place: 0,
                done: 0,
                count,
            };
        };
        let (inner_stride, strides) = (strides[outer.len()], &strides[..outer.len()]);
        let mut index = [0_usize; MOST_AXES];
        let (mut row, column) = (start / inner, start % inner);
        for axis in (0..outer.len()).rev() {
            index[axis] = row % outer[axis];
            row /= outer[axis];
        }
        let place = (0..outer.len()).map(|axis| index[axis] as isize * strides[axis]).sum();
        Pieces { outer, strides, inner: *inner, inner_stride, index, column, place, done: 0, count }
    }
}

impl Iterator for Pieces<'_> {
    type Item = (usize, usize, isize);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, usize, isize)> {
        if self.done >= self.count {
            return None;
        }
        let length = (self.inner - self.column).min(self.count - self.done);
        let piece = (self.done, length, self.place + self.column as isize * self.inner_stride);
        self.done += length;
        self.column = 0;
        for axis in (0..self.outer.len()).rev() {
            self.index[axis] += 1;
            self.place += self.strides[axis];
            if self.index[axis] < self.outer[axis] {
                break;
            }
            self.place -= self.outer[axis] as isize * self.strides[axis];
            self.index[axis] = 0;
        }
        Some(piece)
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
