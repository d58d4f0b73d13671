//! Fused loops as executors like them: few axes, and registers that share places.

use super::rows::{across, with_rows};
use super::strides::rows;
use crate::dtype::DType;
use crate::few::Few;
use crate::opt::program::{Access, Instruction, Loop, Reading, Store};

pub(super) fn renumbered(instruction: Instruction, number: impl Fn(usize) -> usize) -> Instruction {
    match instruction {
        Instruction::Number(_) => instruction,
        Instruction::Unary(operation, a, parameter) => Instruction::Unary(operation, number(a), parameter),
        Instruction::Binary(operation, a, b) => Instruction::Binary(operation, number(a), number(b)),
        Instruction::Strong(a, b) => Instruction::Strong(number(a), number(b)),
        Instruction::Compare(relation, a, b) => Instruction::Compare(relation, number(a), number(b)),
        Instruction::Logic(logic, a, b) => Instruction::Logic(logic, number(a), number(b)),
        Instruction::Choose(condition, a, b) => Instruction::Choose(number(condition), number(a), number(b)),
        Instruction::Cast(a) => Instruction::Cast(number(a)),
        Instruction::Rows(combine, a, scale) => Instruction::Rows(combine, number(a), scale),
        Instruction::Spread(a) => Instruction::Spread(number(a)),
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

/// Gives each register a slot of scratch memory, which goes to another when the register was read for the last
/// time. What is the same for all elements keeps its slot; what lies row by row in memory needs none.
pub(in crate::opt) fn with_slots(mut fused: Loop) -> Loop {
    let loads = fused.loads.len();
    let count = loads + fused.code.len();
    let mut last_use = vec![0; count];
    for (place, (instruction, _)) in fused.code.iter().enumerate() {
        instruction.operands().for_each(|operand| last_use[operand] = place);
    }
    fused.stores.iter().for_each(|store| last_use[store.register] = usize::MAX);
    let mut free: Vec<usize> = Vec::new();
    let mut slot_count = 0;
    let mut take = |free: &mut Vec<usize>| {
        free.pop().unwrap_or_else(|| {
            slot_count += 1;
            slot_count - 1
        })
    };
    let whole = rows(&fused.extents);
    let by_rows = with_rows(&rows(&across(&fused.extents, &fused.along_rows)), &fused.along_rows);
    let in_order = |by_row: bool, strides: &[isize]| *strides == **(if by_row { &by_rows } else { &whole });
    let mut computed_in_place: Vec<usize> = Vec::new();
    for store in &mut fused.stores {
        store.in_order = store.combine.is_none() && in_order(fused.by_row[store.register], &store.access.strides);
        // What is also read must not change before it was read for the last time.
        let is_read = fused.loads.iter().any(|load| load.memory == store.access.memory);
        let is_number = |place: usize| matches!(fused.code[place].0, Instruction::Number(_));
        let is_computed = store.register.checked_sub(loads).is_some_and(|place| !is_number(place));
        store.direct = store.in_order && is_computed && !is_read && !computed_in_place.contains(&store.register);
        if store.direct {
            computed_in_place.push(store.register);
        }
    }
    fused.slots = vec![0; count];
    let reading = |(load, by_row): (&Access, &bool)| match &load.strides[..] {
        strides if in_order(*by_row, strides) => Reading::InPlace,
        strides if strides.iter().all(|stride| *stride == 0) => Reading::Once,
        _ => Reading::Gathered,
    };
    fused.readings = fused.loads.iter().zip(&fused.by_row).map(reading).collect();
    for (slot, reading) in fused.slots.iter_mut().zip(&fused.readings) {
        if *reading != Reading::InPlace {
            *slot = take(&mut free);
        }
    }
    // Numbers are written once, before the first block: nobody else may ever have their slots.
    let is_number = |place: usize| matches!(fused.code[place].0, Instruction::Number(_));
    for place in (0..fused.code.len()).filter(|place| is_number(*place)) {
        fused.slots[loads + place] = take(&mut free);
    }
    for (place, (instruction, _)) in fused.code.iter().enumerate().filter(|(place, _)| !is_number(*place)) {
        if !computed_in_place.contains(&(loads + place)) {
            fused.slots[loads + place] = take(&mut free);
        }
        let mut ended: Few<usize> = instruction.operands().filter(|operand| last_use[*operand] == place).collect();
        ended.sort_unstable();
        for (number, operand) in ended.iter().copied().enumerate() {
            if ended[..number].contains(&operand) {
                continue;
            }
            let lasting = match operand.checked_sub(loads) {
                None => fused.readings[operand] != Reading::Gathered,
                Some(place) => is_number(place),
            };
            if !lasting {
                free.push(fused.slots[operand]);
            }
        }
    }
    fused.slot_count = slot_count;
    debug_assert!(is_apart(&fused, &computed_in_place), "an instruction writes over what it reads");
    fused
}

/// Whether no instruction writes to where one of its operands lies: kernels rely on it.
fn is_apart(fused: &Loop, computed_in_place: &[usize]) -> bool {
    let loads = fused.loads.len();
    let slot = |register: usize| {
        let is_elsewhere = fused.readings.get(register) == Some(&Reading::InPlace);
        (!is_elsewhere && !computed_in_place.contains(&register)).then(|| fused.slots[register])
    };
    let is_apart = |(place, (instruction, _)): (usize, &(Instruction, DType))| {
        let own = slot(loads + place);
        own.is_none() || instruction.operands().all(|operand| slot(operand) != own)
    };
    let is_read = |store: &Store| fused.loads.iter().any(|load| load.memory == store.access.memory);
    fused.code.iter().enumerate().all(is_apart) && !fused.stores.iter().any(|store| store.direct && is_read(store))
}
