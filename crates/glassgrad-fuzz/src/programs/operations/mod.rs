//! The operations of programs: how an instruction is drawn, and what it calls in the library. An operation is one entry in
//! a list of one of these files.

mod indexing;
mod layout;
mod matrices;
mod pointwise;
mod products;
mod reductions;
mod sampling;
mod transforms;

use std::collections::HashMap;
use std::sync::OnceLock;

use glassgrad::Tensor;
use glassgrad::expr::{MultiOp, Op};

use super::builder::{Builder, Draft};
use super::interpret::{Environment, Interpreter};
use super::program::Instruction;

pub use pointwise::{RowEntry, rows};
pub use transforms::fill;

/// An operation.
pub struct Operation {
    /// Its name in programs.
    pub name: &'static str,
    /// How often it is drawn, relative to others.
    pub weight: usize,
    /// Whether floating-point results are rounded; operations that only move or choose elements are exact.
    pub rounds: bool,
    /// Draws an instruction, if there are fitting operands.
    pub generate: fn(&mut Builder) -> Option<Draft>,
    /// Calls the library.
    pub apply: fn(&Application<'_>) -> Vec<Tensor>,
}

/// An instruction with its operands.
#[derive(Debug)]
pub struct Application<'a> {
    /// The instruction.
    pub instruction: &'a Instruction,
    /// The operands.
    pub operands: &'a [Tensor],
    /// Who interprets it.
    pub interpreter: &'a Interpreter,
    /// The values that its block may use.
    pub environment: &'a Environment,
}

impl Application<'_> {
    /// The first operand.
    pub fn x(&self) -> &Tensor {
        &self.operands[0]
    }

    /// The second operand.
    pub fn y(&self) -> &Tensor {
        &self.operands[1]
    }

    /// A whole-number attribute.
    pub fn integer(&self, place: usize) -> i64 {
        self.instruction.integers[place]
    }

    /// A whole-number attribute as a size.
    pub fn size(&self, place: usize) -> usize {
        self.instruction.integers[place].max(0) as usize
    }

    /// Whole-number attributes as sizes.
    pub fn sizes(&self) -> Vec<usize> {
        self.instruction.integers.iter().map(|size| (*size).max(0) as usize).collect()
    }

    /// A real attribute.
    pub fn real(&self, place: usize) -> f64 {
        self.instruction.reals[place]
    }
}

/// All operations.
pub fn all() -> impl Iterator<Item = &'static Operation> {
    [
        pointwise::OPERATIONS,
        layout::OPERATIONS,
        reductions::OPERATIONS,
        products::OPERATIONS,
        indexing::OPERATIONS,
        sampling::OPERATIONS,
        matrices::OPERATIONS,
        transforms::OPERATIONS,
    ]
    .into_iter()
    .flatten()
}

/// The operation of a name, if there is one.
pub fn get(name: &str) -> Option<&'static Operation> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Operation>> = OnceLock::new();
    BY_NAME.get_or_init(|| all().map(|operation| (operation.name, operation)).collect()).get(name).copied()
}

/// The operation of a name that is known to be one.
pub fn find(name: &str) -> &'static Operation {
    get(name).unwrap_or_else(|| panic!("there is no operation '{name}'"))
}

/// Draws an operation by weight.
pub fn draw(builder: &mut Builder) -> &'static Operation {
    static TOTAL: OnceLock<usize> = OnceLock::new();
    let total = *TOTAL.get_or_init(|| all().map(|operation| operation.weight).sum());
    let mut left = builder.random.below(total);
    for operation in all() {
        match left.checked_sub(operation.weight) {
            Some(rest) => left = rest,
            None => return operation,
        }
    }
    unreachable!("the number is below the sum of the weights")
}

/// The kind of a node, for counts of what programs reach.
pub fn node_kind(op: &Op) -> &'static str {
    match op {
        Op::Leaf => "Leaf",
        Op::Placeholder => "Placeholder",
        Op::Variable => "Variable",
        Op::Map(_) => "Map",
        Op::Einsum(_) => "Einsum",
        Op::Add => "Add",
        Op::Cast => "Cast",
        Op::Reshape => "Reshape",
        Op::ReadView(_) => "Read",
        Op::ScatterView(_) => "Spread",
        Op::Concatenate(_) => "Concatenate",
        Op::Gather(_) => "Gather",
        Op::ScatterAdd(_) => "ScatterAdd",
        Op::Compare(_) => "Compare",
        Op::Logic(_) => "Logic",
        Op::Select => "Select",
        Op::Max(_) => "Largest",
        Op::ArgMax(_) => "LargestPlace",
        Op::OneHot(_) => "OneHot",
        Op::ArgSort { .. } => "ArgSort",
        Op::Draw(_) => "Draw",
        Op::StopGradient => "Stop",
        Op::ControlDependency => "After",
        Op::GetOutput(_) => "Part",
        Op::Collective(_) => "Collective",
        Op::Custom(_) => "Custom",
        Op::Failed(_) => "Failed",
    }
}

/// The kind of an operation with several outputs.
pub fn multi_kind(op: &MultiOp) -> &'static str {
    match op {
        MultiOp::Scan(_) => "Scan",
        MultiOp::Remat(_) => "Region",
        MultiOp::Sweep(_) => "Sweep",
    }
}
