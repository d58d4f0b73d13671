//! Commands to a run, and what the run waits for.
//!
//! A run is a future that awaits [`Inbox::next`]. On a thread of its own the driver sleeps in [`Inbox::sleep`] until there is
//! something to do; driven in slices it is polled again later.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use glassgrad::clock::Instant;

use super::runner::Command;

/// What a run waits for before it goes on.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    /// Nothing but the next slice of time, where time is sliced.
    Nothing,
    /// A command, but no longer than this.
    For(Duration),
    Command,
}

/// What it got.
pub(super) enum Event {
    Command(Command),
    /// The wait is over.
    Over,
    /// The run is deleted.
    Closed,
}

/// The commands of a run, from any thread.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    /// Whether the run was deleted, or has ended with an error.
    is_closed: bool,
    /// When and for how long a run began to wait with nothing to do; forever if there is no time.
    waiting: Option<(Instant, Option<Duration>)>,
    /// The slice of time that the run has, where it has one.
    slice: Option<(Instant, Duration)>,
}

impl State {
    /// The time until the run has something to do; `None` if only a command can wake it.
    fn until_due(&self) -> Option<Duration> {
        match self.waiting {
            _ if self.is_closed || !self.commands.is_empty() => Some(Duration::ZERO),
            None => Some(Duration::ZERO),
            Some((_, None)) => None,
            Some((since, Some(time))) => Some(time.saturating_sub(since.elapsed())),
        }
    }
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command, or returns it if the run has ended.
    pub(super) fn send(&self, command: Command) -> Result<(), Command> {
        let mut state = self.state();
        if state.is_closed {
            return Err(command);
        }
        state.commands.push_back(command);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Ends the run; commands that it has not executed are dropped.
    pub(super) fn close(&self) {
        let commands = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.commands)
        };
        self.changed.notify_one();
        // Outside of the lock: queries reply when they are dropped.
        drop(commands);
    }

    /// Begins a slice of time, after which [`Inbox::next`] suspends the run.
    pub(super) fn begin_slice(&self, time: Duration) {
        self.state().slice = Some((Instant::now(), time));
    }

    /// The next command, or the end of a wait.
    pub(super) fn next(&self, wait: Wait) -> impl Future<Output = Event> + '_ {
        let began = match wait {
            Wait::For(_) | Wait::Command => Some(Instant::now()),
            Wait::Nothing => None,
        };
        poll_fn(move |_| {
            let mut state = self.state();
            state.waiting = None;
            if state.is_closed {
                return Poll::Ready(Event::Closed);
            }
            if let Some(command) = state.commands.pop_front() {
                return Poll::Ready(Event::Command(command));
            }
            let is_over = match (wait, began) {
                (Wait::Command, Some(began)) => {
                    state.waiting = Some((began, None));
                    false
                }
                (Wait::For(time), Some(began)) => {
                    state.waiting = Some((began, Some(time)));
                    began.elapsed() >= time
                }
                // The clock is only read where time is sliced.
                _ => state.slice.is_none_or(|(began, time)| began.elapsed() < time),
            };
            if is_over { Poll::Ready(Event::Over) } else { Poll::Pending }
        })
    }

    /// Blocks the thread until the run has something to do.
    pub(super) fn sleep(&self) {
        let mut state = self.state();
        loop {
            state = match state.until_due() {
                Some(Duration::ZERO) => return,
                Some(time) => self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The time until the run has something to do; `None` if only a command can wake it.
    pub(super) fn until_due(&self) -> Option<Duration> {
        self.state().until_due()
    }
}
