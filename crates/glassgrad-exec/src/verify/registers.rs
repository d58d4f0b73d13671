//! Registers of fused loops: defined before they are read, and of the types that instructions take.

use super::Checked;
use crate::dtype::DType;
use crate::ops::Operation;
use crate::program::{Instruction, Loop};

pub(super) fn check(fused: &Loop) -> Checked {
    let (loads, count) = (fused.loads.len(), fused.loads.len() + fused.code.len());
    if fused.by_row.len() != count {
        return Err(format!("a loop of {count} registers describes {} of them", fused.by_row.len()));
    }
    if !fused.along_rows.is_empty() && fused.along_rows.len() != fused.extents.len() {
        return Err(format!("{} axes are marked as rows of {}", fused.along_rows.len(), fused.extents.len()));
    }
    let type_of = |register: usize| match register.checked_sub(loads) {
        None => fused.loads[register].dtype.compute_type(),
        Some(place) => fused.code[place].1,
    };
    for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
        if let Some(operand) = instruction.operands().find(|operand| *operand >= loads + place) {
            return Err(format!("instruction {place} reads register {operand} before it is defined"));
        }
        if dtype.is_storage_only() {
            return Err(format!("instruction {place} computes in {dtype}, which is only stored"));
        }
        types(instruction, *dtype, type_of)
            .map_err(|message| format!("instruction {place}, {instruction:?}: {message}"))?;
    }
    for (number, store) in fused.stores.iter().enumerate() {
        if store.register >= count {
            return Err(format!("store {number} keeps register {}, which there is not", store.register));
        }
        let (own, kept) = (type_of(store.register), store.access.dtype);
        if own != kept.compute_type() {
            return Err(format!("store {number} keeps a register of {own} as {kept}"));
        }
        if store.reduction.is_some() && kept.is_storage_only() {
            return Err(format!("store {number} accumulates in {kept}, which is only stored"));
        }
    }
    Ok(())
}

/// Whether an instruction can make this type of its operands.
fn types(instruction: &Instruction, dtype: DType, type_of: impl Fn(usize) -> DType) -> Checked {
    let expect = |register: usize, expected: DType| {
        let found = type_of(register);
        if found == expected { Ok(()) } else { Err(format!("register {register} is of {found}, not of {expected}")) }
    };
    match *instruction {
        Instruction::Constant(_) | Instruction::Cast(_) => Ok(()),
        Instruction::Narrow(_, target) if target.is_storage_only() && target.compute_type() == dtype => Ok(()),
        Instruction::Narrow(_, target) => Err(format!("elements of {target} are not computed in {dtype}")),
        Instruction::Unary(operation, a, _) => {
            expect(a, dtype)?;
            match dtype {
                DType::F32 | DType::F64 => Ok(()),
                DType::I64 if operation == Operation::Neg => Ok(()),
                DType::I64 | DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
                    Err(format!("there is no {} of {dtype}", operation.name()))
                }
            }
        }
        Instruction::Binary(operation, a, b) => {
            expect(a, dtype)?;
            expect(b, dtype)?;
            match (dtype, operation) {
                (DType::F32 | DType::F64, _) => Ok(()),
                (DType::I64, Operation::Add | Operation::Sub | Operation::Mul) => Ok(()),
                (DType::I64 | DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8, _) => {
                    Err(format!("there is no {} of {dtype}", operation.name()))
                }
            }
        }
        Instruction::MaskedMul(a, b) => {
            expect(a, dtype)?;
            expect(b, dtype)
        }
        Instruction::Compare(_, a, b) => {
            if dtype != DType::Bool {
                return Err(format!("a comparison makes bool, not {dtype}"));
            }
            expect(b, type_of(a))
        }
        Instruction::Logic(_, a, b) => {
            if dtype != DType::Bool {
                return Err(format!("logic makes bool, not {dtype}"));
            }
            expect(a, DType::Bool)?;
            if instruction.operands().count() > 1 { expect(b, DType::Bool) } else { Ok(()) }
        }
        Instruction::Select(condition, a, b) => {
            expect(condition, DType::Bool)?;
            expect(a, dtype)?;
            expect(b, dtype)
        }
        Instruction::RowReduce(_, a, _) | Instruction::BroadcastRow(a) => expect(a, dtype),
    }
}
