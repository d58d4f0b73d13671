//! Programs that were planned before, by structure: a graph that looks like one seen before runs at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::machine::{self, Workspace};
use crate::array::Array;
use crate::error::Error;
use crate::opt::Extract;
use crate::opt::lower::lower;
use crate::opt::passes::optimise;
use crate::opt::program::Program;

/// How many programs are kept.
const CAPACITY: usize = 512;

/// Programs by fingerprint, with the time of their last use.
#[derive(Default)]
struct Cache {
    programs: HashMap<u128, (Arc<Program>, u64)>,
    clock: u64,
}

impl Cache {
    fn get(&mut self, fingerprint: u128) -> Option<Arc<Program>> {
        self.clock += 1;
        let (program, used) = self.programs.get_mut(&fingerprint)?;
        *used = self.clock;
        Some(Arc::clone(program))
    }

    fn insert(&mut self, fingerprint: u128, program: &Arc<Program>) {
        if self.programs.len() >= CAPACITY {
            // The older half goes at once, so that looking for the oldest costs little on average.
            let mut times: Vec<u64> = self.programs.values().map(|(_, used)| *used).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            self.programs.retain(|_, (_, used)| *used > middle);
        }
        self.programs.insert(fingerprint, (Arc::clone(program), self.clock));
    }
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

thread_local! {
    /// Memory for programs of this thread, kept between runs.
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// The program for what was taken: one from before, or a new one.
pub(crate) fn program_for(extract: &Extract) -> Arc<Program> {
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if !extract.lasting {
        return Arc::new(lower(&optimise(extract.graph())));
    }
    let fingerprint = extract.fingerprint();
    let known = cache().get(fingerprint);
    known.unwrap_or_else(|| {
        let program = Arc::new(lower(&optimise(extract.graph())));
        cache().insert(fingerprint, &program);
        program
    })
}

/// Computes what was taken.
pub(super) fn compute(extract: &Extract) -> Result<Vec<Array>, Error> {
    let program = program_for(extract);
    run(&program, &extract.known_leaves()?, &extract.origins)
}

/// Runs a program in the memory of this thread.
pub(crate) fn run(
    program: &Program,
    inputs: &[(&Array, usize)],
    origins: &[&'static Location<'static>],
) -> Result<Vec<Array>, Error> {
    // An operation of the user's own may read other tensors, which then find no workspace and make another.
    let mut workspace = WORKSPACE.with_borrow_mut(std::mem::take);
    let results = machine::run(program, inputs, &mut workspace, &|source| origins[source]);
    WORKSPACE.with_borrow_mut(|place| *place = workspace);
    results
}
