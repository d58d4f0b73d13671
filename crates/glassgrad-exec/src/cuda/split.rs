//! Scan loops over independent batch entries: a recurrent network advances each sequence of its batch alone. Such a loop is one
//! kernel, in which each block runs all iterations for a slice of the batch. Blocks never wait for each other, and carries and
//! weights stay in their shared memory.

use std::collections::HashMap;

use crate::program::{Access, Call, CallKind, Contraction, ContractionAxis, Loop, Memory, Program, ScanLoop, Step};
use crate::shape::Shape;

/// The most blocks: one for each multiprocessor of a large GPU.
const MOST_SLICES: usize = 132;

/// How the blocks share an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Each has a slice of this many elements.
    Slice(usize),
    /// All of it.
    Whole,
}

/// The body of a loop for one slice of its batch.
pub(super) struct Split {
    pub(super) body: Program,
    pub(super) slices: usize,
    shares: HashMap<Memory, Share>,
}

impl Split {
    /// The bytes from one slice of some memory to the next.
    pub(super) fn slice_stride(&self, memory: Memory, bytes: usize) -> usize {
        match self.shares.get(&memory) {
            Some(Share::Slice(elements)) => elements * bytes,
            Some(Share::Whole) | None => 0,
        }
    }
}

/// The loop over slices of its batch, if all of its steps can be split.
pub(super) fn split(scan: &ScanLoop) -> Option<Split> {
    let ScanLoop { body, carries, sequences, .. } = scan;
    let batch = *body.inputs.first().filter(|_| *carries > 0)?.0.first()?;
    let slices = (2..=batch.min(MOST_SLICES)).rev().find(|slices| batch.is_multiple_of(*slices))?;
    let mut splitting = Splitting { batch, slices, shares: HashMap::new() };
    for (number, (shape, _)) in body.inputs.iter().enumerate() {
        let is_sliced = number < carries + sequences && shape.first() == Some(&batch);
        if number < *carries && !is_sliced {
            return None;
        }
        let share = if is_sliced { Share::Slice(shape.elements() / slices) } else { Share::Whole };
        splitting.shares.insert(Memory::Input(number), share);
    }
    for number in 0..body.constants.len() {
        splitting.shares.insert(Memory::Constant(number), Share::Whole);
    }
    let steps = body.steps.iter().map(|step| splitting.step(step)).collect::<Option<Vec<Step>>>()?;
    // What leaves the loop is a slice of an array with the batch in front.
    for (number, (shape, _)) in body.results.iter().enumerate() {
        let share = splitting.shares.get(&Memory::Result(number))?;
        if shape.first() != Some(&batch) || *share != Share::Slice(shape.elements() / slices) {
            return None;
        }
    }
    let mut body = Program::clone(body);
    body.steps = steps;
    Some(Split { body, slices, shares: splitting.shares })
}

struct Splitting {
    batch: usize,
    slices: usize,
    shares: HashMap<Memory, Share>,
}

impl Splitting {
    fn step(&mut self, step: &Step) -> Option<Step> {
        match step {
            Step::Loop(fused) => self.fused(fused, None).map(Step::Loop),
            Step::Contract(product) => self.contraction(product).map(Step::Contract),
            Step::Call(call) => self.call(call).map(Step::Call),
            Step::Scan(_) | Step::ReverseScan(_) => None,
        }
    }

    /// Whether an access with these extents stays inside of a slice, and moves to the next one by this stride.
    fn stays(&self, access: &Access, extents: &[usize], share: Share, moved: isize) -> bool {
        match share {
            Share::Whole => moved == 0,
            Share::Slice(elements) => {
                let last = access.strides.iter().zip(extents).map(|(stride, extent)| stride * (*extent as isize - 1));
                let is_forward = access.offset >= 0 && access.strides.iter().all(|stride| *stride >= 0);
                is_forward
                    && moved == elements as isize
                    && access.offset + last.sum::<isize>() < elements as isize
                    && extents.iter().all(|extent| *extent > 0)
            }
        }
    }

    /// A loop over the part of an axis that belongs to one slice.
    fn fused(&mut self, fused: &Loop, tile: Option<Share>) -> Option<Loop> {
        let known = |memory: Memory| if memory == Memory::Tile { tile } else { self.shares.get(&memory).copied() };
        let loaded = fused.loads.iter().map(|load| known(load.memory)).collect::<Option<Vec<Share>>>()?;
        if loaded.iter().all(|share| *share == Share::Whole) {
            // Every block computes it for itself, in an arena of its own.
            for store in &fused.stores {
                let Memory::Arena(_) = store.access.memory else { return None };
                self.shares.insert(store.access.memory, Share::Whole);
            }
            return Some(fused.clone());
        }
        let axis = (0..fused.extents.len()).find(|axis| {
            let (axis, extent) = (*axis, fused.extents[*axis]);
            let along = fused.along_rows.get(axis).copied().unwrap_or(false);
            if along || !extent.is_multiple_of(self.slices) || extent == 0 {
                return false;
            }
            let part = extent / self.slices;
            let mut extents = fused.extents.clone();
            extents[axis] = part;
            let fits = |access: &Access, share: Share| {
                self.stays(access, &extents, share, access.strides[axis] * part as isize)
            };
            let stored = |access: &Access| {
                let moved = access.strides[axis] * part as isize;
                moved > 0 && fits(access, Share::Slice(moved as usize))
            };
            fused.loads.iter().zip(&loaded).all(|(load, share)| fits(load, *share))
                && fused.stores.iter().all(|store| stored(&store.access))
        })?;
        let mut own = fused.clone();
        own.extents[axis] /= self.slices;
        for store in &mut own.stores {
            let elements = store.access.strides[axis] as usize * own.extents[axis];
            if let Some(cleared) = &mut store.clear {
                *cleared /= self.slices;
            }
            self.shares.insert(store.access.memory, Share::Slice(elements));
        }
        Some(own)
    }

    /// A contraction of the rows, columns or batch entries that belong to one slice.
    fn contraction(&mut self, product: &Contraction) -> Option<Contraction> {
        let Contraction { batch, rows, columns, operands, .. } = product;
        if product.clear.is_some() || product.accumulates || product.symmetric {
            return None;
        }
        let shares = [0, 1].map(|k| self.shares.get(&operands[k].memory).copied());
        let [Some(first), Some(second)] = shares else { return None };
        let candidates = batch.len() + 2;
        let axis_of = |candidate: usize| match candidate.checked_sub(batch.len()) {
            None => batch[candidate],
            Some(0) => *rows,
            Some(_) => *columns,
        };
        let outputs = batch.iter().chain([rows, columns]).map(|axis| axis.extent).product::<usize>();
        let chosen = (0..candidates).find(|candidate| {
            let axis = axis_of(*candidate);
            let part = axis.extent / self.slices;
            let moves = |operand: usize| axis.strides[operand] * part as isize;
            let fits = |operand: usize, share: Share| {
                let (extents, strides) = self.own_axes(product, axis, operand);
                let access = Access { strides, ..operands[operand].clone() };
                self.stays(&access, &extents, share, moves(operand))
            };
            axis.extent.is_multiple_of(self.slices)
                && fits(0, first)
                && fits(1, second)
                && fits(2, Share::Slice(outputs / self.slices))
        })?;
        let mut own = product.clone();
        let axis = match chosen.checked_sub(batch.len()) {
            None => &mut own.batch[chosen],
            Some(0) => &mut own.rows,
            Some(_) => &mut own.columns,
        };
        axis.extent /= self.slices;
        let share = Share::Slice(outputs / self.slices);
        match &product.epilogue {
            Some(epilogue) => own.epilogue = Some(Box::new(self.fused(epilogue, Some(share))?)),
            None => {
                self.shares.insert(operands[2].memory, share);
            }
        }
        Some(own)
    }

    /// The extents and strides of an operand over all axes, with the chosen axis cut to a slice.
    fn own_axes(&self, product: &Contraction, chosen: ContractionAxis, operand: usize) -> (Vec<usize>, Vec<isize>) {
        let Contraction { batch, sums, rows, columns, inner, .. } = product;
        let all = batch.iter().chain(sums).chain([rows, columns, inner]);
        let mut is_cut = false;
        let own = all.map(|axis| {
            let extent = if !is_cut && *axis == chosen {
                is_cut = true;
                axis.extent / self.slices
            } else {
                axis.extent
            };
            (extent, axis.strides[operand])
        });
        own.unzip()
    }

    /// A concatenation behind the batch axis.
    fn call(&mut self, call: &Call) -> Option<Call> {
        let CallKind::Concatenate(1..) = call.kind else { return None };
        let cut = |(access, shape): &(Access, Shape)| {
            let is_batched = shape.first() == Some(&self.batch) && access.offset == 0;
            let sizes: Vec<usize> =
                std::iter::once(self.batch / self.slices).chain(shape.iter().skip(1).copied()).collect();
            is_batched.then(|| (access.clone(), Shape::from(sizes)))
        };
        let is_sliced = |(access, shape): &(Access, Shape)| {
            self.shares.get(&access.memory) == Some(&Share::Slice(shape.elements() / self.slices))
        };
        if !call.inputs.iter().all(is_sliced) {
            return None;
        }
        let inputs = call.inputs.iter().map(cut).collect::<Option<Vec<_>>>()?;
        let output = cut(call.output())?;
        self.shares.insert(output.0.memory, Share::Slice(output.1.elements()));
        Some(Call { inputs, outputs: vec![output], ..call.clone() })
    }
}
