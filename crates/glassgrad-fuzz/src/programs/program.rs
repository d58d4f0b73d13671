//! Programs as data: lists of instructions over numbered values, which can be printed, replayed and reduced.

use std::collections::BTreeSet;

use glassgrad::Tensor;
use glassgrad::dtype::DType;

/// The number of a value. Numbers are unique within a program, also in nested blocks.
pub type Value = usize;

/// A program: inputs, and a block over them whose results are the outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The arrays that the parameters of the block stand for.
    pub inputs: Vec<Data>,
    /// The instructions.
    pub block: Block,
}

/// A function: parameters, instructions, and the values that are returned. It may use values of blocks around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The arguments.
    pub parameters: Vec<Value>,
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
    /// What is returned.
    pub results: Vec<Value>,
}

/// One application of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instruction {
    /// The values that it defines.
    pub results: Vec<Value>,
    /// The name of the operation.
    pub operation: String,
    /// The values that it reads.
    pub operands: Vec<Value>,
    /// Whole-number attributes: axes, sizes, flags.
    pub integers: Vec<i64>,
    /// Real attributes.
    pub reals: Vec<f64>,
    /// A name or a notation, without spaces.
    pub text: String,
    /// An array.
    pub data: Option<Data>,
    /// The function that a transform takes.
    pub block: Option<Block>,
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// The element type.
    pub dtype: DType,
    /// The sizes of the axes.
    pub shape: Vec<usize>,
    /// The elements.
    pub elements: Elements,
}

/// The elements of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Floating-point numbers.
    Reals(Vec<f64>),
    /// Integers, and booleans as 0 and 1.
    Integers(Vec<i64>),
    /// Uniform numbers in [-1, 1) of a seed, rounded to multiples of 1/64; for large arrays.
    Drawn(u64),
}

impl Data {
    /// How many elements there are.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements as real numbers.
    pub fn reals(&self) -> Vec<f64> {
        match &self.elements {
            Elements::Reals(reals) => reals.clone(),
            Elements::Integers(integers) => integers.iter().map(|number| *number as f64).collect(),
            Elements::Drawn(seed) => {
                let mut random = crate::random::Random::new(*seed);
                (0..self.count()).map(|_| random.between(-64, 63) as f64 / 64.0).collect()
            }
        }
    }

    /// The array as a leaf, of another floating-point type if `as_f64` asks for it.
    pub fn tensor(&self, as_f64: bool) -> Tensor {
        let shape = &self.shape[..];
        let reals = || self.reals();
        match (self.dtype, &self.elements) {
            (DType::F32, _) if !as_f64 => {
                Tensor::new(&reals().into_iter().map(|number| number as f32).collect::<Vec<_>>(), shape)
            }
            (DType::F32 | DType::F64, _) => Tensor::new(&reals(), shape),
            (DType::I64, Elements::Integers(integers)) => Tensor::new(integers, shape),
            (DType::I64, _) => Tensor::new(&reals().into_iter().map(|number| number as i64).collect::<Vec<_>>(), shape),
            (DType::F16 | DType::BF16, _) => Tensor::new(&reals(), shape).cast(self.dtype),
            (DType::I32 | DType::U8, Elements::Integers(integers)) => Tensor::new(integers, shape).cast(self.dtype),
            (DType::I32 | DType::U8, _) => Tensor::new(&reals(), shape).cast(self.dtype),
            (DType::Bool, _) => {
                Tensor::new(&reals().into_iter().map(|number| number != 0.0).collect::<Vec<_>>(), shape)
            }
        }
    }
}

impl Program {
    /// How many instructions there are, nested ones included.
    pub fn length(&self) -> usize {
        self.block.length()
    }

    /// Removes instructions with unused results, and unused inputs.
    pub fn without_dead_code(mut self) -> Program {
        self.block.remove_dead();
        let used = self.block.used();
        let keep: Vec<bool> = self.block.parameters.iter().map(|value| used.contains(value)).collect();
        let mut flags = keep.iter();
        self.inputs.retain(|_| *flags.next().unwrap_or(&true));
        let mut flags = keep.iter();
        self.block.parameters.retain(|_| *flags.next().unwrap_or(&true));
        self
    }

    /// Calls a function with every instruction, nested ones included.
    pub fn each(&self, visit: &mut dyn FnMut(&Instruction)) {
        self.block.each(visit);
    }
}

impl Block {
    /// How many instructions there are, nested ones included.
    pub fn length(&self) -> usize {
        self.instructions.iter().map(|one| 1 + one.block.as_ref().map_or(0, Block::length)).sum()
    }

    /// Calls a function with every instruction, nested ones included.
    pub fn each(&self, visit: &mut dyn FnMut(&Instruction)) {
        for instruction in &self.instructions {
            visit(instruction);
            if let Some(block) = &instruction.block {
                block.each(visit);
            }
        }
    }

    /// The values that are read here, nested blocks included.
    pub fn used(&self) -> BTreeSet<Value> {
        let mut used: BTreeSet<Value> = self.results.iter().copied().collect();
        for instruction in &self.instructions {
            used.extend(&instruction.operands);
            if let Some(block) = &instruction.block {
                used.extend(block.used());
            }
        }
        used
    }

    fn remove_dead(&mut self) {
        let mut used: BTreeSet<Value> = self.results.iter().copied().collect();
        let mut kept = Vec::new();
        for mut instruction in self.instructions.drain(..).rev() {
            if !instruction.results.iter().any(|result| used.contains(result)) {
                continue;
            }
            used.extend(&instruction.operands);
            if let Some(block) = &mut instruction.block {
                block.remove_dead();
                used.extend(block.used());
            }
            kept.push(instruction);
        }
        kept.reverse();
        self.instructions = kept;
    }

    /// Replaces a value by another one wherever it is read.
    pub fn replace(&mut self, from: Value, to: Value) {
        let rename = |value: &mut Value| {
            if *value == from {
                *value = to;
            }
        };
        self.results.iter_mut().for_each(rename);
        for instruction in &mut self.instructions {
            instruction.operands.iter_mut().for_each(rename);
            if let Some(block) = &mut instruction.block {
                block.replace(from, to);
            }
        }
    }
}
