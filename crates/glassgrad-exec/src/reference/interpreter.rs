//! An interpreter of programs in safe code: every register of a loop is a list of all its values, every access is checked.

use std::panic::Location;

use super::definitions::{Task, perform};
use crate::array::{Array, Buffer};
use crate::clock::Instant;
use crate::dtype::{DType, bf16, f16};
use crate::error::Error;
use crate::ops::Operation;
use crate::program::Logic;
use crate::program::{
    Access, Call, Contraction, ContractionAxis, Instruction, Loop, Memory, Program, Reduction, ReverseScan, ScanLoop,
    Signature, Step, bytes_of,
};
use crate::revolve::Action;
use crate::{Timed, Times};

/// The user's source line of a node.
type Origin<'o> = &'o dyn Fn(usize) -> &'static Location<'static>;

/// Memory without a type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bytes(Vec<u8>);

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scalar {
    F32(f32),
    F64(f64),
    I64(i64),
    Bool(bool),
}

impl Scalar {
    /// A number in a compute type.
    fn of(dtype: DType, number: f64) -> Scalar {
        match dtype.compute_type() {
            DType::F32 => Scalar::F32(number as f32),
            DType::F64 => Scalar::F64(number),
            DType::I64 => Scalar::I64(number as i64),
            DType::Bool => Scalar::Bool(number != 0.0),
            other @ (DType::F16 | DType::BF16 | DType::I32 | DType::U8) => unreachable!("{other} is only stored"),
        }
    }

    /// The element that this number becomes in a storage type, in the compute type of that.
    fn narrowed(self, dtype: DType) -> Scalar {
        match self {
            // Among integers a cast wraps.
            Scalar::I64(x) if dtype == DType::I32 => Scalar::I64(i64::from(x as i32)),
            Scalar::I64(x) if dtype == DType::U8 => Scalar::I64(i64::from(x as u8)),
            _ => Scalar::of(dtype, Buffer::from_fn(dtype, 1, |_| self.to_f64()).get(0)),
        }
    }

    fn to_f64(self) -> f64 {
        match self {
            Scalar::F32(x) => f64::from(x),
            Scalar::F64(x) => x,
            Scalar::I64(x) => x as f64,
            Scalar::Bool(x) => f64::from(u8::from(x)),
        }
    }

    fn holds(self) -> bool {
        match self {
            Scalar::Bool(x) => x,
            other => unreachable!("{other:?} is no truth value"),
        }
    }

    /// A row of the operation table with two arguments.
    fn binary(self, operation: Operation, other: Scalar) -> Scalar {
        fn checked<T>(found: Option<T>, operation: Operation) -> T {
            found.unwrap_or_else(|| unreachable!("{} does not take two arguments", operation.name()))
        }
        let missing = || -> Scalar { unreachable!("there is no {} of {self:?} and {other:?}", operation.name()) };
        match (self, other) {
            (Scalar::F32(a), Scalar::F32(b)) => Scalar::F32(checked(operation.apply_binary(a, b), operation)),
            (Scalar::F64(a), Scalar::F64(b)) => Scalar::F64(checked(operation.apply_binary(a, b), operation)),
            (Scalar::I64(a), Scalar::I64(b)) => Scalar::I64(match operation {
                Operation::Add => a.wrapping_add(b),
                Operation::Sub => a.wrapping_sub(b),
                Operation::Mul => a.wrapping_mul(b),
                _ => return missing(),
            }),
            // A sum of truth values is whether any holds, a product whether all do.
            (Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(match operation {
                Operation::Add => a || b,
                Operation::Mul => a && b,
                _ => return missing(),
            }),
            _ => missing(),
        }
    }

    fn reduced(self, reduction: Reduction, other: Scalar) -> Scalar {
        match reduction {
            Reduction::Sum => self.binary(Operation::Add, other),
            Reduction::Max if self.to_f64().is_nan() => self,
            Reduction::Max if other.to_f64().is_nan() || other.to_f64() > self.to_f64() => other,
            Reduction::Max => match (self, other) {
                // Not every integer is a 64-bit floating-point number.
                (Scalar::I64(a), Scalar::I64(b)) => Scalar::I64(a.max(b)),
                _ => self,
            },
        }
    }

    /// What a reduction begins with.
    fn beginning(reduction: Option<Reduction>, dtype: DType) -> Scalar {
        match (reduction, dtype) {
            (Some(Reduction::Max), DType::I64) => Scalar::I64(i64::MIN),
            (Some(Reduction::Max), DType::Bool) => Scalar::Bool(false),
            (Some(Reduction::Max), _) => Scalar::of(dtype, f64::NEG_INFINITY),
            (Some(Reduction::Sum) | None, _) => Scalar::of(dtype, 0.0),
        }
    }
}

impl Bytes {
    /// Memory filled with a pattern that shows in results if it is not overwritten: NaN, and -1.
    pub(super) fn spoiled(count: usize) -> Bytes {
        Bytes(vec![0xFF; count])
    }

    pub(super) fn part(&self, first: usize, count: usize) -> Bytes {
        Bytes(self.0[first..first + count].to_vec())
    }

    fn write(&mut self, first: usize, other: &Bytes) {
        self.0[first..first + other.0.len()].copy_from_slice(&other.0);
    }

    pub(super) fn encode(buffer: &Buffer) -> Bytes {
        Bytes(buffer.to_bytes())
    }

    pub(super) fn decode(&self, dtype: DType, length: usize) -> Buffer {
        Buffer::from_bytes(dtype, &self.0[..length * dtype.bytes()])
    }

    fn get(&self, dtype: DType, byte: usize) -> Scalar {
        fn word<const N: usize>(bytes: &[u8], byte: usize) -> [u8; N] {
            std::array::from_fn(|k| bytes[byte + k])
        }
        match dtype {
            DType::F32 => Scalar::F32(f32::from_ne_bytes(word(&self.0, byte))),
            DType::F64 => Scalar::F64(f64::from_ne_bytes(word(&self.0, byte))),
            DType::I64 => Scalar::I64(i64::from_ne_bytes(word(&self.0, byte))),
            DType::Bool => Scalar::Bool(self.0[byte] != 0),
            DType::F16 => Scalar::F32(f16::from_ne_bytes(word(&self.0, byte)).to_f32()),
            DType::BF16 => Scalar::F32(bf16::from_ne_bytes(word(&self.0, byte)).to_f32()),
            DType::I32 => Scalar::I64(i64::from(i32::from_ne_bytes(word(&self.0, byte)))),
            DType::U8 => Scalar::I64(i64::from(self.0[byte])),
        }
    }

    fn set(&mut self, dtype: DType, byte: usize, element: Scalar) {
        match (element, dtype) {
            (Scalar::F32(x), DType::F16) => {
                self.0[byte..byte + 2].copy_from_slice(&f16::from_f32(x).to_ne_bytes());
            }
            (Scalar::F32(x), DType::BF16) => {
                self.0[byte..byte + 2].copy_from_slice(&bf16::from_f32(x).to_ne_bytes());
            }
            (Scalar::I64(x), DType::I32) => self.0[byte..byte + 4].copy_from_slice(&(x as i32).to_ne_bytes()),
            (Scalar::I64(x), DType::U8) => self.0[byte] = x as u8,
            _ => self.set_computed(byte, element),
        }
    }

    fn set_computed(&mut self, byte: usize, element: Scalar) {
        match element {
            Scalar::F32(x) => self.0[byte..byte + 4].copy_from_slice(&x.to_ne_bytes()),
            Scalar::F64(x) => self.0[byte..byte + 8].copy_from_slice(&x.to_ne_bytes()),
            Scalar::I64(x) => self.0[byte..byte + 8].copy_from_slice(&x.to_ne_bytes()),
            Scalar::Bool(x) => self.0[byte] = u8::from(x),
        }
    }
}

/// The memory of a program while it runs.
struct Frame {
    inputs: Vec<Bytes>,
    constants: Vec<Bytes>,
    results: Vec<Bytes>,
    arena: Bytes,
}

/// What a run of a program leaves behind.
pub(super) struct Run {
    pub(super) results: Vec<Bytes>,
    /// The inputs, of which some may be overwritten.
    pub(super) inputs: Vec<Bytes>,
    pub(super) times: Times,
}

/// Runs a program.
pub(super) fn run(program: &Program, inputs: Vec<Bytes>, origin: Origin<'_>) -> Result<Run, Error> {
    let mut frame = Frame {
        inputs,
        constants: program.constants.iter().map(|constant| Bytes::encode(constant.buffer())).collect(),
        results: program.results.iter().map(|result| Bytes::spoiled(bytes_of(result))).collect(),
        arena: Bytes::spoiled(program.arena),
    };
    let mut times = Times::new();
    for step in &program.steps {
        let started = Instant::now();
        let mut inside = Vec::new();
        match step {
            Step::Loop(fused) => frame.fused(fused),
            Step::Contract(product) => frame.contract(product),
            Step::Call(call) => frame.call(call, origin)?,
            Step::Scan(scan) => inside = vec![frame.scan(scan, origin)?],
            Step::ReverseScan(sweep) => inside = frame.reverse_scan(sweep, origin)?.into(),
        }
        times.push(Timed { seconds: started.elapsed().as_secs_f64(), inside });
    }
    Ok(Run { results: frame.results, inputs: frame.inputs, times })
}

/// Every index below some extents, in row-major order.
fn indices(extents: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for extent in extents {
        all = all.into_iter().flat_map(|index| (0..*extent).map(move |k| [&index[..], &[k]].concat())).collect();
    }
    all
}

fn along(index: &[usize], strides: impl Iterator<Item = isize>) -> isize {
    index.iter().zip(strides).map(|(k, stride)| *k as isize * stride).sum()
}

impl Frame {
    fn bytes(&mut self, memory: Memory) -> (&mut Bytes, usize) {
        match memory {
            Memory::Input(number) => (&mut self.inputs[number], 0),
            Memory::Constant(number) => (&mut self.constants[number], 0),
            Memory::Result(number) => (&mut self.results[number], 0),
            Memory::Arena(offset) => (&mut self.arena, offset),
            Memory::Tile => unreachable!("programs for this executor have no epilogues"),
        }
    }

    /// The byte of an element of an access.
    fn byte(access: &Access, base: usize, place: isize) -> usize {
        let element = usize::try_from(access.offset + place);
        base + element.unwrap_or_else(|_| unreachable!("an access before its buffer")) * access.dtype.bytes()
    }

    fn get(&mut self, access: &Access, place: isize) -> Scalar {
        let (bytes, base) = self.bytes(access.memory);
        bytes.get(access.dtype, Frame::byte(access, base, place))
    }

    fn set(&mut self, access: &Access, place: isize, element: Scalar) {
        let (bytes, base) = self.bytes(access.memory);
        bytes.set(access.dtype, Frame::byte(access, base, place), element);
    }

    /// A whole array, some elements behind the first of an access.
    fn array(&mut self, access: &Access, place: isize, count: usize) -> Bytes {
        let (bytes, base) = self.bytes(access.memory);
        bytes.part(Frame::byte(access, base, place), count * access.dtype.bytes())
    }

    fn write(&mut self, access: &Access, place: isize, array: &Bytes) {
        let (bytes, base) = self.bytes(access.memory);
        bytes.write(Frame::byte(access, base, place), array);
    }

    fn fused(&mut self, fused: &Loop) {
        let all = indices(&fused.extents);
        // The row of each index, numbered in row-major order.
        let rows: Vec<usize> = {
            let strides = fused.row_strides();
            all.iter().map(|index| along(index, strides.iter().copied()) as usize).collect()
        };
        let row_count = rows.iter().max().map_or(0, |last| last + 1);
        let mut registers: Vec<Vec<Scalar>> = Vec::new();
        for (number, load) in fused.loads.iter().enumerate() {
            let mut values = vec![Scalar::Bool(false); if fused.by_row[number] { row_count } else { all.len() }];
            for (k, index) in all.iter().enumerate() {
                let place = if fused.by_row[number] { rows[k] } else { k };
                values[place] = self.get(load, along(index, load.strides.iter().copied()));
            }
            registers.push(values);
        }
        for (place, (instruction, dtype)) in fused.code.iter().enumerate() {
            let count = if fused.by_row[registers.len()] { row_count } else { all.len() };
            debug_assert_eq!(registers.len(), fused.loads.len() + place, "a register for each load and instruction");
            registers.push(evaluate(*instruction, *dtype, &registers, count, &rows));
        }
        for store in &fused.stores {
            let Access { dtype, .. } = store.access;
            let beginning = Scalar::beginning(store.reduction, dtype);
            let first = -store.access.offset;
            (0..store.clear.unwrap_or(0)).for_each(|k| self.set(&store.access, first + k as isize, beginning));
            let by_row = fused.by_row[store.register];
            // A row is stored once, at its first element.
            let is_stored = |index: &[usize]| index.iter().zip(&fused.along_rows).all(|(k, along)| !along || *k == 0);
            for (k, index) in all.iter().enumerate().filter(|(_, index)| !by_row || is_stored(index)) {
                let value = registers[store.register][if by_row { rows[k] } else { k }];
                let place = along(index, store.access.strides.iter().copied());
                let next = match store.reduction {
                    Some(reduction) => self.get(&store.access, place).reduced(reduction, value),
                    None => value,
                };
                self.set(&store.access, place, next);
            }
            if store.scale != 1.0 {
                for k in 0..store.clear.unwrap_or(0) {
                    let sum = self.get(&store.access, first + k as isize);
                    self.set(
                        &store.access,
                        first + k as isize,
                        sum.binary(Operation::Mul, Scalar::of(dtype, store.scale)),
                    );
                }
            }
        }
    }

    fn contract(&mut self, product: &Contraction) {
        let Contraction { batch, sums, rows, columns, inner, operands, masked, .. } = product;
        let [a, b, c] = operands;
        let zero = Scalar::of(c.dtype, 0.0);
        (0..product.clear.unwrap_or(0)).for_each(|k| self.set(c, k as isize - c.offset, zero));
        let outer = [&batch[..], &[*rows, *columns]].concat();
        let summed = [&sums[..], &[*inner]].concat();
        let extents = |axes: &[ContractionAxis]| axes.iter().map(|axis| axis.extent).collect::<Vec<_>>();
        let coefficient = Scalar::of(c.dtype, product.coefficient);
        let inside = indices(&extents(&summed));
        for index in indices(&extents(&outer)) {
            let place = |operand: usize, sum: &[usize]| {
                along(&index, outer.iter().map(|axis| axis.strides[operand]))
                    + along(sum, summed.iter().map(|axis| axis.strides[operand]))
            };
            let mut total = zero;
            for sum in &inside {
                let (x, y) = (self.get(a, place(0, sum)), self.get(b, place(1, sum)));
                let is_masked = (masked[0] && x.to_f64() == 0.0) || (masked[1] && y.to_f64() == 0.0);
                if !is_masked {
                    total = total.binary(Operation::Add, x.binary(Operation::Mul, y));
                }
            }
            self.set(c, place(2, &vec![0; summed.len()]), total.binary(Operation::Mul, coefficient));
        }
    }

    fn call(&mut self, call: &Call, origin: Origin<'_>) -> Result<(), Error> {
        let mut inputs = Vec::new();
        for (access, shape) in &call.inputs {
            let bytes = self.array(access, 0, shape.elements());
            inputs.push(Array::new(shape.clone(), bytes.decode(access.dtype, shape.elements())));
        }
        let made = perform_call(call, &inputs, origin(call.source))?;
        self.write(&call.output().0, 0, &Bytes::encode(made.buffer()));
        Ok(())
    }

    /// Returns the times of the last iteration.
    fn scan(&mut self, scan: &ScanLoop, origin: Origin<'_>) -> Result<Times, Error> {
        let mut times = Times::new();
        let ScanLoop { body, carries, sequences, .. } = scan;
        let elements = |signature: &Signature| signature.0.elements();
        let mut state: Vec<Bytes> =
            (0..*carries).map(|k| self.array(&scan.inputs[k], 0, elements(&body.inputs[k]))).collect();
        for step in 0..scan.length {
            let entry = if scan.reversed { scan.length - 1 - step } else { step };
            let mut inputs = std::mem::take(&mut state);
            for k in *carries..scan.inputs.len() {
                let access = &scan.inputs[k];
                let moves = k < carries + sequences;
                let place = if moves { entry as isize * access.strides.first().copied().unwrap_or(0) } else { 0 };
                inputs.push(self.array(access, place, elements(&body.inputs[k])));
            }
            let Run { mut results, times: own, .. } = run(body, inputs, origin)?;
            times = own;
            for (k, result) in results.drain(*carries..).enumerate() {
                if let Some(access) = &scan.outputs[carries + k] {
                    self.write(access, (entry * elements(&body.results[carries + k])) as isize, &result);
                }
            }
            state = results;
        }
        for (carry, access) in state.iter().zip(&scan.outputs) {
            if let Some(access) = access {
                self.write(access, 0, carry);
            }
        }
        Ok(times)
    }

    /// Returns the times of the last iterations of the loop and of the sweep.
    fn reverse_scan(&mut self, sweep: &ReverseScan, origin: Origin<'_>) -> Result<[Times; 2], Error> {
        let mut times = [Times::new(), Times::new()];
        let ReverseScan { advance, reverse, states, carries, sequences, .. } = sweep;
        let elements = |signature: &Signature| signature.0.elements();
        let given: Vec<Bytes> =
            (0..states + carries).map(|k| self.array(&sweep.inputs[k], 0, elements(&advance.inputs[k]))).collect();
        let (mut state, mut back) = (given[..*states].to_vec(), given[*states..].to_vec());
        let mut snapshots: Vec<Vec<Bytes>> = vec![Vec::new(); sweep.schedule.snapshots];
        for action in &sweep.schedule.actions {
            let mut inputs_at = |step: usize, state: &[Bytes], back: &[Bytes]| {
                let mut inputs = [state, back].concat();
                for k in states + carries..sweep.inputs.len() {
                    let count = elements(&advance.inputs[k]);
                    let place = if k < states + carries + sequences { step * count } else { 0 };
                    inputs.push(self.array(&sweep.inputs[k], place as isize, count));
                }
                inputs
            };
            match *action {
                Action::Begin => state = given[..*states].to_vec(),
                Action::Restore { slot } => state = snapshots[slot].clone(),
                Action::Store { slot } => snapshots[slot] = state.clone(),
                Action::Advance { from, to } => {
                    for step in from..to {
                        (state, times[0]) = {
                            let Run { results, times, .. } = run(advance, inputs_at(step, &state, &back), origin)?;
                            (results, times)
                        };
                    }
                }
                Action::Reverse { step } => {
                    let Run { mut results, times: own, .. } = run(reverse, inputs_at(step, &state, &back), origin)?;
                    times[1] = own;
                    for (k, result) in results.drain(*carries..).enumerate() {
                        if let Some(access) = &sweep.outputs[carries + k] {
                            self.write(access, (step * elements(&reverse.results[carries + k])) as isize, &result);
                        }
                    }
                    back = results;
                }
            }
        }
        for (cotangent, access) in back.iter().zip(&sweep.outputs) {
            if let Some(access) = access {
                self.write(access, 0, cotangent);
            }
        }
        Ok(times)
    }
}

/// A call by the definition of its operation.
pub(crate) fn perform_call(call: &Call, inputs: &[Array], origin: &'static Location<'static>) -> Result<Array, Error> {
    let (access, shape) = call.output();
    perform(&call.kind, Task { shape, dtype: access.dtype, origin }, inputs)
}

/// All values of the register that an instruction defines; `rows` tells the row of each element.
fn evaluate(
    instruction: Instruction,
    dtype: DType,
    registers: &[Vec<Scalar>],
    count: usize,
    rows: &[usize],
) -> Vec<Scalar> {
    let each = |value: &dyn Fn(usize) -> Scalar| (0..count).map(value).collect();
    match instruction {
        Instruction::Constant(number) => vec![Scalar::of(dtype, number); count],
        Instruction::Unary(operation, a, parameter) => each(&|k| {
            let made = match registers[a][k] {
                Scalar::F32(x) => operation.apply_unary(x, parameter).map(Scalar::F32),
                Scalar::F64(x) => operation.apply_unary(x, parameter).map(Scalar::F64),
                Scalar::I64(x) if operation == Operation::Neg => Some(Scalar::I64(x.wrapping_neg())),
                Scalar::I64(_) | Scalar::Bool(_) => None,
            };
            made.unwrap_or_else(|| unreachable!("there is no {} of {dtype}", operation.name()))
        }),
        Instruction::Binary(operation, a, b) => each(&|k| registers[a][k].binary(operation, registers[b][k])),
        Instruction::MaskedMul(a, b) => each(&|k| match registers[a][k] {
            zero if zero.to_f64() == 0.0 => Scalar::of(dtype, 0.0),
            x => x.binary(Operation::Mul, registers[b][k]),
        }),
        Instruction::Compare(relation, a, b) => each(&|k| {
            Scalar::Bool(match (registers[a][k], registers[b][k]) {
                (Scalar::I64(a), Scalar::I64(b)) => relation.holds(a, b),
                (a, b) => relation.holds(a.to_f64(), b.to_f64()),
            })
        }),
        Instruction::Logic(logic, a, b) => each(&|k| {
            let (a, b) = (registers[a][k].holds(), registers[b][k]);
            Scalar::Bool(match logic {
                Logic::And => a && b.holds(),
                Logic::Or => a || b.holds(),
                Logic::Not => !a,
            })
        }),
        Instruction::Select(condition, a, b) => {
            each(&|k| if registers[condition][k].holds() { registers[a][k] } else { registers[b][k] })
        }
        Instruction::Cast(a) => each(&|k| match (registers[a][k], dtype) {
            (Scalar::I64(x), DType::I64) => Scalar::I64(x),
            (Scalar::I64(x), DType::F32) => Scalar::F32(x as f32),
            (x, _) => Scalar::of(dtype, x.to_f64()),
        }),
        Instruction::Narrow(a, target) => each(&|k| registers[a][k].narrowed(target)),
        Instruction::RowReduce(reduction, a, scale) => {
            let mut reduced = vec![Scalar::beginning(Some(reduction), dtype); count];
            for (value, row) in registers[a].iter().zip(rows) {
                reduced[*row] = reduced[*row].reduced(reduction, *value);
            }
            if scale != 1.0 {
                let factor = Scalar::of(dtype, scale);
                reduced.iter_mut().for_each(|sum| *sum = sum.binary(Operation::Mul, factor));
            }
            reduced
        }
        Instruction::BroadcastRow(a) => each(&|k| registers[a][rows[k]]),
    }
}
