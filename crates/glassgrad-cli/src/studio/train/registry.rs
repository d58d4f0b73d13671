//! All runs, and garbage collection of idle ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use glassgrad::exec::Target;
use serde_json::{Value, json};

use super::broadcast::Broadcast;
use super::request;
use super::runner::{self, Command, Pace};
use crate::experiment::study::Study;
use crate::sources::DataLocation;

/// The maximum number of runs.
const MOST_RUNS: usize = 12;
/// The maximum number of runs that train at the same time.
const MOST_RUNNING: usize = 4;
/// The memory of all runs, about.
const MOST_BYTES: usize = 2 << 30;
/// The runs of a studio.
pub(in crate::studio) struct Registry {
    runs: Mutex<(u64, BTreeMap<u64, Run>)>,
    /// The memory that is held for runs that are being prepared.
    reserved: Arc<AtomicUsize>,
    pub(super) places: DataLocation,
    /// Where networks are trained.
    device: Target,
    /// A run without watchers or requests is freed after this time, which is longer than a page takes to reload.
    linger: Duration,
}

/// A handle of a run. Dropping it ends the thread and notifies the watchers.
struct Run {
    commands: Sender<Command>,
    broadcast: Arc<Broadcast>,
    about: Value,
    bytes: usize,
    /// Whether it is pinned: not deleted when no page shows it.
    pinned: bool,
}

/// Memory that is held until this is dropped.
pub(super) struct Reserved {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Refuses more memory than all runs get together.
fn within(all: usize, bytes: usize) -> Result<(), String> {
    match all.saturating_add(bytes) > MOST_BYTES {
        true => Err(format!(
            "it would take about {} MB, and of the {} MB that the studio gives to all runs {} MB are left; send fewer rows or \
             columns, choose a smaller network, or free other runs",
            bytes >> 20,
            MOST_BYTES >> 20,
            MOST_BYTES.saturating_sub(all) >> 20
        )),
        false => Ok(()),
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.broadcast.close();
    }
}

impl Registry {
    pub(in crate::studio) fn new(places: DataLocation, device: Target, linger: Duration) -> Arc<Registry> {
        Arc::new(Registry { runs: Mutex::default(), reserved: Arc::default(), places, device, linger })
    }

    fn runs(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Run>)> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves memory for a run before it is built, or refuses it.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Reserved, String> {
        // Runs are locked, so that no two requests get the same memory.
        let runs = self.runs();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let all = self.reserved.load(Ordering::Relaxed) + runs.1.values().map(|run| run.bytes).sum::<usize>();
        within(all, bytes)?;
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        Ok(Reserved { bytes, all: Arc::clone(&self.reserved) })
    }

    /// Begins a run, if there is app for it. What was reserved for it is the run's from here on.
    pub(super) fn begin(&self, study: Study, reserved: Reserved, pace: Pace, paused: bool) -> Result<u64, String> {
        let mut runs = self.runs();
        let (number, runs) = &mut *runs;
        drop(reserved);
        let bytes = request::bytes_of(&study);
        let running = runs.values().filter(|run| run.broadcast.is_running()).count();
        if !paused && running >= MOST_RUNNING {
            return Err(format!("{running} networks are learning; pause or free one of them"));
        }
        let all = self.reserved.load(Ordering::Relaxed) + runs.values().map(|run| run.bytes).sum::<usize>();
        within(all, bytes)?;
        if runs.len() >= MOST_RUNS {
            return Err(format!("there are {MOST_RUNS} runs already; free one of them"));
        }
        *number += 1;
        let broadcast = Arc::new(Broadcast::new());
        let about = json!({ "settings": study.settings, "title": study.task.about.title });
        let commands = runner::start(study, self.device, Arc::clone(&broadcast), pace, paused)?;
        runs.insert(*number, Run { commands, broadcast, about, bytes, pinned: false });
        Ok(*number)
    }

    /// The broadcast of a run.
    pub(super) fn broadcast(&self, id: u64) -> Option<Arc<Broadcast>> {
        let runs = self.runs();
        let run = runs.1.get(&id)?;
        run.broadcast.touch();
        Some(Arc::clone(&run.broadcast))
    }

    /// Sends a command to a run; false if there is no such run.
    pub(super) fn send(&self, id: u64, command: Command) -> bool {
        let runs = self.runs();
        let Some(run) = runs.1.get(&id) else { return false };
        run.broadcast.touch();
        run.commands.send(command).is_ok()
    }

    /// Whether one more may learn.
    pub(super) fn has_room(&self) -> bool {
        self.runs().1.values().filter(|run| run.broadcast.is_running()).count() < MOST_RUNNING
    }

    pub(super) fn pin(&self, id: u64, pinned: bool) -> bool {
        self.runs().1.get_mut(&id).is_some_and(|run| {
            run.pinned = pinned;
            true
        })
    }

    pub(super) fn free(&self, id: u64) -> bool {
        self.runs().1.remove(&id).is_some()
    }

    /// A line for each run.
    pub(super) fn list(&self) -> Value {
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

    /// Periodically frees idle runs.
    pub(in crate::studio) async fn collect_garbage(self: Arc<Registry>) {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.runs().1.retain(|_, run| run.pinned || run.broadcast.touched().elapsed() <= self.linger);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_once_and_given_back() {
        let registry = Registry::new(DataLocation::default(), Target::Cpu, Duration::from_secs(1));
        let most = MOST_BYTES as u64;
        let first = registry.reserve(most / 4 * 3).expect("there is app");
        let message = registry.reserve(most / 2).err().expect("there is no app");
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
