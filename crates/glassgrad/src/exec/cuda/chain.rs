//! Chains: consecutive small launches become one kernel of one block.

use std::collections::HashMap;

use super::plan::{Action, Actions, Planner};
use super::source::{Kernel, Link, THREADS};
use crate::opt::program::Memory;

/// The most blocks of one launch in a chain.
const MOST_BLOCKS: u32 = 8;

/// The most arguments of a kernel.
const MOST_ARGUMENTS: usize = 64;

/// What stands for an argument: memory, or a place for a report.
type Argument = (Option<Memory>, Option<usize>);

/// Joins small launches of a plan and of the plans inside of it.
pub(super) fn chain(planner: &mut Planner<'_>, actions: &mut Actions) {
    join(planner, actions);
    let mut is_launched = vec![false; planner.module.len()];
    actions.each_kernel(&mut |kernel| is_launched[*kernel] = true);
    let numbers = planner.module.keep(&is_launched);
    actions.each_kernel(&mut |kernel| *kernel = numbers[*kernel]);
}

fn join(planner: &mut Planner<'_>, actions: &mut Actions) {
    // Across the steps: a chain stands with the first of them.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for step in 0..actions.steps.len() {
        for place in 0..actions.steps[step].len() {
            match &mut actions.steps[step][place] {
                Action::Launch { kernel, grid, .. } => {
                    let is_small =
                        grid[0] * grid[1] <= MOST_BLOCKS && planner.module.kernel(*kernel).threads == THREADS;
                    if is_small {
                        open.push((step, place));
                        continue;
                    }
                }
                Action::Scan { body, .. } => join(planner, body),
                Action::ReverseScan { advance, reverse, .. } => {
                    join(planner, advance);
                    join(planner, reverse);
                }
                Action::Multiply { .. }
                | Action::Clear { .. }
                | Action::Host
                | Action::Chain { .. }
                | Action::Joined => {}
            }
            close(planner, actions, &mut open);
        }
    }
    close(planner, actions, &mut open);
}

/// Makes one kernel of the launches at some places.
fn close(planner: &mut Planner<'_>, actions: &mut Actions, open: &mut Vec<(usize, usize)>) {
    let places = std::mem::take(open);
    let mut rest = &places[..];
    while rest.len() > 1 {
        let mut arguments: Vec<Argument> = Vec::new();
        let mut numbers: HashMap<Argument, usize> = HashMap::new();
        let mut links = Vec::new();
        for (step, place) in rest {
            let Action::Launch { kernel, grid, memories, report, .. } = &actions.steps[*step][*place] else {
                unreachable!("a place of a launch");
            };
            let own =
                memories.iter().map(|memory| (Some(*memory), None)).chain(report.map(|number| (None, Some(number))));
            let own: Vec<Argument> = own.collect();
            let new = own.iter().filter(|argument| !numbers.contains_key(*argument)).count();
            if arguments.len() + new > MOST_ARGUMENTS {
                break;
            }
            let numbered = own.iter().map(|argument| {
                *numbers.entry(*argument).or_insert_with(|| {
                    arguments.push(*argument);
                    arguments.len() - 1
                })
            });
            links.push(Link { kernel: planner.module.kernel(*kernel), grid: *grid, arguments: numbered.collect() });
        }
        let count = links.len();
        if count > 1 {
            let joined = Kernel::chain(&links, arguments.len());
            let kernel = planner.module.number(joined);
            let chained = Action::Chain { kernel, arguments };
            for (step, place) in &rest[1..count] {
                actions.steps[*step][*place] = Action::Joined;
            }
            let (step, place) = rest[0];
            actions.steps[step][place] = chained;
        }
        rest = &rest[count.max(1)..];
    }
}
