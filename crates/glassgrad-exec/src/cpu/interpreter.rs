//! The interpreter: runs the steps of a plan over memory that lowering laid out.
//!
//! A loop that overwrites what it reads computes into registers, and copies them when it has read: no kernel ever has one
//! address to read from and to write to.
#![allow(unsafe_code)]

use std::panic::Location;

use super::isa::Isa;
use super::plan::{Plan, PlannedLoop, StepPlan};
use super::workspace::{Workspace, Workspaces};
use super::{call, contraction, fused, reverse_scan};
use crate::array::{Array, Buffer, OutOfMemory};
use crate::collective::Ticket;
use crate::error::Error;
use crate::memory;
use crate::program::{Access, Call, CallKind, Memory, Program, ScanLoop, Step, bytes_of};

/// The user's source line of a node.
pub(super) type Origin<'o> = &'o dyn Fn(usize) -> &'static Location<'static>;

/// The base addresses of a program while it runs.
pub(super) struct Frame<'f> {
    inputs: &'f [*const u8],
    constants: &'f [Array],
    results: &'f [*mut u8],
    arena: *mut u8,
    /// The tile of a contraction that an epilogue reads.
    tile: *mut u8,
    /// The instruction set of every kernel that runs here.
    pub(super) isa: Isa,
    pub(super) workspaces: &'f Workspaces,
}

/// Elements at an address.
pub(super) unsafe fn elements<'a, E>(at: *const u8, count: usize) -> &'a [E] {
    // SAFETY: the planner gave the step this many elements of this type here, aligned, and nobody writes
    // to them while the step reads.
    unsafe { std::slice::from_raw_parts(at.cast::<E>(), count) }
}

/// Elements at an address, to be written.
pub(super) unsafe fn elements_mut<'a, E>(at: *mut u8, count: usize) -> &'a mut [E] {
    // SAFETY: as above, and the step alone writes to them.
    unsafe { std::slice::from_raw_parts_mut(at.cast::<E>(), count) }
}

/// Copies elements to an address, apart from where they lie. A loop that writes over what it reads computes in registers in
/// between, and nothing that it stores as it was read goes back to the same place.
#[inline(always)]
pub(super) unsafe fn copy<E: Copy>(from: &[E], to: *mut u8) {
    /// Up to this many elements a call costs more than the copy itself.
    const SHORT: usize = 128;
    if from.len() <= SHORT {
        let (from, rest) = from.as_chunks::<16>();
        let mut to = to.cast::<E>();
        // SAFETY: as below, some elements at a time.
        unsafe {
            for some in from {
                to.cast::<[E; 16]>().write_unaligned(*some);
                to = to.wrapping_add(16);
            }
            let (from, rest) = rest.as_chunks::<4>();
            for some in from {
                to.cast::<[E; 4]>().write_unaligned(*some);
                to = to.wrapping_add(4);
            }
            for one in rest {
                to.write(*one);
                to = to.wrapping_add(1);
            }
        }
        return;
    }
    // SAFETY: the planner gave the step this many elements at both places, which are apart.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast::<E>(), from.len()) };
}

impl<'f> Frame<'f> {
    pub(super) fn new(
        program: &'f Program,
        inputs: &'f [*const u8],
        results: &'f [*mut u8],
        arena: *mut u8,
        workspaces: &'f Workspaces,
    ) -> Frame<'f> {
        Frame {
            inputs,
            constants: &program.constants,
            results,
            arena,
            tile: std::ptr::null_mut(),
            isa: Isa::current(),
            workspaces,
        }
    }

    /// The same with a tile of a contraction.
    pub(super) fn with_tile(&self, tile: *mut u8) -> Frame<'f> {
        Frame { tile, ..*self }
    }

    pub(super) fn base(&self, memory: Memory) -> *mut u8 {
        match memory {
            Memory::Input(number) => self.inputs[number].cast_mut(),
            Memory::Constant(number) => address(self.constants[number].buffer()).cast_mut(),
            Memory::Result(number) => self.results[number],
            Memory::Arena(offset) => self.arena.wrapping_add(offset),
            Memory::Tile => self.tile,
        }
    }

    /// The address of an element of an access.
    pub(super) fn at(&self, access: &Access, place: isize) -> *mut u8 {
        self.base(access.memory).wrapping_offset((access.offset + place) * access.dtype.bytes() as isize)
    }
}

/// The address of a buffer's first element.
pub(super) fn address(buffer: &Buffer) -> *const u8 {
    match buffer {
        Buffer::F32(elements) => elements.as_ptr().cast(),
        Buffer::F64(elements) => elements.as_ptr().cast(),
        Buffer::I64(elements) => elements.as_ptr().cast(),
        Buffer::Bool(elements) => elements.as_ptr().cast(),
        Buffer::F16(elements) => elements.as_ptr().cast(),
        Buffer::BF16(elements) => elements.as_ptr().cast(),
        Buffer::I32(elements) => elements.as_ptr().cast(),
        Buffer::U8(elements) => elements.as_ptr().cast(),
    }
}

pub(super) fn address_mut(buffer: &mut Buffer) -> *mut u8 {
    match buffer {
        Buffer::F32(elements) => elements.as_mut_ptr().cast(),
        Buffer::F64(elements) => elements.as_mut_ptr().cast(),
        Buffer::I64(elements) => elements.as_mut_ptr().cast(),
        Buffer::Bool(elements) => elements.as_mut_ptr().cast(),
        Buffer::F16(elements) => elements.as_mut_ptr().cast(),
        Buffer::BF16(elements) => elements.as_mut_ptr().cast(),
        Buffer::I32(elements) => elements.as_mut_ptr().cast(),
        Buffer::U8(elements) => elements.as_mut_ptr().cast(),
    }
}

pub(super) fn out_of_memory(error: OutOfMemory) -> Error {
    Error::new("read", error.to_string()).help(OutOfMemory::REMEDY)
}

/// Launches a plan in working memory that lists the addresses of its inputs and results.
///
/// # Safety
/// These addresses belong to arrays of the program's signatures, which stay where they are. Nobody writes to inputs meanwhile
/// but the program itself, where it overwrites them, and nobody else uses results.
pub(super) unsafe fn launch(
    plan: &Plan,
    workspace: &mut Workspace,
    workspaces: &Workspaces,
    origin: Origin<'_>,
) -> Result<(), Error> {
    let arena = workspace.try_reserve(plan.working_bytes()).map_err(out_of_memory)?;
    let scratch = arena.wrapping_add(memory::aligned(plan.program.arena));
    steps(plan, &workspace.inputs, &workspace.results, arena, scratch, workspaces, origin)
}

/// Runs all steps of a plan.
pub(super) unsafe fn steps(
    plan: &Plan,
    inputs: &[*const u8],
    results: &[*mut u8],
    arena: *mut u8,
    scratch: *mut u8,
    workspaces: &Workspaces,
    origin: Origin<'_>,
) -> Result<(), Error> {
    let frame = Frame::new(&plan.program, inputs, results, arena, workspaces);
    if !plan.collectives.is_empty() {
        return overlapped(plan, &frame, scratch, origin);
    }
    plan.planned_steps().try_for_each(|(step, plan)| self::step(step, plan, &frame, scratch, origin))
}

/// Runs all steps of a plan with collectives: they begin where they stand, and are finished before the first step that reads their
/// result, so that messages are made behind the computation.
unsafe fn overlapped(plan: &Plan, frame: &Frame<'_>, scratch: *mut u8, origin: Origin<'_>) -> Result<(), Error> {
    let mut begun: Vec<(usize, &Call, Ticket)> = Vec::with_capacity(plan.collectives.len());
    let mut collectives = plan.collectives.iter().peekable();
    // The end of the program needs all results.
    for number in 0..=plan.steps.len() {
        for (_, call, ticket) in begun.extract_if(.., |(first_use, ..)| *first_use <= number) {
            call::finish(ticket, call, frame).map_err(|error| error.at(origin(call.source)))?;
        }
        let Some(step) = plan.program.steps.get(number) else { break };
        match (step, collectives.next_if(|(own, _)| *own == number)) {
            (Step::Call(call), Some((_, first_use))) => {
                let CallKind::Collective(collective) = call.kind else {
                    unreachable!("step {number} is no collective")
                };
                let ticket = call::begin(collective, call, frame).map_err(|error| error.at(origin(call.source)))?;
                begun.push((*first_use, call, ticket));
            }
            (_, _) => self::step(step, &plan.steps[number], frame, scratch, origin)?,
        }
    }
    Ok(())
}

/// Runs one step.
#[inline]
pub(super) unsafe fn step(
    step: &Step,
    plan: &StepPlan,
    frame: &Frame<'_>,
    scratch: *mut u8,
    origin: Origin<'_>,
) -> Result<(), Error> {
    match (step, plan) {
        (Step::Loop(fused), StepPlan::Loop(plan)) => fused::run(PlannedLoop::new(fused, plan), frame, scratch),
        (Step::Contract(product), StepPlan::Contract(plan)) => contraction::run(product, plan, frame, scratch),
        (Step::Call(call), StepPlan::Call) => call::run(call, frame, origin)?,
        (Step::Scan(scan), StepPlan::Scan(body)) => self::scan(scan, body, frame, scratch, origin)?,
        (Step::ReverseScan(sweep), StepPlan::ReverseScan { advance, reverse }) => {
            reverse_scan::run(sweep, [advance, reverse], frame, scratch, origin)?;
        }
        _ => unreachable!("the plan of another step"),
    }
    Ok(())
}

/// The bytes of a result of the body of a loop that is stacked nowhere: nobody else reads it, but the body may.
fn unread_bytes(scan: &ScanLoop, number: usize) -> usize {
    if scan.outputs[number].is_some() { 0 } else { memory::aligned(bytes_of(&scan.body.results[number])) }
}

/// The bytes of the lists of addresses of a loop over time, and of places for results that are stacked nowhere.
pub(super) fn scan_bytes(scan: &ScanLoop) -> usize {
    let count = 2 * scan.inputs.len() + 2 * scan.carries + scan.body.results.len();
    let unread: usize = (scan.carries..scan.body.results.len()).map(|number| unread_bytes(scan, number)).sum();
    memory::aligned(count * size_of::<*mut u8>()) + unread
}

/// A list of addresses at the beginning of scratch memory, and the memory behind it.
unsafe fn addresses<'a>(count: usize, scratch: &mut *mut u8) -> &'a mut [*mut u8] {
    let list = elements_mut(*scratch, count);
    *scratch = scratch.wrapping_add(count * size_of::<*mut u8>());
    list
}

/// A loop over time: carries go to and fro between two places, entries and results move along.
unsafe fn scan(
    scan: &ScanLoop,
    plan: &Plan,
    frame: &Frame<'_>,
    scratch: *mut u8,
    origin: Origin<'_>,
) -> Result<(), Error> {
    let body = &scan.body;
    let arena = frame.base(scan.scratch);
    // Lists of addresses, places for what is stacked nowhere, and the scratch memory of the body lie one behind another.
    let mut rest = scratch;
    let given = addresses(scan.inputs.len(), &mut rest);
    let inputs = addresses(scan.inputs.len(), &mut rest);
    let homes = [addresses(scan.carries, &mut rest), addresses(scan.carries, &mut rest)];
    let results = addresses(body.results.len(), &mut rest);
    let mut unread = scratch.wrapping_add(memory::aligned(rest as usize - scratch as usize));
    let scratch = scratch.wrapping_add(scan_bytes(scan));
    let mut next = arena.wrapping_add(memory::aligned(body.arena));
    for (carry, result) in body.results[..scan.carries].iter().enumerate() {
        let size = memory::aligned(bytes_of(result));
        homes[0][carry] = next;
        homes[1][carry] = next.wrapping_add(size);
        next = next.wrapping_add(2 * size);
    }
    let copy = |from: *const u8, to: *mut u8, bytes: usize| {
        // SAFETY: carries have memory of their own, of their size, in the scratch memory of the loop.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    };
    for (given, access) in given.iter_mut().zip(&scan.inputs) {
        *given = frame.at(access, 0);
    }
    for carry in 0..scan.carries {
        copy(given[carry], homes[0][carry], bytes_of(&body.inputs[carry]));
    }
    inputs.copy_from_slice(given);
    for (number, result) in results.iter_mut().enumerate().skip(scan.carries) {
        *result = unread;
        unread = unread.wrapping_add(unread_bytes(scan, number));
    }
    for step in 0..scan.length {
        let entry = if scan.reversed { scan.length - 1 - step } else { step };
        inputs[..scan.carries].copy_from_slice(homes[step % 2]);
        results[..scan.carries].copy_from_slice(homes[(step + 1) % 2]);
        for sequence in scan.carries..scan.carries + scan.sequences {
            let access = &scan.inputs[sequence];
            let apart = access.strides.first().map_or(0, |stride| *stride) * access.dtype.bytes() as isize;
            inputs[sequence] = given[sequence].wrapping_offset(entry as isize * apart);
        }
        for number in scan.carries..body.results.len() {
            if let Some(access) = &scan.outputs[number] {
                results[number] = frame.at(access, 0).wrapping_add(entry * bytes_of(&body.results[number]));
            }
        }
        let inputs = elements(inputs.as_ptr().cast(), inputs.len());
        steps(plan, inputs, results, arena, scratch, frame.workspaces, origin)?;
    }
    for (carry, home) in homes[scan.length % 2].iter().enumerate() {
        if let Some(access) = &scan.outputs[carry] {
            copy(*home, frame.at(access, 0), bytes_of(&body.results[carry]));
        }
    }
    Ok(())
}
