//! Programs: plain data that tells an executor what to do, step by step, over planned memory.
//!
//! A step is a fused loop of table rows over strided memory, a batched product of matrices, a loop over time with
//! a program as its body, the sweep back over such a loop, or one operation on whole arrays. Nothing in a program refers to a tensor, so that it
//! can be kept, printed, compared, and translated for another device.

use std::fmt;
use std::sync::Arc;

use crate::array::Array;
use crate::dtype::DType;
use crate::expr::{Logic, Op};
use crate::ops::{Operation, Relation};
use crate::shape::Shape;

pub use super::memory::Held;
pub use super::sweep::Sweep;

/// How many elements of a loop are computed at a time; rows of no more elements lie in one block.
pub const BLOCK: usize = 1024;

/// Where elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// An input, by its number.
    Input(usize),
    /// A constant of the program, by its number.
    Constant(usize),
    /// A result, by its number.
    Result(usize),
    /// The arena, from this byte on.
    Arena(usize),
    /// The piece of a product that was computed last, in a loop that goes on with it.
    Piece,
}

/// Strided elements: the place of an index is the offset plus the sum of indices times strides, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Where they lie.
    pub memory: Memory,
    /// Their type.
    pub dtype: DType,
    /// The place of the first.
    pub offset: isize,
    /// For each axis of the loop, how far one step leads.
    pub strides: Vec<isize>,
}

/// One instruction of a fused loop; numbers are registers, each of one type, written once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// A number, the same for all elements.
    Number(f64),
    /// A row of the table with one argument, and its parameter.
    Unary(Operation, usize, f64),
    /// A row of the table with two arguments; sums and products of integers too.
    Binary(Operation, usize, usize),
    /// The product of the first, whose zeros win, with the second.
    Strong(usize, usize),
    /// A comparison.
    Compare(Relation, usize, usize),
    /// Truth values combined; the second is not read by a negation.
    Logic(Logic, usize, usize),
    /// The second register where the first holds, the third elsewhere.
    Choose(usize, usize, usize),
    /// Another element type.
    Cast(usize),
    /// For each row of the loop all elements put together and multiplied by a factor. The register
    /// it makes holds one number for each row.
    Rows(Combine, usize, f64),
    /// For each element, what a register holds for its row.
    Spread(usize),
}

impl Instruction {
    /// The registers that are read.
    pub fn operands(&self) -> impl Iterator<Item = usize> + use<> {
        let operands: [Option<usize>; 3] = match *self {
            Instruction::Number(_) => [None; 3],
            Instruction::Unary(_, a, _)
            | Instruction::Cast(a)
            | Instruction::Logic(Logic::Not, a, _)
            | Instruction::Rows(_, a, _)
            | Instruction::Spread(a) => [Some(a), None, None],
            Instruction::Binary(_, a, b)
            | Instruction::Strong(a, b)
            | Instruction::Compare(_, a, b)
            | Instruction::Logic(_, a, b) => [Some(a), Some(b), None],
            Instruction::Choose(condition, a, b) => [Some(condition), Some(a), Some(b)],
        };
        operands.into_iter().flatten()
    }
}

/// How elements are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Their sum.
    Sum,
    /// The largest; NaN wins.
    Largest,
}

/// What leaves a fused loop: a register, element by element or put together along axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// The register.
    pub register: usize,
    /// Where it goes; axes along which elements are put together have stride 0.
    pub access: Access,
    /// How elements of one place are put together, if more than one falls there.
    pub combine: Option<Combine>,
    /// A factor of a sum, applied at the end.
    pub scale: f64,
    /// How many elements to set to zero first: all of what is written, where not every place is reached.
    pub clear: Option<usize>,
    /// Whether elements are written one after another, in the order of the loop.
    pub in_order: bool,
    /// Whether the register can be computed where it belongs, without a place of its own.
    pub direct: bool,
}

/// How a loop comes by what it loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Its elements lie row by row, and are read where they are.
    InPlace,
    /// It is one element for all, read once.
    Once,
    /// Its elements are gathered, block by block.
    Gathered,
}

/// How rows lie among each other: as many parts of each as `outer` says, one behind another; in between those of all rows
/// side by side; each part of `inner` neighbouring elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) outer: usize,
    pub(crate) side_by_side: usize,
    pub(crate) inner: usize,
}

impl Rows {
    /// The elements of all rows that lie among each other.
    pub(crate) fn elements(&self) -> usize {
        self.outer * self.side_by_side * self.inner
    }
}

/// A fused loop: registers are first what is loaded, then what instructions make.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The sizes of its axes.
    pub extents: Vec<usize>,
    /// What is read.
    pub loads: Vec<Access>,
    /// How each of these is read.
    pub readings: Vec<Reading>,
    /// What is computed.
    pub code: Vec<(Instruction, DType)>,
    /// For each register, whether it holds one number for each row, and not one for each element.
    pub by_row: Vec<bool>,
    /// For each axis, whether rows run along it; none are there if no register is by row. Rows run along the last axis and
    /// its neighbours, and perhaps along neighbours further in front too, or along these alone, as the windows of pooling do.
    /// What lies from the first of these axes to the end fits into a block.
    pub along_rows: Vec<bool>,
    /// What is kept.
    pub stores: Vec<Store>,
    /// For each register, its slot of scratch memory, of as many elements as a block has.
    pub slots: Vec<usize>,
    /// How many slots there are.
    pub slot_count: usize,
}

/// One axis of a product of matrices: its size, and the strides in both factors and in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductAxis {
    /// The size.
    pub extent: usize,
    /// Strides in the first factor, the second and the result.
    pub strides: [isize; 3],
}

impl ProductAxis {
    /// The same axis of the product with its factors exchanged.
    pub(crate) fn transposed(&self) -> ProductAxis {
        let [first, second, result] = self.strides;
        ProductAxis { strides: [second, first, result], ..*self }
    }
}

/// A product of matrices for each index of the batch axes, summed over the outer inner axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// Axes of the result over which products are independent.
    pub batch: Vec<ProductAxis>,
    /// Axes over which whole products are added up.
    pub sums: Vec<ProductAxis>,
    /// The rows of the first factor.
    pub rows: ProductAxis,
    /// The columns of the second factor.
    pub columns: ProductAxis,
    /// The axis that is summed.
    pub inner: ProductAxis,
    /// The factors and the result: memory, type and offset.
    pub operands: [Access; 3],
    /// A factor of everything.
    pub coefficient: f64,
    /// How many elements to set to zero first, if not every place is written.
    pub clear: Option<usize>,
    /// Whether the result is its own transpose, so that half of it is to be computed.
    pub symmetric: bool,
    /// Whether places of the result meet, so that everything is added to what is there.
    pub meets: bool,
    /// For each factor, whether its zeros win over what is not finite in the other.
    pub strong: [bool; 2],
    /// A loop that goes on with the result, piece by piece while it is near: it lies in [`Memory::Piece`], and nowhere else.
    pub then: Option<Box<Loop>>,
}

/// One operation on whole arrays, whose elements lie row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The operation.
    pub op: Op,
    /// Where its operands lie, and their shapes.
    pub inputs: Vec<(Access, Shape)>,
    /// Where its result goes, and its shape.
    pub output: (Access, Shape),
    /// The node to name if it fails.
    pub source: usize,
}

/// A loop over time: a program for one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// One step: its inputs are the carries, one entry of each sequence and what does not change; its results
    /// are the next carries and one entry of each stacked result.
    pub body: Arc<Program>,
    /// How many steps.
    pub length: usize,
    /// Whether entries come from the last to the first; results stand where their entries do.
    pub reversed: bool,
    /// The first carries, the sequences, and what does not change. The first stride of a sequence leads from one entry to
    /// the next.
    pub inputs: Vec<Access>,
    /// The last carries and the stacked results, where anybody reads them.
    pub outputs: Vec<Option<Access>>,
    /// How many carries there are, and how many sequences.
    pub carries: usize,
    /// How many sequences there are.
    pub sequences: usize,
    /// Where the body has its own arena, from this byte on, and two places for each carry.
    pub scratch: Memory,
    /// The node to name if it fails.
    pub source: usize,
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A fused loop.
    Loop(Loop),
    /// A product of matrices.
    Product(Product),
    /// An operation on whole arrays.
    Call(Call),
    /// A loop over time.
    Repeat(Repeat),
    /// The sweep back over one.
    Sweep(Sweep),
}

/// The shape and type of an input or a result.
pub type Signature = (Shape, DType);

/// What to do, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What is given at each run.
    pub inputs: Vec<Signature>,
    /// What is part of the program.
    pub constants: Vec<Array>,
    /// What is asked for.
    pub results: Vec<Signature>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The bytes of memory that steps use in between.
    pub arena: usize,
    /// What lies there, from when to when, in no particular order.
    pub values: Vec<Held>,
    /// Which nodes of the graph a step was made for: pairs of a step and the number of a node, as in
    /// [`GraphNode::source`](super::graph::GraphNode::source), in no particular order; some are there twice.
    pub sources: Vec<(usize, usize)>,
}

impl Product {
    /// Multiplications and additions, without those of what follows.
    pub(crate) fn flops(&self) -> f64 {
        let whole: f64 = self.batch.iter().chain(&self.sums).map(|axis| axis.extent as f64).product();
        let [rows, columns, inner] = [self.rows, self.columns, self.inner].map(|axis| axis.extent as f64);
        let computed = if self.symmetric { (columns + 1.0) / 2.0 } else { columns };
        2.0 * whole * rows * computed * inner
    }

    /// Bytes of the factors, and of the result if it is kept.
    fn bytes(&self) -> f64 {
        let axes = [&self.batch[..], &self.sums, &[self.rows, self.columns, self.inner]].concat();
        let operands = if self.then.is_some() { 0..2 } else { 0..3 };
        let bytes = operands.map(|operand| {
            let moved = axes.iter().filter(|axis| axis.strides[operand] != 0);
            let elements = match self.clear.filter(|_| self.meets && operand == 2) {
                Some(places) => places as f64,
                None => moved.map(|axis| axis.extent as f64).product(),
            };
            elements * self.operands[operand].dtype.bytes() as f64
        });
        bytes.sum()
    }
}

impl Loop {
    /// Operations on elements.
    pub(crate) fn flops(&self) -> f64 {
        let elements: f64 = self.extents.iter().map(|extent| *extent as f64).product();
        let is_work = |(_, (code, _)): &(usize, &(Instruction, DType))| {
            !matches!(code, Instruction::Number(_) | Instruction::Spread(_))
        };
        let instructions: f64 = self.code.iter().enumerate().filter(is_work).map(|(place, _)| self.runs(place)).sum();
        let combined = self.stores.iter().filter(|store| store.combine.is_some()).count();
        instructions + elements * combined as f64
    }

    /// Bytes of what is read from memory and of what is kept.
    fn bytes(&self) -> f64 {
        let span = |access: &Access| {
            let moved = access.strides.iter().zip(&self.extents).filter(|(stride, _)| **stride != 0);
            moved.map(|(_, extent)| *extent as f64).product::<f64>() * access.dtype.bytes() as f64
        };
        let loads = self.loads.iter().filter(|load| load.memory != Memory::Piece);
        loads.chain(self.stores.iter().map(|store| &store.access)).map(span).sum()
    }

    /// How often the instruction at a place of the code runs.
    pub(crate) fn runs(&self, place: usize) -> f64 {
        let by_row = self.by_row[self.loads.len() + place] && !matches!(self.code[place].0, Instruction::Rows(..));
        let is_counted = |axis: usize| !by_row || !self.along_rows[axis];
        let counted = self.extents.iter().enumerate().filter(|(axis, _)| is_counted(*axis));
        counted.map(|(_, extent)| *extent as f64).product()
    }

    /// The rows that lie among each other at the end of the loop.
    pub(crate) fn rows(&self) -> Rows {
        let mut rows = Rows { outer: 1, side_by_side: 1, inner: 1 };
        for (extent, along) in self.extents.iter().zip(&self.along_rows).rev() {
            match (along, rows.side_by_side) {
                (true, 1) => rows.inner *= extent,
                (true, _) => rows.outer *= extent,
                (false, _) if rows.outer > 1 => break,
                (false, _) => rows.side_by_side *= extent,
            }
        }
        // What stands in front of rows along the last axes alone is not among them.
        if rows.outer == 1 { Rows { side_by_side: 1, ..rows } } else { rows }
    }
}

impl Program {
    /// The bytes that a run takes besides what it is given: the arena, and the results.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let program = Tensor::from([1.0, 2.0]).exp().program().unwrap();
    /// assert_eq!(program.memory(), program.arena + 2 * 8);
    /// ```
    pub fn memory(&self) -> usize {
        let bytes = |(shape, dtype): &Signature| shape.elements().saturating_mul(dtype.bytes());
        self.results.iter().map(bytes).fold(self.arena, usize::saturating_add)
    }

    /// Multiplications and additions of all steps.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!((Tensor::from([1.0, 2.0]) * 3.0).program().unwrap().flops(), 2.0);
    /// ```
    pub fn flops(&self) -> f64 {
        self.steps.iter().map(Step::flops).sum()
    }
}

impl Step {
    /// What the step reads.
    pub fn reads(&self) -> impl Iterator<Item = &Access> {
        let (plain, then, with_shapes): (&[Access], &[Access], &[(Access, Shape)]) = match self {
            Step::Loop(fused) => (&fused.loads, &[], &[]),
            Step::Product(product) => {
                (&product.operands[..2], product.then.as_ref().map_or(&[], |then| &then.loads), &[])
            }
            Step::Call(call) => (&[], &[], &call.inputs),
            Step::Repeat(repeat) => (&repeat.inputs, &[], &[]),
            Step::Sweep(sweep) => (&sweep.inputs, &[], &[]),
        };
        let then = then.iter().filter(|access| access.memory != Memory::Piece);
        plain.iter().chain(then).chain(with_shapes.iter().map(|(access, _)| access))
    }

    /// What the step writes.
    pub fn writes(&self) -> impl Iterator<Item = &Access> {
        let (stores, one, parts): (&[Store], Option<&Access>, &[Option<Access>]) = match self {
            Step::Loop(fused) => (&fused.stores, None, &[]),
            Step::Product(Product { then: Some(then), .. }) => (&then.stores, None, &[]),
            Step::Product(product) => (&[], Some(&product.operands[2]), &[]),
            Step::Call(call) => (&[], Some(&call.output.0), &[]),
            Step::Repeat(repeat) => (&[], None, &repeat.outputs),
            Step::Sweep(sweep) => (&[], None, &sweep.outputs),
        };
        stores.iter().map(|store| &store.access).chain(one).chain(parts.iter().flatten())
    }

    /// Multiplications and additions that the step takes.
    pub fn flops(&self) -> f64 {
        match self {
            Step::Loop(fused) => fused.flops(),
            Step::Product(product) => product.flops() + product.then.as_ref().map_or(0.0, |then| then.flops()),
            Step::Call(_) => 0.0,
            Step::Repeat(repeat) => repeat.length as f64 * repeat.body.flops(),
            Step::Sweep(sweep) => {
                let [forwards, back] = sweep.runs();
                forwards as f64 * sweep.advance.flops() + back as f64 * sweep.reverse.flops()
            }
        }
    }

    /// Bytes that the step reads and writes at least once.
    pub fn bytes(&self) -> f64 {
        match self {
            Step::Loop(fused) => fused.bytes(),
            Step::Product(product) => product.bytes() + product.then.as_ref().map_or(0.0, |then| then.bytes()),
            Step::Call(call) => {
                let whole = call.inputs.iter().chain([&call.output]);
                whole.map(|(access, shape)| shape.elements() as f64 * access.dtype.bytes() as f64).sum()
            }
            Step::Repeat(repeat) => repeat.length as f64 * repeat.body.steps.iter().map(Step::bytes).sum::<f64>(),
            Step::Sweep(sweep) => {
                let bytes = |program: &Program| program.steps.iter().map(Step::bytes).sum::<f64>();
                let [forwards, back] = sweep.runs();
                forwards as f64 * bytes(&sweep.advance) + back as f64 * bytes(&sweep.reverse)
            }
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Input(number) => write!(formatter, "input {number}"),
            Memory::Constant(number) => write!(formatter, "constant {number}"),
            Memory::Result(number) => write!(formatter, "result {number}"),
            Memory::Arena(offset) => write!(formatter, "@{offset}"),
            Memory::Piece => write!(formatter, "piece"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strides: Vec<String> = self.strides.iter().map(isize::to_string).collect();
        write!(formatter, "{}", self.memory)?;
        if self.offset != 0 {
            write!(formatter, "+{}", self.offset)?;
        }
        write!(formatter, "[{}]", strides.join(","))
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instruction::Number(number) => write!(formatter, "{number}"),
            Instruction::Unary(operation, a, parameter) if operation.parameter().is_some() => {
                write!(formatter, "{}(r{a}, {parameter})", operation.name())
            }
            Instruction::Unary(operation, a, _) => write!(formatter, "{}(r{a})", operation.name()),
            Instruction::Binary(operation, a, b) => write!(formatter, "{}(r{a}, r{b})", operation.name()),
            Instruction::Strong(a, b) => write!(formatter, "r{a} !* r{b}"),
            Instruction::Compare(relation, a, b) => write!(formatter, "r{a} {} r{b}", relation.symbol()),
            Instruction::Logic(Logic::Not, a, _) => write!(formatter, "not r{a}"),
            Instruction::Logic(Logic::And, a, b) => write!(formatter, "r{a} and r{b}"),
            Instruction::Logic(Logic::Or, a, b) => write!(formatter, "r{a} or r{b}"),
            Instruction::Choose(condition, a, b) => write!(formatter, "r{condition} ? r{a} : r{b}"),
            Instruction::Cast(a) => write!(formatter, "cast(r{a})"),
            Instruction::Spread(a) => write!(formatter, "spread(r{a})"),
            Instruction::Rows(combine, a, scale) => {
                let name = match combine {
                    Combine::Sum => "row sum",
                    Combine::Largest => "row largest",
                };
                match scale {
                    1.0 => write!(formatter, "{name}(r{a})"),
                    scale => write!(formatter, "{name}(r{a}) * {scale}"),
                }
            }
        }
    }
}

/// What is read, computed and kept, a line each.
impl fmt::Display for Loop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "loop {:?}", self.extents)?;
        for (register, load) in self.loads.iter().enumerate() {
            writeln!(formatter, "       r{register} = {load}")?;
        }
        for (register, (instruction, dtype)) in (self.loads.len()..).zip(&self.code) {
            writeln!(formatter, "       r{register} = {instruction} : {dtype}")?;
        }
        for store in &self.stores {
            let arrow = match store.combine {
                None => "->",
                Some(Combine::Sum) => "sum ->",
                Some(Combine::Largest) => "largest ->",
            };
            writeln!(formatter, "       r{} {arrow} {}", store.register, store.access)?;
        }
        Ok(())
    }
}

/// The steps in words, with what they compute and move.
impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature = |(shape, dtype): &Signature| format!("{dtype}{shape}");
        let listed = |signatures: &[Signature]| signatures.iter().map(signature).collect::<Vec<_>>().join(", ");
        writeln!(
            formatter,
            "{} -> {}, {} steps, arena {} bytes",
            listed(&self.inputs),
            listed(&self.results),
            self.steps.len(),
            self.arena
        )?;
        for (number, step) in self.steps.iter().enumerate() {
            write!(formatter, "{number:>3}  ")?;
            match step {
                Step::Loop(fused) => fused.fmt(formatter)?,
                Step::Product(product) => {
                    let sizes = |axes: &[ProductAxis]| axes.iter().map(|axis| axis.extent).collect::<Vec<_>>();
                    let [a, b, c] = &product.operands;
                    let symmetric = if product.symmetric { "symmetric " } else { "" };
                    let strong = if product.strong != [false; 2] { "strong " } else { "" };
                    writeln!(
                        formatter,
                        "{symmetric}{strong}product {:?} {}×{}×{} sum {:?}: {} · {} -> {}",
                        sizes(&product.batch),
                        product.rows.extent,
                        product.inner.extent,
                        product.columns.extent,
                        sizes(&product.sums),
                        a.memory,
                        b.memory,
                        c.memory
                    )?;
                    if let Some(then) = &product.then {
                        write!(formatter, "     then ")?;
                        then.fmt(formatter)?;
                    }
                }
                Step::Call(call) => {
                    let inputs: Vec<String> =
                        call.inputs.iter().map(|(access, shape)| format!("{}{shape}", access.memory)).collect();
                    writeln!(formatter, "{}({}) -> {}", call.op.describe(), inputs.join(", "), call.output.0.memory)?;
                }
                Step::Repeat(repeat) => {
                    let direction = if repeat.reversed { " backwards" } else { "" };
                    writeln!(formatter, "repeat {} times{direction}", repeat.length)?;
                    for line in repeat.body.to_string().lines() {
                        writeln!(formatter, "       {line}")?;
                    }
                }
                Step::Sweep(sweep) => sweep.fmt(formatter)?,
            }
        }
        Ok(())
    }
}
