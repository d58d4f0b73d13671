//! The plan: what is launched for each step of a program, in order.

use std::collections::HashMap;
use std::ops::Range;

use super::convolution::{self, Convolution, Convolved, Direction, Transposed};
use super::device::TensorCores;
use super::product::{self, Product};
use super::source::contraction::Tiled;
use super::source::{self, Kernel, Module};
use crate::dtype::DType;
use crate::error::Error;
use crate::memory::aligned;
use crate::program::{
    Access, Call, CallKind, Contraction, Loop, Memory, Program, Reduction, ReverseScan, ScanLoop, Step, Store, bytes_of,
};

/// The most blocks of a grid along each axis.
const MOST_BLOCKS: [usize; 2] = [(1 << 31) - 1, (1 << 16) - 1];

/// The most multiplications of a product in the body of a loop that is not left to the library.
const MOST_LOOPED: usize = 1 << 21;

/// One thing that is started on the device.
pub(super) enum Action {
    Launch {
        kernel: usize,
        grid: [u32; 3],
        threads: u32,
        memories: Vec<Memory>,
        report: Option<usize>,
    },
    /// Several launches as one kernel of one block.
    Chain(Chained),
    /// A launch that is a part of a chain before it.
    Joined,
    /// A product of matrices by a library: the memory of its factors x and y, and of the result.
    Multiply {
        product: Box<Product>,
        memories: [Memory; 3],
    },
    /// A convolution by a library: the memory of the images, of the kernel, and of the outputs or their cotangents.
    Convolve {
        convolution: Box<Convolution>,
        memories: [Memory; 3],
    },
    /// Sets bytes of some memory to zero, from its beginning.
    Clear {
        memory: Memory,
        bytes: usize,
    },
    /// A call that runs on the host.
    Host,
    /// A scan loop, with the plan of its body, and where what nothing reads begins.
    Scan {
        body: Box<Actions>,
        unread: usize,
        /// The whole loop as one kernel, if its body is small enough for that.
        looped: Option<Chained>,
    },
    /// A reverse sweep, with the plans of both directions, and where what nothing reads begins.
    ReverseScan {
        advance: Box<Actions>,
        reverse: Box<Actions>,
        unread: usize,
    },
}

/// A kernel that stands for several launches.
pub(super) struct Chained {
    pub(super) kernel: usize,
    /// The blocks: one, unless each runs a loop for a slice of its batch.
    pub(super) blocks: u32,
    pub(super) threads: u32,
    pub(super) arguments: Vec<Argument>,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Argument {
    Memory(Memory),
    /// The scratch memory of a step.
    Scratch(usize),
    /// The place for the report of this number.
    Report(usize),
}

/// The actions of a program.
#[derive(Default)]
pub(super) struct Actions {
    /// What each step starts.
    pub(super) steps: Vec<Vec<Action>>,
    /// Where the constants begin among those of the whole plan.
    pub(super) first_constant: usize,
    /// The scratch memory of each step, in bytes; empty for programs inside of others, which use that of their step.
    pub(super) scratch: Vec<Range<usize>>,
}

/// Products that take more calls of a library are left to tensor-core kernels of our own: six calls were faster, twelve slower on an H200.
const MOST_CALLS: usize = 8;

/// Contractions with strong zeros of fewer multiplications are computed by their definition at once.
const LEAST_REPAIRED: usize = 1 << 20;

/// Steps have scratch memory of their own up to this many bytes in all, so that they can run side by side.
const SCRATCH: usize = 64 << 20;

/// All that is decided for a program and those inside of it.
pub(super) struct Planner<'d> {
    /// Which products of matrices the library of the device runs.
    pub(super) multiplies: &'d dyn Fn(&Product) -> bool,
    /// Which convolutions it runs.
    pub(super) convolves: &'d dyn Fn(&Convolution) -> bool,
    /// Whether the device has thread-block clusters.
    pub(super) clusters: bool,
    /// What its tensor cores multiply, if it has them.
    pub(super) tensor_cores: Option<TensorCores>,
    /// Products of fewer multiplications run in a kernel of our own if there is one for their kind, whatever the library does.
    pub(super) own_multiplications: usize,
    pub(super) module: Module,
    /// The bytes of memory for parts of reductions.
    pub(super) scratch: usize,
    /// The bytes of memory for stacked results that nothing reads.
    pub(super) unread: usize,
    /// The constants of all programs.
    pub(super) constants: Vec<crate::array::Array>,
    /// The calls that may find an index out of bounds: each has a place to report it. With each, whether it is of the program
    /// itself, and not of one inside.
    pub(super) reports: Vec<(Call, bool)>,
    /// How many programs there are around the one that is planned.
    depth: usize,
}

impl Actions {
    /// Whether the device alone runs them, so that they can be recorded.
    pub(super) fn are_on_device(&self) -> bool {
        self.steps.iter().flatten().all(|action| match action {
            Action::Launch { .. }
            | Action::Chain(_)
            | Action::Joined
            | Action::Multiply { .. }
            | Action::Convolve { .. }
            | Action::Clear { .. } => true,
            Action::Host => false,
            Action::Scan { body, .. } => body.are_on_device(),
            Action::ReverseScan { advance, reverse, .. } => advance.are_on_device() && reverse.are_on_device(),
        })
    }
}

impl Actions {
    /// What runs a step, in a few words.
    pub(super) fn described(&self, step: usize) -> String {
        let words = |action: &Action| match action {
            Action::Launch { .. } => "kernel".to_owned(),
            Action::Chain(_) => "kernel of several steps".to_owned(),
            Action::Joined => "in a kernel of several steps".to_owned(),
            Action::Multiply { product, .. } if product.is_triangle => "cuBLAS".to_owned(),
            Action::Multiply { .. } => "cuBLASLt".to_owned(),
            Action::Convolve { .. } => "cuDNN".to_owned(),
            Action::Clear { .. } => "memset".to_owned(),
            Action::Host => "host, with copies".to_owned(),
            Action::Scan { looped: Some(Chained { blocks: 1, .. }), .. } => "one kernel of one block".to_owned(),
            Action::Scan { looped: Some(Chained { blocks, .. }), .. } => format!("one kernel of {blocks} blocks"),
            Action::Scan { looped: None, .. } | Action::ReverseScan { .. } => "launches for each iteration".to_owned(),
        };
        let mut all: Vec<(String, usize)> = Vec::new();
        for own in self.steps[step].iter().map(words) {
            match all.last_mut().filter(|(last, _)| *last == own) {
                Some((_, count)) => *count += 1,
                None => all.push((own, 1)),
            }
        }
        let counted = |(words, count): &(String, usize)| match (words.as_str(), count) {
            ("kernel", 2..) => format!("{count} kernels"),
            _ => words.clone(),
        };
        all.iter().map(counted).collect::<Vec<_>>().join(", ")
    }

    /// Calls a function with the number of every kernel that is launched.
    pub(super) fn each_kernel(&mut self, visit: &mut dyn FnMut(&mut usize)) {
        for action in self.steps.iter_mut().flatten() {
            match action {
                Action::Launch { kernel, .. } | Action::Chain(Chained { kernel, .. }) => visit(kernel),
                Action::Scan { body, looped, .. } => {
                    looped.iter_mut().for_each(|looped| visit(&mut looped.kernel));
                    body.each_kernel(visit);
                }
                Action::ReverseScan { advance, reverse, .. } => {
                    advance.each_kernel(visit);
                    reverse.each_kernel(visit);
                }
                Action::Joined
                | Action::Multiply { .. }
                | Action::Convolve { .. }
                | Action::Clear { .. }
                | Action::Host => {}
            }
        }
    }
}

impl<'d> Planner<'d> {
    pub(super) fn new(multiplies: &'d dyn Fn(&Product) -> bool, clusters: bool) -> Planner<'d> {
        Planner {
            multiplies,
            convolves: &|_| false,
            clusters,
            tensor_cores: None,
            own_multiplications: 0,
            module: Module::default(),
            scratch: 0,
            unread: 0,
            constants: Vec::new(),
            reports: Vec::new(),
            depth: 0,
        }
    }

    /// Plans the body of a loop once more, for a slice of its batch: constants are those of the body.
    pub(super) fn slice(&mut self, body: &Program) -> Result<Actions, Error> {
        let (constants, scratch) = (self.constants.len(), self.scratch);
        self.depth += 1;
        let actions = self.program(body);
        self.depth -= 1;
        self.constants.truncate(constants);
        self.scratch = scratch;
        actions
    }

    /// Plans a program.
    pub(super) fn program(&mut self, program: &Program) -> Result<Actions, Error> {
        self.depth += 1;
        let first_constant = self.constants.len();
        self.constants.extend(program.constants.iter().cloned());
        let mut steps = Vec::with_capacity(program.steps.len());
        let mut needs = Vec::new();
        let mut scattered = HashMap::new();
        for (number, step) in program.steps.iter().enumerate() {
            let mut actions = Vec::new();
            match step {
                Step::Contract(product) if let Some((step, transposed)) = self.transposed(program, number, product) => {
                    self.convolved(&mut actions, transposed.convolved)?;
                    scattered.insert(step, transposed.copy);
                }
                Step::Call(_) if let Some(copy) = scattered.remove(&number) => {
                    let (kernel, memories, blocks) = source::elementwise::kernel(&source::merged(&copy));
                    self.launch(&mut actions, kernel, memories, [blocks, 1])?;
                }
                Step::Loop(fused) => self.fused(&mut actions, fused)?,
                Step::Contract(product) => self.contraction(&mut actions, product)?,
                Step::Call(call) => self.call(&mut actions, call)?,
                Step::Scan(ScanLoop { body, outputs, carries, .. }) => {
                    let unread = self.reserve(body, outputs, *carries);
                    let body = Box::new(self.program(body)?);
                    actions.push(Action::Scan { body, unread, looped: None });
                }
                Step::ReverseScan(ReverseScan { advance, reverse, outputs, carries, .. }) => {
                    let unread = self.reserve(reverse, outputs, *carries);
                    let (advance, reverse) = (Box::new(self.program(advance)?), Box::new(self.program(reverse)?));
                    actions.push(Action::ReverseScan { advance, reverse, unread });
                }
            }
            steps.push(actions);
            if self.depth == 1 {
                needs.push(std::mem::take(&mut self.scratch));
            }
        }
        self.depth -= 1;
        let scratch = in_turn(&needs);
        self.scratch = scratch.iter().map(|bytes| bytes.end).fold(self.scratch, usize::max);
        Ok(Actions { steps, first_constant, scratch })
    }

    /// Reserves memory for one entry of each stacked result that nothing reads.
    fn reserve(&mut self, body: &Program, outputs: &[Option<Access>], carries: usize) -> usize {
        let first = self.unread;
        let unread = body.results.iter().zip(outputs).skip(carries).filter(|(_, output)| output.is_none());
        self.unread += unread.map(|(result, _)| aligned(bytes_of(result))).sum::<usize>();
        first
    }

    fn launch(
        &mut self,
        actions: &mut Vec<Action>,
        kernel: Kernel,
        memories: Vec<Memory>,
        [x, y]: [usize; 2],
    ) -> Result<(), Error> {
        if x > MOST_BLOCKS[0] || y > MOST_BLOCKS[1] {
            let message = format!("a step needs a grid of {x}×{y} blocks");
            return Err(Error::new("cuda", message).help("compute in smaller batches"));
        }
        if x > 0 && y > 0 {
            let threads = kernel.threads;
            let grid = [x as u32, y as u32, 1];
            let kernel = self.module.number(kernel);
            actions.push(Action::Launch { kernel, grid, threads, memories, report: None });
        }
        Ok(())
    }

    fn fused(&mut self, actions: &mut Vec<Action>, fused: &Loop) -> Result<(), Error> {
        let elements: usize = fused.extents.iter().product();
        for store in &fused.stores {
            let reached: usize = written(fused, store);
            if let Some(all) = store.clear.filter(|all| *all != reached || elements == 0) {
                let is_max = store.reduction == Some(Reduction::Max) && all > 0;
                assert!(!is_max, "a maximum of nothing has no value, which was refused before");
                actions.push(Action::Clear { memory: store.access.memory, bytes: all * store.access.dtype.bytes() });
            }
        }
        if elements == 0 {
            return Ok(());
        }
        let has_rows = fused.by_row.iter().any(|by_row| *by_row);
        let mut fused = source::merged(fused);
        if !has_rows {
            // Reductions first: what is stored element by element may overwrite what they read.
            for store in &fused.stores {
                if let Some(reduction) = store.reduction {
                    self.reduce_behind(actions, &fused, store, reduction, 0)?;
                }
            }
            if fused.stores.iter().any(|store| store.reduction.is_none()) {
                let (kernel, memories, blocks) = source::elementwise::kernel(&fused);
                self.launch(actions, kernel, memories, [blocks, 1])?;
            }
            return Ok(());
        }
        // What is reduced over rows goes to scratch memory first.
        let mut after = Vec::new();
        let mut place = 0;
        let (element_strides, row_strides) = (fused.element_strides(), fused.row_strides());
        let extents = fused.extents.clone();
        // Sums along columns are added up by the kernel itself, as one partial result for each group of threads.
        let mut columns = Vec::new();
        let is_column = |store: &Store| {
            let keeps = |axis: usize| (store.access.strides[axis] != 0) == fused.along_rows[axis] || extents[axis] == 1;
            store.reduction.is_some() && !fused.by_row[store.register] && (0..extents.len()).all(keeps)
        };
        let groups = source::rows::Distribution::new(&fused, true).groups;
        for store in fused.stores.iter().filter(|store| is_column(store)) {
            let Some(reduction) = store.reduction else { continue };
            let along: Vec<usize> = (0..extents.len()).filter(|axis| fused.along_rows[*axis]).collect();
            let dtype = fused.dtype(store.register);
            let own: Vec<usize> = std::iter::once(groups).chain(along.iter().map(|axis| extents[*axis])).collect();
            let (first, mut strides) = (place / dtype.bytes(), vec![1; own.len()]);
            for axis in (1..own.len()).rev() {
                strides[axis - 1] = strides[axis] * own[axis] as isize;
            }
            place += aligned(own.iter().product::<usize>() * dtype.bytes());
            let to = std::iter::once(0).chain(along.iter().map(|axis| store.access.strides[*axis])).collect();
            let access = Access { strides: to, ..store.access.clone() };
            after.push((
                Loop {
                    along_rows: vec![false; own.len()],
                    extents: own,
                    loads: vec![Access { memory: Memory::Tile, dtype, offset: first as isize, strides }],
                    code: Vec::new(),
                    by_row: vec![false],
                    stores: vec![Store { register: 0, access, clear: None, ..store.clone() }],
                },
                reduction,
            ));
            columns.push(source::rows::Column { register: store.register, reduction, first });
        }
        let others: Vec<Store> = fused.stores.iter().filter(|store| !is_column(store)).cloned().collect();
        fused.stores = others;
        for store in &mut fused.stores {
            let Some(reduction) = store.reduction.take() else { continue };
            let by_row = fused.by_row[store.register];
            let own = |axis: usize| if by_row && fused.along_rows[axis] { 1 } else { extents[axis] };
            let extents: Vec<usize> = (0..extents.len()).map(own).collect();
            let dtype = store.access.dtype;
            let strides = if by_row { row_strides.clone() } else { element_strides.clone() };
            let from = Access { memory: Memory::Tile, dtype, offset: (place / dtype.bytes()) as isize, strides };
            place += aligned(extents.iter().product::<usize>() * dtype.bytes());
            let to = Store { register: 0, reduction: Some(reduction), ..store.clone() };
            after.push((
                Loop {
                    along_rows: vec![false; extents.len()],
                    extents,
                    loads: vec![from.clone()],
                    code: Vec::new(),
                    by_row: vec![false],
                    stores: vec![to],
                },
                reduction,
            ));
            *store = Store { access: from, reduction: None, scale: 1.0, clear: None, ..store.clone() };
        }
        self.scratch = self.scratch.max(place);
        let (kernel, memories, blocks) = source::rows::kernel(&fused, &columns);
        self.launch(actions, kernel, memories, [blocks, 1])?;
        for (reducing, reduction) in after {
            let reducing = source::merged(&reducing);
            self.reduce_behind(actions, &reducing, &reducing.stores[0], reduction, place)?;
        }
        Ok(())
    }

    /// Reduces along axes, with parts in scratch memory from a byte on.
    fn reduce_behind(
        &mut self,
        actions: &mut Vec<Action>,
        fused: &Loop,
        store: &Store,
        by: Reduction,
        place: usize,
    ) -> Result<(), Error> {
        let bytes = store.access.dtype.compute_type().bytes();
        let reducing = source::reduction::kernel(fused, store, by, place / bytes);
        self.launch(actions, reducing.kernel, reducing.memories, reducing.grid)?;
        if let Some((second, bytes)) = reducing.second {
            self.scratch = self.scratch.max(place + bytes);
            self.reduce_behind(actions, &second, &second.stores[0], by, place + aligned(bytes))?;
        }
        Ok(())
    }

    fn contraction(&mut self, actions: &mut Vec<Action>, product: &Contraction) -> Result<(), Error> {
        assert!(!product.accumulates, "programs for this target accumulate nothing");
        let Contraction { batch, sums, rows, columns, inner, operands, .. } = product;
        let outputs = batch.iter().chain([rows, columns]).map(|axis| axis.extent).product::<usize>();
        let terms = sums.iter().chain([inner]).map(|axis| axis.extent).product::<usize>();
        if let Some(all) = product.clear.filter(|all| *all != outputs) {
            actions.push(Action::Clear { memory: operands[2].memory, bytes: all * operands[2].dtype.bytes() });
        }
        if outputs == 0 {
            return Ok(());
        }
        let multiplications = outputs.saturating_mul(terms);
        if product.masked.contains(&true) && multiplications >= LEAST_REPAIRED {
            // The usual product, and a kernel that computes again what a zero times an infinity has made a NaN.
            let usual = Contraction { masked: [false; 2], epilogue: None, clear: None, ..product.clone() };
            self.product(actions, &usual, outputs, terms)?;
            let (kernel, memories, grid) = source::contraction::repair(product);
            self.launch(actions, kernel, memories, grid)?;
            return self.epilogue(actions, product, outputs);
        }
        self.product(actions, product, outputs, terms)
    }

    /// A contraction with elements, by the fastest kernel or library that has it.
    fn product(
        &mut self,
        actions: &mut Vec<Action>,
        product: &Contraction,
        outputs: usize,
        terms: usize,
    ) -> Result<(), Error> {
        let operands = &product.operands;
        // In the body of a loop a kernel of our own can become part of one kernel for all iterations.
        let is_looped = self.depth > 1 && outputs.saturating_mul(terms) <= MOST_LOOPED;
        let own = source::gemm::kernel(product, self.clusters).filter(|_| self.depth == 1);
        if let Some(own) = own.filter(|_| outputs.saturating_mul(terms) < self.own_multiplications) {
            return self.launch(actions, own.kernel, own.memories, own.grid);
        }
        if self.depth == 1
            && self.runs_on_tensor_cores(product, outputs, terms)
            && let Some(convolved) = convolution::convolution(product).filter(|own| (self.convolves)(&own.convolution))
        {
            return self.convolved(actions, convolved);
        }
        // One kernel for a whole batch is faster than many calls of the library.
        let many_calls =
            |own: &Product| own.calls.len() > MOST_CALLS && self.runs_on_tensor_cores(product, outputs, terms);
        let by_library = product::product(product)
            .filter(|own| terms > 0 && !is_looped && !many_calls(own) && (self.multiplies)(own));
        if let Some(by_library) = by_library {
            let [x, y] = [by_library.x_is, 1 - by_library.x_is];
            let memories = [operands[x].memory, operands[y].memory, operands[2].memory];
            let (size, leading) = (by_library.sizes[0], by_library.result.leading);
            let is_triangle = by_library.is_triangle;
            actions.push(Action::Multiply { product: Box::new(by_library), memories });
            if is_triangle {
                let (kernel, memories, blocks) = source::mirror::kernel(&operands[2], size, leading);
                self.launch(actions, kernel, memories, [blocks, 1])?;
            }
            return self.epilogue(actions, product, outputs);
        }
        if let Some(own) = source::gemm::kernel(product, self.clusters).filter(|_| !is_looped) {
            return self.launch(actions, own.kernel, own.memories, own.grid);
        }
        if self.runs_on_tensor_cores(product, outputs, terms) {
            let source::tensor_core::OnTensorCores { packing, tiled, scratch } = source::tensor_core::kernel(product);
            self.scratch = self.scratch.max(scratch);
            for loops in &packing {
                let (kernel, memories, blocks) = source::elementwise::kernel(&source::merged(loops));
                self.launch(actions, kernel, memories, [blocks, 1])?;
            }
            self.tiled(actions, tiled)?;
            return self.epilogue(actions, product, outputs);
        }
        let tiled = source::direct::kernel(product).unwrap_or_else(|| source::contraction::kernel(product));
        // A kernel that adds up its parts itself runs the epilogue too.
        let has_parts = tiled.second.is_some();
        self.tiled(actions, tiled)?;
        if has_parts { self.epilogue(actions, product, outputs) } else { Ok(()) }
    }

    /// The step that scatters the windows of a product, if both are a convolution that a library runs, and nothing else reads the windows.
    fn transposed(&self, program: &Program, number: usize, product: &Contraction) -> Option<(usize, Transposed)> {
        let windows = product.operands[2].memory;
        let Memory::Arena(place) = windows else { return None };
        let held = program.values.iter().find(|held| held.place == place && held.first == number)?;
        let between = number + 1..program.steps.len().min(held.last + 1);
        let mut readers = between.filter(|step| program.steps[*step].reads().any(|access| access.memory == windows));
        let (reader, None) = (readers.next()?, readers.next()) else { return None };
        let Step::Call(Call { kind: CallKind::ScatterView(view), inputs, outputs, .. }) = &program.steps[reader] else {
            return None;
        };
        let terms = product.inner.extent;
        let is_large = self.depth == 1 && self.runs_on_tensor_cores(product, view.output.elements(), terms);
        if !is_large || inputs[0].0.offset != 0 || inputs[0].1 != view.output {
            return None;
        }
        let transposed = convolution::transposed(product, view, &outputs[0].0)?;
        (self.convolves)(&transposed.convolved.convolution).then_some((reader, transposed))
    }

    /// Runs a convolution by a library, with the copy of its kernel before it, or behind it.
    fn convolved(&mut self, actions: &mut Vec<Action>, convolved: Convolved) -> Result<(), Error> {
        let Convolved { convolution, memories, copy, scratch } = convolved;
        self.scratch = self.scratch.max(scratch);
        let (kernel, own, blocks) = source::elementwise::kernel(&source::merged(&copy));
        let direction = convolution.direction;
        let action = Action::Convolve { convolution: Box::new(convolution), memories };
        match direction {
            Direction::Outputs | Direction::Images => {
                self.launch(actions, kernel, own, [blocks, 1])?;
                actions.push(action);
                Ok(())
            }
            Direction::Kernel => {
                actions.push(action);
                self.launch(actions, kernel, own, [blocks, 1])
            }
        }
    }

    /// Launches a kernel, and the reduction of its parts if there are several.
    fn tiled(&mut self, actions: &mut Vec<Action>, tiled: Tiled) -> Result<(), Error> {
        self.launch(actions, tiled.kernel, tiled.memories, tiled.grid)?;
        if let Some((second, bytes)) = tiled.second {
            self.scratch = self.scratch.max(bytes);
            let second = source::merged(&second);
            self.reduce_behind(actions, &second, &second.stores[0], Reduction::Sum, aligned(bytes))?;
        }
        Ok(())
    }

    /// Whether tensor cores multiply the factors of a contraction, and it is large enough for their tiles.
    fn runs_on_tensor_cores(&self, product: &Contraction, outputs: usize, terms: usize) -> bool {
        let has_type = match product.operands[2].dtype {
            DType::F16 | DType::BF16 => true,
            DType::F32 => self.tensor_cores.is_some_and(|cores| cores.tf32),
            DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
        };
        let is_plain = product.masked == [false; 2];
        let least = self.tensor_cores.map_or(usize::MAX, |cores| cores.least_multiplications);
        has_type && is_plain && outputs.saturating_mul(terms) >= least
    }

    /// Runs an epilogue, if there is one, as a loop over the product in scratch memory.
    fn epilogue(&mut self, actions: &mut Vec<Action>, product: &Contraction, outputs: usize) -> Result<(), Error> {
        let Some(epilogue) = &product.epilogue else { return Ok(()) };
        self.scratch = self.scratch.max(outputs * product.operands[2].dtype.bytes());
        let (kernel, memories, blocks) = source::elementwise::kernel(&source::merged(epilogue));
        self.launch(actions, kernel, memories, [blocks, 1])
    }

    fn call(&mut self, actions: &mut Vec<Action>, call: &Call) -> Result<(), Error> {
        if !source::call::is_native(call) {
            actions.push(Action::Host);
            return Ok(());
        }
        self.scratch = self.scratch.max(source::call::scratch(call));
        let mut reported = None;
        for called in source::call::kernels(call) {
            let before = actions.len();
            self.launch(actions, called.kernel, called.memories, [called.blocks, 1])?;
            if let (true, Some(Action::Launch { report, .. })) = (called.reports, actions.get_mut(before)) {
                let number = *reported.get_or_insert_with(|| {
                    self.reports.push((call.clone(), self.depth == 1));
                    self.reports.len() - 1
                });
                *report = Some(number);
            }
        }
        Ok(())
    }
}

/// Scratch memory for steps that need this many bytes each: one behind another, and from the beginning again at the limit.
fn in_turn(needs: &[usize]) -> Vec<Range<usize>> {
    let most = needs.iter().copied().map(aligned).max().unwrap_or(0).max(SCRATCH);
    let mut next = 0;
    let place = |need: &usize| {
        let bytes = aligned(*need);
        let start = if next + bytes > most { 0 } else { next };
        next = start + bytes;
        start..start + bytes
    };
    needs.iter().map(place).collect()
}

/// How many places a store writes.
fn written(fused: &Loop, store: &Store) -> usize {
    let is_own = |axis: usize| {
        let in_row = fused.by_row[store.register] && fused.along_rows.get(axis) == Some(&true);
        !in_row && (store.access.strides[axis] != 0 || store.reduction.is_none())
    };
    let own = fused.extents.iter().enumerate().filter(|(axis, _)| is_own(*axis));
    own.map(|(_, extent)| *extent).product()
}
