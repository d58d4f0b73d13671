//! Registers of fused loops: defined before they are read, of the types that instructions take, and alone in their slots
//! until they were read for the last time.

use super::Checked;
use crate::dtype::DType;
use crate::ops::Operation;
use crate::opt::program::{Instruction, Loop, Reading};

pub(super) fn check(fused: &Loop) -> Checked {
    let (loads, count) = (fused.loads.len(), fused.loads.len() + fused.code.len());
    let lengths = [fused.slots.len(), fused.by_row.len()];
    if lengths != [count; 2] || fused.readings.len() != loads {
        return Err(format!("a loop of {count} registers describes {lengths:?} of them"));
    }
    if !fused.along_rows.is_empty() && fused.along_rows.len() != fused.extents.len() {
        return Err(format!("{} axes are marked as rows of {}", fused.along_rows.len(), fused.extents.len()));
    }
    let type_of = |register: usize| match register.checked_sub(loads) {
        None => fused.loads[register].dtype,
        Some(place) => fused.code[place].1,
    };
    for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
        if let Some(operand) = instruction.operands().find(|operand| *operand >= loads + place) {
            return Err(format!("instruction {place} reads register {operand} before it is defined"));
        }
        types(instruction, *dtype, type_of)
            .map_err(|message| format!("instruction {place}, {instruction:?}: {message}"))?;
    }
    for (number, store) in fused.stores.iter().enumerate() {
        if store.register >= count {
            return Err(format!("store {number} keeps register {}, which there is not", store.register));
        }
        if type_of(store.register) != store.access.dtype {
            let (own, kept) = (type_of(store.register), store.access.dtype);
            return Err(format!("store {number} keeps a register of {own} as {kept}"));
        }
    }
    slots(fused)
}

/// Whether an instruction can make this type of its operands.
fn types(instruction: &Instruction, dtype: DType, type_of: impl Fn(usize) -> DType) -> Checked {
    let expect = |register: usize, expected: DType| {
        let found = type_of(register);
        if found == expected { Ok(()) } else { Err(format!("register {register} is of {found}, not of {expected}")) }
    };
    match *instruction {
        Instruction::Number(_) | Instruction::Cast(_) => Ok(()),
        Instruction::Unary(operation, a, _) => {
            expect(a, dtype)?;
            match dtype {
                DType::F32 | DType::F64 => Ok(()),
                DType::I64 if operation == Operation::Neg => Ok(()),
                DType::I64 | DType::Bool => Err(format!("there is no {} of {dtype}", operation.name())),
            }
        }
        Instruction::Binary(operation, a, b) => {
            expect(a, dtype)?;
            expect(b, dtype)?;
            match (dtype, operation) {
                (DType::F32 | DType::F64, _) => Ok(()),
                (DType::I64, Operation::Add | Operation::Sub | Operation::Mul) => Ok(()),
                (DType::I64 | DType::Bool, _) => Err(format!("there is no {} of {dtype}", operation.name())),
            }
        }
        Instruction::Strong(a, b) => {
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
        Instruction::Choose(condition, a, b) => {
            expect(condition, DType::Bool)?;
            expect(a, dtype)?;
            expect(b, dtype)
        }
        Instruction::Rows(_, a, _) | Instruction::Spread(a) => expect(a, dtype),
    }
}

/// Whether each register has its slot for itself from when it is written to when it is read for the last time. Numbers and
/// what is loaded once keep theirs for the whole loop.
fn slots(fused: &Loop) -> Checked {
    let loads = fused.loads.len();
    let count = loads + fused.code.len();
    let is_direct = |register: usize| fused.stores.iter().any(|store| store.direct && store.register == register);
    let is_number = |register: usize| {
        register.checked_sub(loads).is_some_and(|place| matches!(fused.code[place].0, Instruction::Number(_)))
    };
    let lasts = |register: usize| is_number(register) || fused.readings.get(register) == Some(&Reading::Once);
    let needs_slot = |register: usize| fused.readings.get(register) != Some(&Reading::InPlace) && !is_direct(register);
    let mut last_use: Vec<usize> = (0..count).map(|register| register.saturating_sub(loads)).collect();
    for (place, (instruction, _)) in fused.code.iter().enumerate() {
        instruction.operands().for_each(|operand| last_use[operand] = place);
    }
    fused.stores.iter().for_each(|store| last_use[store.register] = usize::MAX);
    // The register that holds each slot now. Loads and numbers are there before the first instruction.
    let mut holders: Vec<Option<usize>> = vec![None; fused.slot_count];
    let order = (0..loads).chain((loads..count).filter(|register| is_number(*register)));
    let order = order.chain((loads..count).filter(|register| !is_number(*register)));
    for register in order.filter(|register| needs_slot(*register)) {
        let slot = fused.slots[register];
        let Some(holder) = holders.get_mut(slot) else {
            return Err(format!("register {register} has slot {slot} of {}", fused.slot_count));
        };
        let now = if is_number(register) { 0 } else { register.saturating_sub(loads) };
        let is_first = register < loads || is_number(register);
        if let Some(before) = *holder
            && (lasts(before) || is_first || last_use[before] >= now)
        {
            return Err(format!("registers {before} and {register} share slot {slot} at the same time"));
        }
        *holder = Some(register);
    }
    Ok(())
}
