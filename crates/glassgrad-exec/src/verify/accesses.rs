//! Which elements strided accesses touch, and whether two of them touch the same.

use std::collections::HashSet;

use crate::program::{Access, Memory};
use crate::sorting::IndirectSort;

/// One axis of an access: how many places, and how far apart in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    extent: usize,
    stride: isize,
}

impl Axis {
    pub(super) fn new(extent: usize, stride: isize) -> Axis {
        Axis { extent, stride }
    }
}

/// The bytes between the first and the last element of an access. Those of the arena count from its beginning, so that
/// accesses of different values can be compared.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) memory: Memory,
    pub(super) begin: usize,
    pub(super) end: usize,
}

impl Span {
    fn is_in_one_memory(&self, other: &Span) -> bool {
        match (self.memory, other.memory) {
            (Memory::Arena(_), Memory::Arena(_)) => true,
            (one, other) => one == other,
        }
    }

    pub(super) fn overlaps(&self, other: &Span) -> bool {
        self.is_in_one_memory(other) && self.begin < other.end && other.begin < self.end
    }
}

/// The first and the last element, counted from the beginning of the memory; `None` if there are none.
pub(super) fn reach(access: &Access, axes: &[Axis]) -> Option<[isize; 2]> {
    let (mut first, mut last) = (access.offset, access.offset);
    for Axis { extent, stride } in axes {
        let far = stride.saturating_mul(extent.checked_sub(1)? as isize);
        if far < 0 { first = first.saturating_add(far) } else { last = last.saturating_add(far) }
    }
    Some([first, last])
}

/// Whether two indices may lead to one place: axes in the order of their strides, each step must lead beyond what the
/// smaller axes reach.
pub(super) fn accumulates(axes: &[Axis]) -> bool {
    if axes.iter().any(|axis| axis.extent == 0) {
        return false;
    }
    let mut moved: Vec<&Axis> = axes.iter().filter(|axis| axis.extent > 1).collect();
    moved.indirect_sort_by_key(|axis| axis.stride.unsigned_abs());
    let mut reached = 0;
    for Axis { extent, stride } in moved {
        if stride.unsigned_abs() <= reached {
            return true;
        }
        reached += (extent - 1) * stride.unsigned_abs();
    }
    false
}

/// The number of different elements, if no two indices meet but along axes of stride 0.
pub(super) fn distinct(axes: &[Axis]) -> usize {
    if axes.iter().any(|axis| axis.extent == 0) {
        return 0;
    }
    axes.iter().filter(|axis| axis.stride != 0).fold(1, |product, axis| product.saturating_mul(axis.extent))
}

/// Accesses of more elements than this are compared by their spans alone.
const COMPARED: usize = 1 << 14;

/// Whether a read and a write touch the same byte. Where elements alternate, they are compared one by one; of accesses
/// that are too large for that it is believed that they do not.
pub(super) fn aliases(read: (&Access, &Span, &[Axis]), write: (&Access, &Span, &[Axis])) -> bool {
    if !read.1.overlaps(write.1) {
        return false;
    }
    let is_dense = |(access, span, axes): &(&Access, &Span, &[Axis])| {
        distinct(axes) * access.dtype.bytes() == span.end - span.begin
    };
    if is_dense(&read) || is_dense(&write) {
        return true;
    }
    if distinct(read.2).max(distinct(write.2)) > COMPARED {
        return false;
    }
    let written: HashSet<usize> = bytes(write).collect();
    bytes(read).any(|byte| written.contains(&byte))
}

/// The first byte of every element.
fn bytes<'a>((access, span, axes): (&'a Access, &'a Span, &'a [Axis])) -> impl Iterator<Item = usize> + 'a {
    let first = reach(access, axes).map_or(0, |[first, _]| first);
    let total = distinct(axes);
    (0..total).map(move |number| {
        let (mut rest, mut place) = (number, access.offset);
        for axis in axes.iter().filter(|axis| axis.stride != 0) {
            place += (rest % axis.extent) as isize * axis.stride;
            rest /= axis.extent;
        }
        span.begin + (place - first) as usize * access.dtype.bytes()
    })
}
