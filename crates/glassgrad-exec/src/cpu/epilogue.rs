//! Large products with an epilogue, tile by tile while the tile is in a cache.
#![allow(unsafe_code)]

use super::contraction::{Factor, Matrices};
use super::fused;
use super::gemm::{LargeProduct, PIECES, Pieces, large};
use super::interpreter::Frame;
use super::plan::PlannedLoop;
use super::thread_pool;
use super::workspace::{Lease, Purpose};
use crate::memory::aligned;
use crate::program::{Contraction, ContractionAxis};

/// The bytes of a piece, about: half of a usual cache of the second level.
const NEAR: usize = 1 << 19;

/// What threads share.
struct Shared<'a, E>(Matrices<E>, &'a Frame<'a>);
// SAFETY: nobody writes to the factors meanwhile, each thread has a piece of its own, and the loop writes to places that belong
// to this piece alone.
unsafe impl<E> Sync for Shared<'_, E> {}

impl<'a, E: Copy> Shared<'a, E> {
    /// Both; a closure that asks for them takes them as a whole.
    fn all(&self) -> (Matrices<E>, &'a Frame<'a>) {
        (self.0, self.1)
    }
}

/// How a product with an epilogue is cut: along which axis, into which pieces, the bytes of a row of a piece, and of the
/// longest piece.
struct Cut {
    is_by_row: bool,
    line: usize,
    pieces: Pieces,
    bytes: usize,
}

impl Cut {
    fn of(rows: ContractionAxis, columns: ContractionAxis, element: usize) -> Cut {
        // Pieces lie one behind another along the axis with the longer stride.
        let is_by_row = columns.strides[2] == 1;
        let (outer, inner) = if is_by_row { (rows, columns) } else { (columns, rows) };
        let line = inner.extent * element;
        let pieces = Pieces::of(outer, false, (outer.extent * line).div_ceil(NEAR).max(PIECES));
        let longest = (0..pieces.count).map(|number| pieces.axis(number).1.extent).max().unwrap_or(0);
        Cut { is_by_row, line, pieces, bytes: aligned(longest * line) }
    }
}

/// The bytes that a thread needs for a piece of a product and the registers of its epilogue.
pub(super) fn bytes(product: &Contraction, epilogue: PlannedLoop<'_>) -> usize {
    let element = product.operands[2].dtype.bytes();
    Cut::of(product.rows, product.columns, element).bytes + fused::scratch_bytes(epilogue)
}

/// Computes a product piece by piece, each with the loop behind it. Where the cuts are depends on sizes alone.
pub(super) unsafe fn run<E: Factor>(
    kernel: LargeProduct<E>,
    whole: Matrices<E>,
    epilogue: PlannedLoop<'_>,
    frame: &Frame<'_>,
) {
    let Cut { is_by_row, line, pieces, bytes } = Cut::of(whole.rows, whole.columns, size_of::<E>());
    let (outer, inner) = if is_by_row { (whole.rows, whole.columns) } else { (whole.columns, whole.rows) };
    let shared = Shared(whole, frame);
    let memory = || shared.all().1.workspaces.take(Purpose::Tile);
    thread_pool::each_with(pieces.count, memory, |memory: &mut Lease<'_>, number| {
        let (whole, frame) = shared.all();
        let (first, own) = pieces.axis(number);
        let tile = memory.reserve(bytes + fused::scratch_bytes(epilogue));
        let (rows, columns) = if is_by_row { (own, whole.columns) } else { (whole.rows, own) };
        let [a, b, _] = outer.strides.map(|stride| first as isize * stride);
        let (a, b) = (whole.a.wrapping_offset(a), whole.b.wrapping_offset(b));
        large(kernel, Matrices { a, b, c: tile.cast(), rows, columns, ..whole });
        // Seen from the first element of the whole.
        let frame = frame.with_tile(tile.wrapping_sub(first * line));
        let range = [first * inner.extent, (first + own.extent) * inner.extent];
        fused::part(epilogue, &frame, tile.wrapping_add(bytes), range);
    });
}
