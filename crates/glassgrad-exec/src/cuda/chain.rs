//! Chains: consecutive small launches become one kernel of one block, and so does a whole scan loop whose body is
//! made of them.

use std::collections::HashMap;

use super::plan::{Action, Actions, Argument, Chained, Planner};
use super::source::{ChainMemory, Kernel, Link, Place, THREADS};
use super::split::{self, Split};
use crate::memory::aligned;
use crate::program::{Memory, Program, ScanLoop, Step, bytes_of};

/// The most blocks of one launch in a chain. More of them are faster on several multiprocessors, and a cluster of blocks is not: its
/// barriers take as long as launches.
const MOST_BLOCKS: u32 = 8;

/// The least launches of a chain in a recording that consists of more: steps that are independent of each other run side by side
/// instead.
const LEAST_LINKS: usize = 5;

/// The most arguments of a kernel.
const MOST_ARGUMENTS: usize = 64;

/// Joins small launches of a plan and of the plans inside of it, in blocks of this many groups of threads and with this much
/// dynamic shared memory.
pub(super) fn chain(
    planner: &mut Planner<'_>,
    program: &Program,
    actions: &mut Actions,
    (groups, shared_memory): (u32, usize),
) {
    Chaining { planner, groups, shared_memory }.join(program, actions, true);
    let mut is_launched = vec![false; planner.module.len()];
    actions.each_kernel(&mut |kernel| is_launched[*kernel] = true);
    let numbers = planner.module.keep(&is_launched);
    actions.each_kernel(&mut |kernel| *kernel = numbers[*kernel]);
}

/// The arguments of a chain so far, each once.
#[derive(Default)]
struct Arguments {
    list: Vec<Argument>,
    numbers: HashMap<Argument, usize>,
}

impl Arguments {
    fn number(&mut self, argument: Argument) -> usize {
        *self.numbers.entry(argument).or_insert_with(|| {
            self.list.push(argument);
            self.list.len() - 1
        })
    }
}

struct Chaining<'p, 'd> {
    planner: &'p mut Planner<'d>,
    groups: u32,
    shared_memory: usize,
}

impl Chaining<'_, '_> {
    fn is_small(&self, action: &Action) -> bool {
        match action {
            Action::Launch { kernel, grid, .. } => {
                let kernel = self.planner.module.kernel(*kernel);
                grid[0].saturating_mul(grid[1]) <= MOST_BLOCKS && kernel.threads == THREADS && !kernel.is_alone
            }
            Action::Chain(_)
            | Action::Joined
            | Action::Multiply { .. }
            | Action::Convolve { .. }
            | Action::Clear { .. }
            | Action::Host
            | Action::Scan { .. }
            | Action::ReverseScan { .. } => false,
        }
    }

    fn join(&mut self, program: &Program, actions: &mut Actions, is_outermost: bool) {
        // If a chain is the whole program, nothing else reads the arena.
        let is_whole = actions.steps.iter().flatten().all(|action| self.is_small(action));
        let arena = is_whole.then_some(program.arena);
        // Across the steps: a chain stands with the first of them.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for step in 0..actions.steps.len() {
            for place in 0..actions.steps[step].len() {
                if self.is_small(&actions.steps[step][place]) {
                    open.push((step, place));
                    continue;
                }
                match (&mut actions.steps[step][place], &program.steps[step]) {
                    (Action::Scan { body, looped, .. }, Step::Scan(scan)) => {
                        *looped = self.split(scan).or_else(|| self.looped(&scan.body, body, scan.length));
                        if looped.is_none() {
                            self.join(&scan.body, body, false);
                        }
                    }
                    (Action::ReverseScan { advance, reverse, .. }, Step::ReverseScan(sweep)) => {
                        self.join(&sweep.advance, advance, false);
                        self.join(&sweep.reverse, reverse, false);
                    }
                    _ => {}
                }
                self.close(actions, &mut open, is_outermost, arena);
            }
        }
        self.close(actions, &mut open, is_outermost, arena);
    }

    /// Where arguments lie if the arena of their program, which nothing else reads, is in shared memory, or is not.
    fn memory(&self, arguments: &Arguments, arena: Option<usize>) -> ChainMemory {
        let bytes = arena.filter(|bytes| *bytes <= self.shared_memory).unwrap_or(0);
        let place = |argument: &Argument| match argument {
            Argument::Memory(Memory::Arena(at)) if bytes > 0 => Place::Arena(*at),
            Argument::Memory(_) | Argument::Scratch(_) | Argument::Report(_) => Place::Global { apart: 0 },
        };
        ChainMemory { bytes, places: arguments.list.iter().map(place).collect() }
    }

    /// A scan loop as one kernel, if its body consists of small launches.
    fn looped(&mut self, program: &Program, body: &Actions, length: usize) -> Option<Chained> {
        let all = || body.steps.iter().flatten();
        if all().next().is_none() || !all().all(|action| self.is_small(action)) {
            return None;
        }
        let mut arguments = Arguments::default();
        let links: Vec<Link<'_>> = all().map(|action| self.link(action, None, &mut arguments)).collect();
        if arguments.list.len() > MOST_ARGUMENTS {
            return None;
        }
        let memory = self.memory(&arguments, Some(program.arena));
        let kernel = Kernel::chain(&links, &memory, Some(length), self.groups);
        Some(self.chained(kernel, 1, arguments))
    }

    /// A scan loop as one kernel of several blocks, each of which runs all iterations for a slice of the batch.
    fn split(&mut self, scan: &ScanLoop) -> Option<Chained> {
        let split = split::split(scan)?;
        let actions = self.planner.slice(&split.body).ok()?;
        let all = || actions.steps.iter().flatten();
        if all().next().is_none() || !all().all(|action| self.is_in_slice(action)) {
            return None;
        }
        let mut arguments = Arguments::default();
        let links: Vec<Link<'_>> = all().map(|action| self.link(action, None, &mut arguments)).collect();
        if arguments.list.len() > MOST_ARGUMENTS {
            return None;
        }
        let memory = self.split_memory(scan, &split, &arguments)?;
        let kernel = Kernel::chain(&links, &memory, Some(scan.length), self.groups);
        Some(self.chained(kernel, split.slices as u32, arguments))
    }

    /// Whether a launch can run in a block of its own slice: scratch memory would be that of all slices.
    fn is_in_slice(&self, action: &Action) -> bool {
        match action {
            Action::Launch { kernel, memories, report: None, .. } => {
                let kernel = self.planner.module.kernel(*kernel);
                kernel.threads == THREADS && !kernel.is_alone && !memories.contains(&Memory::Tile)
            }
            _ => false,
        }
    }

    /// The memory of a loop over slices: its arena and its carries, and loop invariants as long as there is room.
    fn split_memory(&self, scan: &ScanLoop, split: &Split, arguments: &Arguments) -> Option<ChainMemory> {
        let ScanLoop { body, carries, sequences, .. } = scan;
        let mut bytes = aligned(body.arena);
        let mut reserve = |own: usize| {
            let at = bytes;
            bytes += aligned(own);
            at
        };
        let carry = |number: usize| split.slice_stride(Memory::Input(number), body.inputs[number].1.bytes());
        let buffers: Vec<[usize; 2]> = (0..*carries).map(|number| [0, 1].map(|_| reserve(carry(number)))).collect();
        let mut places = Vec::with_capacity(arguments.list.len());
        for argument in &arguments.list {
            let Argument::Memory(memory) = argument else { return None };
            places.push(match *memory {
                Memory::Arena(at) => Place::Arena(at),
                Memory::Input(number) if number < *carries => {
                    Place::Carry { buffers: buffers[number], bytes: carry(number), is_next: false }
                }
                Memory::Result(number) if number < *carries => {
                    Place::Carry { buffers: buffers[number], bytes: carry(number), is_next: true }
                }
                Memory::Input(number) if number >= carries + sequences => {
                    let own = bytes_of(&body.inputs[number]);
                    match bytes + aligned(own) <= self.shared_memory {
                        true => {
                            bytes += aligned(own);
                            Place::Invariant { at: bytes - aligned(own), bytes: own }
                        }
                        false => Place::Global { apart: 0 },
                    }
                }
                Memory::Input(number) => {
                    Place::Global { apart: split.slice_stride(*memory, body.inputs[number].1.bytes()) }
                }
                Memory::Result(number) => {
                    Place::Global { apart: split.slice_stride(*memory, body.results[number].1.bytes()) }
                }
                Memory::Constant(_) => Place::Global { apart: 0 },
                Memory::Tile => return None,
            });
        }
        (bytes <= self.shared_memory).then_some(ChainMemory { bytes, places })
    }

    fn chained(&mut self, kernel: Kernel, blocks: u32, arguments: Arguments) -> Chained {
        let threads = kernel.threads;
        Chained { kernel: self.planner.module.number(kernel), blocks, threads, arguments: arguments.list }
    }

    /// A launch as a link of a chain. Scratch memory is that of its step, if the step has its own.
    fn link(&self, action: &Action, step: Option<usize>, arguments: &mut Arguments) -> Link<'_> {
        let Action::Launch { kernel, grid, memories, report, .. } = action else {
            unreachable!("a place of a launch");
        };
        let of_memory = |memory: &Memory| match (memory, step) {
            (Memory::Tile, Some(step)) => Argument::Scratch(step),
            _ => Argument::Memory(*memory),
        };
        let own = memories.iter().map(of_memory).chain(report.map(Argument::Report));
        Link {
            kernel: self.planner.module.kernel(*kernel),
            grid: *grid,
            arguments: own.map(|argument| arguments.number(argument)).collect(),
        }
    }

    /// Makes one kernel of the launches at some places; `arena` is the size of the arena if these are the whole program.
    fn close(
        &mut self,
        actions: &mut Actions,
        open: &mut Vec<(usize, usize)>,
        is_outermost: bool,
        arena: Option<usize>,
    ) {
        let places = std::mem::take(open);
        let mut rest = &places[..];
        while rest.len() > 1 {
            let mut arguments = Arguments::default();
            let mut links = Vec::new();
            for (step, place) in rest {
                let mut with = Arguments { list: arguments.list.clone(), numbers: arguments.numbers.clone() };
                let link = self.link(&actions.steps[*step][*place], is_outermost.then_some(*step), &mut with);
                if with.list.len() > MOST_ARGUMENTS {
                    break;
                }
                arguments = with;
                links.push(link);
            }
            let count = links.len();
            let least = if is_outermost && arena.is_none() { LEAST_LINKS } else { 2 };
            if count >= least {
                let memory = self.memory(&arguments, arena.filter(|_| count == places.len()));
                let joined = Kernel::chain(&links, &memory, None, self.groups);
                let chained = self.chained(joined, 1, arguments);
                for (step, place) in &rest[1..count] {
                    actions.steps[*step][*place] = Action::Joined;
                }
                let (step, place) = rest[0];
                actions.steps[step][place] = Action::Chain(chained);
            }
            rest = &rest[count.max(1)..];
        }
    }
}
