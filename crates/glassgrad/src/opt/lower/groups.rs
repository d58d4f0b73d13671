//! What runs in one step: producers are put into groups, and pointwise work joins the loop that makes its operands.

use std::collections::HashMap;
use std::sync::Arc;

use super::strides::{is_contiguous, rows};
use super::{Located, Lowering};
use crate::dtype::DType;
use crate::expr::Op;
use crate::opt::graph::GraphNode;
use crate::opt::program::{Combine, Instruction, ProductAxis, Program};
use crate::shape::Shape;

/// The most instructions of one loop: more registers than this do not stay near.
const MOST_INSTRUCTIONS: usize = 96;

/// A number that an instruction of a loop can read: one that is loaded, or one that another instruction makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    Load(usize),
    Code(usize),
}

impl Register {
    /// A number for instructions that are not finished: how many loads there will be is not known yet.
    pub(super) fn encode(self) -> usize {
        match self {
            Register::Load(number) => 2 * number,
            Register::Code(number) => 2 * number + 1,
        }
    }

    pub(super) fn decode(code: usize, loads: usize) -> usize {
        if code.is_multiple_of(2) { code / 2 } else { loads + code / 2 }
    }
}

/// A store that is not finished: its strides run over the axes of the loop.
pub(super) struct PendingStore {
    pub(super) register: Register,
    pub(super) producer: usize,
    pub(super) strides: Vec<isize>,
    pub(super) combine: Option<Combine>,
    pub(super) scale: f64,
    pub(super) clear: bool,
}

/// A loop over a space, on its way.
#[derive(Default)]
pub(super) struct LoopGroup {
    pub(super) extents: Vec<usize>,
    pub(super) loads: Vec<Located>,
    pub(super) load_numbers: HashMap<Located, usize>,
    pub(super) code: Vec<(Instruction, DType)>,
    pub(super) stores: Vec<PendingStore>,
}

/// What becomes one step.
pub(super) enum Group {
    Loop(LoopGroup),
    Product(PendingProduct),
    Call {
        node: usize,
        inputs: Vec<(Located, Shape)>,
        producer: usize,
    },
    Repeat {
        node: usize,
        length: usize,
        carries: usize,
        sequences: usize,
        body: Arc<Program>,
        inputs: Vec<Located>,
        producers: Vec<usize>,
    },
}

/// A product of matrices, on its way.
pub(super) struct PendingProduct {
    pub(super) axes: [Vec<ProductAxis>; 4],
    pub(super) factors: [Located; 2],
    pub(super) producer: usize,
    pub(super) coefficient: f64,
    pub(super) clear: bool,
}

impl Lowering<'_> {
    /// A group of its own for a producer. It writes its result whether or not anybody reads it, so it has a place.
    pub(super) fn group_of(&mut self, producer: usize, group: Group) {
        self.producers[producer].group = self.groups.len();
        self.producers[producer].needed = true;
        self.groups.push(group);
    }

    /// The same elements in memory, row by row from the producer's first on.
    pub(super) fn in_rows(&mut self, at: &Located, shape: &Shape) -> Located {
        let whole = at.offset == 0 && self.producers[at.producer].elements == shape.elements();
        let located = if whole && is_contiguous(shape, &at.strides) { at.clone() } else { self.copied(at, shape) };
        self.producers[located.producer].needed = true;
        located
    }

    /// The same elements, computed anew row by row.
    pub(super) fn copied(&mut self, at: &Located, shape: &Shape) -> Located {
        let dtype = self.producers[at.producer].dtype;
        let node = GraphNode { op: Op::Add, inputs: vec![0], shape: shape.clone(), dtype, source: 0, body: None };
        self.pointwise(&node, shape, std::slice::from_ref(at))
    }

    /// The loop over a space that can compute something of these operands: the last one over that space if all
    /// of them are known by then, or a new one.
    pub(super) fn loop_over(&mut self, extents: &[usize], operands: &[Located]) -> usize {
        let earliest = operands.iter().map(|operand| {
            let producer = &self.producers[operand.producer];
            let inside = producer.register.is_some() && self.is_whole(operand, producer.group, extents);
            match (producer.leaf, inside) {
                (Some(_), _) => 0,
                (None, true) => producer.group,
                (None, false) => producer.group + 1,
            }
        });
        let earliest = earliest.max().unwrap_or(0);
        let last = self.latest.get(extents).copied().filter(|group| *group >= earliest);
        let has_room = |group: &usize| match &self.groups[*group] {
            Group::Loop(group) => group.code.len() < MOST_INSTRUCTIONS,
            _ => false,
        };
        if let Some(group) = last.filter(has_room) {
            return group;
        }
        self.groups.push(Group::Loop(LoopGroup { extents: extents.to_vec(), ..LoopGroup::default() }));
        self.latest.insert(extents.to_vec(), self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// Whether an operand is, element by element, what a loop over a space computes.
    pub(super) fn is_whole(&self, operand: &Located, group: usize, extents: &[usize]) -> bool {
        let same_space = matches!(&self.groups[group], Group::Loop(group) if group.extents == extents);
        same_space && operand.offset == 0 && operand.strides == rows(extents)
    }

    /// The register that holds an operand inside a loop.
    pub(super) fn register(&mut self, group: usize, operand: &Located) -> Register {
        let Group::Loop(group_loop) = &self.groups[group] else { return Register::Load(0) };
        let extents = group_loop.extents.clone();
        let producer = &self.producers[operand.producer];
        let inside = producer.leaf.is_none() && producer.group == group && self.is_whole(operand, group, &extents);
        if let Some(register) = producer.register.filter(|_| inside) {
            return register;
        }
        self.producers[operand.producer].needed = true;
        let Group::Loop(group_loop) = &mut self.groups[group] else { return Register::Load(0) };
        let next = group_loop.loads.len();
        let number = *group_loop.load_numbers.entry(operand.clone()).or_insert(next);
        if number == next {
            group_loop.loads.push(operand.clone());
        }
        Register::Load(number)
    }

    pub(super) fn emit(&mut self, group: usize, instruction: Instruction, dtype: DType) -> Register {
        match &mut self.groups[group] {
            Group::Loop(group_loop) => {
                group_loop.code.push((instruction, dtype));
                Register::Code(group_loop.code.len() - 1)
            }
            _ => Register::Code(0),
        }
    }
}
