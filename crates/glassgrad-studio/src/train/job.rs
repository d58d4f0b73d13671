//! A run to be driven by a host.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use glassgrad::error::Error;
use serde_json::json;

use super::broadcast::Broadcast;
use super::inbox::Inbox;
use super::runner::{self, Pace};
use crate::experiment::study::Study;

/// How a host drives runs: on a thread of its own by [`Job::run`], or with others by [`super::Slices`].
pub type Spawn = Box<dyn Fn(Job) -> Result<(), String> + Send + Sync>;

/// A run that has not begun.
pub struct Job {
    pub(super) study: Study,
    pub(super) inbox: Arc<Inbox>,
    pub(super) broadcast: Arc<Broadcast>,
    pub(super) pace: Pace,
    pub(super) paused: bool,
}

impl Job {
    /// Runs it on this thread until it is deleted.
    pub fn run(self) -> Result<(), Error> {
        let inbox = Arc::clone(&self.inbox);
        let mut run = pin!(self.into_future());
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match run.as_mut().poll(&mut context) {
                Poll::Ready(ended) => return ended,
                Poll::Pending => inbox.sleep(),
            }
        }
    }

    /// A handle to report that driving it has failed.
    pub fn failure(&self) -> JobFailure {
        JobFailure { inbox: Arc::clone(&self.inbox), broadcast: Arc::clone(&self.broadcast) }
    }

    async fn into_future(self) -> Result<(), Error> {
        let Job { study, inbox, broadcast, pace, paused } = self;
        runner::run(&study, &broadcast, &inbox, pace, paused).await
    }

    /// The run as a task that is polled.
    pub(super) fn into_task(self) -> Task {
        let (inbox, failure) = (Arc::clone(&self.inbox), self.failure());
        Task { inbox, failure, run: Box::pin(self.into_future()) }
    }
}

/// Reports the failure of a run to its watchers.
pub struct JobFailure {
    inbox: Arc<Inbox>,
    broadcast: Arc<Broadcast>,
}

impl JobFailure {
    pub fn report(self, message: &str) {
        self.inbox.close();
        self.broadcast.set_running(false);
        self.broadcast.post("state", &json!({ "phase": "failed", "trouble": { "message": message } }));
    }
}

/// A run in the hands of a driver.
pub(super) struct Task {
    pub(super) inbox: Arc<Inbox>,
    pub(super) failure: JobFailure,
    pub(super) run: Pin<Box<dyn Future<Output = Result<(), Error>>>>,
}
