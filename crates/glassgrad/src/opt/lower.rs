//! From graph to program: which nodes need no work, which run in one loop, and where everything lies.
//!
//! Every node is located: by a producer and strides into what it makes. Transposes, broadcasts, diagonals,
//! slices and reshapes are only other strides. Producers are put into groups, each of which becomes one step;
//! pointwise nodes join the loop that makes their operands, and sums join the loop over what they sum.

use std::collections::HashMap;
use std::sync::Arc;

use super::graph::{Graph, GraphNode};
use super::memory;
use super::passes::{dead, expanded};
use super::program::{
    Access, Call, Combine, Instruction, Loop, Memory, Product, ProductAxis, Program, Repeat, Step, Store, Sweep,
};
use super::revolve::Schedule;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::expr::Op;
use crate::formula::{Formula, Node as FormulaNode};
use crate::ops::{Operation, Relation};
use crate::shape::Shape;

/// The most instructions of one loop: more registers than this do not stay near.
const MOST_INSTRUCTIONS: usize = 96;

/// A node as strides into what a producer makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Located {
    producer: usize,
    offset: isize,
    strides: Vec<isize>,
}

/// Something that is given or computed.
struct Producer {
    dtype: DType,
    elements: usize,
    /// Where a leaf lies.
    leaf: Option<Memory>,
    /// The group that computes it.
    group: usize,
    /// Its register, if instructions of the same group can go on with it.
    register: Option<Register>,
    /// Whether anybody reads it from memory.
    needed: bool,
    /// The result that it is.
    result: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Register {
    Load(usize),
    Code(usize),
}

impl Register {
    /// A number for instructions that are not finished: how many loads there will be is not known yet.
    fn encode(self) -> usize {
        match self {
            Register::Load(number) => 2 * number,
            Register::Code(number) => 2 * number + 1,
        }
    }

    fn decode(code: usize, loads: usize) -> usize {
        if code.is_multiple_of(2) { code / 2 } else { loads + code / 2 }
    }
}

/// A store that is not finished: its strides run over the axes of the loop.
struct PendingStore {
    register: Register,
    producer: usize,
    strides: Vec<isize>,
    combine: Option<Combine>,
    scale: f64,
    clear: bool,
}

#[derive(Default)]
struct LoopGroup {
    extents: Vec<usize>,
    loads: Vec<Located>,
    load_numbers: HashMap<Located, usize>,
    code: Vec<(Instruction, DType)>,
    stores: Vec<PendingStore>,
}

enum Group {
    Loop(LoopGroup),
    Product(PendingProduct),
    Call {
        node: usize,
        inputs: Vec<(Located, Shape)>,
        producer: usize,
    },
    /// A loop over time, with a program back if it is a sweep.
    Repeat {
        node: usize,
        body: Program,
        reverse: Option<Program>,
        inputs: Vec<Located>,
        producers: Vec<usize>,
    },
}

struct PendingProduct {
    axes: [Vec<ProductAxis>; 4],
    factors: [Located; 2],
    producer: usize,
    coefficient: f64,
    clear: bool,
}

struct Lowering<'g> {
    graph: &'g Graph,
    producers: Vec<Producer>,
    located: Vec<Option<Located>>,
    /// The producers of the parts of loops over time.
    parts: HashMap<usize, Vec<usize>>,
    groups: Vec<Group>,
    /// The last loop over each space.
    latest: HashMap<Vec<usize>, usize>,
}

/// Plans a graph.
pub fn lower(graph: &Graph) -> Program {
    let graph = &*expanded(graph);
    let mut lowering = Lowering {
        graph,
        producers: Vec::new(),
        located: vec![None; graph.nodes.len()],
        parts: HashMap::new(),
        groups: Vec::new(),
        latest: HashMap::new(),
    };
    for (number, node) in graph.inputs.iter().enumerate() {
        lowering.leaf(*node, Memory::Input(number));
    }
    for (number, (node, _)) in graph.constants.iter().enumerate() {
        lowering.leaf(*node, Memory::Constant(number));
    }
    for node in 0..graph.nodes.len() {
        if lowering.located[node].is_none() {
            let located = lowering.node(node);
            lowering.located[node] = Some(located);
        }
    }
    lowering.results();
    lowering.finish()
}

/// The strides of elements that lie row by row.
fn rows(shape: &[usize]) -> Vec<isize> {
    // Where there is nothing, no step leads anywhere; other axes may be longer than any memory.
    if shape.contains(&0) {
        return vec![0; shape.len()];
    }
    Shape::from(shape).strides().into_iter().map(|stride| stride as isize).collect()
}

/// Sizes and strides without axes of size 1.
fn squeezed(shape: &[usize], strides: &[isize]) -> (Vec<usize>, Vec<isize>) {
    shape.iter().zip(strides).filter(|(size, _)| **size != 1).unzip()
}

fn is_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let (shape, strides) = squeezed(shape, strides);
    strides == rows(&shape) || shape.contains(&0)
}

/// The strides of the same elements in another shape, if there are any.
fn reshaped(shape: &[usize], strides: &[isize], wanted: &[usize]) -> Option<Vec<isize>> {
    if shape.contains(&0) {
        return Some(rows(wanted));
    }
    let (shape, strides) = squeezed(shape, strides);
    let mut result = vec![0; wanted.len()];
    let (mut old, mut new) = (0, 0);
    while old < shape.len() {
        // The fewest axes of both shapes that hold equally many elements.
        let (first_old, first_new) = (old, new);
        let (mut old_count, mut new_count) = (shape[old], 1);
        old += 1;
        while old_count != new_count || new_count == 1 {
            if new_count < old_count {
                new_count *= wanted.get(new)?;
                new += 1;
            } else {
                old_count *= shape.get(old)?;
                old += 1;
            }
        }
        for axis in first_old..old - 1 {
            if strides[axis] != strides[axis + 1] * shape[axis + 1] as isize {
                return None;
            }
        }
        let mut stride = strides[old - 1];
        for axis in (first_new..new).rev() {
            result[axis] = stride;
            stride *= wanted[axis] as isize;
        }
    }
    Some(result)
}

impl Lowering<'_> {
    fn leaf(&mut self, node: usize, memory: Memory) {
        let (shape, dtype) = (&self.graph.nodes[node].shape, self.graph.nodes[node].dtype);
        let producer = self.produce(dtype, shape.elements());
        self.producers[producer].leaf = Some(memory);
        self.located[node] = Some(Located { producer, offset: 0, strides: rows(shape) });
    }

    fn produce(&mut self, dtype: DType, elements: usize) -> usize {
        self.producers.push(Producer {
            dtype,
            elements,
            leaf: None,
            group: 0,
            register: None,
            needed: false,
            result: None,
        });
        self.producers.len() - 1
    }

    fn at(&self, node: usize) -> Located {
        // Operands stand before what uses them.
        self.located[node].clone().unwrap_or(Located { producer: 0, offset: 0, strides: Vec::new() })
    }

    /// Locates a node, computing it if it must be.
    fn node(&mut self, number: usize) -> Located {
        let node = &self.graph.nodes[number];
        let input = |k: usize| node.inputs[k];
        match &node.op {
            Op::Variable | Op::Stop => self.at(input(0)),
            Op::After => {
                // No loop from before goes on with what comes now.
                self.latest.clear();
                self.at(input(0))
            }
            Op::Reshape => {
                let shape = self.graph.nodes[input(0)].shape.clone();
                let at = self.at(input(0));
                match reshaped(&shape, &at.strides, &node.shape) {
                    Some(strides) => Located { strides, ..at },
                    None => {
                        let copied = self.copied(&at, &shape);
                        Located { strides: rows(&node.shape), ..copied }
                    }
                }
            }
            Op::Read(view) if view.stays_inside() => {
                let at = self.at(input(0));
                let mut strides = vec![0; view.output.rank()];
                let mut offset = at.offset;
                for (axis, stride) in view.axes.iter().zip(&at.strides) {
                    offset += axis.offset * stride;
                    axis.steps.iter().for_each(|(along, step)| strides[*along] += step * stride);
                }
                Located { producer: at.producer, offset, strides }
            }
            Op::Einsum(einsum) => self.einsum(node, einsum),
            Op::Map(_) | Op::Add | Op::Compare(_) | Op::Logic(_) | Op::Select | Op::Cast => {
                let operands: Vec<Located> = node.inputs.iter().map(|input| self.at(*input)).collect();
                self.pointwise(node, &node.shape.clone(), &operands)
            }
            Op::Largest(axis) => {
                let shape = self.graph.nodes[input(0)].shape.clone();
                let mut strides = rows(&node.shape);
                strides.insert(*axis, 0);
                let operand = self.at(input(0));
                self.combined(node, &shape, &[operand], &strides, Combine::Largest, None)
            }
            Op::Scan(_) | Op::Sweep(_) => self.repeat(number),
            Op::Part(part) => {
                let producer = self.parts.get(&input(0)).map_or(0, |parts| parts[*part]);
                Located { producer, offset: 0, strides: rows(&node.shape) }
            }
            _ => self.call(number),
        }
    }

    /// An operation on whole arrays.
    fn call(&mut self, number: usize) -> Located {
        let node = &self.graph.nodes[number];
        let mut inputs = Vec::new();
        for input in &node.inputs {
            let shape = self.graph.nodes[*input].shape.clone();
            let at = self.at(*input);
            inputs.push((self.in_rows(&at, &shape), shape));
        }
        let producer = self.produce(node.dtype, node.shape.elements());
        self.group_of(producer, Group::Call { node: number, inputs, producer });
        Located { producer, offset: 0, strides: rows(&node.shape) }
    }

    fn repeat(&mut self, number: usize) -> Located {
        let node = &self.graph.nodes[number];
        let (Some(scan), Some(body)) = (node.op.body(), &node.body) else { return self.call(number) };
        let mut inputs = Vec::new();
        for input in &node.inputs {
            let shape = self.graph.nodes[*input].shape.clone();
            let at = self.at(*input);
            inputs.push(self.in_rows(&at, &shape));
        }
        let (body_program, reverse) = match &node.op {
            Op::Sweep(sweep) => {
                let part = |results: &[usize]| lower(&dead(Graph { results: results.to_vec(), ..Graph::clone(body) }));
                let (forwards, back) = body.results.split_at(sweep.states);
                (part(forwards), Some(part(back)))
            }
            _ => (lower(body), None),
        };
        let producers: Vec<usize> = body
            .results
            .iter()
            .enumerate()
            .map(|(part, result)| {
                let GraphNode { shape, dtype, .. } = &body.nodes[*result];
                let stacked = if part < scan.carried.len() { 1 } else { scan.length };
                self.produce(*dtype, shape.elements().saturating_mul(stacked))
            })
            .collect();
        for (part, producer) in producers.iter().enumerate() {
            self.producers[*producer].group = self.groups.len();
            // A sweep has no other place for what it stacks.
            self.producers[*producer].needed = reverse.is_some() && part >= scan.carried.len();
        }
        let parts = producers.clone();
        self.groups.push(Group::Repeat { node: number, body: body_program, reverse, inputs, producers });
        self.parts.insert(number, parts);
        Located { producer: 0, offset: 0, strides: Vec::new() }
    }

    /// A group of its own for a producer. It writes its result whether or not anybody reads it, so it has a place.
    fn group_of(&mut self, producer: usize, group: Group) {
        self.producers[producer].group = self.groups.len();
        self.producers[producer].needed = true;
        self.groups.push(group);
    }

    /// The same elements in memory, row by row from the producer's first on.
    fn in_rows(&mut self, at: &Located, shape: &Shape) -> Located {
        let whole = at.offset == 0 && self.producers[at.producer].elements == shape.elements();
        let located = if whole && is_contiguous(shape, &at.strides) { at.clone() } else { self.copied(at, shape) };
        self.producers[located.producer].needed = true;
        located
    }

    fn copied(&mut self, at: &Located, shape: &Shape) -> Located {
        let dtype = self.producers[at.producer].dtype;
        let node = GraphNode { op: Op::Add, inputs: vec![0], shape: shape.clone(), dtype, source: 0, body: None };
        self.pointwise(&node, shape, std::slice::from_ref(at))
    }

    /// The loop over a space that can compute something of these operands: the last one over that space if all
    /// of them are known by then, or a new one.
    fn loop_over(&mut self, extents: &[usize], operands: &[Located]) -> usize {
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
    fn is_whole(&self, operand: &Located, group: usize, extents: &[usize]) -> bool {
        let same_space = matches!(&self.groups[group], Group::Loop(group) if group.extents == extents);
        same_space && operand.offset == 0 && operand.strides == rows(extents)
    }

    /// The register that holds an operand inside a loop.
    fn register(&mut self, group: usize, operand: &Located) -> Register {
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

    fn emit(&mut self, group: usize, instruction: Instruction, dtype: DType) -> Register {
        match &mut self.groups[group] {
            Group::Loop(group_loop) => {
                group_loop.code.push((instruction, dtype));
                Register::Code(group_loop.code.len() - 1)
            }
            _ => Register::Code(0),
        }
    }

    /// Computes a node element by element, over operands located along its own axes.
    fn pointwise(&mut self, node: &GraphNode, shape: &Shape, operands: &[Located]) -> Located {
        let squeeze = |operand: &Located| Located { strides: squeezed(shape, &operand.strides).1, ..operand.clone() };
        let operands: Vec<Located> = operands.iter().map(squeeze).collect();
        let extents: Vec<usize> = shape.iter().copied().filter(|size| *size != 1).collect();
        let group = self.loop_over(&extents, &operands);
        let registers: Vec<Register> = operands.iter().map(|operand| self.register(group, operand)).collect();
        let types: Vec<DType> = operands.iter().map(|operand| self.producers[operand.producer].dtype).collect();
        let register = self.instructions(group, node, &registers, &types);
        let producer = self.produce(node.dtype, shape.elements());
        self.producers[producer].group = group;
        self.producers[producer].register = Some(register);
        Located { producer, offset: 0, strides: rows(shape) }
    }

    /// Instructions for one element of a node.
    fn instructions(&mut self, group: usize, node: &GraphNode, inputs: &[Register], types: &[DType]) -> Register {
        let code: Vec<usize> = inputs.iter().map(|register| register.encode()).collect();
        match &node.op {
            Op::Map(formula) => self.formula(group, formula, inputs, node.dtype),
            Op::Add => {
                let mut sum = inputs[0];
                for other in &code[1..] {
                    sum = self.emit(group, Instruction::Binary(Operation::Add, sum.encode(), *other), node.dtype);
                }
                sum
            }
            Op::Compare(relation) => self.emit(group, Instruction::Compare(*relation, code[0], code[1]), DType::Bool),
            Op::Logic(logic) => {
                let second = code.get(1).copied().unwrap_or(code[0]);
                self.emit(group, Instruction::Logic(*logic, code[0], second), DType::Bool)
            }
            Op::Select => self.emit(group, Instruction::Choose(code[0], code[1], code[2]), node.dtype),
            Op::Cast if types[0] != node.dtype => self.emit(group, Instruction::Cast(code[0]), node.dtype),
            Op::Einsum(einsum) => self.product_of(group, einsum, inputs, node.dtype, einsum.coefficient),
            _ => inputs[0],
        }
    }

    /// The product of registers, in which zeros of strong ones win.
    fn product_of(
        &mut self,
        group: usize,
        einsum: &Einsum,
        inputs: &[Register],
        dtype: DType,
        coefficient: f64,
    ) -> Register {
        let mut product: Option<Register> = None;
        let weak = inputs.iter().zip(&einsum.strong).filter(|(_, strong)| !**strong);
        for (register, _) in weak {
            product = Some(match product {
                None => *register,
                Some(product) => {
                    let multiply = Instruction::Binary(Operation::Mul, product.encode(), register.encode());
                    self.emit(group, multiply, dtype)
                }
            });
        }
        if coefficient != 1.0 || inputs.is_empty() {
            product = Some(match product {
                None => self.emit(group, Instruction::Number(coefficient), dtype),
                Some(product) if coefficient == -1.0 && dtype.is_float() => {
                    self.emit(group, Instruction::Unary(Operation::Neg, product.encode(), 0.0), dtype)
                }
                Some(product) => {
                    let number = self.emit(group, Instruction::Number(coefficient), dtype);
                    self.emit(group, Instruction::Binary(Operation::Mul, product.encode(), number.encode()), dtype)
                }
            });
        }
        let strong: Vec<Register> =
            inputs.iter().zip(&einsum.strong).filter(|(_, strong)| **strong).map(|(register, _)| *register).collect();
        match (&strong[..], product) {
            ([], product) => product.unwrap_or(Register::Load(0)),
            ([only], None) => *only,
            ([only], Some(product)) => self.emit(group, Instruction::Strong(only.encode(), product.encode()), dtype),
            // The zeros of any of several win over all the others, those among them included.
            (several, product) => {
                let mut whole = product;
                for register in several {
                    whole = Some(match whole {
                        None => *register,
                        Some(whole) => {
                            let multiply = Instruction::Binary(Operation::Mul, whole.encode(), register.encode());
                            self.emit(group, multiply, dtype)
                        }
                    });
                }
                let zero = self.emit(group, Instruction::Number(0.0), dtype);
                let mut whole = whole.unwrap_or(zero);
                for register in several {
                    let compare = Instruction::Compare(Relation::Equal, register.encode(), zero.encode());
                    let is_zero = self.emit(group, compare, DType::Bool);
                    let choose = Instruction::Choose(is_zero.encode(), zero.encode(), whole.encode());
                    whole = self.emit(group, choose, dtype);
                }
                whole
            }
        }
    }

    fn formula(&mut self, group: usize, formula: &Formula, inputs: &[Register], dtype: DType) -> Register {
        let mut registers: Vec<Register> = Vec::with_capacity(formula.nodes.len());
        for node in &formula.nodes {
            let at = |node: usize| registers[node].encode();
            let register = match *node {
                FormulaNode::Variable(variable) => inputs[variable],
                FormulaNode::Number(number) => self.emit(group, Instruction::Number(number), dtype),
                FormulaNode::Unary(operation, x, parameter) => {
                    self.emit(group, Instruction::Unary(operation, at(x), parameter), dtype)
                }
                FormulaNode::Binary(operation, a, b) => {
                    self.emit(group, Instruction::Binary(operation, at(a), at(b)), dtype)
                }
                FormulaNode::Choose(left, relation, right, taken, otherwise) => {
                    let (taken, otherwise) = (at(taken), at(otherwise));
                    let compare = Instruction::Compare(relation, at(left), at(right));
                    let holds = self.emit(group, compare, DType::Bool);
                    self.emit(group, Instruction::Choose(holds.encode(), taken, otherwise), dtype)
                }
            };
            registers.push(register);
        }
        registers[formula.outputs[0]]
    }

    /// Computes elements over a space and puts them together; strides lead from the space into the result.
    fn combined(
        &mut self,
        node: &GraphNode,
        space: &[usize],
        operands: &[Located],
        strides: &[isize],
        combine: Combine,
        einsum: Option<&Einsum>,
    ) -> Located {
        let squeeze = |operand: &Located| Located { strides: squeezed(space, &operand.strides).1, ..operand.clone() };
        let operands: Vec<Located> = operands.iter().map(squeeze).collect();
        let (extents, strides) = squeezed(space, strides);
        let group = self.loop_over(&extents, &operands);
        let registers: Vec<Register> = operands.iter().map(|operand| self.register(group, operand)).collect();
        // A place is reached more than once if the steps of some axis do not move it.
        let once = strides.iter().zip(&extents).all(|(stride, extent)| *stride != 0 || *extent == 1);
        let (register, scale) = match einsum {
            // A factor of a sum waits until the sum is there, unless zeros win over it.
            Some(einsum) if !once && !einsum.is_strong() && node.dtype.is_float() => {
                (self.product_of(group, einsum, &registers, node.dtype, 1.0), einsum.coefficient)
            }
            Some(einsum) => (self.product_of(group, einsum, &registers, node.dtype, einsum.coefficient), 1.0),
            None => (registers[0], 1.0),
        };
        let producer = self.produce(node.dtype, node.shape.elements());
        self.producers[producer].group = group;
        self.producers[producer].needed = true;
        let moved = extents.iter().zip(&strides).filter(|(_, stride)| **stride != 0);
        let reached = moved.fold(1, |reached: usize, (extent, _)| reached.saturating_mul(*extent));
        let clear = !once || reached < node.shape.elements() || extents.contains(&0);
        if let Group::Loop(group_loop) = &mut self.groups[group] {
            let combine = (!once).then_some(combine);
            group_loop.stores.push(PendingStore { register, producer, strides, combine, scale, clear });
        }
        Located { producer, offset: 0, strides: rows(&node.shape) }
    }

    /// A product in Einstein notation: strides only, a loop, or a product of matrices.
    fn einsum(&mut self, node: &GraphNode, einsum: &Einsum) -> Located {
        let operands: Vec<Located> = node.inputs.iter().map(|input| self.at(*input)).collect();
        // For each operand, the stride of every label; a label that repeats walks a diagonal.
        let along = |operand: &Located, labels: &[usize], label: usize| -> isize {
            labels.iter().zip(&operand.strides).filter(|(own, _)| **own == label).map(|(_, stride)| *stride).sum()
        };
        let placed = |order: &[usize]| -> Vec<Located> {
            let strides =
                |operand: usize| order.iter().map(move |label| (operand, *label)).collect::<Vec<(usize, usize)>>();
            (0..operands.len())
                .map(|k| Located {
                    strides: strides(k)
                        .into_iter()
                        .map(|(k, label)| along(&operands[k], &einsum.operands[k], label))
                        .collect(),
                    ..operands[k].clone()
                })
                .collect()
        };
        let summed: Vec<usize> = einsum.summed().into_iter().filter(|label| einsum.extents[*label] != 1).collect();
        let mut distinct = einsum.output.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let has_delta = distinct.len() != einsum.output.len();
        if summed.is_empty() && !has_delta {
            let placed = placed(&einsum.output);
            if einsum.coefficient == 1.0 && placed.len() == 1 {
                return placed[0].clone();
            }
            return self.pointwise(node, &node.shape.clone(), &placed);
        }
        // Where each label leads in the result.
        let own = rows(&node.shape);
        let output_stride = |label: usize| -> isize {
            einsum.output.iter().zip(&own).filter(|(own, _)| **own == label).map(|(_, stride)| *stride).sum()
        };
        if let Some(axes) = product_axes(einsum, &operands, along, output_stride) {
            let producer = self.produce(node.dtype, node.shape.elements());
            for operand in &operands {
                self.producers[operand.producer].needed = true;
            }
            let factors = [operands[0].clone(), operands[1].clone()];
            let pending = PendingProduct { axes, factors, producer, coefficient: einsum.coefficient, clear: has_delta };
            self.group_of(producer, Group::Product(pending));
            return Located { producer, offset: 0, strides: rows(&node.shape) };
        }
        // The loop walks along the largest operand, so that it can go on where that was computed.
        let size = |labels: &Vec<usize>| {
            labels.iter().fold(1, |size: usize, label| size.saturating_mul(einsum.extents[*label]))
        };
        let mut order: Vec<usize> = Vec::new();
        let largest = einsum.operands.iter().rev().max_by_key(|labels| size(labels));
        let rest = einsum.output.iter().chain(&summed);
        for label in largest.into_iter().flatten().chain(rest) {
            if !order.contains(label) {
                order.push(*label);
            }
        }
        let space: Vec<usize> = order.iter().map(|label| einsum.extents[*label]).collect();
        let strides: Vec<isize> = order.iter().map(|label| output_stride(*label)).collect();
        self.combined(node, &space, &placed(&order), &strides, Combine::Sum, Some(einsum))
    }

    /// Every result is a whole producer of its own.
    fn results(&mut self) {
        for (number, result) in self.graph.results.iter().enumerate() {
            let shape = self.graph.nodes[*result].shape.clone();
            let at = self.at(*result);
            let located = self.in_rows(&at, &shape);
            let taken = |producer: &Producer| producer.leaf.is_some() || producer.result.is_some();
            let located =
                if taken(&self.producers[located.producer]) { self.copied(&located, &shape) } else { located };
            // A copy of a register is that register again: the store alone makes it another producer.
            self.producers[located.producer].result = Some(number);
            self.producers[located.producer].needed = true;
        }
    }

    fn finish(mut self) -> Program {
        // What loops make and somebody reads is stored.
        for producer in 0..self.producers.len() {
            let Producer { needed: true, register: Some(register), group, leaf: None, .. } = self.producers[producer]
            else {
                continue;
            };
            if let Group::Loop(group_loop) = &mut self.groups[group] {
                let strides = rows(&group_loop.extents);
                let store = PendingStore { register, producer, strides, combine: None, scale: 1.0, clear: false };
                group_loop.stores.push(store);
            }
        }
        let mut lifetimes: Vec<memory::Lifetime> = self
            .producers
            .iter()
            .map(|producer| memory::Lifetime {
                bytes: if producer.leaf.is_none() && producer.result.is_none() && producer.needed {
                    producer.elements.saturating_mul(producer.dtype.bytes())
                } else {
                    0
                },
                first: producer.group,
                last: producer.group,
                instead_of: None,
            })
            .collect();
        let read = |lifetimes: &mut Vec<memory::Lifetime>, producer: usize, step: usize| {
            lifetimes[producer].last = lifetimes[producer].last.max(step);
        };
        for (step, group) in self.groups.iter().enumerate() {
            match group {
                Group::Loop(group) => group.loads.iter().for_each(|load| read(&mut lifetimes, load.producer, step)),
                Group::Product(product) => {
                    product.factors.iter().for_each(|factor| read(&mut lifetimes, factor.producer, step));
                }
                Group::Call { inputs, .. } => {
                    inputs.iter().for_each(|(input, _)| read(&mut lifetimes, input.producer, step));
                }
                Group::Repeat { inputs, .. } => {
                    inputs.iter().for_each(|input| read(&mut lifetimes, input.producer, step));
                }
            }
        }
        // A loop may write over what it reads for the last time, element by element at the same places.
        for (step, group) in self.groups.iter().enumerate() {
            let Group::Loop(group) = group else { continue };
            let mut free: Vec<usize> = Vec::new();
            for load in &group.loads {
                let whole = load.offset == 0 && load.strides == rows(&group.extents);
                let once = group.loads.iter().filter(|other| other.producer == load.producer).count() == 1;
                let lifetime = &lifetimes[load.producer];
                let number = group.load_numbers.get(load).map(|number| Register::Load(*number));
                let stored = group.stores.iter().any(|store| Some(store.register) == number);
                if whole && once && !stored && lifetime.bytes > 0 && lifetime.last == step && lifetime.first < step {
                    free.push(load.producer);
                }
            }
            for store in group.stores.iter().filter(|store| store.combine.is_none() && !store.clear) {
                let own = lifetimes[store.producer].bytes;
                let fits = |candidate: &usize| {
                    lifetimes[*candidate].bytes == own
                        && self.producers[*candidate].elements == self.producers[store.producer].elements
                };
                let place = free.iter().position(fits);
                if let Some(place) = place.filter(|_| own > 0 && store.strides == rows(&group.extents)) {
                    lifetimes[store.producer].instead_of = Some(free.swap_remove(place));
                }
            }
        }
        // Loops over time have scratch memory of their own.
        let mut scratch = HashMap::new();
        for (step, group) in self.groups.iter().enumerate() {
            if let Group::Repeat { body, reverse, node, .. } = group {
                let Some(scan) = self.graph.nodes[*node].op.body() else { continue };
                let sizes = scan.carried.iter().map(|carry| carry.shape().elements() * carry.dtype().bytes());
                let carried: usize = sizes.map(|bytes| 2 * memory::aligned(bytes)).sum();
                let kept: usize = match &self.graph.nodes[*node].op {
                    Op::Sweep(sweep) => {
                        let state = body.results.iter().map(|(shape, dtype)| shape.elements() * dtype.bytes());
                        sweep.snapshots * state.map(memory::aligned).sum::<usize>()
                    }
                    _ => 0,
                };
                scratch.insert(step, lifetimes.len());
                let arena = body.arena.max(reverse.as_ref().map_or(0, |reverse| reverse.arena));
                let bytes = memory::aligned(arena) + carried + kept;
                lifetimes.push(memory::Lifetime { bytes: bytes.max(1), first: step, last: step, instead_of: None });
            }
        }
        let (places, arena) = memory::plan(&lifetimes, self.groups.len());
        let memory_of = |producer: usize| {
            let Producer { leaf, result, .. } = &self.producers[producer];
            leaf.or_else(|| result.map(Memory::Result)).unwrap_or(Memory::Arena(places[producer]))
        };
        let access = |at: &Located| Access {
            memory: memory_of(at.producer),
            dtype: self.producers[at.producer].dtype,
            offset: at.offset,
            strides: at.strides.clone(),
        };
        let whole = |producer: usize, strides: Vec<isize>| Access {
            memory: memory_of(producer),
            dtype: self.producers[producer].dtype,
            offset: 0,
            strides,
        };
        let mut steps = Vec::with_capacity(self.groups.len());
        for (step, group) in self.groups.iter().enumerate() {
            steps.push(match group {
                Group::Loop(group) => {
                    let loads = group.loads.len();
                    let number = |register: usize| Register::decode(register, loads);
                    let code = group.code.iter().map(|(instruction, dtype)| (renumbered(*instruction, number), *dtype));
                    let stores = group.stores.iter().map(|store| Store {
                        register: number(store.register.encode()),
                        access: whole(store.producer, store.strides.clone()),
                        combine: store.combine,
                        scale: store.scale,
                        clear: store.clear.then_some(self.producers[store.producer].elements),
                        in_order: false,
                        direct: false,
                    });
                    Step::Loop(with_slots(collapsed(Loop {
                        extents: group.extents.clone(),
                        loads: group.loads.iter().map(access).collect(),
                        code: code.collect(),
                        stores: stores.collect(),
                        slots: Vec::new(),
                        slot_count: 0,
                    })))
                }
                Group::Product(pending) => {
                    let [first, second] = &pending.factors;
                    let operands = [access(first), access(second), whole(pending.producer, Vec::new())];
                    let clear = pending.clear.then_some(self.producers[pending.producer].elements);
                    Step::Product(product(&pending.axes, operands, pending.coefficient, clear))
                }
                Group::Call { node, inputs, producer } => {
                    let node = &self.graph.nodes[*node];
                    Step::Call(Call {
                        op: node.op.clone(),
                        inputs: inputs.iter().map(|(at, shape)| (access(at), shape.clone())).collect(),
                        output: (whole(*producer, rows(&node.shape)), node.shape.clone()),
                        source: node.source,
                    })
                }
                Group::Repeat { node, body, reverse, inputs, producers } => {
                    let node = &self.graph.nodes[*node];
                    let Some(scan) = node.op.body() else { continue };
                    let written = |producer: &usize| {
                        let producer = *producer;
                        self.producers[producer].needed.then(|| whole(producer, Vec::new()))
                    };
                    if let (Op::Sweep(sweep), Some(reverse)) = (&node.op, reverse) {
                        steps.push(Step::Sweep(Sweep {
                            advance: Arc::new(body.clone()),
                            reverse: Arc::new(reverse.clone()),
                            schedule: Arc::new(Schedule::new(scan.length, sweep.snapshots)),
                            inputs: inputs.iter().map(access).collect(),
                            outputs: producers[sweep.states..].iter().map(written).collect(),
                            states: sweep.states,
                            carries: scan.carried.len() - sweep.states,
                            sequences: scan.entries.len(),
                            scratch: Memory::Arena(places[scratch[&step]]),
                            source: node.source,
                        }));
                        continue;
                    }
                    Step::Repeat(Repeat {
                        body: Arc::new(body.clone()),
                        length: scan.length,
                        inputs: inputs.iter().map(access).collect(),
                        outputs: producers.iter().map(written).collect(),
                        carries: scan.carries.len(),
                        sequences: scan.entries.len(),
                        scratch: Memory::Arena(places[scratch[&step]]),
                        source: node.source,
                    })
                }
            });
        }
        let signature = |node: &usize| {
            let node: &GraphNode = &self.graph.nodes[*node];
            (node.shape.clone(), node.dtype)
        };
        Program {
            inputs: self.graph.inputs.iter().map(signature).collect(),
            constants: self.graph.constants.iter().map(|(_, array)| array.clone()).collect(),
            results: self.graph.results.iter().map(signature).collect(),
            steps,
            arena,
        }
    }
}

fn renumbered(instruction: Instruction, number: impl Fn(usize) -> usize) -> Instruction {
    match instruction {
        Instruction::Number(_) => instruction,
        Instruction::Unary(operation, a, parameter) => Instruction::Unary(operation, number(a), parameter),
        Instruction::Binary(operation, a, b) => Instruction::Binary(operation, number(a), number(b)),
        Instruction::Strong(a, b) => Instruction::Strong(number(a), number(b)),
        Instruction::Compare(relation, a, b) => Instruction::Compare(relation, number(a), number(b)),
        Instruction::Logic(logic, a, b) => Instruction::Logic(logic, number(a), number(b)),
        Instruction::Choose(condition, a, b) => Instruction::Choose(number(condition), number(a), number(b)),
        Instruction::Cast(a) => Instruction::Cast(number(a)),
    }
}

/// The same loop over as few axes as possible: neighbours become one where all strides allow it.
fn collapsed(mut fused: Loop) -> Loop {
    if fused.extents.contains(&0) {
        return fused;
    }
    let mut axis = fused.extents.len();
    while axis > 1 {
        axis -= 1;
        let inner = fused.extents[axis] as isize;
        let follows = |access: &Access| access.strides[axis - 1] == access.strides[axis] * inner;
        let stores = fused.stores.iter().map(|store| &store.access);
        if fused.loads.iter().chain(stores).all(follows) {
            fused.extents[axis - 1] *= fused.extents[axis];
            fused.extents.remove(axis);
            let stores = fused.stores.iter_mut().map(|store| &mut store.access);
            for access in fused.loads.iter_mut().chain(stores) {
                access.strides.remove(axis - 1);
            }
        }
    }
    fused
}

/// Gives each register a slot of scratch memory, which goes to another when the register was read for the last
/// time. What is the same for all elements keeps its slot; what lies row by row in memory needs none.
fn with_slots(mut fused: Loop) -> Loop {
    let loads = fused.loads.len();
    let count = loads + fused.code.len();
    let mut last_use = vec![0; count];
    for (place, (instruction, _)) in fused.code.iter().enumerate() {
        instruction.operands().for_each(|operand| last_use[operand] = place);
    }
    fused.stores.iter().for_each(|store| last_use[store.register] = usize::MAX);
    let mut free: Vec<usize> = Vec::new();
    let mut slot_count = 0;
    let mut take = |free: &mut Vec<usize>| {
        free.pop().unwrap_or_else(|| {
            slot_count += 1;
            slot_count - 1
        })
    };
    let whole = rows(&fused.extents);
    let mut computed_in_place: Vec<usize> = Vec::new();
    for store in &mut fused.stores {
        store.in_order = store.combine.is_none() && store.access.strides == whole;
        // What is also read must not change before it was read for the last time.
        let is_read = fused.loads.iter().any(|load| load.memory == store.access.memory);
        let is_number = |place: usize| matches!(fused.code[place].0, Instruction::Number(_));
        let is_computed = store.register.checked_sub(loads).is_some_and(|place| !is_number(place));
        store.direct = store.in_order && is_computed && !is_read && !computed_in_place.contains(&store.register);
        if store.direct {
            computed_in_place.push(store.register);
        }
    }
    fused.slots = vec![usize::MAX; count];
    for (number, load) in fused.loads.iter().enumerate() {
        if load.strides != whole {
            fused.slots[number] = take(&mut free);
        }
    }
    // Numbers are written once, before the first block: nobody else may ever have their slots.
    let is_number = |place: usize| matches!(fused.code[place].0, Instruction::Number(_));
    for place in (0..fused.code.len()).filter(|place| is_number(*place)) {
        fused.slots[loads + place] = take(&mut free);
    }
    for (place, (instruction, _)) in fused.code.iter().enumerate().filter(|(place, _)| !is_number(*place)) {
        if !computed_in_place.contains(&(loads + place)) {
            fused.slots[loads + place] = take(&mut free);
        }
        let mut ended: Vec<usize> = instruction.operands().filter(|operand| last_use[*operand] == place).collect();
        ended.sort_unstable();
        ended.dedup();
        for operand in ended {
            let lasting = match operand.checked_sub(loads) {
                None => fused.loads[operand].strides == whole || fused.loads[operand].strides.iter().all(|s| *s == 0),
                Some(place) => is_number(place),
            };
            if !lasting {
                free.push(fused.slots[operand]);
            }
        }
    }
    fused.slot_count = slot_count;
    fused
}

/// The axes of a product of matrices by what they are: batch, rows, columns, inner. `None` if it is none.
fn product_axes(
    einsum: &Einsum,
    operands: &[Located],
    along: impl Fn(&Located, &[usize], usize) -> isize,
    output_stride: impl Fn(usize) -> isize,
) -> Option<[Vec<ProductAxis>; 4]> {
    if operands.len() != 2 || einsum.is_strong() {
        return None;
    }
    let mut labels: Vec<usize> = einsum.operands.iter().flatten().chain(&einsum.output).copied().collect();
    labels.sort_unstable();
    labels.dedup();
    let mut axes: [Vec<ProductAxis>; 4] = Default::default();
    for label in labels {
        let [a, b] = [0, 1].map(|k| einsum.operands[k].contains(&label));
        let kind = match (a, b, einsum.output.contains(&label)) {
            (true, false, true) => 1,
            (false, true, true) => 2,
            (true, true, false) => 3,
            (_, _, true) => 0,
            // Something is summed in one factor alone: another order is better, and found elsewhere.
            (_, _, false) => 3,
        };
        let extent = einsum.extents[label];
        let [a, b] = [0, 1].map(|k| along(&operands[k], &einsum.operands[k], label));
        if extent != 1 {
            axes[kind].push(ProductAxis { extent, strides: [a, b, output_stride(label)] });
        }
    }
    let [_, rows, columns, inner] = &axes;
    (!rows.is_empty() && !columns.is_empty() && !inner.is_empty()).then_some(axes)
}

/// A product of matrices whose axes are as long as strides allow; what is left over is batch or sum.
fn product(axes: &[Vec<ProductAxis>; 4], operands: [Access; 3], coefficient: f64, clear: Option<usize>) -> Product {
    let [batch, rows, columns, inner] = axes.clone().map(merged);
    let unit = ProductAxis { extent: 1, strides: [0; 3] };
    let longest = |mut axes: Vec<ProductAxis>| {
        let place = (0..axes.len()).max_by_key(|k| axes[*k].extent);
        let axis = place.map_or(unit, |place| axes.remove(place));
        (axis, axes)
    };
    let ((rows, more_rows), (columns, more_columns), (inner, sums)) = (longest(rows), longest(columns), longest(inner));
    let batch = [batch, more_rows, more_columns].concat();
    Product { batch, sums, rows, columns, inner, operands, coefficient, clear }
}

/// Axes put together where they follow one another in all operands, the largest steps first.
fn merged(mut axes: Vec<ProductAxis>) -> Vec<ProductAxis> {
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.strides.map(isize::abs)));
    let mut merged: Vec<ProductAxis> = Vec::new();
    for axis in axes {
        match merged.last_mut() {
            Some(last) if (0..3).all(|k| last.strides[k] == axis.strides[k] * axis.extent as isize) => {
                *last = ProductAxis { extent: last.extent * axis.extent, strides: axis.strides };
            }
            _ => merged.push(axis),
        }
    }
    merged
}
