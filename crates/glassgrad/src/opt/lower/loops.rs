//! Fused loops with as few axes as possible.

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
