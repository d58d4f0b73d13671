//! The places of the largest elements of each line, by partial selection.
//!
//! An element and its place are one integer, by which elements are ordered as by [`CallKind::ArgSort`]. Candidates are collected until there
//! are twice as many as needed; then the worse half goes, and its bound is what a further element must be better than. Blocks of elements are
//! first compared with the bound as a whole.
//!
//! [`CallKind::ArgSort`]: crate::program::CallKind::ArgSort
#![allow(unsafe_code)]

use super::call::descending_key;
use super::interpreter::{Frame, elements, elements_mut};
use super::thread_pool;
use crate::dtype::DType;
use crate::program::{Call, Signature};

/// The elements that are compared with the bound at a time.
const BLOCK: usize = 64;
/// A thread takes about as many elements as this at a time, or more.
const PART: usize = 1 << 15;

/// Whether there is a kernel for an operand.
pub(super) fn is_supported(inputs: &[Signature]) -> bool {
    let (shape, dtype) = &inputs[0];
    *dtype == DType::F32 && shape.last().is_some_and(|size| u32::try_from(*size).is_ok())
}

/// Runs the kernel.
pub(super) unsafe fn run(count: usize, call: &Call, frame: &Frame<'_>) {
    let (from, shape) = &call.inputs[0];
    let (access, to_shape) = call.output();
    let size = shape.last().copied().unwrap_or(1);
    if count == 0 || to_shape.elements() == 0 {
        return;
    }
    let from = elements::<f32>(frame.at(from, 0), shape.elements());
    let to = elements_mut::<i64>(frame.at(access, 0), to_shape.elements());
    let together = PART.div_ceil(size);
    thread_pool::each_part(to, together * count, |part, to| {
        let from = &from[part * together * size..];
        let mut candidates = Vec::with_capacity(2 * count + 2 * BLOCK);
        for (line, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(count)) {
            select(line, to, &mut candidates);
        }
    });
}

/// The places of the largest elements of one line, the largest first.
fn select(line: &[f32], to: &mut [i64], candidates: &mut Vec<u64>) {
    let count = to.len();
    candidates.clear();
    let mut bound = u32::MAX;
    let mut keys = [0_u32; BLOCK];
    for (number, block) in line.chunks(BLOCK).enumerate() {
        for (key, element) in keys.iter_mut().zip(block) {
            *key = descending_key(*element);
        }
        let keys = &keys[..block.len()];
        // Later elements that are equal to the bound are worse: they stand behind it.
        if candidates.len() >= count && keys.iter().fold(u32::MAX, |least, key| least.min(*key)) >= bound {
            continue;
        }
        for (place, key) in keys.iter().enumerate() {
            if candidates.len() < count || *key < bound {
                candidates.push(u64::from(*key) << 32 | (number * BLOCK + place) as u64);
            }
        }
        if candidates.len() >= 2 * count + BLOCK || (bound == u32::MAX && candidates.len() >= count) {
            let (_, worst, _) = candidates.select_nth_unstable(count - 1);
            bound = (*worst >> 32) as u32;
            candidates.truncate(count);
        }
    }
    candidates.sort_unstable();
    to.iter_mut().zip(candidates).for_each(|(to, key)| *to = (*key & u64::from(u32::MAX)) as i64);
}
