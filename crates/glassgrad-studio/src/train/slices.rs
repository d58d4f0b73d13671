//! A driver of several runs on one thread, in turns: that of hosts without threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::job::{Job, Spawn, Task};

/// Runs that take turns, a slice of time each.
#[derive(Default)]
pub struct Slices {
    /// Runs that have not begun: [`Slices::spawn`] may be called from any thread, runs stay on one.
    jobs: Arc<Mutex<Vec<Job>>>,
    tasks: Vec<Task>,
}

impl Slices {
    /// The function by which a studio begins a run here.
    pub fn spawn(&self) -> Spawn {
        let jobs = Arc::clone(&self.jobs);
        Box::new(move |job| {
            jobs.lock().unwrap_or_else(PoisonError::into_inner).push(job);
            Ok(())
        })
    }

    /// Advances every run that has something to do by a slice of time, about.
    pub fn advance(&mut self, slice: Duration) {
        let jobs = std::mem::take(&mut *self.jobs.lock().unwrap_or_else(PoisonError::into_inner));
        self.tasks.extend(jobs.into_iter().map(Job::into_task));
        let mut context = Context::from_waker(Waker::noop());
        let mut place = 0;
        while let Some(task) = self.tasks.get_mut(place) {
            let is_due = task.inbox.until_due() == Some(Duration::ZERO);
            if is_due {
                task.inbox.begin_slice(slice);
            }
            match if is_due { task.run.as_mut().poll(&mut context) } else { Poll::Pending } {
                Poll::Pending => place += 1,
                Poll::Ready(ended) => {
                    let task = self.tasks.remove(place);
                    if let Err(error) = ended {
                        task.failure.report(&error.to_string());
                    }
                }
            }
        }
    }

    /// The time until a run has something to do; `None` if only a command can wake one.
    pub fn until_due(&self) -> Option<Duration> {
        let has_jobs = !self.jobs.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let tasks = self.tasks.iter().filter_map(|task| task.inbox.until_due());
        tasks.chain(has_jobs.then_some(Duration::ZERO)).min()
    }
}
