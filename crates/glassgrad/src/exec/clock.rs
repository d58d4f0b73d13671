//! Programs run with a clock around every step, for whoever asks where the time goes. The machine runs the same steps in
//! the same order; a run that nobody asks about looks at no clock.
//!
//! Inside of a loop over time, one step of it is run once more on its own, on what the loop begins with: its parts are
//! timed there, and the loop as a whole where it stands.

use std::panic::Location;
use std::time::{Duration, Instant};

use super::machine::{self, Frame, Workspace};
use crate::array::{Array, Buffer};
use crate::error::Error;
use crate::opt::memory;
use crate::opt::program::{Access, Memory, Program, Step};

/// How long each step of a program took, in seconds: the median of several runs.
pub(crate) type Times = Vec<Timed>;

/// How long a step took.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timed {
    pub(crate) seconds: f64,
    /// For each program inside of it, how long its steps took in one run.
    pub(crate) inside: Vec<Times>,
}

/// The lists of one step: a number for each run.
#[derive(Default)]
struct Watched {
    seconds: Vec<f64>,
    inside: Vec<Vec<Watched>>,
}

type Origin<'o> = &'o dyn Fn(usize) -> &'static Location<'static>;

/// Runs a program again and again for about this long, at least once, and tells the median time of each step.
pub(crate) fn timed(
    program: &Program,
    inputs: &[(&Array, usize)],
    origins: &[&'static Location<'static>],
    patience: Duration,
) -> Result<Times, Error> {
    let inputs: Vec<*const u8> = inputs.iter().map(|(array, start)| machine::part(array, *start)).collect();
    let mut results = Results::of(program);
    let addresses = results.addresses();
    let mut workspace = Workspace::default();
    let arena_bytes = memory::aligned(program.arena);
    let arena = workspace.reserve(arena_bytes + machine::scratch_bytes(program));
    let scratch = arena.wrapping_add(arena_bytes);
    let mut watched = Vec::new();
    let started = Instant::now();
    loop {
        watch(program, &inputs, &addresses, arena, scratch, &|source| origins[source], &mut watched)?;
        if started.elapsed() >= patience || program.steps.is_empty() {
            return Ok(medians(watched));
        }
    }
}

/// Memory for the results of a program.
struct Results(Vec<Buffer>);

impl Results {
    fn of(program: &Program) -> Results {
        Results(program.results.iter().map(|(shape, dtype)| Buffer::zeros(*dtype, shape.elements())).collect())
    }

    fn addresses(&mut self) -> Vec<*mut u8> {
        self.0.iter_mut().map(machine::address_mut).collect()
    }
}

/// Runs a program once and adds the time of each step to its list.
fn watch(
    program: &Program,
    inputs: &[*const u8],
    results: &[*mut u8],
    arena: *mut u8,
    scratch: *mut u8,
    origin: Origin<'_>,
    watched: &mut Vec<Watched>,
) -> Result<(), Error> {
    watched.resize_with(program.steps.len(), Watched::default);
    let frame = Frame::new(program, inputs, results, arena);
    for (step, own) in program.steps.iter().zip(watched) {
        let started = Instant::now();
        machine::step(step, &frame, scratch, origin)?;
        own.seconds.push(started.elapsed().as_secs_f64());
        let Some((programs, given, room)) = inner(step) else { continue };
        // What the loop was given is still there: inputs of a step are let go of after it.
        let given: Vec<*const u8> = given.iter().map(|access| frame.at(access, 0).cast_const()).collect();
        own.inside.resize_with(programs.len(), Vec::new);
        for (program, own) in programs.into_iter().zip(&mut own.inside) {
            let mut results = Results::of(program);
            watch(program, &given, &results.addresses(), frame.base(room), scratch, origin, own)?;
        }
    }
    Ok(())
}

type Inner<'s> = (Vec<&'s Program>, &'s [Access], Memory);

/// The programs that a loop over time runs, what it is given, and where their arena lies. A loop of no steps has no
/// entries for them to read.
fn inner(step: &Step) -> Option<Inner<'_>> {
    match step {
        Step::Repeat(repeat) if repeat.length > 0 => Some((vec![&repeat.body], &repeat.inputs, repeat.scratch)),
        Step::Sweep(sweep) if sweep.schedule.steps > 0 => {
            Some((vec![&sweep.advance, &sweep.reverse], &sweep.inputs, sweep.scratch))
        }
        _ => None,
    }
}

fn medians(watched: Vec<Watched>) -> Times {
    let timed = |watched: Watched| {
        let mut seconds = watched.seconds;
        // The first run finds cold caches and memory that was never touched.
        if seconds.len() > 1 {
            seconds.remove(0);
        }
        seconds.sort_unstable_by(f64::total_cmp);
        let seconds = seconds.get(seconds.len() / 2).copied().unwrap_or(0.0);
        Timed { seconds, inside: watched.inside.into_iter().map(medians).collect() }
    };
    watched.into_iter().map(timed).collect()
}
