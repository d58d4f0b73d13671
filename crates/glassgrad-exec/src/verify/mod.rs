//! The verifier of programs: what an executor relies on when it addresses memory without checking.
//!
//! Every access lies inside the memory it names and inside a value that is live and written; live values do not overlap;
//! every element of every result is written; a step writes over what it reads only element by element at the same places;
//! registers are defined before they are read and keep their slots until then. It runs after each lowering in debug
//! builds and tests.

mod accesses;
mod live;
mod registers;

use std::fmt;

use super::memory::aligned;
use super::program::{
    Access, Call, Contraction, ContractionAxis, Loop, Memory, Program, ReverseScan, ScanLoop, Signature, Step,
};
use accesses::{Axis, Span, aliases};
use live::Live;

/// A violation that the verifier found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the step, unless it is about the program as a whole.
    pub step: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(formatter, "step {step}: {}", self.message),
            None => self.message.fmt(formatter),
        }
    }
}

/// What a check finds.
type Checked = Result<(), String>;

impl Program {
    /// Checks everything that executors rely on.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let mut program = (*Tensor::ones([4, 4]).exp().sum().program().unwrap()).clone();
    /// assert_eq!(program.verify(), Ok(()));
    /// program.results.push(program.results[0].clone());
    /// assert_eq!(program.verify().unwrap_err().to_string(), "0 of 1 elements of result 1 are written");
    /// ```
    pub fn verify(&self) -> Result<(), Violation> {
        self.verify_overwriting(&[])
    }

    /// [`Program::verify`] for a program that writes results over inputs: for each result the input that it takes over.
    pub fn verify_overwriting(&self, donors: &[Option<usize>]) -> Result<(), Violation> {
        let mut verifier =
            Verifier { program: self, donors, live: Live::new(&self.values), written: vec![0; self.results.len()] };
        for (number, step) in self.steps.iter().enumerate() {
            verifier.step(number, step).map_err(|message| Violation { step: Some(number), message })?;
        }
        verifier.results().map_err(|message| Violation { step: None, message })
    }
}

/// The state of the verifier.
struct Verifier<'p> {
    program: &'p Program,
    donors: &'p [Option<usize>],
    live: Live<'p>,
    /// How many elements of each result were written.
    written: Vec<usize>,
}

fn elements((shape, _): &Signature) -> usize {
    shape.elements()
}

fn bytes((shape, dtype): &Signature) -> usize {
    shape.elements().saturating_mul(dtype.bytes())
}

/// What a loop carries has the same shape and type before a step and after it.
fn carried(before: &[Signature], after: &[Signature]) -> Checked {
    match before.iter().zip(after).position(|(before, after)| before != after) {
        Some(carry) => {
            let [before, after] = [&before[carry], &after[carry]].map(|(shape, dtype)| format!("{dtype}{shape}"));
            Err(format!("carry {carry} is {before} before a step and {after} after it"))
        }
        None => Ok(()),
    }
}

/// What a loop hands over has the type that its body works with.
fn has_type(what: &str, access: &Access, (_, dtype): &Signature) -> Checked {
    if access.dtype == *dtype { Ok(()) } else { Err(format!("{what} is {dtype}, and taken for {}", access.dtype)) }
}

impl Verifier<'_> {
    fn step(&mut self, number: usize, step: &Step) -> Checked {
        self.live.enter(number, self.program.arena)?;
        match step {
            Step::Loop(fused) => {
                registers::check(fused)?;
                self.fused(fused, None)?;
            }
            Step::Contract(product) => self.product(product)?,
            Step::Call(call) => self.call(call)?,
            Step::Scan(repeat) => self.repeat(repeat)?,
            Step::ReverseScan(sweep) => self.sweep(sweep)?,
        }
        self.live.leave(number);
        Ok(())
    }

    fn results(&self) -> Checked {
        for (number, result) in self.program.results.iter().enumerate() {
            let (written, whole) = (self.written[number], elements(result));
            if written < whole {
                return Err(format!("{written} of {whole} elements of result {number} are written"));
            }
        }
        Ok(())
    }

    /// The bytes that an access of these axes touches, inside of the memory that it names.
    fn span(&self, what: &str, access: &Access, axes: &[Axis], piece: Option<usize>) -> Result<Option<Span>, String> {
        let Some([first, last]) = accesses::reach(access, axes) else { return Ok(None) };
        let size = access.dtype.bytes();
        let whole = |name: &str, number: usize, (shape, dtype): &Signature| {
            if *dtype != access.dtype {
                return Err(format!("{what} takes {name} {number}, of {dtype}, for {}", access.dtype));
            }
            Ok(shape.elements())
        };
        let program = self.program;
        let missing = |name: &str, number: usize| format!("{what} names {name} {number}, which there is not");
        let limit = match access.memory {
            Memory::Input(number) => {
                whole("input", number, program.inputs.get(number).ok_or_else(|| missing("input", number))?)?
            }
            Memory::Constant(number) => {
                let array = program.constants.get(number).ok_or_else(|| missing("constant", number))?;
                whole("constant", number, &(array.shape().clone(), array.dtype()))?
            }
            Memory::Result(number) => {
                whole("result", number, program.results.get(number).ok_or_else(|| missing("result", number))?)?
            }
            Memory::Tile => piece.ok_or_else(|| format!("{what} reads a tile, and there is no product before it"))?,
            Memory::Arena(place) => {
                if !place.is_multiple_of(size) {
                    return Err(format!("{what} begins at byte {place}, which is not aligned for {}", access.dtype));
                }
                program.arena.saturating_sub(place) / size
            }
        };
        if first < 0 || last >= limit as isize {
            let memory = access.memory;
            return Err(format!("{what} reaches elements {first} to {last} of {memory:?}, which has {limit}"));
        }
        let base = if let Memory::Arena(place) = access.memory { place } else { 0 };
        let (first, last) = (first as usize, last as usize);
        Ok(Some(Span { memory: access.memory, begin: base + first * size, end: base + (last + 1) * size }))
    }

    /// Checks a read.
    fn read(&self, what: &str, access: &Access, axes: &[Axis], piece: Option<usize>) -> Result<Option<Span>, String> {
        let span = self.span(what, access, axes, piece)?;
        if let Some(span) = span.as_ref().filter(|span| matches!(span.memory, Memory::Arena(_))) {
            self.live.read(what, span)?;
        }
        Ok(span)
    }

    /// Checks a write, and counts the elements of results.
    fn write(
        &mut self,
        what: &str,
        access: &Access,
        axes: &[Axis],
        clear: Option<usize>,
    ) -> Result<Option<Span>, String> {
        let span = self.span(what, access, axes, None)?;
        if let Some(count) = clear {
            // What is cleared begins where the memory does.
            let all = Access { offset: 0, strides: vec![1], ..access.clone() };
            let whole = self.span(&format!("the clearing of {what}"), &all, &[Axis::new(count, 1)], None)?;
            if let Some(whole) = whole.filter(|whole| matches!(whole.memory, Memory::Arena(_))) {
                self.live.write(what, &whole)?;
            }
        }
        let cleared = clear.unwrap_or(0);
        let count = cleared.max(accesses::distinct(axes));
        match access.memory {
            Memory::Constant(_) | Memory::Tile => return Err(format!("{what} goes to {:?}", access.memory)),
            Memory::Result(number) => {
                if self.donors.get(number).is_some_and(Option::is_some) {
                    return Err(format!("{what} goes to result {number}, which overwrites an input"));
                }
                if let Some(written) = self.written.get_mut(number) {
                    *written = written.saturating_add(count);
                }
            }
            Memory::Input(input) => match self.donors.iter().position(|donor| *donor == Some(input)) {
                Some(result) => self.written[result] = self.written[result].saturating_add(count),
                None => return Err(format!("{what} goes to input {input}, which is not declared as overwritten")),
            },
            Memory::Arena(_) => {
                if let Some(span) = &span {
                    self.live.write(what, span)?;
                }
            }
        }
        Ok(span)
    }

    fn fused(&mut self, fused: &Loop, piece: Option<usize>) -> Checked {
        let axes = |strides: &[isize]| -> Result<Vec<Axis>, String> {
            if strides.len() != fused.extents.len() {
                return Err(format!("an access has {} strides for {} axes", strides.len(), fused.extents.len()));
            }
            Ok(fused.extents.iter().zip(strides).map(|(extent, stride)| Axis::new(*extent, *stride)).collect())
        };
        let mut reads = Vec::new();
        for (number, load) in fused.loads.iter().enumerate() {
            let axes = axes(&load.strides)?;
            if let Some(span) = self.read(&format!("load {number}"), load, &axes, piece)? {
                reads.push((number, span, axes));
            }
        }
        for (number, store) in fused.stores.iter().enumerate() {
            let (what, axes) = (format!("store {number}"), axes(&store.access.strides)?);
            // A register by row has one number for all elements of its row.
            let is_row = |axis: usize| fused.by_row[store.register] && fused.along_rows[axis];
            let own: Vec<Axis> = (0..axes.len()).filter(|axis| !is_row(*axis)).map(|axis| axes[axis]).collect();
            if store.reduction.is_none() && store.clear.is_none() && accesses::accumulates(&own) {
                return Err(format!("{what} writes several elements to one place"));
            }
            let Some(span) = self.write(&what, &store.access, &axes, store.clear)? else { continue };
            for (load, read, read_axes) in &reads {
                let same = fused.loads[*load].offset == store.access.offset
                    && fused.loads[*load].memory == store.access.memory
                    && axes == *read_axes
                    && store.reduction.is_none()
                    && store.clear.is_none();
                if !same && aliases((&fused.loads[*load], read, read_axes), (&store.access, &span, &axes)) {
                    return Err(format!("{what} writes over load {load} at other places"));
                }
            }
        }
        Ok(())
    }

    fn product(&mut self, product: &Contraction) -> Checked {
        let own = |axes: &[&[ContractionAxis]], operand: usize| -> Vec<Axis> {
            axes.concat().iter().map(|axis| Axis::new(axis.extent, axis.strides[operand])).collect()
        };
        let Contraction { batch, sums, rows, columns, inner, operands, .. } = product;
        let [first, second, result] = [0, 1, 2].map(|operand| operands[operand].dtype);
        // Sums of storage types are taken in the compute type, and only floating-point ones have kernels.
        let is_stored = first.is_storage_only() && (!first.is_float() || product.accumulates);
        let is_result = result == first || (result == first.compute_type() && product.masked == [false; 2]);
        if first != second || !is_result || is_stored {
            return Err(format!("a product of {first} and {second} goes to {result}"));
        }
        let factor_axes = [batch, &sums[..], &[*rows, *columns, *inner]];
        let is_empty = factor_axes.concat().iter().any(|axis| axis.extent == 0);
        let mut factors = Vec::new();
        for (number, name) in ["the first factor", "the second factor"].into_iter().enumerate() {
            let axes = if is_empty { vec![Axis::new(0, 0)] } else { own(&factor_axes, number) };
            if let Some(span) = self.read(name, &operands[number], &axes, None)? {
                factors.push((number, span, axes));
            }
        }
        let result_axes = if product.accumulates { own(&factor_axes, 2) } else { own(&[batch, &[*rows, *columns]], 2) };
        if !product.accumulates && accesses::accumulates(&result_axes) {
            return Err("several elements of a product go to one place, and it does not accumulate".to_owned());
        }
        if product.accumulates && product.clear.is_none() {
            return Err("a product accumulates into what was not cleared".to_owned());
        }
        if let Some(epilogue) = &product.epilogue {
            if operands[2].memory != Memory::Tile {
                return Err(format!("a product with an epilogue goes to {:?}", operands[2].memory));
            }
            registers::check(epilogue)?;
            let piece = accesses::distinct(&result_axes);
            self.fused(epilogue, Some(piece))?;
            for store in &epilogue.stores {
                let axes: Vec<Axis> =
                    epilogue.extents.iter().zip(&store.access.strides).map(|(e, s)| Axis::new(*e, *s)).collect();
                let Some(span) = self.span("the epilogue", &store.access, &axes, None)? else { continue };
                for (number, read, read_axes) in &factors {
                    if aliases((&operands[*number], read, read_axes), (&store.access, &span, &axes)) {
                        return Err("the epilogue writes over a factor that other tiles read".to_owned());
                    }
                }
            }
            return Ok(());
        }
        let Some(span) = self.write("the product", &operands[2], &result_axes, product.clear)? else { return Ok(()) };
        for (number, read, read_axes) in &factors {
            if aliases((&operands[*number], read, read_axes), (&operands[2], &span, &result_axes)) {
                return Err(format!("the product writes over its factor {number}"));
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Checked {
        let mut reads = Vec::new();
        for (number, (access, shape)) in call.inputs.iter().enumerate() {
            let axes = [Axis::new(shape.elements(), 1)];
            reads.extend(self.read(&format!("operand {number}"), access, &axes, None)?);
        }
        for (number, (access, shape)) in call.outputs.iter().enumerate() {
            let axes = [Axis::new(shape.elements(), 1)];
            let Some(span) = self.write(&format!("output {number}"), access, &axes, None)? else { continue };
            if reads.iter().any(|read| read.overlaps(&span)) {
                return Err("an operation writes over what it reads".to_owned());
            }
            // Outputs must not overlap each other either.
            reads.push(span);
        }
        Ok(())
    }

    /// Arrays that a loop reads and writes as a whole: inputs of which some move along, and outputs of which some are
    /// stacked.
    fn loop_arrays(
        &mut self,
        inputs: (&[Access], &[Signature], std::ops::Range<usize>),
        outputs: (&[Option<Access>], &[Signature], usize),
        length: usize,
    ) -> Checked {
        let (accesses, signatures, moving) = inputs;
        if accesses.len() != signatures.len() {
            return Err(format!("a body of {} inputs is given {}", signatures.len(), accesses.len()));
        }
        for (number, (access, signature)) in accesses.iter().zip(signatures).enumerate() {
            has_type(&format!("input {number} of the body"), access, signature)?;
            let mut axes = vec![Axis::new(elements(signature), 1)];
            if moving.contains(&number) {
                axes.push(Axis::new(length, access.strides.first().copied().unwrap_or(0)));
            }
            if length == 0 && number >= moving.start {
                continue;
            }
            self.read(&format!("input {number} of the body"), access, &axes, None)?;
        }
        let (accesses, signatures, carried) = outputs;
        if accesses.len() != signatures.len() {
            return Err(format!("a body of {} results has {} outputs", signatures.len(), accesses.len()));
        }
        for (number, (access, signature)) in accesses.iter().zip(signatures).enumerate() {
            let Some(access) = access else { continue };
            has_type(&format!("output {number} of the body"), access, signature)?;
            let times = if number < carried { 1 } else { length };
            let axes = [Axis::new(elements(signature).saturating_mul(times), 1)];
            self.write(&format!("output {number} of the body"), access, &axes, None)?;
        }
        Ok(())
    }

    /// The memory that a loop needs for itself must be there.
    fn scratch(&self, memory: Memory, needed: usize) -> Checked {
        let Memory::Arena(place) = memory else { return Err(format!("the scratch memory of a loop is {memory:?}")) };
        if place.saturating_add(needed) > self.program.arena {
            let arena = self.program.arena;
            return Err(format!("{needed} bytes of scratch memory at byte {place} leave the arena of {arena}"));
        }
        self.live.scratch(place, needed)
    }

    fn repeat(&mut self, repeat: &ScanLoop) -> Checked {
        repeat.body.verify().map_err(|violation| format!("in the body, {violation}"))?;
        let ScanLoop { carries, sequences, .. } = *repeat;
        if repeat.body.results.len() < carries || repeat.body.inputs.len() < carries + sequences {
            return Err("a body has fewer inputs or results than carries and sequences".to_owned());
        }
        carried(&repeat.body.inputs, &repeat.body.results[..carries])?;
        let homes: usize = repeat.body.results[..carries].iter().map(|carry| 2 * aligned(bytes(carry))).sum();
        self.scratch(repeat.scratch, aligned(repeat.body.arena) + homes)?;
        let outputs = (&repeat.outputs[..], &repeat.body.results[..], carries);
        let moving = carries..carries + sequences;
        self.loop_arrays((&repeat.inputs, &repeat.body.inputs, moving), outputs, repeat.length)
    }

    fn sweep(&mut self, sweep: &ReverseScan) -> Checked {
        let ReverseScan { advance, reverse, schedule, states, carries, sequences, .. } = sweep;
        for program in [advance, reverse] {
            program.verify().map_err(|violation| format!("in the body, {violation}"))?;
        }
        if advance.inputs != reverse.inputs || advance.results.len() != *states || reverse.results.len() < *carries {
            return Err("the programs of a sweep do not belong together".to_owned());
        }
        if advance.inputs.len() < states + carries + sequences {
            return Err("a body has fewer inputs or results than carries and sequences".to_owned());
        }
        carried(&advance.inputs, &advance.results)?;
        carried(&reverse.inputs[*states..], &reverse.results[..*carries])?;
        let sizes = |results: &[Signature]| -> usize { results.iter().map(|one| aligned(bytes(one))).sum() };
        let homes = 2 * sizes(&advance.results) + 2 * sizes(&reverse.results[..*carries]);
        let kept = schedule.snapshots * sizes(&advance.results);
        self.scratch(sweep.scratch, aligned(advance.arena.max(reverse.arena)) + homes + kept)?;
        let first = states + carries;
        let outputs = (&sweep.outputs[..], &reverse.results[..], *carries);
        let steps = schedule.steps;
        // Entries of a sequence follow one another.
        let inputs: Vec<Access> = sweep.inputs.clone();
        let entries = first..first + sequences;
        let inputs: Vec<Access> = inputs
            .into_iter()
            .enumerate()
            .map(|(number, access)| match entries.contains(&number) {
                true => Access { strides: vec![elements(&advance.inputs[number]) as isize], ..access },
                false => access,
            })
            .collect();
        self.loop_arrays((&inputs, &advance.inputs, entries), outputs, steps)
    }
}
