//! The machine: runs the steps of a program over memory that the planner laid out.
//!
//! This is where unsafe code lives: steps address memory by pointer and stride. What makes it sound is the
//! planner's: every access of a step lies inside the memory it names, values that live at the same time do not
//! share places, and what a step writes it does not read, but for the same elements at the same places. Such a loop
//! computes into registers, and copies them when it has read: no kernel ever has one address to read from and to write to.
#![allow(unsafe_code)]

use std::panic::Location;

use super::level::Level;
use super::{fused, product, reference, sweep, whole};
use crate::array::{Array, Buffer, OutOfMemory, buffer};
use crate::error::Error;
use crate::opt::memory;
use crate::opt::program::{Access, Call, Memory, Program, Repeat, Signature, Step};
use crate::shape::Shape;

/// Where the memories of a program begin while it runs.
pub(super) struct Frame<'f> {
    inputs: &'f [*const u8],
    constants: &'f [Array],
    results: &'f [*mut u8],
    arena: *mut u8,
    /// The piece of a product that a loop goes on with.
    piece: *mut u8,
    /// The level of instructions of every kernel that runs here.
    pub(super) level: Level,
}

/// Elements at an address.
pub(super) fn elements<'a, E>(at: *const u8, count: usize) -> &'a [E] {
    // SAFETY: the planner gave the step this many elements of this type here, aligned, and nobody writes
    // to them while the step reads.
    unsafe { std::slice::from_raw_parts(at.cast::<E>(), count) }
}

/// Elements at an address, to be written.
pub(super) fn elements_mut<'a, E>(at: *mut u8, count: usize) -> &'a mut [E] {
    // SAFETY: as above, and the step alone writes to them.
    unsafe { std::slice::from_raw_parts_mut(at.cast::<E>(), count) }
}

/// Copies elements to an address, apart from where they lie. A loop that writes over what it reads computes in registers in
/// between, and nothing that it stores as it was read goes back to the same place.
#[inline(always)]
pub(super) fn copy<E: Copy>(from: &[E], to: *mut u8) {
    /// As long as this a call costs more than the copy itself.
    const SHORT: usize = 32;
    if from.len() < SHORT {
        let (from, rest) = from.as_chunks::<8>();
        let mut to = to.cast::<E>();
        // SAFETY: as below, some elements at a time.
        unsafe {
            for some in from {
                to.cast::<[E; 8]>().write_unaligned(*some);
                to = to.wrapping_add(8);
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
    ) -> Frame<'f> {
        Frame {
            inputs,
            constants: &program.constants,
            results,
            arena,
            piece: std::ptr::null_mut(),
            level: Level::current(),
        }
    }

    /// The same with a piece of a product.
    pub(super) fn with_piece(&self, piece: *mut u8) -> Frame<'f> {
        Frame { piece, ..*self }
    }

    pub(super) fn base(&self, memory: Memory) -> *mut u8 {
        match memory {
            Memory::Input(number) => self.inputs[number].cast_mut(),
            Memory::Constant(number) => address(self.constants[number].buffer()).cast_mut(),
            Memory::Result(number) => self.results[number],
            Memory::Arena(offset) => self.arena.wrapping_add(offset),
            Memory::Piece => self.piece,
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
    }
}

pub(crate) fn address_mut(buffer: &mut Buffer) -> *mut u8 {
    match buffer {
        Buffer::F32(elements) => elements.as_mut_ptr().cast(),
        Buffer::F64(elements) => elements.as_mut_ptr().cast(),
        Buffer::I64(elements) => elements.as_mut_ptr().cast(),
        Buffer::Bool(elements) => elements.as_mut_ptr().cast(),
    }
}

/// Memory that one run of a program needs besides inputs and results; it can be used again.
#[derive(Default)]
pub(super) struct Workspace {
    /// Lines of the alignment of the planner.
    lines: Vec<Line>,
    /// The addresses of results while a program runs.
    results: Vec<*mut u8>,
}

/// As many bytes as the alignment, aligned so.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; memory::ALIGNMENT]);

fn out_of_memory(error: OutOfMemory) -> Error {
    Error::new("read", error.to_string()).help(OutOfMemory::REMEDY)
}

impl Workspace {
    /// [`Workspace::reserve`], or an error if there is no memory.
    fn try_reserve(&mut self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        if self.lines.len() * memory::ALIGNMENT < bytes {
            OutOfMemory::check_bytes(bytes as u128)?;
        }
        Ok(self.reserve(bytes))
    }

    /// Memory for the arena, followed by that for registers.
    pub(super) fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(memory::ALIGNMENT);
        if self.lines.len() < lines {
            // No more than is needed; nothing of what was there is, and it goes first.
            self.lines = Vec::new();
            self.lines.reserve_exact(lines);
            self.lines.resize(lines, Line([0; memory::ALIGNMENT]));
        }
        self.lines.as_mut_ptr().cast()
    }
}

/// The bytes of scratch memory that the loops of a program need.
pub(super) fn scratch_bytes(program: &Program) -> usize {
    let needed = |step: &Step| match step {
        Step::Loop(one) => fused::scratch_bytes(one),
        Step::Product(one) => product::scratch_bytes(one),
        Step::Repeat(repeat) => repeat_bytes(repeat) + scratch_bytes(&repeat.body),
        Step::Sweep(sweep) => scratch_bytes(&sweep.advance).max(scratch_bytes(&sweep.reverse)),
        Step::Call(_) => 0,
    };
    program.steps.iter().map(needed).max().unwrap_or(0)
}

/// The address of an element of an array.
pub(crate) fn part(array: &Array, start: usize) -> *const u8 {
    address(array.buffer()).wrapping_add(start * array.dtype().bytes())
}

/// What a program makes; results that have a place already are not there.
pub(crate) type Results = Vec<Option<Array>>;

/// Runs a program over inputs, some of which it may write to. `place` tells where a result is to be written if there is a
/// place for it already (nowhere at all, if it lies in an input); the others are made, and put into a list, which is empty
/// before. `origin` tells the user's line of a node that fails.
pub(super) fn run(
    program: &Program,
    inputs: &[*const u8],
    mut place: impl FnMut(usize) -> Option<*mut u8>,
    results: &mut Results,
    workspace: &mut Workspace,
    origin: &dyn Fn(usize) -> &'static Location<'static>,
) -> Result<(), Error> {
    workspace.results.clear();
    for (number, (shape, dtype)) in program.results.iter().enumerate() {
        // Every element of a result is written.
        let make = || buffer(*dtype, shape.elements()).map(|buffer| Array::new(shape.clone(), buffer));
        let (address, made) = match place(number) {
            Some(address) => (address, None),
            None => {
                let mut made = make().map_err(out_of_memory)?;
                (address_mut(made.buffer_mut()), Some(made))
            }
        };
        workspace.results.push(address);
        results.push(made);
    }
    let arena_bytes = memory::aligned(program.arena);
    let arena = workspace.try_reserve(arena_bytes + scratch_bytes(program)).map_err(out_of_memory)?;
    steps(program, inputs, &workspace.results, arena, arena.wrapping_add(arena_bytes), origin)
}

pub(super) fn steps(
    program: &Program,
    inputs: &[*const u8],
    results: &[*mut u8],
    arena: *mut u8,
    scratch: *mut u8,
    origin: &dyn Fn(usize) -> &'static Location<'static>,
) -> Result<(), Error> {
    let frame = Frame::new(program, inputs, results, arena);
    program.steps.iter().try_for_each(|one| step(one, &frame, scratch, origin))
}

/// Runs one step.
#[inline]
pub(super) fn step(
    step: &Step,
    frame: &Frame<'_>,
    scratch: *mut u8,
    origin: &dyn Fn(usize) -> &'static Location<'static>,
) -> Result<(), Error> {
    match step {
        Step::Loop(one) => fused::run(one, frame, scratch),
        Step::Product(one) => product::run(one, frame, scratch),
        Step::Call(one) => call(one, frame, origin)?,
        Step::Repeat(one) => repeat(one, frame, scratch, origin)?,
        Step::Sweep(one) => sweep::run(one, frame, scratch, origin)?,
    }
    Ok(())
}

/// An operation on whole arrays: those that only move elements where they lie, others by the reference.
fn call(call: &Call, frame: &Frame<'_>, origin: &dyn Fn(usize) -> &'static Location<'static>) -> Result<(), Error> {
    if let Some(done) = whole::run(call, frame) {
        return done.map_err(|error| error.at(origin(call.source)));
    }
    let array = |(access, shape): &(Access, Shape)| {
        let mut buffer = Buffer::zeros(access.dtype, shape.elements());
        let bytes = shape.elements() * access.dtype.bytes();
        // SAFETY: both sides hold the elements of the shape, in memory of their own.
        unsafe { std::ptr::copy_nonoverlapping(frame.at(access, 0), address_mut(&mut buffer), bytes) };
        Array::new(shape.clone(), buffer)
    };
    let inputs: Vec<Array> = call.inputs.iter().map(array).collect();
    let (access, shape) = &call.output;
    let task = reference::Task { op: &call.op, shape, dtype: access.dtype, origin: origin(call.source) };
    let value = reference::perform(&task, &inputs)?;
    let bytes = shape.elements() * access.dtype.bytes();
    // SAFETY: the operation made the elements of this shape and type.
    unsafe { std::ptr::copy_nonoverlapping(address(value.buffer()), frame.at(access, 0), bytes) };
    Ok(())
}

fn bytes_of((shape, dtype): &Signature) -> usize {
    shape.elements() * dtype.bytes()
}

/// The bytes of a result of the body of a loop that is stacked nowhere: nobody else reads it, but the body may.
fn unread_bytes(repeat: &Repeat, number: usize) -> usize {
    if repeat.outputs[number].is_some() { 0 } else { memory::aligned(bytes_of(&repeat.body.results[number])) }
}

/// The bytes of the lists of addresses of a loop over time, and of places for results that are stacked nowhere.
fn repeat_bytes(repeat: &Repeat) -> usize {
    let count = 2 * repeat.inputs.len() + 2 * repeat.carries + repeat.body.results.len();
    let unread: usize = (repeat.carries..repeat.body.results.len()).map(|number| unread_bytes(repeat, number)).sum();
    memory::aligned(count * size_of::<*mut u8>()) + unread
}

/// A list of addresses at the beginning of scratch memory, and the memory behind it.
fn addresses<'a>(count: usize, scratch: &mut *mut u8) -> &'a mut [*mut u8] {
    let list = elements_mut(*scratch, count);
    *scratch = scratch.wrapping_add(count * size_of::<*mut u8>());
    list
}

/// A loop over time: carries go to and fro between two places, entries and results move along.
fn repeat(
    repeat: &Repeat,
    frame: &Frame<'_>,
    scratch: *mut u8,
    origin: &dyn Fn(usize) -> &'static Location<'static>,
) -> Result<(), Error> {
    let body = &repeat.body;
    let arena = frame.base(repeat.scratch);
    // Lists of addresses, places for what is stacked nowhere, and the scratch memory of the body lie one behind another.
    let mut rest = scratch;
    let given = addresses(repeat.inputs.len(), &mut rest);
    let inputs = addresses(repeat.inputs.len(), &mut rest);
    let homes = [addresses(repeat.carries, &mut rest), addresses(repeat.carries, &mut rest)];
    let results = addresses(body.results.len(), &mut rest);
    let mut unread = scratch.wrapping_add(memory::aligned(rest as usize - scratch as usize));
    let scratch = scratch.wrapping_add(repeat_bytes(repeat));
    let mut next = arena.wrapping_add(memory::aligned(body.arena));
    for (carry, result) in body.results[..repeat.carries].iter().enumerate() {
        let size = memory::aligned(bytes_of(result));
        homes[0][carry] = next;
        homes[1][carry] = next.wrapping_add(size);
        next = next.wrapping_add(2 * size);
    }
    let copy = |from: *const u8, to: *mut u8, bytes: usize| {
        // SAFETY: carries have memory of their own, of their size, in the scratch memory of the loop.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    };
    for (given, access) in given.iter_mut().zip(&repeat.inputs) {
        *given = frame.at(access, 0);
    }
    for carry in 0..repeat.carries {
        copy(given[carry], homes[0][carry], bytes_of(&body.inputs[carry]));
    }
    inputs.copy_from_slice(given);
    for (number, result) in results.iter_mut().enumerate().skip(repeat.carries) {
        *result = unread;
        unread = unread.wrapping_add(unread_bytes(repeat, number));
    }
    for step in 0..repeat.length {
        let entry = if repeat.reversed { repeat.length - 1 - step } else { step };
        inputs[..repeat.carries].copy_from_slice(homes[step % 2]);
        results[..repeat.carries].copy_from_slice(homes[(step + 1) % 2]);
        for sequence in repeat.carries..repeat.carries + repeat.sequences {
            let access = &repeat.inputs[sequence];
            let apart = access.strides.first().map_or(0, |stride| *stride) * access.dtype.bytes() as isize;
            inputs[sequence] = given[sequence].wrapping_offset(entry as isize * apart);
        }
        for number in repeat.carries..body.results.len() {
            if let Some(access) = &repeat.outputs[number] {
                results[number] = frame.at(access, 0).wrapping_add(entry * bytes_of(&body.results[number]));
            }
        }
        let inputs = elements(inputs.as_ptr().cast(), inputs.len());
        steps(body, inputs, results, arena, scratch, origin)?;
    }
    for (carry, home) in homes[repeat.length % 2].iter().enumerate() {
        if let Some(access) = &repeat.outputs[carry] {
            copy(*home, frame.at(access, 0), bytes_of(&body.results[carry]));
        }
    }
    Ok(())
}
