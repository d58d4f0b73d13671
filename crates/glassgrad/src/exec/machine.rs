//! The machine: runs the steps of a program over memory that the planner laid out.
//!
//! This is where unsafe code lives: steps address memory by pointer and stride. What makes it sound is the
//! planner's: every access of a step lies inside the memory it names, values that live at the same time do not
//! share places, and what a step writes it does not read, but for the same elements at the same places.
#![allow(unsafe_code)]

use std::panic::Location;

use smallvec::SmallVec;

use super::level::Level;
use super::{fused, product, reference, sweep, whole};
use crate::array::{Array, Buffer, buffer};
use crate::dtype::DType;
use crate::error::Error;
use crate::opt::memory;
use crate::opt::program::{Access, Call, Memory, Program, Repeat, Step};
use crate::shape::Shape;

/// Where the memories of a program begin while it runs.
pub(super) struct Frame<'f> {
    inputs: &'f [*const u8],
    constants: &'f [Array],
    results: &'f [*mut u8],
    arena: *mut u8,
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

/// Copies elements to an address. A loop may write over what it has read, at the same places.
pub(super) fn copy<E: Copy>(from: &[E], to: *mut u8) {
    // SAFETY: the planner gave the step this many elements at both places; they may be the same.
    unsafe { std::ptr::copy(from.as_ptr(), to.cast::<E>(), from.len()) };
}

impl<'f> Frame<'f> {
    pub(super) fn new(
        program: &'f Program,
        inputs: &'f [*const u8],
        results: &'f [*mut u8],
        arena: *mut u8,
    ) -> Frame<'f> {
        Frame { inputs, constants: &program.constants, results, arena, level: Level::current() }
    }

    pub(super) fn base(&self, memory: Memory) -> *mut u8 {
        match memory {
            Memory::Input(number) => self.inputs[number].cast_mut(),
            Memory::Constant(number) => address(self.constants[number].buffer()).cast_mut(),
            Memory::Result(number) => self.results[number],
            Memory::Arena(offset) => self.arena.wrapping_add(offset),
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
}

/// As many bytes as the alignment, aligned so.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; memory::ALIGNMENT]);

impl Workspace {
    /// Memory for the arena, followed by that for registers.
    pub(super) fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(memory::ALIGNMENT);
        if self.lines.len() < lines {
            // No more than is needed, and nothing of what was there is.
            self.lines = Vec::with_capacity(lines);
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
        Step::Repeat(repeat) => scratch_bytes(&repeat.body),
        Step::Sweep(sweep) => scratch_bytes(&sweep.advance).max(scratch_bytes(&sweep.reverse)),
        Step::Call(_) => 0,
    };
    program.steps.iter().map(needed).max().unwrap_or(0)
}

/// The address of an element of an array.
pub(crate) fn part(array: &Array, start: usize) -> *const u8 {
    address(array.buffer()).wrapping_add(start * array.dtype().bytes())
}

/// What a program makes; results that lie in an input are not there.
pub(crate) type Results = SmallVec<[Option<Array>; 4]>;

/// Runs a program over inputs, some of which it may write to. Those results that lie in an input are not made.
/// `origin` tells the user's line of a node that fails.
pub(super) fn run(
    program: &Program,
    inputs: &[*const u8],
    lies_in_an_input: impl Fn(usize) -> bool,
    workspace: &mut Workspace,
    origin: &dyn Fn(usize) -> &'static Location<'static>,
) -> Result<Results, Error> {
    let mut results = Results::new();
    let mut addresses: SmallVec<[*mut u8; 16]> = SmallVec::new();
    for (number, (shape, dtype)) in program.results.iter().enumerate() {
        // Every element of a result is written.
        let made = (!lies_in_an_input(number)).then(|| buffer(*dtype, shape.elements()));
        let mut made = made.map(|buffer| Array::new(shape.clone(), buffer));
        addresses.push(made.as_mut().map_or(std::ptr::null_mut(), |array| address_mut(array.buffer_mut())));
        results.push(made);
    }
    let arena_bytes = memory::aligned(program.arena);
    let arena = workspace.reserve(arena_bytes + scratch_bytes(program));
    steps(program, inputs, &addresses, arena, arena.wrapping_add(arena_bytes), origin)?;
    Ok(results)
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

/// A loop over time: carries go to and fro between two places, entries and results move along.
fn repeat(
    repeat: &Repeat,
    frame: &Frame<'_>,
    scratch: *mut u8,
    origin: &dyn Fn(usize) -> &'static Location<'static>,
) -> Result<(), Error> {
    let body = &repeat.body;
    let arena = frame.base(repeat.scratch);
    let bytes_of = |(shape, dtype): &(Shape, DType)| shape.elements() * dtype.bytes();
    let mut next = arena.wrapping_add(memory::aligned(body.arena));
    let mut homes: Vec<[*mut u8; 2]> = Vec::new();
    for result in &body.results[..repeat.carries] {
        let size = memory::aligned(bytes_of(result));
        homes.push([next, next.wrapping_add(size)]);
        next = next.wrapping_add(2 * size);
    }
    let copy = |from: *const u8, to: *mut u8, bytes: usize| {
        // SAFETY: carries have memory of their own, of their size, in the scratch memory of the loop.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    };
    let given: Vec<*const u8> = repeat.inputs.iter().map(|access| frame.at(access, 0).cast_const()).collect();
    for (carry, [home, _]) in homes.iter().enumerate() {
        copy(given[carry], *home, bytes_of(&body.inputs[carry]));
    }
    let mut inputs = given.clone();
    // A result that nobody reads goes nowhere in particular, but somewhere.
    let mut unread: Vec<Buffer> = body.results[repeat.carries..]
        .iter()
        .zip(&repeat.outputs[repeat.carries..])
        .map(|((shape, dtype), output)| Buffer::zeros(*dtype, if output.is_some() { 0 } else { shape.elements() }))
        .collect();
    let mut results: Vec<*mut u8> = vec![std::ptr::null_mut(); body.results.len()];
    for step in 0..repeat.length {
        let entry = if repeat.reversed { repeat.length - 1 - step } else { step };
        for (carry, home) in homes.iter().enumerate() {
            inputs[carry] = home[step % 2];
            results[carry] = home[(step + 1) % 2];
        }
        for sequence in repeat.carries..repeat.carries + repeat.sequences {
            let access = &repeat.inputs[sequence];
            let apart = access.strides.first().map_or(0, |stride| *stride) * access.dtype.bytes() as isize;
            inputs[sequence] = given[sequence].wrapping_offset(entry as isize * apart);
        }
        for (number, unread) in (repeat.carries..).zip(&mut unread) {
            results[number] = match &repeat.outputs[number] {
                Some(access) => frame.at(access, 0).wrapping_add(entry * bytes_of(&body.results[number])),
                None => address_mut(unread),
            };
        }
        steps(body, &inputs, &results, arena, scratch, origin)?;
    }
    for (carry, home) in homes.iter().enumerate() {
        if let Some(access) = &repeat.outputs[carry] {
            copy(home[repeat.length % 2], frame.at(access, 0), bytes_of(&body.results[carry]));
        }
    }
    Ok(())
}
