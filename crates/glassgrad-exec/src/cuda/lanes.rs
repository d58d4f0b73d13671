//! Lanes: in a recording, steps that touch no memory in common run side by side on several streams.
//!
//! The gradient of a weight matrix and that of its input are independent products, and so are the updates of all parameters. Each
//! unit of work is placed on a lane and waits for the earlier units that it conflicts with: a write against a read or a write of
//! overlapping memory.

use std::ops::Range;

use super::device::Address;
use super::plan::{Action, Actions};
use crate::memory::aligned;
use crate::program::{Loop, Memory, Program, Step, bytes_of};

/// Memory that a unit touches.
#[derive(Clone, Debug, PartialEq)]
enum Touched {
    Input(usize),
    Result(usize),
    /// Bytes of the arena.
    Arena(Range<usize>),
    /// Bytes of scratch memory.
    Scratch(Range<usize>),
    /// All memory: a loop with programs of its own inside.
    Everything,
}

/// Consecutive steps that are started together, or some actions of one step.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) steps: Range<usize>,
    /// The actions of the step, if these are not all.
    pub(super) actions: Option<Range<usize>>,
    /// What it touches, and whether it writes it.
    touched: Vec<(Touched, bool)>,
}

/// The addresses that the memory of a program has in one run.
pub(super) struct Resolved<'r> {
    pub(super) program: &'r Program,
    pub(super) inputs: &'r [Address],
    pub(super) results: &'r [Address],
    pub(super) arena: Address,
    pub(super) scratch: Address,
}

/// Where a unit runs: its lane, and the units on other lanes that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) lane: usize,
    pub(super) waits: Vec<usize>,
}

/// The units of a program.
pub(super) fn units(program: &Program, actions: &Actions) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (number, step) in program.steps.iter().enumerate() {
        let touched = touched_by(program, actions, number, step);
        let is_joined = actions.steps[number].iter().any(|action| matches!(action, Action::Joined));
        match units.last_mut().filter(|_| is_joined) {
            // A chain stands with its first launch, so the steps of all of its launches are one unit.
            Some(unit) => {
                unit.steps.end = number + 1;
                unit.touched.extend(touched);
            }
            None => match parts_of(actions, number, step) {
                Some(parts) => units.extend(parts.map(|(own, part)| Unit {
                    steps: number..number + 1,
                    actions: Some(own),
                    touched: touched_by(program, actions, number, &Step::Loop(part)),
                })),
                None => units.push(Unit { steps: number..number + 1, actions: None, touched }),
            },
        }
    }
    units
}

/// The two parts of a loop that both reduces and stores elements, with their actions: others go on with the elements while it
/// reduces.
fn parts_of(actions: &Actions, number: usize, step: &Step) -> Option<[(Range<usize>, Loop); 2]> {
    let Step::Loop(fused) = step else { return None };
    let own = &actions.steps[number];
    let part = |reduces: bool| {
        let mut part = fused.clone();
        part.stores.retain(|store| store.reduction.is_some() == reduces);
        part
    };
    let (elements, mut reductions) = (part(false), part(true));
    let is_plain = own.len() > 1 && own.iter().all(|action| matches!(action, Action::Launch { .. }));
    if !is_plain || elements.stores.is_empty() || reductions.stores.is_empty() {
        return None;
    }
    Some(match fused.by_row.contains(&true) {
        true => {
            // Rows come first, and leave what is reduced in scratch memory.
            reductions.loads.clear();
            [(0..1, elements), (1..own.len(), reductions)]
        }
        false => [(0..own.len() - 1, reductions), (own.len() - 1..own.len(), elements)],
    })
}

fn touched_by(program: &Program, actions: &Actions, number: usize, step: &Step) -> Vec<(Touched, bool)> {
    if let Step::Scan(_) | Step::ReverseScan(_) = step {
        return vec![(Touched::Everything, true)];
    }
    let mut touched = Vec::new();
    let mut touch = |memory: Memory, writes: bool| match memory {
        Memory::Input(input) => touched.push((Touched::Input(input), writes)),
        Memory::Result(result) => touched.push((Touched::Result(result), writes)),
        Memory::Arena(byte) => {
            let is_own = |held: &&crate::program::Held| {
                (held.first..=held.last).contains(&number)
                    && (held.place..held.place + held.bytes.max(1)).contains(&byte)
            };
            let own = program.values.iter().filter(is_own);
            let before = touched.len();
            touched.extend(own.map(|held| (Touched::Arena(held.place..held.place + aligned(held.bytes)), writes)));
            if touched.len() == before {
                // Unknown to the plan of memory: everything behind it.
                touched.push((Touched::Arena(byte..program.arena), writes));
            }
        }
        // Constants are only read; scratch memory is counted for the step as a whole.
        Memory::Constant(_) | Memory::Tile => {}
    };
    step.reads().for_each(|access| touch(access.memory, false));
    step.writes().for_each(|access| touch(access.memory, true));
    if let Some(scratch) = actions.scratch.get(number).filter(|scratch| !scratch.is_empty()) {
        touched.push((Touched::Scratch(scratch.clone()), true));
    }
    touched
}

impl Resolved<'_> {
    fn addresses(&self, touched: &Touched) -> Range<Address> {
        let from = |base: Address, bytes: &Range<usize>| base + bytes.start as Address..base + bytes.end as Address;
        match touched {
            Touched::Input(number) => from(self.inputs[*number], &(0..bytes_of(&self.program.inputs[*number]))),
            Touched::Result(number) => from(self.results[*number], &(0..bytes_of(&self.program.results[*number]))),
            Touched::Arena(bytes) => from(self.arena, bytes),
            Touched::Scratch(bytes) => from(self.scratch, bytes),
            Touched::Everything => 0..Address::MAX,
        }
    }

    /// For each unit the earlier ones that it conflicts with.
    pub(super) fn dependencies(&self, units: &[Unit]) -> Vec<Vec<usize>> {
        let resolve = |unit: &Unit| -> Vec<(Range<Address>, bool)> {
            unit.touched.iter().map(|(touched, writes)| (self.addresses(touched), *writes)).collect()
        };
        let all: Vec<Vec<(Range<Address>, bool)>> = units.iter().map(resolve).collect();
        let conflict = |(a, a_writes): &(Range<Address>, bool), (b, b_writes): &(Range<Address>, bool)| {
            (*a_writes || *b_writes) && a.start < b.end && b.start < a.end
        };
        let depends =
            |later: usize, earlier: usize| all[later].iter().any(|a| all[earlier].iter().any(|b| conflict(a, b)));
        (0..units.len()).map(|later| (0..later).filter(|earlier| depends(later, *earlier)).collect()).collect()
    }
}

/// Places units on lanes: behind the latest unit that it depends on where nothing has followed it yet, and otherwise on the lane
/// that was idle longest.
pub(super) fn place(dependencies: &[Vec<usize>], lanes: usize) -> Vec<Placed> {
    let mut placed: Vec<Placed> = Vec::with_capacity(dependencies.len());
    let mut last: Vec<Option<usize>> = vec![None; lanes];
    // For each unit and lane, the latest unit there that is complete when the unit is.
    let mut complete: Vec<Vec<Option<usize>>> = Vec::with_capacity(dependencies.len());
    for (unit, own) in dependencies.iter().enumerate() {
        let is_last = |earlier: &&usize| last[placed[**earlier].lane] == Some(**earlier);
        let lane = match own.iter().rev().find(is_last) {
            Some(earlier) => placed[*earlier].lane,
            None => (0..lanes).min_by_key(|lane| last[*lane]).unwrap_or(0),
        };
        let mut known = last[lane].map_or_else(|| vec![None; lanes], |before| complete[before].clone());
        let mut waits = Vec::new();
        for earlier in own.iter().rev() {
            if known[placed[*earlier].lane] < Some(*earlier) {
                waits.push(*earlier);
                known.iter_mut().zip(&complete[*earlier]).for_each(|(known, other)| *known = (*known).max(*other));
            }
        }
        known[lane] = Some(unit);
        complete.push(known);
        last[lane] = Some(unit);
        placed.push(Placed { lane, waits });
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn units_wait_for_everything_that_they_depend_on() {
        // Pseudo-random graphs: the waits of a unit and the order on its lane must imply all of its dependencies.
        let mut state = 1_u64;
        let mut draw = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        for lanes in [1, 2, 4] {
            for _ in 0..50 {
                let dependencies: Vec<Vec<usize>> =
                    (0..40).map(|unit| (0..unit).filter(|_| draw(8) == 0).collect()).collect();
                let placed = place(&dependencies, lanes);
                let mut before: Vec<Vec<bool>> = Vec::new();
                let mut used = Vec::new();
                for (unit, own) in placed.iter().enumerate() {
                    let on_lane = (0..unit).rev().find(|earlier| placed[*earlier].lane == own.lane);
                    let mut complete = vec![false; placed.len()];
                    for direct in own.waits.iter().copied().chain(on_lane) {
                        complete[direct] = true;
                        complete.iter_mut().zip(&before[direct]).for_each(|(own, other)| *own |= *other);
                    }
                    assert!(dependencies[unit].iter().all(|earlier| complete[*earlier]), "unit {unit}");
                    before.push(complete);
                    used.push(own.lane);
                }
                assert!(used.iter().all(|lane| *lane < lanes));
            }
        }
        // Independent units run side by side.
        assert_eq!(place(&[vec![], vec![], vec![0, 1]], 2).iter().map(|own| own.lane).collect::<Vec<_>>(), [0, 1, 1]);
    }
}
