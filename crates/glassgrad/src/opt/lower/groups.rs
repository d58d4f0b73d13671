//! What runs in one step: producers are put into groups, and pointwise work joins the loop that makes its operands.

use std::sync::Arc;

use super::products::ProductAxes;
use super::strides::{is_contiguous, is_rows};
use super::{Located, Lowering};
use crate::dtype::DType;
use crate::expr::Op;
use crate::few::Few;
use crate::opt::graph::GraphNode;
use crate::opt::program::{Combine, Instruction, Program, Signature};
use crate::shape::Shape;

/// The most instructions of one loop: more registers than this do not stay near.
const MOST_INSTRUCTIONS: usize = 96;

/// The most loads and the most stores of one loop: each is one more stream of memory to follow.
const MOST_STREAMS: usize = 64;

/// A number that an instruction of a loop can read: one that is loaded, or one that another instruction makes. How many
/// loads there will be is not known before the loop is finished, so both are counted on their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Register(usize);

impl Register {
    pub(super) fn load(number: usize) -> Register {
        Register(2 * number)
    }

    pub(super) fn code(number: usize) -> Register {
        Register(2 * number + 1)
    }

    /// The number that an unfinished instruction holds.
    pub(super) fn encode(self) -> usize {
        self.0
    }

    /// Its number in a finished loop, where loads come first.
    pub(super) fn decode(code: usize, loads: usize) -> usize {
        if code.is_multiple_of(2) { code / 2 } else { loads + code / 2 }
    }
}

/// A store that is not finished: its strides run over the axes of the loop.
pub(super) struct PendingStore {
    pub(super) register: Register,
    pub(super) producer: usize,
    pub(super) strides: Few<isize>,
    pub(super) combine: Option<Combine>,
    pub(super) scale: f64,
    pub(super) clear: bool,
}

/// A loop over a space, on its way.
pub(super) struct LoopGroup {
    pub(super) extents: Few<usize>,
    pub(super) loads: Vec<Located>,
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
    /// A loop over time, with what leads back if it is a sweep.
    Repeat {
        node: usize,
        length: usize,
        /// The shapes and types of what is carried.
        carried: Vec<Signature>,
        sequences: usize,
        body: Arc<Program>,
        sweep: Option<SweptBack>,
        inputs: Vec<Located>,
        producers: Vec<usize>,
    },
}

/// The way back of a sweep.
pub(super) struct SweptBack {
    pub(super) reverse: Arc<Program>,
    /// How many of the carries are states of the way forwards.
    pub(super) states: usize,
    /// How many of these states are kept.
    pub(super) snapshots: usize,
}

/// A product of matrices, on its way.
pub(super) struct PendingProduct {
    pub(super) axes: ProductAxes,
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
        self.works(self.groups.len());
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
        self.pointwise(&node, shape, vec![at.clone()])
    }

    /// The loop over a space that can compute something of these operands: the last one over that space if all
    /// of them are known by then, or a new one.
    pub(super) fn loop_over(&mut self, extents: Few<usize>, operands: &[Located]) -> usize {
        let earliest = operands.iter().map(|operand| {
            let producer = &self.producers[operand.producer];
            let inside = producer.register.is_some() && self.is_whole(operand, producer.group, &extents);
            match (producer.leaf, inside) {
                (Some(_), _) => 0,
                (None, true) => producer.group,
                (None, false) => producer.group + 1,
            }
        });
        let earliest = earliest.max().unwrap_or(0);
        let last = self.latest.get(&extents).copied().filter(|group| *group >= earliest);
        let has_room = |group: &usize| match &self.groups[*group] {
            Group::Loop(group) => {
                let has_streams = group.loads.len() < MOST_STREAMS && group.stores.len() < MOST_STREAMS;
                group.code.len() < MOST_INSTRUCTIONS && has_streams
            }
            _ => false,
        };
        if let Some(group) = last.filter(has_room) {
            self.works(group);
            return group;
        }
        self.works(self.groups.len());
        self.latest.insert(extents.clone(), self.groups.len());
        let (loads, code, stores) = (Vec::new(), Vec::new(), Vec::new());
        self.groups.push(Group::Loop(LoopGroup { extents, loads, code, stores }));
        self.groups.len() - 1
    }

    /// Whether an operand is, element by element, what a loop over a space computes.
    fn is_whole(&self, operand: &Located, group: usize, extents: &[usize]) -> bool {
        let same_space = matches!(&self.groups[group], Group::Loop(group) if *group.extents == *extents);
        same_space && operand.offset == 0 && is_rows(extents, &operand.strides)
    }

    /// The register that holds an operand inside a loop.
    pub(super) fn register(&mut self, group: usize, operand: &Located) -> Register {
        let producer = &mut self.producers[operand.producer];
        let Group::Loop(group_loop) = &mut self.groups[group] else { return Register::default() };
        let computed_here = producer.register.filter(|_| producer.leaf.is_none() && producer.group == group);
        if let Some(register) = computed_here
            && operand.offset == 0
            && is_rows(&group_loop.extents, &operand.strides)
        {
            return register;
        }
        producer.needed = true;
        // There are few loads, and the latest are the most likely.
        let known = group_loop.loads.iter().rposition(|load| load == operand);
        Register::load(known.unwrap_or_else(|| {
            group_loop.loads.push(operand.clone());
            group_loop.loads.len() - 1
        }))
    }

    /// Adds an instruction to a loop.
    pub(super) fn emit(&mut self, group: usize, instruction: Instruction, dtype: DType) -> Register {
        match &mut self.groups[group] {
            Group::Loop(group_loop) => {
                group_loop.code.push((instruction, dtype));
                Register::code(group_loop.code.len() - 1)
            }
            _ => Register::default(),
        }
    }
}
