//! All runs, and freeing those that nobody cares for.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::asked;
use super::board::Board;
use super::runner::{self, Order, Pace};
use crate::lab::study::Study;
use crate::sources::Place;

/// So many runs are kept in all.
const MOST_RUNS: usize = 12;
/// So many learn at the same time.
const MOST_RUNNING: usize = 4;
/// The memory of all runs, about.
const MOST_BYTES: usize = 2 << 30;
/// The runs of a studio.
pub(in crate::studio) struct Hall {
    runs: Mutex<(u64, BTreeMap<u64, Run>)>,
    pub(super) places: Place,
    /// A run that nobody watches or asks about is freed after this time: a page that is loaded again comes back sooner.
    linger: Duration,
}

/// A run, as it is reached from outside. When it is dropped, its thread ends, and who watches is told.
struct Run {
    orders: Sender<Order>,
    board: Arc<Board>,
    about: Value,
    bytes: usize,
    /// Whether it stays when nobody watches.
    kept: bool,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.board.close();
    }
}

impl Hall {
    pub(in crate::studio) fn new(places: Place, linger: Duration) -> Arc<Hall> {
        Arc::new(Hall { runs: Mutex::default(), places, linger })
    }

    fn runs(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Run>)> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run, if there is room for it.
    pub(super) fn begin(&self, study: Study, pace: Pace, paused: bool) -> Result<u64, String> {
        let mut runs = self.runs();
        let (number, runs) = &mut *runs;
        let bytes = asked::bytes_of(&study);
        let running = runs.values().filter(|run| run.board.is_running()).count();
        if !paused && running >= MOST_RUNNING {
            return Err(format!("{running} networks are learning; pause or free one of them"));
        }
        let all: usize = runs.values().map(|run| run.bytes).sum();
        if all.saturating_add(bytes) > MOST_BYTES {
            return Err(format!(
                "all runs together would take about {} MB, and the studio gives them {}; free some",
                (all + bytes) >> 20,
                MOST_BYTES >> 20
            ));
        }
        if runs.len() >= MOST_RUNS {
            return Err(format!("there are {MOST_RUNS} runs already; free one of them"));
        }
        *number += 1;
        let board = Arc::new(Board::new());
        let about = json!({ "settings": study.settings, "title": study.task.about.title });
        let orders = runner::start(study, Arc::clone(&board), pace, paused)?;
        runs.insert(*number, Run { orders, board, about, bytes, kept: false });
        Ok(*number)
    }

    /// What is seen of a run.
    pub(super) fn board(&self, id: u64) -> Option<Arc<Board>> {
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
    pub(in crate::studio) async fn look_after(self: Arc<Hall>) {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.runs().1.retain(|_, run| run.kept || run.board.touched().elapsed() <= self.linger);
        }
    }
}
