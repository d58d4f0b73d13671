//! Programs that write results over inputs: a training step whose state stays where it is.
//!
//! A result may take the memory of an input when the input is read for the last time no later than the result is
//! written, and, where both happen in one loop, element by element at the same places. An operation that can fail must
//! come before: the caller gets the donated input back unchanged if it does.

use super::lower::is_rows;
use super::program::{Access, Contraction, Memory, Program, Step};

/// The program with results written over inputs where that can be, and for each result the input that it takes over.
/// `aliases` are pairs of a result and an input.
pub(crate) fn in_place(program: &Program, aliases: &[(usize, usize)]) -> (Program, Vec<Option<usize>>) {
    let mut donors = vec![None; program.results.len()];
    let last_failure = program.steps.iter().rposition(Step::can_fail);
    for (result, input) in aliases {
        let is_taken = donors.contains(&Some(*input)) || donors[*result].is_some();
        let early = last_failure.is_some_and(|last| first_write(program, *result).is_none_or(|first| first <= last));
        if !is_taken && !early && fits(program, *result, *input) {
            donors[*result] = Some(*input);
        }
    }
    let mut program = program.clone();
    for step in &mut program.steps {
        step.accesses_mut(&mut |access| {
            if let Memory::Result(result) = access.memory
                && let Some(input) = donors[result]
            {
                access.memory = Memory::Input(input);
            }
        });
    }
    if cfg!(debug_assertions)
        && let Err(violation) = program.verify_overwriting(&donors)
    {
        unreachable!("a program that overwrites its inputs is not sound: {violation}\n{program}");
    }
    (program, donors)
}

fn first_write(program: &Program, result: usize) -> Option<usize> {
    program.steps.iter().position(|step| step.writes().any(|access| access.memory == Memory::Result(result)))
}

fn fits(program: &Program, result: usize, input: usize) -> bool {
    if program.results[result] != program.inputs[input] {
        return false;
    }
    let Some(first_write) = first_write(program, result) else { return false };
    let reads_input = |step: &Step| step.reads().any(|access| access.memory == Memory::Input(input));
    match program.steps.iter().rposition(reads_input) {
        None => true,
        Some(last_read) if last_read < first_write => true,
        Some(last_read) => last_read == first_write && same_places(&program.steps[last_read], result, input),
    }
}

/// Whether a loop reads an input and writes a result element by element at the same places.
fn same_places(step: &Step, result: usize, input: usize) -> bool {
    let fused = match step {
        Step::Loop(fused) => fused,
        // Factors are read as a whole while pieces are written.
        Step::Contract(Contraction { epilogue: Some(epilogue), operands: [first, second, _], .. })
            if [first, second].iter().all(|factor| factor.memory != Memory::Input(input)) =>
        {
            epilogue
        }
        Step::Contract(_) | Step::Call(_) | Step::Scan(_) | Step::ReverseScan(_) => return false,
    };
    let is_whole = |access: &Access| access.offset == 0 && is_rows(&fused.extents, &access.strides);
    let of_input = |register: usize| fused.loads.get(register).is_some_and(|load| load.memory == Memory::Input(input));
    let loads = fused.loads.iter().filter(|load| load.memory == Memory::Input(input));
    let mut stores = fused.stores.iter().filter(|store| store.access.memory == Memory::Result(result));
    let store = stores.next();
    loads.into_iter().all(is_whole)
        && stores.next().is_none()
        && store.is_some_and(|store| store.reduction.is_none() && store.clear.is_none() && is_whole(&store.access))
        // What is stored as it was read would be read again after it changed.
        && !fused.stores.iter().any(|store| of_input(store.register))
}
