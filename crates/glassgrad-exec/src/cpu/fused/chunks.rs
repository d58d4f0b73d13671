//! Long loops in chunks, for several threads.
//!
//! The chunks of a loop follow from the loop. Most write to places of their own. A sum that runs over all chunks has a
//! place for each of them, and these are added up in their order at the end. So the result is the same for any number
//! of threads, to the last bit.
#![allow(unsafe_code)]

use super::super::interpreter::Frame;
use super::super::plan::PlannedLoop;
use super::super::thread_pool;
use super::super::workspace::{Lease, Purpose};
use super::{BLOCK, addresses, block_of, blocks, keep, scratch_bytes};
use crate::memory::aligned;
use crate::program::{Loop, Store};

/// From this many elements times registers on a loop is worth several threads: some tens of microseconds.
pub const WORTH: usize = 1 << 19;
/// A loop has at most this many chunks.
const MOST: usize = 32;
/// Bytes that sums over all chunks may take, all together.
const MOST_BYTES: usize = 1 << 22;

/// How a loop is cut.
pub(super) struct Chunks {
    /// The elements of a chunk; the last may have fewer.
    length: usize,
    count: usize,
    total: usize,
    /// The bytes of the sums of one chunk that run over all chunks.
    shared: usize,
}

/// Addresses that threads share: each writes to places of its own.
#[derive(Clone, Copy)]
struct Addresses<'a>(&'a Frame<'a>, &'a [*mut u8], *mut u8);
// SAFETY: chunks read what nobody writes meanwhile, and write to places that no other chunk has.
unsafe impl Sync for Addresses<'_> {}

impl<'a> Addresses<'a> {
    /// All of them; a closure that asks for them takes them as a whole.
    fn all(&self) -> (&'a Frame<'a>, &'a [*mut u8], *mut u8) {
        (self.0, self.1, self.2)
    }
}

/// How many elements lie between the places where a store begins with another place: chunks that begin there write to
/// places of their own.
fn unit(fused: &Loop, store: &Store) -> usize {
    if store.reduction.is_none() {
        return 1;
    }
    // From the last axis to the first: how many elements an index of this axis has, and how far its places reach.
    let (mut elements, mut reach, mut unit) = (1, 1, 1);
    for (extent, stride) in fused.extents.iter().zip(&store.access.strides).rev() {
        elements *= extent;
        if *extent > 1 && stride.unsigned_abs() < reach {
            // Indices of this axis meet at the same places.
            unit = elements;
        }
        reach += (extent - 1) * stride.unsigned_abs();
    }
    unit
}

/// The bytes of a store that all chunks write to.
fn shared_bytes(fused: &Loop, store: &Store, total: usize) -> usize {
    let count = store.clear.filter(|_| unit(fused, store) == total).unwrap_or(0);
    aligned(count * store.access.dtype.bytes())
}

/// What chunks begin at multiples of: of the unit of reductions and of whole rows, and of a block where that fits both.
fn boundary(unit: usize, block: usize, row: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let least = unit / gcd(unit, row) * row;
    if block.is_multiple_of(least) { block } else { least }
}

impl Chunks {
    /// The chunks of a loop, if it is long and can be cut.
    pub(super) fn of(planned: PlannedLoop<'_>, total: usize) -> Option<Chunks> {
        let fused: &Loop = &planned;
        if total.saturating_mul(fused.loads.len() + fused.code.len() + fused.stores.len()) < WORTH {
            return None;
        }
        let combined = || fused.stores.iter().filter(|store| store.reduction.is_some());
        if combined().any(|store| store.clear.is_none()) {
            return None;
        }
        // Units are products of trailing extents, so that the largest is a multiple of the others.
        let largest = combined().map(|store| unit(fused, store)).filter(|unit| *unit < total).max().unwrap_or(1);
        let unit = boundary(largest, block_of(planned).min(total), fused.rows().elements());
        let length = total.div_ceil(MOST).max(16 * BLOCK).next_multiple_of(unit);
        let count = total.div_ceil(length);
        let shared = fused.stores.iter().map(|store| shared_bytes(fused, store, total)).sum();
        (count > 1 && count * shared <= MOST_BYTES).then_some(Chunks { length, count, total, shared })
    }

    /// The bytes of the sums of all chunks.
    pub(super) fn sum_bytes(&self) -> usize {
        self.count * self.shared
    }

    /// Runs a loop chunk by chunk; `targets` are the addresses of what it stores.
    pub(super) unsafe fn run(&self, fused: PlannedLoop<'_>, frame: &Frame<'_>, targets: &[*mut u8]) {
        let mut memory = frame.workspaces.take(Purpose::PartialSums);
        let sums = memory.reserve(self.sum_bytes());
        let addresses = Addresses(frame, targets, sums);
        let one = |registers: &mut Lease<'_>, number: usize| {
            let (frame, targets, sums) = addresses.all();
            let scratch = registers.reserve(scratch_bytes(fused));
            self.chunk(fused, frame, scratch, targets, sums.wrapping_add(number * self.shared), number);
        };
        thread_pool::each_with(self.count, || addresses.all().0.workspaces.take(Purpose::Registers), one);
        for number in 0..self.count {
            let mut own = sums.wrapping_add(number * self.shared);
            for (store, target) in fused.stores.iter().zip(targets) {
                let bytes = shared_bytes(&fused, store, self.total);
                if bytes > 0 {
                    keep::merge(store, *target, own, store.clear.unwrap_or(0));
                    own = own.wrapping_add(bytes);
                }
            }
        }
    }

    /// Runs one chunk in the scratch memory of this thread.
    unsafe fn chunk(
        &self,
        fused: PlannedLoop<'_>,
        frame: &Frame<'_>,
        scratch: *mut u8,
        targets: &[*mut u8],
        sums: *mut u8,
        number: usize,
    ) {
        let (places, own_targets) = addresses(fused, scratch);
        let mut own = sums;
        for ((own_target, target), store) in own_targets.iter_mut().zip(targets).zip(&fused.stores) {
            let bytes = shared_bytes(&fused, store, self.total);
            *own_target = if bytes > 0 { own } else { *target };
            if bytes > 0 {
                keep::prepare(store, own);
                own = own.wrapping_add(bytes);
            }
        }
        let begin = number * self.length;
        let end = (begin + self.length).min(self.total);
        blocks(fused, frame, scratch, places, own_targets, [begin, end]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::LoopPlan;
    use super::*;
    use crate::dtype::DType;
    use crate::program::{Access, Memory, Reduction, Store};

    /// The sum of an array along an axis.
    fn sum(shape: [usize; 3], axis: usize, dtype: DType) -> Loop {
        let strides = |extents: [usize; 3]| [extents[1] * extents[2], extents[2], 1].map(|stride| stride as isize);
        let access =
            |memory: Memory, strides: [isize; 3]| Access { memory, dtype, offset: 0, strides: strides.to_vec() };
        let mut kept = shape;
        kept[axis] = 1;
        let mut to = strides(kept);
        to[axis] = 0;
        let access_to = access(Memory::Result(0), to);
        let count = kept.iter().product();
        let store =
            Store { register: 0, access: access_to, reduction: Some(Reduction::Sum), scale: 1.0, clear: Some(count) };
        Loop {
            extents: shape.to_vec(),
            loads: vec![access(Memory::Input(0), strides(shape))],
            code: Vec::new(),
            by_row: vec![false],
            along_rows: vec![false; 3],
            stores: vec![store],
        }
    }

    /// Chunks of loops that reduce begin where a place of the result begins, whatever blocks are: no two threads add to one place.
    #[test]
    fn chunks_begin_at_units_of_reductions() {
        let mut seen = 0;
        for shape in [[2000, 3, 100], [700, 7, 130], [40, 5, 5000], [3, 300_000, 2]] {
            for (axis, dtype) in [0, 1, 2].into_iter().flat_map(|axis| [(axis, DType::I64), (axis, DType::F64)]) {
                let fused = sum(shape, axis, dtype);
                let plan = LoopPlan::new(&fused);
                let (planned, total) = (PlannedLoop::new(&fused, &plan), fused.extents.iter().product());
                let Some(chunks) = Chunks::of(planned, total) else { continue };
                assert!(chunks.length.is_multiple_of(fused.rows().elements()), "{fused}");
                for store in fused.stores.iter().filter(|store| store.reduction.is_some()) {
                    let unit = unit(&fused, store);
                    seen += usize::from(unit > 1 && unit < total);
                    assert!(unit == total || chunks.length.is_multiple_of(unit), "{unit} of {fused}");
                }
            }
        }
        assert!(seen > 5, "only {seen} reductions over chunks");
    }
}
