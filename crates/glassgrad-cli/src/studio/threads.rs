//! Runs of the studio on threads of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use glassgrad_studio::train::{Job, Spawn};

use crate::device::DeviceChoice;
use crate::failure::Failure;

/// The stack of the thread of a run.
const STACK: usize = 16 << 20;

/// Runs on a device, each on its thread, which ends when the run is deleted.
pub(super) fn threads(device: DeviceChoice) -> Spawn {
    Box::new(move |job: Job| {
        let device = device.clone();
        let work = move || {
            let failure = job.failure();
            let worked = catch_unwind(AssertUnwindSafe(|| device.run(|| job.run().map_err(Failure::result))));
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
