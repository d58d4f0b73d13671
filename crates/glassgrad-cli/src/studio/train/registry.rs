//! All runs, and freeing those that nobody cares for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::broadcast::Broadcast;
use super::request;
use super::runner::{self, Order, Pace};
use crate::experiment::study::Study;
use crate::sources::Place;

/// So many runs are kept in all.
const MOST_RUNS: usize = 12;
/// So many learn at the same time.
const MOST_RUNNING: usize = 4;
/// The memory of all runs, about.
const MOST_BYTES: usize = 2 << 30;
/// The runs of a studio.
pub(in crate::studio) struct Registry {
    runs: Mutex<(u64, BTreeMap<u64, Run>)>,
    /// The memory that is held for runs that are being prepared.
    reserved: Arc<AtomicUsize>,
    pub(super) places: Place,
    /// A run that nobody watches or asks about is freed after this time: a page that is loaded again comes back sooner.
    linger: Duration,
}

/// A run, as it is reached from outside. When it is dropped, its thread ends, and who watches is told.
struct Run {
    orders: Sender<Order>,
    board: Arc<Broadcast>,
    about: Value,
    bytes: usize,
    /// Whether it stays when nobody watches.
    kept: bool,
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
        self.board.close();
    }
}

impl Registry {
    pub(in crate::studio) fn new(places: Place, linger: Duration) -> Arc<Registry> {
        Arc::new(Registry { runs: Mutex::default(), reserved: Arc::default(), places, linger })
    }

    fn runs(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Run>)> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds memory for a run before anything of it is made, or refuses it.
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
        let running = runs.values().filter(|run| run.board.is_running()).count();
        if !paused && running >= MOST_RUNNING {
            return Err(format!("{running} networks are learning; pause or free one of them"));
        }
        let all = self.reserved.load(Ordering::Relaxed) + runs.values().map(|run| run.bytes).sum::<usize>();
        within(all, bytes)?;
        if runs.len() >= MOST_RUNS {
            return Err(format!("there are {MOST_RUNS} runs already; free one of them"));
        }
        *number += 1;
        let board = Arc::new(Broadcast::new());
        let about = json!({ "settings": study.settings, "title": study.task.about.title });
        let orders = runner::start(study, Arc::clone(&board), pace, paused)?;
        runs.insert(*number, Run { orders, board, about, bytes, kept: false });
        Ok(*number)
    }

    /// What is seen of a run.
    pub(super) fn board(&self, id: u64) -> Option<Arc<Broadcast>> {
        let runs = self.runs();
        let run = runs.1.get(&id)?;
        run.board.touch();
        Some(Arc::clone(&run.board))
    }

    /// Tells a run something; false if there is no such run.
    pub(super) fn order(&self, id: u64, order: Order) -> bool {
        let runs = self.runs();
        let Some(run) = runs.1.get(&id) else { return false };
        run.board.touch();
        run.orders.send(order).is_ok()
    }

    /// Whether one more may learn.
    pub(super) fn has_room(&self) -> bool {
        self.runs().1.values().filter(|run| run.board.is_running()).count() < MOST_RUNNING
    }

    pub(super) fn keep(&self, id: u64, kept: bool) -> bool {
        self.runs().1.get_mut(&id).is_some_and(|run| {
            run.kept = kept;
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
            about["kept"] = run.kept.into();
            about["watched"] = run.board.is_watched().into();
            about["state"] = run.board.one("state");
            about
        };
        json!({ "runs": runs.1.iter().map(line).collect::<Vec<_>>() })
    }

    /// Frees, now and then, the runs that nobody cares for.
    pub(in crate::studio) async fn look_after(self: Arc<Registry>) {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.runs().1.retain(|_, run| run.kept || run.board.touched().elapsed() <= self.linger);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_once_and_given_back() {
        let registry = Registry::new(Place::default(), Duration::from_secs(1));
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
