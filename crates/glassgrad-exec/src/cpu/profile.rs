//! Profiling: the same steps in the same order with a clock around each.
//!
//! One iteration of a scan loop is run once more on its own, on what the loop begins with: the steps of its body are timed
//! there, and the loop as a whole where it stands.

use std::time::Duration;

use super::interpreter::{self, Frame, Origin};
use super::plan::{Plan, StepPlan};
use super::workspace::{Workspace, Workspaces};
use crate::array::Buffer;
use crate::clock::Instant;
use crate::error::Error;
use crate::memory;
use crate::program::{Access, Memory, Program, Step};
use crate::{Timed, Times};

/// The lists of one step: a number for each run.
#[derive(Default)]
struct Samples {
    seconds: Vec<f64>,
    inside: Vec<Vec<Samples>>,
}

/// Launches a plan again and again for about this long, at least once, and returns the median time of each step.
pub(super) unsafe fn profile(
    plan: &Plan,
    inputs: &[*const u8],
    workspaces: &Workspaces,
    origin: Origin<'_>,
    duration: Duration,
) -> Result<Times, Error> {
    let mut results = Results::of(&plan.program);
    let addresses = results.addresses();
    let mut workspace = Workspace::default();
    let arena = workspace.reserve(plan.working_bytes());
    let scratch = arena.wrapping_add(memory::aligned(plan.program.arena));
    let mut samples = Vec::new();
    let started = Instant::now();
    loop {
        let frame = Frame::new(&plan.program, inputs, &addresses, arena, workspaces);
        sample(plan, &frame, scratch, origin, &mut samples)?;
        if started.elapsed() >= duration || plan.program.steps.is_empty() {
            return Ok(medians(samples));
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
        self.0.iter_mut().map(interpreter::address_mut).collect()
    }
}

/// Runs a plan once and adds the time of each step to its samples.
unsafe fn sample(
    plan: &Plan,
    frame: &Frame<'_>,
    scratch: *mut u8,
    origin: Origin<'_>,
    samples: &mut Vec<Samples>,
) -> Result<(), Error> {
    samples.resize_with(plan.steps.len(), Samples::default);
    for ((step, plan), own) in plan.planned_steps().zip(samples) {
        let started = Instant::now();
        interpreter::step(step, plan, frame, scratch, origin)?;
        own.seconds.push(started.elapsed().as_secs_f64());
        let Some((bodies, given, arena)) = bodies(step, plan) else { continue };
        // What the loop was given is still there: inputs of a step live until it ends.
        let given: Vec<*const u8> = given.iter().map(|access| frame.at(access, 0).cast_const()).collect();
        own.inside.resize_with(bodies.len(), Vec::new);
        for (body, own) in bodies.into_iter().zip(&mut own.inside) {
            let mut results = Results::of(&body.program);
            let addresses = results.addresses();
            let inner = Frame::new(&body.program, &given, &addresses, frame.base(arena), frame.workspaces);
            sample(body, &inner, scratch, origin, own)?;
        }
    }
    Ok(())
}

type Bodies<'s> = (Vec<&'s Plan>, &'s [Access], Memory);

/// The plans of the bodies of a loop, what it is given, and where their arena is. A loop of no iterations has no entries for
/// them to read.
fn bodies<'s>(step: &'s Step, plan: &'s StepPlan) -> Option<Bodies<'s>> {
    match (step, plan) {
        (Step::Scan(scan), StepPlan::Scan(body)) if scan.length > 0 => Some((vec![body], &scan.inputs, scan.scratch)),
        (Step::ReverseScan(sweep), StepPlan::ReverseScan { advance, reverse }) if sweep.schedule.steps > 0 => {
            Some((vec![advance, reverse], &sweep.inputs, sweep.scratch))
        }
        (Step::Scan(_) | Step::ReverseScan(_) | Step::Loop(_) | Step::Contract(_) | Step::Call(_), _) => None,
    }
}

fn medians(samples: Vec<Samples>) -> Times {
    let timed = |samples: Samples| {
        let mut seconds = samples.seconds;
        // The first run finds cold caches and memory that was never touched.
        if seconds.len() > 1 {
            seconds.remove(0);
        }
        seconds.sort_unstable_by(f64::total_cmp);
        let seconds = seconds.get(seconds.len() / 2).copied().unwrap_or(0.0);
        Timed { seconds, inside: samples.inside.into_iter().map(medians).collect() }
    };
    samples.into_iter().map(timed).collect()
}
