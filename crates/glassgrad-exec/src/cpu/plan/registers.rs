//! Register allocation of a fused loop: which registers have a slot of scratch memory, and which lie in place.

use std::ops::Deref;

use crate::program::{Access, Instruction, Loop, Store};

/// How a load is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cpu) enum LoadMode {
    /// Its elements are contiguous in the order of the loop, and are read where they are.
    InPlace,
    /// Its elements are contiguous in the order of the loop, and are converted from a storage type.
    Converted,
    /// It is one element for all, read once.
    Broadcast,
    /// Its elements are gathered, block by block.
    Gathered,
}

/// How a store is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cpu) struct StorePlan {
    /// Whether elements are contiguous in the order of the loop.
    pub(in crate::cpu) in_order: bool,
    /// Whether the register is computed where it is stored, without a slot.
    pub(in crate::cpu) direct: bool,
}

/// The plan of a loop.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cpu) struct LoopPlan {
    pub(in crate::cpu) modes: Vec<LoadMode>,
    pub(in crate::cpu) stores: Vec<StorePlan>,
    /// For each register, its slot of scratch memory, if it has one.
    pub(in crate::cpu) slots: Vec<Option<usize>>,
    pub(in crate::cpu) slot_count: usize,
}

/// A loop with its plan.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct PlannedLoop<'p> {
    fused: &'p Loop,
    pub(in crate::cpu) plan: &'p LoopPlan,
}

impl<'p> PlannedLoop<'p> {
    pub(in crate::cpu) fn new(fused: &'p Loop, plan: &'p LoopPlan) -> PlannedLoop<'p> {
        PlannedLoop { fused, plan }
    }

    /// The stores with their plans.
    pub(in crate::cpu) fn planned_stores(&self) -> impl Iterator<Item = (&'p Store, StorePlan)> + use<'p> {
        self.fused.stores.iter().zip(self.plan.stores.iter().copied())
    }
}

impl Deref for PlannedLoop<'_> {
    type Target = Loop;

    fn deref(&self) -> &Loop {
        self.fused
    }
}

/// Constants are written once, before the first block.
fn is_constant(fused: &Loop, register: usize) -> bool {
    let place = register.checked_sub(fused.loads.len());
    place.is_some_and(|place| matches!(fused.code[place].0, Instruction::Constant(_)))
}

/// For each register, the place of the instruction that reads it last; the end of the loop if it is stored.
fn last_uses(fused: &Loop) -> Vec<usize> {
    let mut last = vec![0; fused.loads.len() + fused.code.len()];
    for (place, (instruction, _)) in fused.code.iter().enumerate() {
        instruction.operands().for_each(|operand| last[operand] = place);
    }
    fused.stores.iter().for_each(|store| last[store.register] = usize::MAX);
    last
}

impl LoopPlan {
    /// Allocates registers. A slot is reused when its register was read for the last time; broadcast loads and constants
    /// keep theirs, and what is read or stored in place needs none.
    pub(in crate::cpu) fn new(fused: &Loop) -> LoopPlan {
        let loads = fused.loads.len();
        let [by_element, by_row] = [fused.element_strides(), fused.row_strides()];
        let in_order = |register: usize, access: &Access| {
            access.strides == *if fused.by_row[register] { &by_row } else { &by_element }
        };
        let mode = |(register, load): (usize, &Access)| match load {
            _ if in_order(register, load) && load.dtype.is_storage_only() => LoadMode::Converted,
            _ if in_order(register, load) => LoadMode::InPlace,
            _ if load.strides.iter().all(|stride| *stride == 0) => LoadMode::Broadcast,
            _ => LoadMode::Gathered,
        };
        let modes: Vec<LoadMode> = fused.loads.iter().enumerate().map(mode).collect();
        let mut direct: Vec<usize> = Vec::new();
        let stores = fused.stores.iter().map(|store| {
            let in_order = store.reduction.is_none() && in_order(store.register, &store.access);
            // What is also read must not change before it was read for the last time.
            let is_read = fused.loads.iter().any(|load| load.memory == store.access.memory);
            let is_computed = store.register >= loads && !is_constant(fused, store.register);
            let is_direct = in_order
                && is_computed
                && !is_read
                && !store.access.dtype.is_storage_only()
                && !direct.contains(&store.register);
            direct.extend(is_direct.then_some(store.register));
            StorePlan { in_order, direct: is_direct }
        });
        let stores = stores.collect();
        let last_use = last_uses(fused);
        let mut free: Vec<usize> = Vec::new();
        let mut slot_count = 0;
        let mut take = |free: &mut Vec<usize>| {
            free.pop().unwrap_or_else(|| {
                slot_count += 1;
                slot_count - 1
            })
        };
        let mut slots: Vec<Option<usize>> = vec![None; last_use.len()];
        for (slot, mode) in slots.iter_mut().zip(&modes) {
            *slot = (*mode != LoadMode::InPlace).then(|| take(&mut free));
        }
        for register in (loads..last_use.len()).filter(|register| is_constant(fused, *register)) {
            slots[register] = Some(take(&mut free));
        }
        for (place, (instruction, _)) in fused.code.iter().enumerate() {
            let own = loads + place;
            if is_constant(fused, own) {
                continue;
            }
            if !direct.contains(&own) {
                slots[own] = Some(take(&mut free));
            }
            let mut ended: Vec<usize> = instruction.operands().filter(|operand| last_use[*operand] == place).collect();
            ended.sort_unstable();
            ended.dedup();
            for operand in ended {
                let is_kept = is_constant(fused, operand) || modes.get(operand) == Some(&LoadMode::Broadcast);
                free.extend(slots[operand].filter(|_| !is_kept));
            }
        }
        let plan = LoopPlan { modes, stores, slots, slot_count };
        if cfg!(debug_assertions)
            && let Err(violation) = plan.verify(fused)
        {
            unreachable!("register allocation is unsound: {violation}\n{fused}");
        }
        plan
    }

    /// Checks that each register has its slot for itself from its definition to its last use, and that no instruction
    /// writes to where one of its operands lies.
    pub(super) fn verify(&self, fused: &Loop) -> Result<(), String> {
        let loads = fused.loads.len();
        let count = loads + fused.code.len();
        let lengths = [self.slots.len(), self.modes.len(), self.stores.len()];
        if lengths != [count, loads, fused.stores.len()] {
            return Err(format!("a plan describes {lengths:?} registers, loads and stores"));
        }
        for (number, (store, plan)) in fused.stores.iter().zip(&self.stores).enumerate() {
            if plan.direct && fused.loads.iter().any(|load| load.memory == store.access.memory) {
                return Err(format!("store {number} is computed in place, where a load reads"));
            }
            if plan.direct && store.access.dtype.is_storage_only() {
                return Err(format!("store {number} of {} is not converted", store.access.dtype));
            }
        }
        let is_direct = |register: usize| {
            fused.stores.iter().zip(&self.stores).any(|(store, plan)| plan.direct && store.register == register)
        };
        if let Some(number) = (0..loads)
            .find(|number| self.modes[*number] == LoadMode::InPlace && fused.loads[*number].dtype.is_storage_only())
        {
            return Err(format!("load {number} of {} is not converted", fused.loads[number].dtype));
        }
        let keeps =
            |register: usize| is_constant(fused, register) || self.modes.get(register) == Some(&LoadMode::Broadcast);
        let last_use = last_uses(fused);
        // The register that holds each slot now. Loads and constants are there before the first instruction.
        let mut holders: Vec<Option<usize>> = vec![None; self.slot_count];
        let first = (0..count).filter(|register| *register < loads || is_constant(fused, *register));
        let others = (loads..count).filter(|register| !is_constant(fused, *register));
        for register in first.chain(others) {
            let is_first = register < loads || is_constant(fused, register);
            let in_place = self.modes.get(register) == Some(&LoadMode::InPlace) || is_direct(register);
            let Some(slot) = self.slots[register] else {
                match in_place {
                    true => continue,
                    false => return Err(format!("register {register} has no slot")),
                }
            };
            let Some(holder) = holders.get_mut(slot) else {
                return Err(format!("register {register} has slot {slot} of {}", self.slot_count));
            };
            if let Some(before) = *holder
                && (keeps(before) || is_first || last_use[before] >= register - loads)
            {
                return Err(format!("registers {before} and {register} share slot {slot} at the same time"));
            }
            *holder = Some(register);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ops::Operation;
    use crate::program::{Access, Instruction, Memory, Store};

    /// exp(x + 1) · sin(x) over 40 × 30 elements, of an operand with these strides.
    fn product(strides: [isize; 2]) -> Loop {
        let access = |memory: Memory, strides: &[isize]| Access {
            memory,
            dtype: DType::F64,
            offset: 0,
            strides: strides.to_vec(),
        };
        let code = [
            Instruction::Constant(1.0),
            Instruction::Binary(Operation::Add, 0, 1),
            Instruction::Unary(Operation::Exp, 2, 0.0),
            Instruction::Unary(Operation::Sin, 0, 0.0),
            Instruction::Binary(Operation::Mul, 3, 4),
        ];
        let store = Store {
            register: 5,
            access: access(Memory::Result(0), &[30, 1]),
            reduction: None,
            scale: 1.0,
            clear: None,
        };
        Loop {
            extents: vec![40, 30],
            loads: vec![access(Memory::Input(0), &strides)],
            by_row: vec![false; 1 + code.len()],
            code: code.map(|instruction| (instruction, DType::F64)).to_vec(),
            along_rows: vec![false; 2],
            stores: vec![store],
        }
    }

    /// A loop with a gathered load, and one whose load and store are in place.
    fn loops() -> [Loop; 2] {
        [product([1, 40]), product([30, 1])]
    }

    #[test]
    fn planted_violations_are_detected() {
        let all = loops();
        let detects = |number: usize, expected: &str, plant: &dyn Fn(&mut LoopPlan, &mut Loop)| {
            let mut fused = all[number].clone();
            let mut plan = LoopPlan::new(&fused);
            assert_eq!(plan.verify(&fused), Ok(()));
            plant(&mut plan, &mut fused);
            let violation = plan.verify(&fused).expect_err(expected);
            assert!(violation.contains(expected), "{violation}");
        };
        detects(0, "of 0", &|plan, _| plan.slot_count = 0);
        detects(0, "describes", &|plan, _| plan.slots.truncate(1));
        detects(0, "share slot", &|plan, _| {
            plan.stores.iter_mut().for_each(|store| store.direct = false);
            plan.slots.iter_mut().for_each(|slot| *slot = Some(0));
            plan.slot_count = 1;
        });
        detects(0, "has no slot", &|plan, _| plan.slots[0] = None);
        detects(1, "where a load reads", &|_, fused| fused.loads[0].memory = Memory::Result(0));
    }
}
