//! The end of lowering: stored values, their layout, and the steps.

use std::sync::Arc;

use super::groups::{Group, LoopGroup, PendingContraction, PendingStore, Register, SweptBack};
use super::layout::images_channels_last;
use super::loops::{collapsed, renumbered, tiled};
use super::products::ContractionAxes;
use super::strides::{is_rows, rows};
use super::{Located, Lowering, NO_GROUP, Producer};
use crate::expr::Op;
use crate::opt::graph::GraphNode;
use crate::opt::memory::{self, Lifetime};
use crate::opt::program::{
    Access, Call, CallKind, Contraction, Loop, Memory, Program, ReverseScan, ScanLoop, Signature, Step, Store,
};
use crate::opt::revolve::Schedule;
use crate::shape::Shape;

impl Lowering<'_> {
    /// Every result is a whole producer of its own.
    pub(super) fn results(&mut self) {
        for (number, result) in self.graph.results.iter().enumerate() {
            let GraphNode { op, shape, source, .. } = &self.graph.nodes[*result];
            self.source = (!matches!(op, Op::Leaf)).then_some(*source);
            let at = self.at(*result);
            let located = self.in_rows(&at, shape);
            let taken = |producer: &Producer| producer.leaf.is_some() || producer.result.is_some();
            let located = if taken(&self.producers[located.producer]) { self.copied(&located, shape) } else { located };
            // A copy of a register is that register again: the store alone makes it another producer.
            self.producers[located.producer].result = Some(number);
            self.producers[located.producer].needed = true;
        }
    }

    /// The program of what was grouped.
    pub(super) fn finish(mut self) -> Program {
        self.store_what_is_read();
        self.leave_out_idle_loops();
        self.fuse_epilogues();
        let mut lifetimes = self.lifetimes();
        self.write_over(&mut lifetimes);
        let scratch = self.scratch(&mut lifetimes);
        let (places, arena) = memory::plan(&lifetimes, self.groups.len());
        let values = memory::held(&lifetimes, &places);
        let sources = std::mem::take(&mut self.worked);
        let groups = std::mem::take(&mut self.groups);
        let planned = Planned { lowering: &self, places, scratch };
        let steps = groups.into_iter().enumerate().map(|(step, group)| planned.step(step, group)).collect();
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
            values,
            sources,
        }
    }

    /// Values of loops that are read later are stored.
    fn store_what_is_read(&mut self) {
        for producer in 0..self.producers.len() {
            let Producer { needed: true, register: Some(register), by_row, group, leaf: None, .. } =
                self.producers[producer]
            else {
                continue;
            };
            if let Group::Loop(group_loop) = &mut self.groups[group] {
                let strides = if by_row { group_loop.row_strides() } else { rows(&group_loop.extents) };
                let store =
                    PendingStore { register, producer, offset: 0, strides, reduction: None, scale: 1.0, clear: false };
                group_loop.stores.push(store);
            }
        }
    }

    /// Loops that store nothing need not run: those of numbers that other loops have written down for themselves.
    fn leave_out_idle_loops(&mut self) {
        let is_idle = |group: &Group| matches!(group, Group::Loop(group) if group.stores.is_empty());
        let mut numbers = Vec::with_capacity(self.groups.len());
        let mut next = 0;
        for group in &self.groups {
            numbers.push((!is_idle(group)).then_some(next));
            next += usize::from(!is_idle(group));
        }
        self.groups.retain(|group| !is_idle(group));
        self.renumber(&numbers);
    }

    /// After groups have got other numbers, or are gone.
    pub(super) fn renumber(&mut self, numbers: &[Option<usize>]) {
        self.worked.retain_mut(|(group, _)| numbers[*group].inspect(|number| *group = *number).is_some());
        for producer in &mut self.producers {
            // Leaves, and what only idle loops computed, belong to no group.
            producer.group = numbers.get(producer.group).copied().flatten().unwrap_or(NO_GROUP);
        }
    }

    /// From when to when each producer is needed in the arena.
    fn lifetimes(&self) -> Vec<Lifetime> {
        let lifetime = |producer: &Producer| {
            let in_arena = producer.leaf.is_none() && producer.result.is_none() && producer.needed;
            let bytes = if in_arena { producer.elements.saturating_mul(producer.dtype.bytes()) } else { 0 };
            Lifetime { bytes, first: producer.group, last: producer.group, instead_of: None }
        };
        let mut lifetimes: Vec<Lifetime> = self.producers.iter().map(lifetime).collect();
        for (step, group) in self.groups.iter().enumerate() {
            group.reads(|at| {
                let lifetime = &mut lifetimes[at.producer];
                lifetime.last = lifetime.last.max(step);
            });
        }
        lifetimes
    }

    /// A loop may write over what it reads for the last time, element by element at the same places.
    fn write_over(&self, lifetimes: &mut [Lifetime]) {
        // How often the loop at hand reads each producer.
        let mut reads = vec![0_u32; self.producers.len()];
        let mut free: Vec<usize> = Vec::new();
        for (step, group) in self.groups.iter().enumerate() {
            let Group::Loop(group) = group else { continue };
            free.clear();
            group.loads.iter().for_each(|(load, _)| reads[load.producer] += 1);
            for (number, (load, _)) in group.loads.iter().enumerate() {
                let lifetime = &lifetimes[load.producer];
                let ends = lifetime.bytes > 0 && lifetime.last == step && lifetime.first < step;
                let is_stored = || group.stores.iter().any(|store| store.register == Register::load(number));
                let is_whole = || load.offset == 0 && is_rows(&group.extents, &load.strides);
                if ends && reads[load.producer] == 1 && is_whole() && !is_stored() {
                    free.push(load.producer);
                }
            }
            group.loads.iter().for_each(|(load, _)| reads[load.producer] = 0);
            let moves = |store: &&PendingStore| store.reduction.is_none() && !store.clear && store.offset == 0;
            for store in group.stores.iter().filter(moves) {
                let own = lifetimes[store.producer].bytes;
                let fits = |candidate: &usize| {
                    lifetimes[*candidate].bytes == own
                        && self.producers[*candidate].elements == self.producers[store.producer].elements
                };
                if own > 0
                    && is_rows(&group.extents, &store.strides)
                    && let Some(place) = free.iter().position(fits)
                {
                    lifetimes[store.producer].instead_of = Some(free.swap_remove(place));
                }
            }
        }
    }

    /// Loops over time have scratch memory of their own: for each step, the number of its lifetime if it is one.
    fn scratch(&self, lifetimes: &mut Vec<Lifetime>) -> Vec<Option<usize>> {
        let mut scratch = vec![None; self.groups.len()];
        for (step, group) in self.groups.iter().enumerate() {
            let Group::Scan { body, carried, sweep, .. } = group else { continue };
            let aligned = |(shape, dtype): &Signature| memory::aligned(shape.elements().saturating_mul(dtype.bytes()));
            let homes: usize = carried.iter().map(|carry| 2 * aligned(carry)).sum();
            let snapshots = sweep.as_ref().map_or(0, |sweep| sweep.snapshots);
            let kept = snapshots * body.results.iter().map(aligned).sum::<usize>();
            let back = sweep.as_ref().map_or(0, |sweep| sweep.reverse.arena);
            scratch[step] = Some(lifetimes.len());
            let bytes = memory::aligned(body.arena.max(back)) + homes + kept;
            lifetimes.push(Lifetime { bytes: bytes.max(1), first: step, last: step, instead_of: None });
        }
        scratch
    }
}

/// Everything has a place.
struct Planned<'l, 'g> {
    lowering: &'l Lowering<'g>,
    /// The place of each lifetime: those of producers, then those of scratch memory.
    places: Vec<usize>,
    scratch: Vec<Option<usize>>,
}

impl Planned<'_, '_> {
    fn memory(&self, producer: usize) -> Memory {
        let Producer { leaf, result, in_pieces, .. } = &self.lowering.producers[producer];
        if *in_pieces {
            return Memory::Tile;
        }
        leaf.or_else(|| result.map(Memory::Result)).unwrap_or(Memory::Arena(self.places[producer]))
    }

    /// A node where it lies.
    fn access(&self, at: &Located) -> Access {
        Access { offset: at.offset, ..self.whole(at.producer, &at.strides) }
    }

    /// A producer from its first element on.
    fn whole(&self, producer: usize, strides: &[isize]) -> Access {
        let dtype = self.lowering.producers[producer].dtype;
        Access { memory: self.memory(producer), dtype, offset: 0, strides: strides.to_vec() }
    }

    /// A result of a call. Kernels of regions store images as their operand is stored; other results are row-major.
    fn output(&self, kind: &CallKind, (producer, shape): (usize, Shape)) -> (Access, Shape) {
        let is_image = matches!(kind, CallKind::Fused(_)) && self.lowering.producers[producer].channels_last;
        let strides = if is_image { images_channels_last(&shape) } else { rows(&shape) };
        (self.whole(producer, &strides), shape)
    }

    fn step(&self, number: usize, group: Group) -> Step {
        match group {
            Group::Loop(group) => Step::Loop(tiled(self.fused(group), self.lowering.target)),
            Group::Contract(PendingContraction {
                axes,
                factors: [first, second],
                producer,
                offset,
                coefficient,
                clear,
                accumulates,
                symmetric,
                masked,
                epilogue,
            }) => {
                let result = Access { offset, ..self.whole(producer, &[]) };
                let operands = [self.access(&first), self.access(&second), result];
                let clear = clear.then_some(self.lowering.producers[producer].elements);
                let ContractionAxes { batch, sums, rows, columns, inner } = axes;
                Step::Contract(Contraction {
                    batch,
                    sums,
                    rows,
                    columns,
                    inner,
                    operands,
                    coefficient,
                    clear,
                    accumulates,
                    symmetric,
                    masked,
                    epilogue: epilogue.map(|epilogue| Box::new(self.fused(*epilogue))),
                })
            }
            Group::Call { source, kind, inputs, outputs } => Step::Call(Call {
                inputs: inputs.into_iter().map(|(at, shape)| (self.access(&at), shape)).collect(),
                outputs: outputs.into_iter().map(|output| self.output(&kind, output)).collect(),
                kind,
                source,
            }),
            Group::Scan { source, length, reversed, carried, sequences, body, sweep, inputs, producers } => {
                let written =
                    |producer: &usize| self.lowering.producers[*producer].needed.then(|| self.whole(*producer, &[]));
                let inputs = inputs.iter().map(|at| self.access(at)).collect();
                let scratch = match self.scratch[number] {
                    Some(lifetime) => Memory::Arena(self.places[lifetime]),
                    None => unreachable!("step {number} is a loop without scratch memory"),
                };
                match sweep {
                    Some(SweptBack { reverse, states, snapshots }) => Step::ReverseScan(ReverseScan {
                        advance: body,
                        reverse,
                        schedule: Arc::new(Schedule::new(length, snapshots)),
                        inputs,
                        outputs: producers[states..].iter().map(written).collect(),
                        states,
                        carries: carried.len() - states,
                        sequences,
                        scratch,
                        source,
                    }),
                    None => Step::Scan(ScanLoop {
                        body,
                        length,
                        reversed,
                        inputs,
                        outputs: producers.iter().map(written).collect(),
                        carries: carried.len(),
                        sequences,
                        scratch,
                        source,
                    }),
                }
            }
        }
    }

    fn fused(&self, group: LoopGroup) -> Loop {
        let loads = group.loads.len();
        let number = |register: usize| Register::decode(register, loads);
        let by_row = group.loads.iter().map(|(_, by_row)| *by_row).chain(group.code.iter().map(|code| code.by_row));
        let by_row = by_row.collect();
        let code = group.code.iter().map(|code| (renumbered(code.instruction, number), code.dtype));
        let stores = group.stores.iter().map(|store| Store {
            register: number(store.register.encode()),
            access: Access { offset: store.offset, ..self.whole(store.producer, &store.strides) },
            reduction: store.reduction,
            scale: store.scale,
            clear: store.clear.then_some(self.lowering.producers[store.producer].elements),
        });
        collapsed(Loop {
            extents: group.extents.to_vec(),
            loads: group.loads.iter().map(|(at, _)| self.access(at)).collect(),
            code: code.collect(),
            by_row,
            along_rows: group.along_rows.map_or_else(Vec::new, |along| along.to_vec()),
            stores: stores.collect(),
        })
    }
}
