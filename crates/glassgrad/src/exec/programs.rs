//! Programs that were planned before, by structure: a graph that looks like one seen before runs at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use smallvec::SmallVec;

use super::machine::{self, Workspace};
use crate::array::Array;
use crate::error::Error;
use crate::opt::Extract;
use crate::opt::lower::lower;
use crate::opt::passes::{all_enabled, optimise};
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

/// How many programs were planned in this process.
static PLANNED: AtomicU64 = AtomicU64::new(0);

/// How many programs this process has planned so far. While nothing new is computed, it stays as it is: graphs that look
/// like one seen before run its program.
///
/// ```
/// use glassgrad::{Tensor, exec::programs_planned};
/// let squares = |x: f64| (Tensor::from([x, 1.0]) * x).sum().item().unwrap();
/// squares(2.0);
/// let before = programs_planned();
/// assert_eq!((squares(3.0), squares(4.0)), (12.0, 20.0));
/// assert_eq!(programs_planned(), before);
/// ```
pub fn programs_planned() -> u64 {
    PLANNED.load(Ordering::Relaxed)
}

/// A new program for what was taken, which nobody keeps.
pub(crate) fn planned(extract: &Extract) -> Arc<Program> {
    PLANNED.fetch_add(1, Ordering::Relaxed);
    Arc::new(lower(&optimise(extract.graph())))
}

/// The program for what was taken: one from before, or a new one.
pub(crate) fn program_for(extract: &Extract) -> Arc<Program> {
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if !extract.lasting || !all_enabled() {
        return planned(extract);
    }
    let fingerprint = extract.fingerprint();
    let known = cache().get(fingerprint);
    known.unwrap_or_else(|| {
        let program = planned(extract);
        cache().insert(fingerprint, &program);
        program
    })
}

/// Computes what was taken.
pub(super) fn compute(extract: &Extract) -> Result<Vec<Array>, Error> {
    let program = program_for(extract);
    let leaves = extract.known_leaves()?;
    let inputs: Addresses = leaves.iter().map(|(array, start)| machine::part(array, *start)).collect();
    let mut results = machine::Results::with_capacity(program.results.len());
    run(&program, &inputs, |_| None, &mut results, &extract.origins)?;
    Ok(results.into_iter().flatten().collect())
}

/// Where inputs of a program begin.
type Addresses = SmallVec<[*const u8; 24]>;

/// Runs a program in the memory of this thread. Its inputs are addresses, which must belong to arrays of the shapes that
/// it was planned for, and so must the places of results. Those that have none are made, and put into an empty list.
pub(crate) fn run(
    program: &Program,
    inputs: &[*const u8],
    place: impl FnMut(usize) -> Option<*mut u8>,
    results: &mut machine::Results,
    origins: &[&'static Location<'static>],
) -> Result<(), Error> {
    // An operation of the user's own may read other tensors, which then find no workspace and make another.
    let mut workspace = WORKSPACE.with_borrow_mut(std::mem::take);
    let done = machine::run(program, inputs, place, results, &mut workspace, &|source| origins[source]);
    WORKSPACE.with_borrow_mut(|place| *place = workspace);
    done
}
