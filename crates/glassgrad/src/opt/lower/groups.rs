//! Fusion groups: producers are grouped into steps, and pointwise operations join the loop of their operands.

use std::sync::Arc;

use super::layout::AxisOrder;
use super::products::ContractionAxes;
use super::row_reduction::common_axes;
use super::strides::{is_contiguous, is_rows, split};
use super::{Located, Lowering, Producer};
use crate::dtype::DType;
use crate::expr::Op;
use crate::opt::Capabilities;
use crate::opt::graph::GraphNode;
use crate::opt::program::{CallKind, Instruction, Program, Reduction, Signature};
use crate::shape::{InlineVec, Shape};

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

    /// Whether it is loaded.
    pub(super) fn is_load(self) -> bool {
        self.0.is_multiple_of(2)
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

/// The position of instructions: a loop, and whether they run for each element or once for each row of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopPosition {
    pub(super) group: usize,
    pub(super) by_row: bool,
}

/// A store that is not finished: its strides run over the axes of the loop.
pub(super) struct PendingStore {
    pub(super) register: Register,
    pub(super) producer: usize,
    /// The place of the first element.
    pub(super) offset: isize,
    pub(super) strides: InlineVec<isize>,
    pub(super) reduction: Option<Reduction>,
    pub(super) scale: f64,
    pub(super) clear: bool,
}

/// A loop over a space, on its way.
pub(super) struct LoopGroup {
    pub(super) extents: InlineVec<usize>,
    /// For each axis whether rows run along it, once something was put together along some.
    pub(super) along_rows: Option<InlineVec<bool>>,
    /// What is read, and whether it is read once for each row.
    pub(super) loads: Vec<(Located, bool)>,
    pub(super) code: Vec<PendingCode>,
    pub(super) stores: Vec<PendingStore>,
}

/// An instruction that is not finished.
pub(super) struct PendingCode {
    pub(super) instruction: Instruction,
    pub(super) dtype: DType,
    pub(super) by_row: bool,
}

/// A loop over this many elements is long: what it reads does not stay in the caches nearest to a processor.
const LONG: usize = 1 << 15;

impl LoopGroup {
    /// Whether the target's limits leave room for more.
    fn has_room(&self, target: &Capabilities) -> bool {
        let has_streams = self.loads.len() < target.streams && self.stores.len() < target.streams;
        self.code.len() < target.instructions && has_streams
    }
}

/// A fusion group, which becomes one step.
pub(super) enum Group {
    Loop(LoopGroup),
    Contract(PendingContraction),
    Call {
        source: usize,
        kind: CallKind,
        inputs: Vec<(Located, Shape)>,
        /// The producers of its results, with their shapes.
        outputs: Vec<(usize, Shape)>,
    },
    /// A loop over time, with what leads back if it is a sweep.
    Scan {
        source: usize,
        length: usize,
        reversed: bool,
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
pub(super) struct PendingContraction {
    pub(super) axes: ContractionAxes,
    pub(super) factors: [Located; 2],
    pub(super) producer: usize,
    /// The place of its first element.
    pub(super) offset: isize,
    pub(super) coefficient: f64,
    pub(super) clear: bool,
    pub(super) symmetric: bool,
    pub(super) accumulates: bool,
    pub(super) masked: [bool; 2],
    /// Its epilogue, tile by tile.
    pub(super) epilogue: Option<Box<LoopGroup>>,
}

impl Group {
    /// What is read from memory.
    pub(super) fn reads(&self, mut read: impl FnMut(&Located)) {
        match self {
            Group::Loop(group) => group.loads.iter().for_each(|(load, _)| read(load)),
            Group::Contract(product) => {
                product.factors.iter().for_each(&mut read);
                let epilogue = product.epilogue.iter().flat_map(|epilogue| &epilogue.loads);
                epilogue.filter(|(load, _)| load.producer != product.producer).for_each(|(load, _)| read(load));
            }
            Group::Call { inputs, .. } => inputs.iter().for_each(|(input, _)| read(input)),
            Group::Scan { inputs, .. } => inputs.iter().for_each(read),
        }
    }
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
        let node = GraphNode { op: Op::Add, inputs: vec![0], shape: shape.clone(), dtype, source: 0, multi: None };
        self.pointwise(&node, shape, vec![at.clone()], AxisOrder::Rows)
    }

    /// What a producer makes in the compute type, at the same places: rounded as it is stored, so that the values do not depend
    /// on what is fused.
    pub(super) fn widened(&mut self, at: &Located) -> Located {
        let Producer { dtype, elements, .. } = self.producers[at.producer];
        if !dtype.is_storage_only() {
            return at.clone();
        }
        let producer = match self.wide.get(&at.producer) {
            Some(wide) => *wide,
            None => {
                let shape = Shape::from(elements);
                let whole = Located::whole(at.producer, &shape);
                let wide = self.converted(&whole, &shape, dtype.compute_type()).producer;
                let Producer { group, register, by_row, .. } = self.producers[wide];
                if let Some(register) = register.filter(|register| !register.is_load()) {
                    let place = LoopPosition { group, by_row };
                    let stored =
                        self.append(place, Instruction::Narrow(register.encode(), dtype), dtype.compute_type());
                    self.producers[wide].register = Some(stored);
                }
                self.producers[wide].channels_last = self.producers[at.producer].channels_last;
                self.wide.insert(at.producer, wide);
                wide
            }
        };
        self.producers[producer].needed = true;
        Located { producer, ..at.clone() }
    }

    /// Elements of a compute type as a storage type, if that is what a node is of.
    pub(super) fn narrowed(&mut self, at: &Located, shape: &Shape, dtype: DType) -> Located {
        if self.producers[at.producer].dtype == dtype { at.clone() } else { self.converted(at, shape, dtype) }
    }

    fn converted(&mut self, at: &Located, shape: &Shape, dtype: DType) -> Located {
        // Registers of floating-point numbers are those of the compute type; integers wrap.
        let op = if dtype.is_float() { Op::Add } else { Op::Cast };
        let node = GraphNode { op, inputs: vec![0], shape: shape.clone(), dtype, source: 0, multi: None };
        self.pointwise(&node, shape, vec![at.clone()], AxisOrder::Followed)
    }

    /// Where something of these operands over a space can be computed: by the rows of a loop that makes some of them, in
    /// the last loop over that space if all of them are known by then, in one that makes some of them along other axes, or
    /// in a new one. Elements and operands are then indexed by the axes of that loop; rows by the space itself.
    pub(super) fn loop_over(&mut self, extents: &InlineVec<usize>, operands: &mut [Located]) -> LoopPosition {
        if let Some(group) = self.rows_over(extents, operands) {
            self.works(group);
            return LoopPosition { group, by_row: true };
        }
        let group = self.elements_over(extents, operands);
        self.works(group);
        if let Group::Loop(own) = &mut self.groups[group]
            && let Some(axes) = common_axes(&own.extents, extents)
        {
            own.refine(&axes);
            operands.iter_mut().for_each(|operand| operand.strides = split(extents, &operand.strides, &axes));
        }
        LoopPosition { group, by_row: false }
    }

    /// The axes of a loop.
    pub(super) fn axes_of(&self, place: LoopPosition) -> InlineVec<usize> {
        match &self.groups[place.group] {
            Group::Loop(group) if place.by_row => group.row_extents(),
            Group::Loop(group) => group.extents.clone(),
            _ => unreachable!("group {} is no loop", place.group),
        }
    }

    /// The loop over the elements of a space in which something of these operands can be computed.
    fn elements_over(&mut self, extents: &InlineVec<usize>, operands: &[Located]) -> usize {
        let earliest = operands.iter().map(|operand| {
            let producer = &self.producers[operand.producer];
            match self.is_inside(operand, extents) {
                _ if producer.leaf.is_some() || producer.number.is_some() => 0,
                true => producer.group,
                false => producer.group + 1,
            }
        });
        let earliest = earliest.max().unwrap_or(0);
        let last = self.latest.get(extents).copied();
        let along_others = operands.iter().filter(|operand| self.is_inside(operand, extents));
        let along_others = along_others.map(|operand| self.producers[operand.producer].group);
        let along_others = along_others.filter(|group| *group >= self.barrier).max();
        let has_room =
            |group: &usize| matches!(&self.groups[*group], Group::Loop(group) if group.has_room(self.target));
        let is_late = |group: &usize| *group >= earliest;
        // Short loops fuse any compatible node, which saves a step; long ones fuse only consumers of what they compute.
        let is_long = extents.iter().fold(1, |all: usize, extent| all.saturating_mul(*extent)) >= LONG;
        let may_join = |group: &usize| match &self.groups[*group] {
            Group::Loop(own) => {
                !is_long || along_others == Some(*group) || own.loads.len() < self.target.joined_streams
            }
            _ => false,
        };
        let candidates = [last, along_others].into_iter().flatten().filter(is_late).filter(may_join);
        if let Some(group) = candidates.into_iter().find(has_room) {
            return group;
        }
        self.latest.insert(extents.clone(), self.groups.len());
        let (loads, code, stores) = (Vec::new(), Vec::new(), Vec::new());
        let extents = extents.clone();
        self.groups.push(Group::Loop(LoopGroup { extents, along_rows: None, loads, code, stores }));
        self.groups.len() - 1
    }

    /// The loop whose rows are a space and which makes some of these operands row by row, if the others are known by then.
    fn rows_over(&self, extents: &[usize], operands: &[Located]) -> Option<usize> {
        let producers = || operands.iter().map(|operand| &self.producers[operand.producer]);
        let group = producers().filter(|producer| producer.by_row).map(|producer| producer.group).max()?;
        let Group::Loop(own) = &self.groups[group] else { return None };
        let is_known = |operand: &Located| {
            let producer = &self.producers[operand.producer];
            let is_own = || producer.by_row && operand.offset == 0 && is_rows(extents, &operand.strides);
            let is_anywhere = producer.leaf.is_some() || producer.number.is_some();
            is_anywhere || producer.group < group || (producer.group == group && is_own())
        };
        (*own.row_extents() == *extents && own.has_room(self.target) && operands.iter().all(is_known)).then_some(group)
    }

    /// The register that holds an operand inside a loop.
    pub(super) fn register(&mut self, place: LoopPosition, operand: &Located) -> Register {
        if let Some(register) = self.computed_here(place, operand) {
            return register;
        }
        if let Producer { number: Some(number), dtype, .. } = self.producers[operand.producer] {
            return self.emit(place, Instruction::Constant(number), dtype);
        }
        self.producers[operand.producer].needed = true;
        let dtype = self.producers[operand.producer].dtype;
        let most = self.target.row_elements;
        let Group::Loop(group) = &mut self.groups[place.group] else {
            unreachable!("instructions go to group {}, which is no loop", place.group);
        };
        let mut operand = operand.clone();
        if place.by_row {
            operand.strides = group.with_rows(&operand.strides);
        }
        let is_spread = !place.by_row && group.is_one_for_each_row(&operand.strides, most);
        // There are few loads, and the latest are the most likely.
        let load = (operand, place.by_row || is_spread);
        let known = group.loads.iter().rposition(|known| *known == load);
        let register = Register::load(known.unwrap_or_else(|| {
            group.loads.push(load);
            group.loads.len() - 1
        }));
        if is_spread { self.emit(place, Instruction::BroadcastRow(register.encode()), dtype) } else { register }
    }

    /// The register of an operand that the same loop makes.
    fn computed_here(&mut self, place: LoopPosition, operand: &Located) -> Option<Register> {
        let Producer { leaf: None, group, register: Some(register), by_row, spread, dtype, .. } =
            self.producers[operand.producer]
        else {
            return None;
        };
        let Group::Loop(own) = &self.groups[group] else { return None };
        if group != place.group || operand.offset != 0 {
            return None;
        }
        match (by_row, place.by_row) {
            (false, false) => is_rows(&own.extents, &operand.strides).then_some(register),
            (true, true) => is_rows(&own.row_extents(), &operand.strides).then_some(register),
            (true, false) if *operand.strides == *own.row_strides() => Some(spread.unwrap_or_else(|| {
                let spread = self.emit(place, Instruction::BroadcastRow(register.encode()), dtype);
                self.producers[operand.producer].spread = Some(spread);
                spread
            })),
            _ => None,
        }
    }

    /// Adds an instruction to a loop, which makes elements of a type. Storage types are computed in their compute type; narrow
    /// integers wrap after each operation, floating-point numbers are rounded when they are stored.
    pub(super) fn emit(&mut self, place: LoopPosition, instruction: Instruction, dtype: DType) -> Register {
        let wraps = dtype.is_integer() && dtype.is_storage_only();
        match instruction {
            Instruction::Constant(number) if wraps => {
                self.append(place, Instruction::Constant(dtype.stored(number)), dtype.compute_type())
            }
            Instruction::Unary(..) | Instruction::Binary(..) | Instruction::MaskedMul(..) if wraps => {
                let made = self.append(place, instruction, dtype.compute_type());
                self.append(place, Instruction::Narrow(made.encode(), dtype), dtype.compute_type())
            }
            _ => self.append(place, instruction, dtype.compute_type()),
        }
    }

    fn append(&mut self, place: LoopPosition, instruction: Instruction, dtype: DType) -> Register {
        match &mut self.groups[place.group] {
            Group::Loop(group) => {
                // A number is written down once, and so is what is read for each row.
                let is_known = |code: &PendingCode| {
                    code.instruction == instruction && code.dtype == dtype && code.by_row == place.by_row
                };
                if matches!(instruction, Instruction::Constant(_) | Instruction::BroadcastRow(_))
                    && let Some(known) = group.code.iter().position(is_known)
                {
                    return Register::code(known);
                }
                group.code.push(PendingCode { instruction, dtype, by_row: place.by_row });
                Register::code(group.code.len() - 1)
            }
            _ => unreachable!("instructions go to group {}, which is no loop", place.group),
        }
    }
}
