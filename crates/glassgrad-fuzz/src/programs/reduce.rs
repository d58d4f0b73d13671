//! Automatic reduction: a failing program becomes a minimal one that still fails.
//!
//! Delta debugging over instructions: whole ranges are removed at once, and what they define becomes inputs with the values
//! that were computed; then single instructions in nested blocks, operands, shapes, attributes and elements are simplified.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use glassgrad::Tensor;
use glassgrad::array::{Array, Buffer};
use glassgrad::dtype::DType;

use super::interpret::{Environment, Interpreter, Mode};
use super::operations;
use super::program::{Block, Data, Elements, Instruction, Program, Value};

/// How long a reduction may take.
const TIME: Duration = Duration::from_secs(60);

/// Larger values do not become inputs.
const LARGEST: usize = 4096;

/// The smallest program found for which `fails` holds, as it does for `program`.
pub fn reduce(program: &Program, fails: &dyn Fn(&Program) -> bool) -> Program {
    let mut reduction = Reduction { best: program.clone(), fails, end: Instant::now() + TIME };
    loop {
        let before = reduction.best.clone();
        reduction.outputs();
        reduction.ranges();
        reduction.nested();
        reduction.operands();
        reduction.shapes();
        reduction.attributes();
        reduction.elements();
        if reduction.best == before || reduction.is_over() {
            return renumbered(&reduction.best);
        }
    }
}

struct Reduction<'f> {
    best: Program,
    fails: &'f dyn Fn(&Program) -> bool,
    end: Instant,
}

impl Reduction<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Takes a candidate if it still fails.
    fn attempt(&mut self, candidate: Program) -> bool {
        let candidate = candidate.without_dead_code();
        if self.is_over() || candidate == self.best || validate(&candidate).is_err() || !(self.fails)(&candidate) {
            return false;
        }
        self.best = candidate;
        true
    }

    /// One output instead of several.
    fn outputs(&mut self) {
        for value in self.best.block.results.clone() {
            let mut candidate = self.best.clone();
            candidate.block.results = vec![value];
            if candidate.block.results != self.best.block.results && self.attempt(candidate) {
                return;
            }
        }
    }

    /// Removes ranges of instructions of the outermost block; what they define becomes inputs.
    fn ranges(&mut self) {
        let mut size = self.best.block.instructions.len().max(1).next_power_of_two();
        while size > 0 {
            let mut begin = 0;
            while begin < self.best.block.instructions.len() {
                let end = (begin + size).min(self.best.block.instructions.len());
                let removed = self.without_range(begin, end);
                if !removed.is_some_and(|candidate| self.attempt(candidate)) {
                    begin += size;
                }
                if self.is_over() {
                    return;
                }
            }
            size /= 2;
        }
    }

    fn without_range(&self, begin: usize, end: usize) -> Option<Program> {
        let mut candidate = self.best.clone();
        let removed: Vec<Instruction> = candidate.block.instructions.drain(begin..end).collect();
        let used = candidate.block.used();
        let requested: Vec<Value> =
            removed.iter().flat_map(|one| &one.results).copied().filter(|value| used.contains(value)).collect();
        let values = values_of(&self.best, &requested)?;
        for (value, array) in requested.into_iter().zip(values) {
            candidate.block.parameters.push(value);
            candidate.inputs.push(data(&array)?);
        }
        Some(candidate)
    }

    /// Removes instructions in nested blocks; another visible value takes the place of what they define. Blocks are also
    /// called in place, where that means the same.
    fn nested(&mut self) {
        let mut number = 0;
        while number < self.best.block.length() && !self.is_over() {
            if !self.simplify_one(number) {
                number += 1;
            }
        }
    }

    fn simplify_one(&mut self, number: usize) -> bool {
        let mut places = Vec::new();
        collect(&self.best.block, &mut places);
        let Some((instruction, visible)) = places.get(number).cloned() else { return false };
        let mut replacements = instruction.operands.clone();
        replacements.extend(visible.iter().rev().take(6));
        for to in replacements {
            let mut candidate = self.best.clone();
            for from in &instruction.results {
                candidate.block.replace(*from, to);
            }
            if candidate.block.length() > 0 && self.attempt(candidate) {
                return true;
            }
        }
        if let Some(block) = &instruction.block
            && block.parameters.len() == instruction.operands.len()
            && block.results.len() == instruction.results.len()
        {
            let mut candidate = self.best.clone();
            let mut inside = block.clone();
            for (parameter, operand) in block.parameters.iter().zip(&instruction.operands) {
                inside.replace(*parameter, *operand);
            }
            splice(&mut candidate.block, &instruction.results, &inside);
            for (from, to) in instruction.results.iter().zip(&inside.results) {
                candidate.block.replace(*from, *to);
            }
            return self.attempt(candidate);
        }
        false
    }

    /// Removes operands and parameters of transforms, and results of blocks.
    fn operands(&mut self) {
        let mut number = 0;
        while number < self.best.block.length() && !self.is_over() {
            let mut places = Vec::new();
            collect(&self.best.block, &mut places);
            let Some((instruction, _)) = places.get(number).cloned() else { return };
            number += 1;
            let Some(block) = &instruction.block else { continue };
            for place in (0..block.results.len()).rev() {
                let mut changed = instruction.clone();
                if block.results.len() == instruction.results.len() && block.results.len() > 1 {
                    changed.results.remove(place);
                    changed.block.iter_mut().for_each(|block| _ = block.results.remove(place));
                    let mut candidate = self.best.clone();
                    rewrite(&mut candidate.block, &instruction.results, &changed);
                    if self.attempt(candidate) {
                        break;
                    }
                }
            }
        }
    }

    /// Makes axes of inputs shorter, and sizes among the attributes with them.
    fn shapes(&mut self) {
        let sizes: BTreeSet<usize> = self.best.inputs.iter().flat_map(|data| &data.shape).copied().collect();
        for size in sizes.into_iter().rev().filter(|size| *size > 1) {
            for smaller in [1, 2, size / 2, size - 1] {
                if smaller == 0 || smaller >= size {
                    continue;
                }
                let mut candidate = self.best.clone();
                let mut is_possible = true;
                for input in &mut candidate.inputs {
                    match shortened(input, size, smaller) {
                        Some(data) => *input = data,
                        None => is_possible = false,
                    }
                }
                let mut change = |one: &mut Instruction| {
                    one.integers
                        .iter_mut()
                        .filter(|number| **number == size as i64)
                        .for_each(|number| *number = smaller as i64);
                    if let Some(constant) = one.data.as_mut() {
                        match shortened(constant, size, smaller) {
                            Some(data) => *constant = data,
                            None => is_possible = false,
                        }
                    }
                };
                each_mut(&mut candidate.block, &mut change);
                if is_possible && self.attempt(candidate) {
                    break;
                }
            }
        }
    }

    /// Rows without squashing, numbers 0 and 1.
    fn attributes(&mut self) {
        for number in 0..self.best.block.length() {
            let mut places = Vec::new();
            collect(&self.best.block, &mut places);
            let Some((instruction, _)) = places.get(number).cloned() else { return };
            let mut changes = Vec::new();
            if instruction.operation == "row" && instruction.reals.len() > 1 {
                changes.push(Instruction { reals: instruction.reals[..1].to_vec(), ..instruction.clone() });
            }
            for place in 0..instruction.integers.len() {
                for simple in [0, 1] {
                    let mut changed = instruction.clone();
                    changed.integers[place] = simple;
                    let is_simpler = instruction.integers[place].unsigned_abs() > simple.unsigned_abs();
                    changes.extend(is_simpler.then_some(changed));
                }
            }
            for changed in changes {
                let mut candidate = self.best.clone();
                rewrite(&mut candidate.block, &instruction.results, &changed);
                if self.attempt(candidate) {
                    break;
                }
            }
        }
    }

    /// Simpler elements of inputs: all zero, all one, whole numbers, and one by one.
    fn elements(&mut self) {
        for input in 0..self.best.inputs.len() {
            let Some(data) = self.best.inputs.get(input).cloned() else { return };
            let reals = data.reals();
            let count = reals.len().min(40);
            let mut changes: Vec<Vec<f64>> = vec![vec![0.0; reals.len()], vec![1.0; reals.len()]];
            changes.push(reals.iter().map(|number| number.round()).collect());
            changes.push(reals.iter().map(|number| (number * 4.0).round() / 4.0).collect());
            for numbers in changes {
                if self.attempt_elements(input, &numbers) {
                    break;
                }
            }
            for place in 0..count {
                for simple in [0.0, 1.0] {
                    let Some(data) = self.best.inputs.get(input) else { return };
                    let mut numbers = data.reals();
                    if place < numbers.len() && numbers[place] != 0.0 && numbers[place] != simple {
                        numbers[place] = simple;
                        if self.attempt_elements(input, &numbers) {
                            break;
                        }
                    }
                }
            }
        }
    }

    fn attempt_elements(&mut self, input: usize, numbers: &[f64]) -> bool {
        let mut candidate = self.best.clone();
        let Some(data) = candidate.inputs.get_mut(input).filter(|data| data.count() == numbers.len()) else {
            return false;
        };
        data.elements = match data.dtype.is_float() {
            true => Elements::Reals(numbers.to_vec()),
            false => Elements::Integers(numbers.iter().map(|number| *number as i64).collect()),
        };
        self.attempt(candidate)
    }
}

/// Whether every value is defined before it is used, and every operation exists.
pub fn validate(program: &Program) -> Result<(), String> {
    fn block(block: &Block, around: &BTreeSet<Value>) -> Result<(), String> {
        let mut visible = around.clone();
        visible.extend(&block.parameters);
        for one in &block.instructions {
            if operations::get(&one.operation).is_none() {
                return Err(format!("there is no operation '{}'", one.operation));
            }
            if let Some(missing) = one.operands.iter().find(|operand| !visible.contains(operand)) {
                return Err(format!("%{missing} is not defined where {} reads it", one.operation));
            }
            if let Some(inside) = &one.block {
                self::validate_block(inside, &visible)?;
            }
            visible.extend(&one.results);
        }
        match block.results.iter().find(|result| !visible.contains(result)) {
            Some(missing) => Err(format!("%{missing} is returned but not defined")),
            None => Ok(()),
        }
    }
    if program.block.results.is_empty() || program.inputs.len() != program.block.parameters.len() {
        return Err("there are no outputs, or inputs without a name".to_owned());
    }
    block(&program.block, &BTreeSet::new())
}

fn validate_block(block: &Block, visible: &BTreeSet<Value>) -> Result<(), String> {
    let wrapped = Program { inputs: Vec::new(), block: Block { parameters: Vec::new(), ..block.clone() } };
    let mut inside = visible.clone();
    inside.extend(&block.parameters);
    // The same checks with what is visible around as parameters.
    let parameters: Vec<Value> = inside.into_iter().collect();
    let inputs = parameters.iter().map(|_| nothing()).collect();
    validate(&Program { inputs, block: Block { parameters, ..wrapped.block } })
}

fn nothing() -> Data {
    Data { dtype: DType::F64, shape: vec![0], elements: Elements::Reals(Vec::new()) }
}

/// Calls a function with every instruction, nested ones included.
fn each_mut(block: &mut Block, change: &mut dyn FnMut(&mut Instruction)) {
    for instruction in &mut block.instructions {
        change(instruction);
        if let Some(block) = &mut instruction.block {
            each_mut(block, change);
        }
    }
}

/// All instructions with the values that are visible before them.
fn collect(block: &Block, found: &mut Vec<(Instruction, Vec<Value>)>) {
    fn walk(block: &Block, visible: &mut Vec<Value>, found: &mut Vec<(Instruction, Vec<Value>)>) {
        let before = visible.len();
        visible.extend(&block.parameters);
        for instruction in &block.instructions {
            found.push((instruction.clone(), visible.clone()));
            if let Some(inside) = &instruction.block {
                walk(inside, visible, found);
            }
            visible.extend(&instruction.results);
        }
        visible.truncate(before);
    }
    walk(block, &mut Vec::new(), found);
}

/// Replaces the instruction that defines some values.
fn rewrite(block: &mut Block, results: &[Value], changed: &Instruction) {
    for instruction in &mut block.instructions {
        if instruction.results == results {
            *instruction = changed.clone();
            return;
        }
        if let Some(inside) = &mut instruction.block {
            rewrite(inside, results, changed);
        }
    }
}

/// Puts the instructions of a block in the place of the one that defines some values.
fn splice(block: &mut Block, results: &[Value], inside: &Block) {
    if let Some(place) = block.instructions.iter().position(|one| one.results == results) {
        block.instructions.splice(place..=place, inside.instructions.iter().cloned());
        return;
    }
    block.instructions.iter_mut().filter_map(|one| one.block.as_mut()).for_each(|block| splice(block, results, inside));
}

/// The values of a program by the reference executor.
fn values_of(program: &Program, requested: &[Value]) -> Option<Vec<Array>> {
    if requested.is_empty() {
        return Some(Vec::new());
    }
    let mut shown = program.clone();
    shown.block.results = requested.to_vec();
    catch_unwind(AssertUnwindSafe(|| {
        let interpreter = Interpreter::new(Mode { inlined: true, ..Mode::default() });
        let results = interpreter.call(&shown.block, &Environment::new(), &interpreter.inputs(&shown));
        Tensor::eval_all_by_reference(&results.iter().collect::<Vec<_>>()).ok()
    }))
    .ok()
    .flatten()
}

fn data(array: &Array) -> Option<Data> {
    if array.buffer().len() > LARGEST {
        return None;
    }
    let elements = match array.buffer() {
        Buffer::I64(integers) => Elements::Integers(integers.to_vec()),
        Buffer::I32(integers) => Elements::Integers(integers.iter().map(|integer| i64::from(*integer)).collect()),
        Buffer::U8(integers) => Elements::Integers(integers.iter().map(|integer| i64::from(*integer)).collect()),
        Buffer::Bool(flags) => Elements::Integers(flags.iter().map(|flag| i64::from(*flag)).collect()),
        other => Elements::Reals((0..other.len()).map(|k| other.get(k)).collect()),
    };
    Some(Data { dtype: array.dtype(), shape: array.shape().to_vec(), elements })
}

/// The first entries of all axes of a size.
fn shortened(data: &Data, size: usize, smaller: usize) -> Option<Data> {
    if !data.shape.contains(&size) {
        return Some(data.clone());
    }
    let shape: Vec<usize> = data.shape.iter().map(|own| if *own == size { smaller } else { *own }).collect();
    let count: usize = shape.iter().product();
    if count > LARGEST {
        return Some(Data { shape, ..data.clone() });
    }
    let place = |mut k: usize| -> usize {
        let (mut place, mut stride) = (0, 1);
        for (own, new) in data.shape.iter().zip(&shape).rev() {
            place += k % new * stride;
            k /= new;
            stride *= own;
        }
        place
    };
    let elements = match &data.elements {
        Elements::Integers(list) => Elements::Integers((0..count).map(|k| list[place(k)]).collect()),
        _ => {
            let list = data.reals();
            Elements::Reals((0..count).map(|k| list[place(k)]).collect())
        }
    };
    Some(Data { shape, elements, ..data.clone() })
}

/// The same program with values numbered in order.
fn renumbered(program: &Program) -> Program {
    fn walk(block: &mut Block, numbers: &mut HashMap<Value, Value>) {
        let number = |value: &mut Value, numbers: &mut HashMap<Value, Value>| {
            let next = numbers.len();
            *value = *numbers.entry(*value).or_insert(next);
        };
        block.parameters.iter_mut().for_each(|value| number(value, numbers));
        for one in &mut block.instructions {
            one.operands.iter_mut().for_each(|value| number(value, numbers));
            one.results.iter_mut().for_each(|value| number(value, numbers));
            if let Some(inside) = &mut one.block {
                walk(inside, numbers);
            }
        }
        block.results.iter_mut().for_each(|value| number(value, numbers));
    }
    let mut renumbered = program.clone();
    walk(&mut renumbered.block, &mut HashMap::new());
    renumbered
}
