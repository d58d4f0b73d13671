//! Calls on whole arrays, and scan loops with a program as their body.

use std::sync::Arc;

use super::groups::{Group, SweptBack};
use super::strides::is_contiguous;
use super::{Located, Lowering, Producer, lower};
use crate::expr::{FusedKernel, MultiOp, RegionKind};
use crate::opt::graph::{Graph, GraphMulti, GraphNode};
use crate::opt::passes::dead;
use crate::opt::program::{CallKind, Contraction, ContractionAxis, Memory, Program, Step};
use crate::shape::Shape;

/// From this many iterations on, a matrix is transposed once before a loop that multiplies with its transpose.
const WORTH_TURNING: usize = 4;

/// If all that the body of a loop does with a matrix from outside is to multiply with its transpose, makes it expect that
/// transpose instead, and returns its shape: kernels read a second factor row by row.
fn turned_factor(body: &mut Program, input: usize, shape: &Shape) -> Option<Shape> {
    let [rows, columns] = shape[..] else { return None };
    let memory = Memory::Input(input);
    let is_turned = |step: &Step| match step {
        Step::Contract(Contraction { batch, sums, columns: across, inner, operands, epilogue, .. }) => {
            let is_still = |axis: &ContractionAxis| axis.strides[1] == 0;
            let is_read_behind = epilogue.iter().flat_map(|epilogue| &epilogue.loads).any(|load| load.memory == memory);
            !is_read_behind
                && operands[0].memory != memory
                && operands[1].offset == 0
                && (across.extent, across.strides[1]) == (rows, columns as isize)
                && (inner.extent, inner.strides[1]) == (columns, 1)
                && batch.iter().chain(sums).all(is_still)
        }
        Step::Loop(_) | Step::Call(_) | Step::Scan(_) | Step::ReverseScan(_) => false,
    };
    let reads = |step: &&mut Step| step.reads().any(|access| access.memory == memory);
    let mut readers: Vec<&mut Step> = body.steps.iter_mut().filter(reads).collect();
    if readers.is_empty() || rows == 1 || columns == 1 || !readers.iter().all(|step| is_turned(step)) {
        return None;
    }
    for step in &mut readers {
        if let Step::Contract(product) = step {
            product.columns.strides[1] = 1;
            product.inner.strides[1] = rows as isize;
        }
    }
    let turned = Shape::from([columns, rows]);
    body.inputs[input].0 = turned.clone();
    Some(turned)
}

/// Whether a call takes elements of storage types as they are; others compute with them, in the compute type.
fn moves_elements(kind: &CallKind) -> bool {
    match kind {
        CallKind::ReadView(_)
        | CallKind::Concatenate(_)
        | CallKind::Gather(_)
        | CallKind::Fused(_)
        | CallKind::Host(_) => true,
        CallKind::ScatterView(_)
        | CallKind::Collective(_)
        | CallKind::ScatterAdd(_)
        | CallKind::OneHot(_)
        | CallKind::ArgMax(_)
        | CallKind::ArgSort { .. }
        | CallKind::Draw(_) => false,
    }
}

impl<'g> Lowering<'g> {
    /// A call on whole arrays.
    pub(super) fn call(&mut self, number: usize, kind: CallKind) -> Located {
        let graph: &'g Graph = self.graph;
        let node = &graph.nodes[number];
        let mut inputs = Vec::new();
        let moves = moves_elements(&kind);
        for input in &node.inputs {
            let shape = &graph.nodes[*input].shape;
            let at = self.at(*input);
            let at = if moves { at } else { self.widened(&at) };
            inputs.push((self.in_rows(&at, shape), shape.clone()));
        }
        let dtype = if moves { node.dtype } else { node.dtype.compute_type() };
        let producer = self.produce(dtype, node.shape.elements());
        let outputs = vec![(producer, node.shape.clone())];
        self.group_of(producer, Group::Call { source: node.source, kind, inputs, outputs });
        self.narrowed(&Located::whole(producer, &node.shape), &node.shape, node.dtype)
    }

    /// The producers of all outputs of the loop or sweep that a node is one output of.
    pub(super) fn outputs_of(&mut self, node: &GraphNode) -> &[usize] {
        let Some(multi) = &node.multi else { unreachable!("{} belongs to no operation", node.op.describe()) };
        if !self.outputs.contains_key(&multi.source) {
            self.source = Some(multi.source);
            let producers = match &multi.op {
                MultiOp::Remat(region) => match region.kind {
                    RegionKind::Fused(kernel) => {
                        // What is captured beside the parameters is part of the definition alone.
                        self.fused_region(kernel, multi, &node.inputs[..region.body.parameters.len()])
                    }
                    RegionKind::Remat | RegionKind::Inline => unreachable!("the pass `expand` opens regions"),
                },
                MultiOp::Scan(_) | MultiOp::Sweep(_) => self.repeated(multi, &node.inputs),
            };
            self.outputs.insert(multi.source, producers);
        }
        &self.outputs[&multi.source]
    }

    /// One call for a region that the target has a kernel for. Its operands are read as they are stored.
    fn fused_region(&mut self, kernel: FusedKernel, multi: &GraphMulti, operands: &[usize]) -> Vec<usize> {
        let graph: &'g Graph = self.graph;
        let mut inputs = Vec::new();
        for input in operands {
            let (at, shape) = (self.at(*input), &graph.nodes[*input].shape);
            // Leaves may begin anywhere in an array; kernels of some targets read arrays of several axes in aligned vectors.
            let Producer { leaf, dtype, .. } = self.producers[at.producer];
            let is_apart = self.target.aligned_operands && leaf.is_some() && dtype.is_float() && shape.rank() > 1;
            let at = if is_apart { self.copied(&at, shape) } else { at };
            inputs.push((self.in_rows(&at, shape), shape.clone()));
        }
        let signature = multi.op.signature();
        let producers: Vec<usize> =
            signature.iter().map(|(shape, dtype)| self.produce(*dtype, shape.elements())).collect();
        for producer in &producers {
            self.producers[*producer].group = self.groups.len();
            self.producers[*producer].needed = true;
        }
        let outputs = producers.iter().copied().zip(signature.into_iter().map(|(shape, _)| shape)).collect();
        self.works(self.groups.len());
        self.groups.push(Group::Call { source: multi.source, kind: CallKind::Fused(kernel), inputs, outputs });
        producers
    }

    fn repeated(&mut self, multi: &GraphMulti, operands: &[usize]) -> Vec<usize> {
        let graph: &'g Graph = self.graph;
        let GraphMulti { op, body, source } = multi;
        let Some(scan) = op.scan() else { unreachable!("the pass `expand` opens regions") };
        let mut inputs = Vec::new();
        let sequences = scan.carries..scan.body.parameters.len();
        for (place, input) in operands.iter().enumerate() {
            let (at, shape) = (self.at(*input), &graph.nodes[*input].shape);
            // Each entry of a sequence lies row by row; from one to the next leads any step, also back.
            let entries_in_rows = || match (at.strides.split_first(), shape.split_first()) {
                (Some((_, strides)), Some((_, shape))) => is_contiguous(shape, strides),
                _ => false,
            };
            let is_sequence = matches!(op, MultiOp::Scan(_)) && sequences.contains(&place);
            inputs.push(if is_sequence && entries_in_rows() {
                self.producers[at.producer].needed = true;
                at
            } else {
                self.in_rows(&at, shape)
            });
        }
        // A sweep has a program for each direction.
        let (mut body_program, sweep) = match op {
            MultiOp::Sweep(sweep) => {
                let part = |results: &[usize]| {
                    lower(&dead(Graph { results: results.to_vec(), ..Graph::clone(body) }), self.target)
                };
                let (forwards, back) = body.results.split_at(sweep.states);
                let reverse = Arc::new(part(back));
                (part(forwards), Some(SweptBack { reverse, states: sweep.states, snapshots: sweep.snapshots }))
            }
            MultiOp::Scan(_) | MultiOp::Remat(_) => (lower(body, self.target), None),
        };
        if sweep.is_none() && scan.length >= WORTH_TURNING {
            for (place, input) in inputs.iter_mut().enumerate().skip(sequences.end) {
                let shape = &graph.nodes[operands[place]].shape;
                if let Some(turned) = turned_factor(&mut body_program, place, shape) {
                    let at = Located { strides: input.strides.iter().rev().copied().collect(), ..input.clone() };
                    *input = self.copied(&at, &turned);
                    self.producers[input.producer].needed = true;
                }
            }
        }
        let producers: Vec<usize> = body
            .results
            .iter()
            .enumerate()
            .map(|(part, result)| {
                let GraphNode { shape, dtype, .. } = &body.nodes[*result];
                let stacked = if part < scan.carries { 1 } else { scan.length };
                self.produce(*dtype, shape.elements().saturating_mul(stacked))
            })
            .collect();
        for (part, producer) in producers.iter().enumerate() {
            self.producers[*producer].group = self.groups.len();
            // A sweep has no other place for what it stacks.
            self.producers[*producer].needed = sweep.is_some() && part >= scan.carries;
        }
        self.works(self.groups.len());
        self.groups.push(Group::Scan {
            source: *source,
            length: scan.length,
            reversed: scan.reversed,
            carried: scan.carry_out().iter().map(|carry| (carry.shape().clone(), carry.dtype())).collect(),
            sequences: sequences.len(),
            body: Arc::new(body_program),
            sweep,
            inputs,
            producers: producers.clone(),
        });
        producers
    }
}
