//! Calls on whole arrays, and scan loops with a program as their body.

use std::sync::Arc;

use super::elements::squeeze;
use super::groups::{Group, SweptBack};
use super::layout::images_channels_last;
use super::strides::{is_contiguous, rows};
use super::{Located, Lowering, Producer, lower};
use crate::expr::{FusedKernel, MultiOp, RegionKind};
use crate::interning::Shared;
use crate::opt::Capabilities;
use crate::opt::graph::{Graph, GraphMulti, GraphNode};
use crate::opt::passes::dead;
use crate::opt::program::{CallKind, Contraction, ContractionAxis, Memory, Program, Step};
use crate::shape::{InlineVec, Shape};
use crate::view::View;

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
fn moves_elements(kind: &CallKind, target: &Capabilities) -> bool {
    match kind {
        CallKind::ScatterView(_) => target.stored_scatters,
        CallKind::ReadView(_)
        | CallKind::Concatenate(_)
        | CallKind::Gather(_)
        | CallKind::Fused(_)
        | CallKind::Host(_) => true,
        CallKind::Collective(_)
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
        let moves = moves_elements(&kind, self.target);
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

    /// The transpose of a read of windows that are stored channels-last, whose sums are too.
    pub(super) fn scattered_channels_last(&mut self, number: usize, view: &View) -> Option<Located> {
        let graph: &'g Graph = self.graph;
        let node = &graph.nodes[number];
        let input = node.inputs[0];
        let mut at = [self.at(input)];
        squeeze(&graph.nodes[input].shape, &mut at);
        let order = self.followed(&at)?;
        if !moves_elements(&CallKind::ScatterView(Shared::new(view.clone())), self.target) {
            return None;
        }
        let is_long = |axis: &usize| view.output[*axis] != 1;
        let long: Vec<usize> = (0..view.output.rank()).filter(is_long).collect();
        let windows: Vec<usize> =
            (0..view.output.rank()).filter(|axis| !is_long(axis)).chain(order.iter().map(|axis| long[*axis])).collect();
        // The channels: the axis that the innermost one of the windows leads along, alone and step by step.
        let innermost = *windows.last()?;
        let channels = view.axes.iter().position(|axis| axis.steps[..] == [(innermost, 1)])?;
        let axes: Vec<usize> = (0..view.input.rank()).filter(|axis| *axis != channels).chain([channels]).collect();
        let ordered = view.ordered(&windows);
        let turned = View {
            input: axes.iter().map(|axis| view.input[*axis]).collect::<Vec<_>>().into(),
            axes: axes.iter().map(|axis| ordered.axes[*axis].clone()).collect(),
            output: ordered.output,
        };
        let at = self.at(input);
        let strides = windows.iter().map(|axis| at.strides[*axis]).collect();
        let windows = self.in_rows(&Located { strides, ..at }, &turned.output);
        let producer = self.produce(node.dtype, node.shape.elements());
        self.producers[producer].channels_last = true;
        let lying = rows(&turned.input);
        let mut strides = InlineVec::from_elem(0, axes.len());
        axes.iter().zip(lying.iter()).for_each(|(axis, stride)| strides[*axis] = *stride);
        let (inputs, outputs) = (vec![(windows, turned.output.clone())], vec![(producer, turned.input.clone())]);
        let kind = CallKind::ScatterView(Shared::new(turned));
        self.group_of(producer, Group::Call { source: node.source, kind, inputs, outputs });
        Some(Located { producer, offset: 0, strides })
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
        // Batch normalization reads images as they are stored.
        let images = match kernel {
            FusedKernel::BatchNorm(_) | FusedKernel::BatchNormPullback(_) => {
                operands.first().map(|input| &graph.nodes[*input].shape).filter(|_| self.is_channels_last(operands[0]))
            }
            FusedKernel::Cumulative(_)
            | FusedKernel::CumulativePullback(_)
            | FusedKernel::TopK(_)
            | FusedKernel::Attention(_)
            | FusedKernel::AttentionPullback(_)
            | FusedKernel::CrossEntropy(_)
            | FusedKernel::CrossEntropyPullback(_) => None,
        };
        let mut inputs = Vec::new();
        for input in operands {
            let (at, shape) = (self.at(*input), &graph.nodes[*input].shape);
            if images == Some(shape) {
                inputs.push((self.in_channels_last(&at, shape), shape.clone()));
                continue;
            }
            // Leaves may begin anywhere in an array; kernels of some targets read arrays of several axes in aligned vectors.
            let Producer { leaf, dtype, .. } = self.producers[at.producer];
            let is_apart = self.target.aligned_operands && leaf.is_some() && dtype.is_float() && shape.rank() > 1;
            let at = if is_apart { self.copied(&at, shape) } else { at };
            inputs.push((self.in_rows(&at, shape), shape.clone()));
        }
        let signature = multi.op.signature();
        let producers: Vec<usize> =
            signature.iter().map(|(shape, dtype)| self.produce(*dtype, shape.elements())).collect();
        for (producer, (shape, _)) in producers.iter().zip(&signature) {
            self.producers[*producer].channels_last = images == Some(shape);
        }
        for producer in &producers {
            self.producers[*producer].group = self.groups.len();
            self.producers[*producer].needed = true;
        }
        let outputs = producers.iter().copied().zip(signature.into_iter().map(|(shape, _)| shape)).collect();
        self.works(self.groups.len());
        self.groups.push(Group::Call { source: multi.source, kind: CallKind::Fused(kernel), inputs, outputs });
        producers
    }

    /// Whether a node `[batch, channels, places…]` is a whole producer that is stored channels-last.
    fn is_channels_last(&self, node: usize) -> bool {
        let (at, shape) = (self.at(node), &self.graph.nodes[node].shape);
        let producer = &self.producers[at.producer];
        let is_whole = at.offset == 0 && producer.elements == shape.elements();
        producer.channels_last && is_whole && shape.rank() > 2 && at.strides == images_channels_last(shape)
    }

    /// Images in memory, channels-last.
    fn in_channels_last(&mut self, at: &Located, shape: &Shape) -> Located {
        let strides = images_channels_last(shape);
        let is_whole = at.offset == 0 && self.producers[at.producer].elements == shape.elements();
        let located = if is_whole && self.producers[at.producer].leaf.is_none() && at.strides == strides {
            at.clone()
        } else {
            let order: Vec<usize> = std::iter::once(0).chain(2..shape.rank()).chain([1]).collect();
            let turned: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
            let from = order.iter().map(|axis| at.strides[*axis]).collect();
            let copy = self.copied(&Located { strides: from, ..at.clone() }, &turned.into());
            self.producers[copy.producer].channels_last = true;
            Located { strides, ..copy }
        };
        self.producers[located.producer].needed = true;
        located
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
