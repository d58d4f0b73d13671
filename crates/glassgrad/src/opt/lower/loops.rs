//! Axes of fused loops: merged where possible, and tiled for transposed operands.

use crate::opt::Capabilities;
use crate::opt::program::{Access, Instruction, Loop};

pub(super) fn renumbered(instruction: Instruction, number: impl Fn(usize) -> usize) -> Instruction {
    match instruction {
        Instruction::Constant(_) => instruction,
        Instruction::Unary(operation, a, parameter) => Instruction::Unary(operation, number(a), parameter),
        Instruction::Binary(operation, a, b) => Instruction::Binary(operation, number(a), number(b)),
        Instruction::MaskedMul(a, b) => Instruction::MaskedMul(number(a), number(b)),
        Instruction::Compare(relation, a, b) => Instruction::Compare(relation, number(a), number(b)),
        Instruction::Logic(logic, a, b) => Instruction::Logic(logic, number(a), number(b)),
        Instruction::Select(condition, a, b) => Instruction::Select(number(condition), number(a), number(b)),
        Instruction::Cast(a) => Instruction::Cast(number(a)),
        Instruction::Narrow(a, dtype) => Instruction::Narrow(number(a), dtype),
        Instruction::RowReduce(reduction, a, scale) => Instruction::RowReduce(reduction, number(a), scale),
        Instruction::BroadcastRow(a) => Instruction::BroadcastRow(number(a)),
    }
}

/// The same loop over as few axes as possible: neighbours become one where all strides allow it.
pub(super) fn collapsed(mut fused: Loop) -> Loop {
    if fused.extents.contains(&0) {
        return fused;
    }
    let mut axis = fused.extents.len();
    while axis > 1 {
        axis -= 1;
        let inner = fused.extents[axis] as isize;
        let follows = |access: &Access| access.strides[axis - 1] == access.strides[axis] * inner;
        let stores = fused.stores.iter().map(|store| &store.access);
        // Rows stay what they are.
        let is_one = fused.along_rows.is_empty() || fused.along_rows[axis - 1] == fused.along_rows[axis];
        if is_one && fused.loads.iter().chain(stores).all(follows) {
            if !fused.along_rows.is_empty() {
                fused.along_rows.remove(axis);
            }
            fused.extents[axis - 1] *= fused.extents[axis];
            fused.extents.remove(axis);
            let stores = fused.stores.iter_mut().map(|store| &mut store.access);
            for access in fused.loads.iter_mut().chain(stores) {
                access.strides.remove(axis - 1);
            }
        }
    }
    fused
}

/// Loops over fewer elements fit into the cache.
const WORTH_TILES: usize = 1 << 14;
/// The least and the largest number of rows and of columns of a tile.
const TILE_ROWS: [usize; 2] = [8, 16];
const TILE_COLUMNS: [usize; 2] = [16, 64];
/// The number of vertically adjacent tiles that run before the next column of tiles, which bounds the memory pages that both
/// operands touch.
const TILES: [usize; 2] = [1, 16];

/// The tiled loop, if an access is contiguous along another axis than the last one: a cache line then serves all rows of a tile,
/// whereas row by row it would be evicted before the next row reads it.
pub(super) fn tiled(mut fused: Loop, target: &Capabilities) -> Loop {
    let last = match fused.extents.len() {
        count @ 2.. if target.tiles && count + 3 <= target.axes => count - 1,
        _ => return fused,
    };
    let total = fused.extents.iter().fold(1, |total: usize, extent| total.saturating_mul(*extent));
    // The order of the axes is the order of additions in a reduction, which must not change.
    let is_plain = fused.along_rows.is_empty() && fused.stores.iter().all(|store| store.reduction.is_none());
    if total < WORTH_TILES || !is_plain {
        return fused;
    }
    let accesses = || fused.loads.iter().chain(fused.stores.iter().map(|store| &store.access));
    let across = |access: &Access| {
        let is_far = access.strides[last].unsigned_abs() * access.dtype.bytes() >= 64;
        let axis = (0..last).rev().find(|axis| access.strides[*axis] == 1)?;
        is_far.then_some(axis)
    };
    let Some(axis) = accesses().find_map(across) else { return fused };
    let divisor =
        |extent: usize, [least, most]: [usize; 2]| (least..=most).rev().find(|size| extent.is_multiple_of(*size));
    let (Some(rows), Some(columns)) =
        (divisor(fused.extents[axis], TILE_ROWS), divisor(fused.extents[last], TILE_COLUMNS))
    else {
        return fused;
    };
    let tiles = divisor(fused.extents[axis] / rows, TILES).unwrap_or(1);
    fused.extents[axis] /= rows * tiles;
    fused.extents[last] /= columns;
    fused.extents.extend([tiles, rows, columns]);
    let stores = fused.stores.iter_mut().map(|store| &mut store.access);
    for access in fused.loads.iter_mut().chain(stores) {
        let own = [access.strides[axis] * rows as isize, access.strides[axis], access.strides[last]];
        access.strides[axis] *= (rows * tiles) as isize;
        access.strides[last] *= columns as isize;
        access.strides.extend(own);
    }
    fused
}
