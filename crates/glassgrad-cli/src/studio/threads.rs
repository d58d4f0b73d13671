//! Runs of the studio on threads of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use glassgrad::exec::Target;
use glassgrad::runtime::Context;
use glassgrad_studio::train::{Job, Spawn};

/// The stack of the thread of a run.
const STACK: usize = 16 << 20;

/// Runs on a device, each on its thread, which ends when the run is deleted.
pub(super) fn threads(device: Target) -> Spawn {
    Box::new(move |job: Job| {
        let work = move || {
            let failure = job.failure();
            let worked = catch_unwind(AssertUnwindSafe(|| match device {
                Target::Cpu => job.run(),
                device => Context::open(device)?.run(|| job.run()),
            }));
            match worked {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failure.report(&error.to_string()),
                Err(_) => failure.report("internal error in the run; other runs continue"),
            }
        };
        let thread = std::thread::Builder::new().name("run".to_owned()).stack_size(STACK);
        thread.spawn(work).map(drop).map_err(|error| format!("no thread for it: {error}"))
    })
}
