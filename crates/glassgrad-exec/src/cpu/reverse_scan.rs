//! The reverse sweep over a scan loop: runs a schedule of snapshots over memory that lowering laid out.

use super::interpreter::{Frame, Origin, copy, elements, steps};
use super::plan::Plan;
use crate::error::Error;
use crate::memory;
use crate::program::{Program, ReverseScan, Signature, bytes_of};
use crate::revolve::Action;

/// Places one after another in scratch memory, each as large as the array of its signature.
struct Places {
    next: *mut u8,
}

impl Places {
    fn take(&mut self, signatures: &[Signature]) -> Vec<*mut u8> {
        let place = |signature: &Signature| {
            let place = self.next;
            self.next = place.wrapping_add(memory::aligned(bytes_of(signature)));
            place
        };
        signatures.iter().map(place).collect()
    }
}

/// Copies arrays from some places to others.
unsafe fn copy_all(signatures: &[Signature], from: &[*const u8], to: &[*mut u8]) {
    for ((signature, from), to) in signatures.iter().zip(from).zip(to) {
        copy::<u8>(elements(*from, bytes_of(signature)), *to);
    }
}

fn read_only(places: &[*mut u8]) -> impl Iterator<Item = *const u8> {
    places.iter().map(|place| place.cast_const())
}

pub(super) unsafe fn run(
    sweep: &ReverseScan,
    [advance_plan, reverse_plan]: [&Plan; 2],
    frame: &Frame<'_>,
    scratch: *mut u8,
    origin: Origin<'_>,
) -> Result<(), Error> {
    let ReverseScan { advance, reverse, states, carries, sequences, .. } = sweep;
    let arena = frame.base(sweep.scratch);
    let kinds: &[Signature] = &advance.results;
    let back_kinds = &reverse.results[..*carries];
    let mut places = Places { next: arena.wrapping_add(memory::aligned(advance.arena.max(reverse.arena))) };
    let homes = [places.take(kinds), places.take(kinds)];
    let back_homes = [places.take(back_kinds), places.take(back_kinds)];
    let slots: Vec<Vec<*mut u8>> = (0..sweep.schedule.snapshots).map(|_| places.take(kinds)).collect();
    let given: Vec<*const u8> = sweep.inputs.iter().map(|access| frame.at(access, 0).cast_const()).collect();
    let moving = states + carries..states + carries + sequences;
    // Inputs of both programs: the state where it lies now, what is carried back, and one entry of each sequence.
    let mut inputs = given.clone();
    let enter = |inputs: &mut [*const u8], program: &Program, step: usize| {
        for sequence in moving.clone() {
            inputs[sequence] = given[sequence].wrapping_add(step * bytes_of(&program.inputs[sequence]));
        }
    };
    let mut results: Vec<*mut u8> = vec![std::ptr::null_mut(); reverse.results.len()];
    // The homes into which the next state and the next cotangents go.
    let (mut home, mut back_home) = (0, 0);
    for action in &sweep.schedule.actions {
        match *action {
            Action::Begin => inputs[..*states].copy_from_slice(&given[..*states]),
            Action::Restore { slot } => {
                inputs[..*states].iter_mut().zip(read_only(&slots[slot])).for_each(|(input, place)| *input = place);
            }
            Action::Store { slot } => copy_all(kinds, &inputs[..*states], &slots[slot]),
            Action::Advance { from, to } => {
                for step in from..to {
                    enter(&mut inputs, advance, step);
                    steps(advance_plan, &inputs, &homes[home], arena, scratch, frame.workspaces, origin)?;
                    inputs[..*states].iter_mut().zip(read_only(&homes[home])).for_each(|(input, at)| *input = at);
                    home = 1 - home;
                }
            }
            Action::Reverse { step } => {
                enter(&mut inputs, reverse, step);
                results[..*carries].copy_from_slice(&back_homes[back_home]);
                let stacked = results.iter_mut().zip(&sweep.outputs).zip(&reverse.results).skip(*carries);
                for ((result, output), kind) in stacked {
                    let Some(access) = output else { continue };
                    *result = frame.at(access, 0).wrapping_add(step * bytes_of(kind));
                }
                steps(reverse_plan, &inputs, &results, arena, scratch, frame.workspaces, origin)?;
                let carried = &mut inputs[*states..states + carries];
                carried.iter_mut().zip(read_only(&back_homes[back_home])).for_each(|(input, at)| *input = at);
                back_home = 1 - back_home;
            }
        }
    }
    for (carry, kind) in back_kinds.iter().enumerate() {
        if let Some(access) = &sweep.outputs[carry] {
            copy::<u8>(elements(inputs[states + carry], bytes_of(kind)), frame.at(access, 0));
        }
    }
    Ok(())
}
