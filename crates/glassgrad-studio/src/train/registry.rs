//! All runs, and garbage collection of idle ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::broadcast::Broadcast;
use super::inbox::Inbox;
use super::job::{Job, Spawn};
use super::request;
use super::runner::{Command, Pace};
use crate::experiment::sources::ImageSets;
use crate::experiment::study::Study;
use crate::studio::Limits;

/// The maximum number of runs.
const MOST_RUNS: usize = 12;
/// The maximum number of runs that train at the same time.
const MOST_RUNNING: usize = 4;

/// The runs of a studio.
pub(crate) struct Registry {
    runs: Mutex<(u64, BTreeMap<u64, Run>)>,
    /// The memory that is held for runs that are being prepared.
    reserved: Arc<AtomicUsize>,
    /// The image sets of the host.
    pub(crate) images: Box<dyn ImageSets>,
    spawn: Spawn,
    limits: Limits,
}

/// A handle of a run. Dropping it ends the run and notifies the watchers.
struct Run {
    inbox: Arc<Inbox>,
    broadcast: Arc<Broadcast>,
    about: Value,
    bytes: usize,
    /// Whether it is pinned: not deleted when no page shows it.
    pinned: bool,
}

/// Memory that is held until this is dropped.
pub(crate) struct Reserved {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Refuses more memory than all runs get together.
fn within(most: usize, all: usize, bytes: usize) -> Result<(), String> {
    match all.saturating_add(bytes) > most {
        true => Err(format!(
            "it would take about {} MB, and of the {} MB that the studio gives to all runs {} MB are left; send fewer rows or \
             columns, choose a smaller network, or free other runs",
            bytes >> 20,
            most >> 20,
            most.saturating_sub(all) >> 20
        )),
        false => Ok(()),
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.inbox.close();
        self.broadcast.close();
    }
}

impl Registry {
    pub(crate) fn new(images: Box<dyn ImageSets>, spawn: Spawn, limits: Limits) -> Registry {
        Registry { runs: Mutex::default(), reserved: Arc::default(), images, spawn, limits }
    }

    fn runs(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Run>)> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves memory for a run before it is built, or refuses it.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reserved, String> {
        // Runs are locked, so that no two requests get the same memory.
        let runs = self.runs();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let all = self.reserved.load(Ordering::Relaxed) + runs.1.values().map(|run| run.bytes).sum::<usize>();
        within(self.limits.bytes, all, bytes)?;
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        Ok(Reserved { bytes, all: Arc::clone(&self.reserved) })
    }

    /// Begins a run, if there is room for it. What was reserved for it is the run's from here on.
    pub(crate) fn begin(&self, study: Study, reserved: Reserved, pace: Pace, paused: bool) -> Result<u64, String> {
        let mut runs = self.runs();
        let (number, runs) = &mut *runs;
        drop(reserved);
        let bytes = request::bytes_of(&study);
        let running = runs.values().filter(|run| run.broadcast.is_running()).count();
        if !paused && running >= MOST_RUNNING {
            return Err(format!("{running} networks are learning; pause or free one of them"));
        }
        let all = self.reserved.load(Ordering::Relaxed) + runs.values().map(|run| run.bytes).sum::<usize>();
        within(self.limits.bytes, all, bytes)?;
        if runs.len() >= MOST_RUNS {
            return Err(format!("there are {MOST_RUNS} runs already; free one of them"));
        }
        *number += 1;
        let broadcast = Arc::new(Broadcast::new());
        let about = json!({ "settings": study.settings, "title": study.task.about.title });
        let inbox = Arc::new(Inbox::default());
        (self.spawn)(Job { study, inbox: Arc::clone(&inbox), broadcast: Arc::clone(&broadcast), pace, paused })?;
        runs.insert(*number, Run { inbox, broadcast, about, bytes, pinned: false });
        Ok(*number)
    }

    /// The broadcast of a run.
    pub(crate) fn broadcast(&self, id: u64) -> Option<Arc<Broadcast>> {
        let runs = self.runs();
        let run = runs.1.get(&id)?;
        run.broadcast.touch();
        Some(Arc::clone(&run.broadcast))
    }

    /// Sends a command to a run, or returns it if there is no such run.
    pub(crate) fn send(&self, id: u64, command: Command) -> Result<(), Command> {
        let runs = self.runs();
        let Some(run) = runs.1.get(&id) else { return Err(command) };
        run.broadcast.touch();
        run.inbox.send(command)
    }

    /// Whether one more may learn.
    pub(crate) fn has_room(&self) -> bool {
        self.runs().1.values().filter(|run| run.broadcast.is_running()).count() < MOST_RUNNING
    }

    pub(crate) fn pin(&self, id: u64, pinned: bool) -> bool {
        self.runs().1.get_mut(&id).is_some_and(|run| {
            run.pinned = pinned;
            true
        })
    }

    pub(crate) fn free(&self, id: u64) -> bool {
        self.runs().1.remove(&id).is_some()
    }

    /// A line for each run.
    pub(crate) fn list(&self) -> Value {
        let runs = self.runs();
        let line = |(id, run): (&u64, &Run)| {
            let mut about = run.about.clone();
            about["id"] = (*id).into();
            about["pinned"] = run.pinned.into();
            about["watched"] = run.broadcast.is_watched().into();
            about["state"] = run.broadcast.one("state");
            about
        };
        json!({ "runs": runs.1.iter().map(line).collect::<Vec<_>>() })
    }

    /// Deletes idle runs.
    pub(crate) fn collect_garbage(&self) {
        self.runs().1.retain(|_, run| run.pinned || run.broadcast.touched().elapsed() <= self.limits.linger);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiment::sources::Embedded;

    #[test]
    fn memory_is_reserved_once_and_given_back() {
        let limits = Limits { bytes: 2 << 30, linger: Duration::from_secs(1) };
        let registry = Registry::new(Box::new(Embedded), Box::new(|_| Ok(())), limits);
        let most = limits.bytes as u64;
        let first = registry.reserve(most / 4 * 3).expect("there is room");
        let message = registry.reserve(most / 2).err().expect("there is no room");
        assert!(
            message.contains("about 1024 MB, and of the 2048 MB") && message.contains("512 MB are left"),
            "{message}"
        );
        assert!(registry.reserve(u64::MAX).is_err());
        drop(first);
        assert!(registry.reserve(most / 2).is_ok());
        assert_eq!(registry.reserved.load(Ordering::Relaxed), 0);
    }
}
