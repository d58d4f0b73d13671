//! Runs plans: addresses of memory are filled in, kernels are launched one after another.

use std::ops::Range;
use std::panic::Location;
use std::time::Instant;

use smallvec::SmallVec;

use super::bytes::bytes_of_buffer;
use super::device::{Address, Device, Loaded};
use super::lanes;
use super::plan::{Action, Actions, Argument, Chained};
use crate::array::{Array, Buffer};
use crate::error::Error;
use crate::memory::aligned;
use crate::program::{Access, Call, CallKind, Memory, Program, ReverseScan, ScanLoop, Signature, Step, bytes_of};
use crate::reference::perform_call;
use crate::revolve;
use crate::shape::Shape;
use crate::{Timed, Times, host};

/// The bytes in which a call reports an index: its place plus one, and the index.
pub(super) const REPORT: usize = 16;

/// What a run works with besides the memory of its program.
pub(super) struct Machine<'m> {
    pub(super) device: &'m dyn Device,
    pub(super) kernels: &'m dyn Loaded,
    pub(super) constants: &'m [Address],
    pub(super) scratch: Address,
    pub(super) unread: Address,
    pub(super) reports: Address,
    pub(super) origins: &'m [&'static Location<'static>],
    /// Whether steps are timed: the device is waited for after each.
    pub(super) is_timed: bool,
    pub(super) report_bytes: usize,
}

/// The memory of a program.
struct Frame<'f> {
    inputs: &'f [Address],
    results: &'f [Address],
    arena: Address,
    first_constant: usize,
    /// The scratch memory of each step, if the steps have their own.
    scratch: &'f [Range<usize>],
    /// The beginning of the scratch memory of the current step.
    tile: Address,
}

fn failed(message: String) -> Error {
    Error::new("cuda", message)
}

impl Machine<'_> {
    fn base(&self, frame: &Frame<'_>, memory: Memory) -> Address {
        match memory {
            Memory::Input(number) => frame.inputs[number],
            Memory::Constant(number) => self.constants[frame.first_constant + number],
            Memory::Result(number) => frame.results[number],
            Memory::Arena(byte) => frame.arena + byte as Address,
            Memory::Tile => frame.tile,
        }
    }

    fn argument(&self, frame: &Frame<'_>, argument: Argument) -> Address {
        match argument {
            Argument::Memory(memory) => self.base(frame, memory),
            Argument::Scratch(step) => self.scratch + frame.scratch[step].start as Address,
            Argument::Report(number) => self.reports + (number * REPORT) as Address,
        }
    }

    fn at(&self, frame: &Frame<'_>, access: &Access) -> Address {
        self.base(frame, access.memory).wrapping_add_signed((access.offset * access.dtype.bytes() as isize) as i64)
    }

    /// Starts a whole program, with nothing reported.
    pub(super) fn begin(
        &self,
        program: &Program,
        actions: &Actions,
        memory: (&[Address], &[Address], Address),
    ) -> Result<Times, Error> {
        self.device.clear(self.reports, self.report_bytes).map_err(failed)?;
        self.run(program, actions, memory, self.scratch)
    }

    /// Starts a whole program in a recording, with steps that are independent of each other side by side.
    pub(super) fn begin_on_lanes(
        &self,
        program: &Program,
        actions: &Actions,
        (inputs, results, arena): (&[Address], &[Address], Address),
    ) -> Result<(), Error> {
        let lanes = self.device.lanes();
        if lanes == 1 {
            return self.begin(program, actions, (inputs, results, arena)).map(drop);
        }
        let units = lanes::units(program, actions);
        let resolved = lanes::Resolved { program, inputs, results, arena, scratch: self.scratch };
        let placed = lanes::place(&resolved.dependencies(&units), lanes);
        self.device.clear(self.reports, self.report_bytes).map_err(failed)?;
        let start = self.device.mark().map_err(failed)?;
        let mut marks = Vec::with_capacity(units.len());
        let mut is_used = vec![false; lanes];
        let started = units.iter().zip(&placed).try_for_each(|(unit, own)| {
            self.device.enter_lane(own.lane)?;
            if !std::mem::replace(&mut is_used[own.lane], true) {
                self.device.wait_for(&start)?;
            }
            own.waits.iter().try_for_each(|earlier| self.device.wait_for(&marks[*earlier]))?;
            for step in unit.steps.clone() {
                let frame = self.frame(actions, (inputs, results, arena), step, self.scratch);
                let own = unit.actions.clone().unwrap_or(0..actions.steps[step].len());
                self.step(program, &actions.steps[step][own], &frame, step).map_err(|error| error.to_string())?;
            }
            marks.push(self.device.mark()?);
            Ok(())
        });
        // The recording ends where it began, after everything else.
        self.device.enter_lane(0).map_err(failed)?;
        started.map_err(failed)?;
        let last = |lane: usize| placed.iter().rposition(|own| own.lane == lane);
        (1..lanes).filter_map(last).try_for_each(|unit| self.device.wait_for(&marks[unit])).map_err(failed)
    }

    fn frame<'f>(
        &self,
        actions: &'f Actions,
        (inputs, results, arena): (&'f [Address], &'f [Address], Address),
        step: usize,
        tile: Address,
    ) -> Frame<'f> {
        let own = actions.scratch.get(step).map_or(0, |bytes| bytes.start);
        let (first_constant, scratch) = (actions.first_constant, &actions.scratch[..]);
        Frame { inputs, results, arena, first_constant, scratch, tile: tile + own as Address }
    }

    /// Starts actions of a step; returns the times of what is inside of it.
    fn step(&self, program: &Program, actions: &[Action], frame: &Frame<'_>, step: usize) -> Result<Vec<Times>, Error> {
        let mut inside = Vec::new();
        for action in actions {
            self.act(program, frame, &program.steps[step], action, &mut inside)?;
        }
        Ok(inside)
    }

    /// Starts a program, perhaps one inside of another, whose scratch memory begins here.
    fn run(
        &self,
        program: &Program,
        actions: &Actions,
        memory: (&[Address], &[Address], Address),
        tile: Address,
    ) -> Result<Times, Error> {
        let mut times = Times::new();
        for step in 0..program.steps.len() {
            let started = Instant::now();
            let begin = if self.is_timed { self.device.time().map_err(failed)? } else { None };
            let inside = self.step(program, &actions.steps[step], &self.frame(actions, memory, step, tile), step)?;
            if self.is_timed {
                let end = self.device.time().map_err(failed)?;
                let seconds = match (begin, end) {
                    // By events, without the time of launches and waits.
                    (Some(begin), Some(end)) => self.device.seconds_between(begin, end).map_err(failed)?,
                    _ => {
                        self.device.synchronise().map_err(failed)?;
                        started.elapsed().as_secs_f64()
                    }
                };
                times.push(Timed { seconds, inside });
            }
        }
        Ok(times)
    }

    fn act(
        &self,
        program: &Program,
        frame: &Frame<'_>,
        step: &Step,
        action: &Action,
        inside: &mut Vec<Times>,
    ) -> Result<(), Error> {
        match (action, step) {
            (Action::Launch { kernel, grid, threads, memories, report }, _) => {
                let mut arguments: SmallVec<[Address; 16]> =
                    memories.iter().map(|memory| self.base(frame, *memory)).collect();
                arguments.extend(report.map(|number| self.reports + (number * REPORT) as Address));
                self.kernels.launch(*kernel, *grid, *threads, &arguments).map_err(failed)
            }
            (Action::Chain(Chained { kernel, blocks, threads, arguments }), _) => {
                let arguments: SmallVec<[Address; 64]> =
                    arguments.iter().map(|argument| self.argument(frame, *argument)).collect();
                self.kernels.launch(*kernel, [*blocks, 1, 1], *threads, &arguments).map_err(failed)
            }
            (Action::Joined, _) => Ok(()),
            (Action::Multiply { product, memories }, _) => {
                let places = memories.map(|memory| self.base(frame, memory));
                self.device.multiply(product, places).map_err(failed)
            }
            (Action::Convolve { convolution, memories }, _) => {
                let places = memories.map(|memory| self.base(frame, memory));
                self.device.convolve(convolution, places).map_err(failed)
            }
            (Action::Clear { memory, bytes }, _) => {
                self.device.clear(self.base(frame, *memory), *bytes).map_err(failed)
            }
            (Action::Host, Step::Call(call)) => self.host(frame, call),
            (Action::Scan { body, unread, looped }, Step::Scan(scan)) => {
                inside.push(self.scan(frame, scan, (body, looped.as_ref()), *unread)?);
                Ok(())
            }
            (Action::ReverseScan { advance, reverse, unread, .. }, Step::ReverseScan(sweep)) => {
                inside.extend(self.reverse_scan(frame, sweep, [advance, reverse], *unread)?);
                Ok(())
            }
            _ => unreachable!("an action of another step, among the {} of a program", program.steps.len()),
        }
    }

    /// An array of the device in host memory.
    fn downloaded(&self, frame: &Frame<'_>, (access, shape): &(Access, Shape)) -> Result<Array, Error> {
        let mut bytes = vec![0; shape.elements() * access.dtype.bytes()];
        self.device.read(self.at(frame, access), &mut bytes).map_err(failed)?;
        Ok(Array::new(shape.clone(), Buffer::from_bytes(access.dtype, &bytes)))
    }

    /// A call on the host, on copies of its operands.
    fn host(&self, frame: &Frame<'_>, call: &Call) -> Result<(), Error> {
        let origin = self.origins[call.source];
        let inputs = call.inputs.iter().map(|input| self.downloaded(frame, input)).collect::<Result<Vec<_>, _>>()?;
        let (access, shape) = call.output();
        let made = match &call.kind {
            CallKind::Host(custom) => host::call(custom, &inputs, (shape, access.dtype), origin)?,
            _ => perform_call(call, &inputs, origin)?,
        };
        self.device.write(self.at(frame, access), &bytes_of_buffer(made.buffer())).map_err(failed)
    }

    fn copy_all(&self, kinds: &[Signature], from: &[Address], to: &[Address]) -> Result<(), Error> {
        for ((kind, from), to) in kinds.iter().zip(from).zip(to) {
            self.device.copy(*to, *from, bytes_of(kind)).map_err(failed)?;
        }
        Ok(())
    }

    fn scan(
        &self,
        frame: &Frame<'_>,
        scan: &ScanLoop,
        (plan, looped): (&Actions, Option<&Chained>),
        unread: usize,
    ) -> Result<Times, Error> {
        let ScanLoop { body, carries, sequences, length, .. } = scan;
        let arena = self.base(frame, scan.scratch);
        let mut places = Places(arena + aligned(body.arena) as Address);
        let mut homes = [Vec::new(), Vec::new()];
        for carry in &body.results[..*carries] {
            homes.iter_mut().for_each(|home| home.push(places.next(carry)));
        }
        let given: Vec<Address> = scan.inputs.iter().map(|access| self.at(frame, access)).collect();
        self.copy_all(&body.inputs[..*carries], &given, &homes[0])?;
        let (mut inputs, mut results) = (given.clone(), self.unread_places(body, *carries, &scan.outputs, unread));
        // The addresses of an iteration; beyond the last one they are only computed.
        let enter = |inputs: &mut [Address], results: &mut [Address], step: usize| {
            let entry = if scan.reversed { *length as i64 - 1 - step as i64 } else { step as i64 };
            inputs[..*carries].copy_from_slice(&homes[step % 2]);
            results[..*carries].copy_from_slice(&homes[(step + 1) % 2]);
            for sequence in *carries..carries + sequences {
                let access = &scan.inputs[sequence];
                let apart = access.strides.first().copied().unwrap_or(0) * access.dtype.bytes() as isize;
                inputs[sequence] = given[sequence].wrapping_add_signed(entry * apart as i64);
            }
            for (number, output) in scan.outputs.iter().enumerate().skip(*carries) {
                if let Some(access) = output {
                    let moved = entry * bytes_of(&body.results[number]) as i64;
                    results[number] = self.at(frame, access).wrapping_add_signed(moved);
                }
            }
        };
        let mut times = Times::new();
        // Where steps are timed, those of the body are too.
        match looped.filter(|_| !self.is_timed) {
            Some(Chained { kernel, blocks, threads, arguments }) => {
                let mut addresses: [Vec<Address>; 3] = Default::default();
                for (step, own) in addresses.iter_mut().enumerate() {
                    enter(&mut inputs, &mut results, step);
                    let body_frame = self.frame(plan, (&inputs, &results, arena), 0, frame.tile);
                    own.extend(arguments.iter().map(|argument| self.argument(&body_frame, *argument)));
                }
                // Addresses are linear in the iteration, but for carries, which alternate between two.
                let given = (0..arguments.len()).flat_map(|k| {
                    let [even, odd, next] = [addresses[0][k], addresses[1][k], addresses[2][k]];
                    let apart = (next.wrapping_sub(even) as i64) / 2;
                    [even, odd.wrapping_add_signed(-apart), apart as Address]
                });
                let given: SmallVec<[Address; 64]> = given.collect();
                self.kernels.launch(*kernel, [*blocks, 1, 1], *threads, &given).map_err(failed)?;
            }
            None => {
                for step in 0..*length {
                    enter(&mut inputs, &mut results, step);
                    times = self.run(body, plan, (&inputs, &results, arena), frame.tile)?;
                }
            }
        }
        for (carry, output) in scan.outputs[..*carries].iter().enumerate() {
            if let Some(access) = output {
                let bytes = bytes_of(&body.results[carry]);
                self.device.copy(self.at(frame, access), homes[length % 2][carry], bytes).map_err(failed)?;
            }
        }
        Ok(times)
    }

    /// Where the stacked results go that nothing reads; the others are filled in for each iteration.
    fn unread_places(&self, body: &Program, carries: usize, outputs: &[Option<Access>], unread: usize) -> Vec<Address> {
        let mut places = Places(self.unread + unread as Address);
        let mut results = vec![0; body.results.len()];
        for (number, output) in outputs.iter().enumerate().skip(carries) {
            if output.is_none() {
                results[number] = places.next(&body.results[number]);
            }
        }
        results
    }

    fn reverse_scan(
        &self,
        frame: &Frame<'_>,
        sweep: &ReverseScan,
        [advance_plan, reverse_plan]: [&Actions; 2],
        unread: usize,
    ) -> Result<[Times; 2], Error> {
        let ReverseScan { advance, reverse, states, carries, sequences, .. } = sweep;
        let arena = self.base(frame, sweep.scratch);
        let (kinds, back_kinds) = (&advance.results[..], &reverse.results[..*carries]);
        let mut places = Places(arena + aligned(advance.arena.max(reverse.arena)) as Address);
        let homes = [places.all(kinds), places.all(kinds)];
        let back_homes = [places.all(back_kinds), places.all(back_kinds)];
        let slots: Vec<Vec<Address>> = (0..sweep.schedule.snapshots).map(|_| places.all(kinds)).collect();
        let given: Vec<Address> = sweep.inputs.iter().map(|access| self.at(frame, access)).collect();
        let moving = states + carries..states + carries + sequences;
        let mut inputs = given.clone();
        let enter = |inputs: &mut [Address], step: usize| {
            for sequence in moving.clone() {
                inputs[sequence] = given[sequence] + (step * bytes_of(&advance.inputs[sequence])) as Address;
            }
        };
        let mut results = self.unread_places(reverse, *carries, &sweep.outputs, unread);
        let (mut home, mut back_home) = (0, 0);
        let mut times = [Times::new(), Times::new()];
        for action in &sweep.schedule.actions {
            match *action {
                revolve::Action::Begin => inputs[..*states].copy_from_slice(&given[..*states]),
                revolve::Action::Restore { slot } => inputs[..*states].copy_from_slice(&slots[slot]),
                revolve::Action::Store { slot } => self.copy_all(kinds, &inputs[..*states], &slots[slot])?,
                revolve::Action::Advance { from, to } => {
                    for step in from..to {
                        enter(&mut inputs, step);
                        times[0] = self.run(advance, advance_plan, (&inputs, &homes[home], arena), frame.tile)?;
                        inputs[..*states].copy_from_slice(&homes[home]);
                        home = 1 - home;
                    }
                }
                revolve::Action::Reverse { step } => {
                    enter(&mut inputs, step);
                    results[..*carries].copy_from_slice(&back_homes[back_home]);
                    for (number, output) in sweep.outputs.iter().enumerate().skip(*carries) {
                        if let Some(access) = output {
                            let entry = (step * bytes_of(&reverse.results[number])) as Address;
                            results[number] = self.at(frame, access) + entry;
                        }
                    }
                    times[1] = self.run(reverse, reverse_plan, (&inputs, &results, arena), frame.tile)?;
                    inputs[*states..states + carries].copy_from_slice(&back_homes[back_home]);
                    back_home = 1 - back_home;
                }
            }
        }
        for (carry, kind) in back_kinds.iter().enumerate() {
            if let Some(access) = &sweep.outputs[carry] {
                self.device.copy(self.at(frame, access), inputs[states + carry], bytes_of(kind)).map_err(failed)?;
            }
        }
        Ok(times)
    }
}

/// Places one after another in memory.
struct Places(Address);

impl Places {
    fn next(&mut self, kind: &Signature) -> Address {
        let place = self.0;
        self.0 += aligned(bytes_of(kind)) as Address;
        place
    }

    fn all(&mut self, kinds: &[Signature]) -> Vec<Address> {
        kinds.iter().map(|kind| self.next(kind)).collect()
    }
}
