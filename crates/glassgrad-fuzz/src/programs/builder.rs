//! What generators of operations draw from: the values that there are, and random numbers.

use std::collections::BTreeSet;

use glassgrad::Tensor;
use glassgrad::dtype::DType;

use super::interpret::{Environment, Interpreter, Mode};
use super::operations::{Application, find};
use super::program::{Block, Data, Elements, Instruction, Value};
use crate::random::Random;

/// The most elements that a value has.
const LARGEST: usize = 3000;

/// A float above this bound is squashed, so that programs stay tame.
const TAME: f64 = 8.0;

/// What is known about a value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number.
    pub value: Value,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its type.
    pub dtype: DType,
    /// A bound of the magnitude of its elements, as far as they are finite.
    pub bound: f64,
}

impl Entry {
    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it is of a floating-point type.
    pub fn is_float(&self) -> bool {
        self.dtype.is_float()
    }

    fn witness(&self) -> Tensor {
        Tensor::full(&self.shape[..], 0.0, self.dtype)
    }
}

/// An instruction under construction.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The instruction, without results.
    pub instruction: Instruction,
    /// A bound of the magnitude of floating-point results.
    pub bound: f64,
}

impl Draft {
    /// An application of an operation.
    pub fn new(operation: &str, operands: &[&Entry]) -> Draft {
        let bound = operands.iter().filter(|operand| operand.is_float()).fold(0.0, |bound, one| one.bound.max(bound));
        let operands = operands.iter().map(|operand| operand.value).collect();
        let instruction = Instruction { operation: operation.to_owned(), operands, ..Instruction::default() };
        Draft { instruction, bound }
    }

    /// The same with whole-number attributes.
    pub fn integers(mut self, integers: impl IntoIterator<Item = i64>) -> Draft {
        self.instruction.integers = integers.into_iter().collect();
        self
    }

    /// The same with real attributes.
    pub fn reals(mut self, reals: impl IntoIterator<Item = f64>) -> Draft {
        self.instruction.reals = reals.into_iter().collect();
        self
    }

    /// The same with a text.
    pub fn text(mut self, text: impl Into<String>) -> Draft {
        self.instruction.text = text.into();
        self
    }

    /// The same with an array.
    pub fn data(mut self, data: Data) -> Draft {
        self.instruction.data = Some(data);
        self
    }

    /// The same with a function.
    pub fn block(mut self, block: Block) -> Draft {
        self.instruction.block = Some(block);
        self
    }

    /// The same with another bound of the results.
    pub fn bound(mut self, bound: f64) -> Draft {
        self.bound = bound;
        self
    }
}

/// Builds a program.
#[derive(Debug)]
pub struct Builder {
    /// Where choices come from.
    pub random: Random,
    /// How deep the current block is nested.
    pub depth: usize,
    /// Whether NaN, infinities and extreme integers occur.
    pub is_special: bool,
    /// The most elements that a value has.
    pub largest: usize,
    /// Operations that are not drawn.
    pub excluded: Vec<&'static str>,
    entries: Vec<Entry>,
    instructions: Vec<Instruction>,
    used: BTreeSet<Value>,
    next: Value,
}

impl Builder {
    /// A builder without values.
    pub fn new(random: Random, is_special: bool, is_large: bool) -> Builder {
        let largest = if is_large { 100 * LARGEST } else { LARGEST };
        let (entries, instructions) = (Vec::new(), Vec::new());
        let excluded = Vec::new();
        Builder {
            random,
            depth: 0,
            is_special,
            largest,
            excluded,
            entries,
            instructions,
            used: BTreeSet::new(),
            next: 0,
        }
    }

    /// A new value without an instruction: a parameter.
    pub fn parameter(&mut self, dtype: DType, shape: &[usize], bound: f64) -> Entry {
        let entry = Entry { value: self.next, shape: shape.to_vec(), dtype, bound };
        self.next += 1;
        self.entries.push(entry.clone());
        entry
    }

    /// How many instructions the current block has.
    pub fn length(&self) -> usize {
        self.instructions.len()
    }

    /// The visible values.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The instructions of the current block, which are taken.
    pub fn take_instructions(&mut self) -> Vec<Instruction> {
        std::mem::take(&mut self.instructions)
    }

    /// A visible value with a property, rather a recent one, or one that nothing uses yet.
    pub fn pick(&mut self, is_fit: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let mut fit: Vec<usize> = (0..self.entries.len()).filter(|place| is_fit(&self.entries[*place])).collect();
        if fit.is_empty() {
            return None;
        }
        let unused: Vec<usize> =
            fit.iter().copied().filter(|place| !self.used.contains(&self.entries[*place].value)).collect();
        if !unused.is_empty() && self.random.chance(0.6) {
            fit = unused;
        }
        let recent = self.random.chance(0.6);
        let from = if recent { fit.len().saturating_sub(8) } else { 0 };
        let place = fit[from + self.random.below(fit.len() - from)];
        Some(self.entries[place].clone())
    }

    /// A visible value.
    pub fn any(&mut self) -> Option<Entry> {
        self.pick(|_| true)
    }

    /// A visible value of a floating-point type.
    pub fn float(&mut self) -> Option<Entry> {
        self.pick(Entry::is_float)
    }

    /// A visible number: of any type but bool.
    pub fn number(&mut self) -> Option<Entry> {
        self.pick(|entry| entry.dtype != DType::Bool)
    }

    /// A random axis, counted from the front or from the end.
    pub fn axis(&mut self, rank: usize) -> i64 {
        let axis = self.random.below(rank) as i64;
        if self.random.chance(0.3) { axis - rank as i64 } else { axis }
    }

    /// Some distinct axes in any order, at least one.
    pub fn axes(&mut self, rank: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..rank).collect();
        for place in (1..rank).rev() {
            axes.swap(place, self.random.below(place + 1));
        }
        axes.truncate(1 + self.random.below(rank));
        axes
    }

    /// A random size of an axis: small, at times 1 or 0.
    pub fn size(&mut self) -> usize {
        match self.random.below(40) {
            0 => 0,
            1..6 => 1,
            6..36 => self.random.between(2, 5) as usize,
            _ => self.random.between(6, 17) as usize,
        }
    }

    /// A random shape.
    pub fn shape(&mut self) -> Vec<usize> {
        let rank = *self.random.choose(&[0, 1, 1, 2, 2, 2, 3, 3, 4]);
        (0..rank).map(|_| self.size()).collect()
    }

    /// An array with random elements: from a small set, so that ties occur, or in between.
    pub fn data(&mut self, dtype: DType, shape: &[usize]) -> Data {
        let count: usize = shape.iter().product();
        let elements = match dtype {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 if count > LARGEST => {
                Elements::Drawn(self.random.bits() >> 40)
            }
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
                let from_set = self.random.chance(0.3);
                Elements::Reals((0..count).map(|_| self.real(from_set)).collect())
            }
            DType::I64 | DType::I32 => Elements::Integers((0..count).map(|_| self.integer()).collect()),
            DType::U8 => Elements::Integers((0..count).map(|_| self.random.between(0, 255)).collect()),
            DType::Bool => Elements::Integers((0..count).map(|_| self.random.between(0, 1)).collect()),
        };
        Data { dtype, shape: shape.to_vec(), elements }
    }

    fn real(&mut self, from_set: bool) -> f64 {
        if self.is_special && self.random.chance(0.08) {
            let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-310, 1e30, -1e30, f64::MIN_POSITIVE];
            return *self.random.choose(&special);
        }
        match from_set {
            true => *self.random.choose(&[-1.0, 0.0, 0.5, 1.0, 2.0]),
            // Multiples of 1/1024 are exact in 32 bits.
            false => self.random.between(-2048, 2048) as f64 / 1024.0,
        }
    }

    fn integer(&mut self) -> i64 {
        if self.is_special && self.random.chance(0.08) {
            let special = [i64::MIN, i64::MAX, i64::MIN + 1, (1 << 53) + 1, -1, i64::from(i32::MIN)];
            return *self.random.choose(&special);
        }
        self.random.between(-3, 6)
    }

    /// Indices of an axis as a new constant; negative ones count from the end, if the operation allows them.
    pub fn indices(&mut self, shape: &[usize], size: usize, may_be_negative: bool) -> Option<Entry> {
        if size == 0 && shape.iter().product::<usize>() > 0 {
            return None;
        }
        let low = if may_be_negative { -(size as i64) } else { 0 };
        let count: usize = shape.iter().product();
        let elements = (0..count).map(|_| self.random.between(low, size as i64 - 1)).collect();
        let data = Data { dtype: DType::I64, shape: shape.to_vec(), elements: Elements::Integers(elements) };
        self.emit(Draft::new("constant", &[]).data(data))?.pop()
    }

    /// A value of a type and shape: an existing one, or one derived from another by repeating or cutting its elements.
    pub fn shaped(&mut self, dtype: DType, shape: &[usize]) -> Option<Entry> {
        if self.random.chance(0.7)
            && let Some(found) = self.pick(|entry| entry.dtype == dtype && entry.shape == shape)
        {
            return Some(found);
        }
        let instruction = match self.pick(|entry| entry.dtype == dtype && entry.count() > 0) {
            Some(source) => Draft::new("resize", &[&source]).integers(shape.iter().map(|size| *size as i64)),
            None => {
                let data = self.data(dtype, shape);
                Draft::new("constant", &[]).data(data).bound(2.0)
            }
        };
        self.emit(instruction)?.pop()
    }

    /// Appends an instruction, unless it fails or is too large, and says what it defines. Floats that are not tame are
    /// squashed by a further instruction, whose results these are then.
    pub fn emit(&mut self, draft: Draft) -> Option<Vec<Entry>> {
        let results = self.append(draft)?;
        let mut tame = Vec::new();
        for entry in results {
            let is_wild = entry.is_float() && entry.bound > TAME;
            if is_wild && (!self.is_special || self.random.chance(0.5)) {
                let scale = if entry.bound.is_finite() { 2.0 / entry.bound } else { 1.0 };
                let draft = Draft::new("squash", &[&entry]).reals([scale]).bound(1.0);
                tame.extend(self.append(draft)?);
            } else {
                tame.push(entry);
            }
        }
        Some(tame)
    }

    fn append(&mut self, draft: Draft) -> Option<Vec<Entry>> {
        let Draft { mut instruction, bound } = draft;
        let operation = find(&instruction.operation);
        let environment: Environment = self.entries.iter().map(|entry| (entry.value, entry.witness())).collect();
        let operands: Vec<Tensor> = instruction.operands.iter().map(|value| environment[value].clone()).collect();
        let interpreter = Interpreter::new(Mode { inlined: true, ..Mode::default() });
        let application = Application {
            instruction: &instruction,
            operands: &operands,
            interpreter: &interpreter,
            environment: &environment,
        };
        let tensors = (operation.apply)(&application);
        if tensors.iter().any(|tensor| tensor.error().is_some() || tensor.shape().elements() > self.largest) {
            return None;
        }
        let entries: Vec<Entry> = tensors
            .iter()
            .enumerate()
            .map(|(place, tensor)| Entry {
                value: self.next + place,
                shape: tensor.shape().to_vec(),
                dtype: tensor.dtype(),
                bound,
            })
            .collect();
        self.next += entries.len();
        self.used.extend(&instruction.operands);
        self.used.extend(instruction.block.iter().flat_map(Block::used));
        instruction.results = entries.iter().map(|entry| entry.value).collect();
        self.entries.extend(entries.iter().cloned());
        self.instructions.push(instruction);
        Some(entries)
    }

    /// Builds a nested block: `body` adds instructions and returns the results, with the parameters in hand. What it
    /// defines is not visible afterwards.
    pub fn nested(
        &mut self,
        parameters: &[(DType, Vec<usize>, f64)],
        body: impl FnOnce(&mut Builder, &[Entry]) -> Option<Vec<Entry>>,
    ) -> Option<(Block, Vec<Entry>)> {
        let (visible, around) = (self.entries.len(), std::mem::take(&mut self.instructions));
        self.depth += 1;
        let entries: Vec<Entry> =
            parameters.iter().map(|(dtype, shape, bound)| self.parameter(*dtype, shape, *bound)).collect();
        let results = body(self, &entries);
        self.depth -= 1;
        self.entries.truncate(visible);
        let instructions = std::mem::replace(&mut self.instructions, around);
        let results = results?;
        let block = Block {
            parameters: entries.iter().map(|entry| entry.value).collect(),
            instructions,
            results: results.iter().map(|entry| entry.value).collect(),
        };
        Some((block, results))
    }
}
