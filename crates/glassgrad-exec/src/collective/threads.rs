//! Ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::communicator::Communicator;
use super::tree::add;
use crate::dtype::DType;
use crate::error::Error;
use crate::sorting::IndirectSort;

/// A rank that is a thread, in a job within one process: what tests of distributed programs run on.
///
/// ```
/// use glassgrad::collective::{Communicator, ThreadRank};
/// let messages = ThreadRank::run(2, |rank| {
///     let mut bytes = [rank.rank() as u8];
///     rank.broadcast(1, &mut bytes).unwrap();
///     bytes
/// });
/// assert_eq!(messages, [[1], [1]]);
/// ```
pub struct ThreadRank {
    rank: usize,
    size: usize,
    job: Arc<Job>,
}

#[derive(Default)]
struct Job {
    state: Mutex<State>,
    changed: Condvar,
}

/// What a rank sends: bytes, with the number of them for each rank where these differ.
type Deposit = (Vec<u8>, Vec<usize>);

#[derive(Default)]
struct State {
    /// The number of finished exchanges.
    finished: u64,
    deposits: Vec<(usize, Deposit)>,
    /// The deposits of the last exchange, by rank.
    last: Arc<Vec<Deposit>>,
    /// Why no further exchange is possible.
    ended: Option<String>,
}

impl ThreadRank {
    /// Calls a function on a thread for each rank, and returns their results by rank.
    ///
    /// # Panics
    /// If one of them does.
    ///
    /// ```
    /// use glassgrad::collective::{Communicator, ThreadRank};
    /// assert_eq!(ThreadRank::run(3, |rank| rank.rank()), [0, 1, 2]);
    /// ```
    pub fn run<R: Send>(size: usize, function: impl Fn(Arc<ThreadRank>) -> R + Sync) -> Vec<R> {
        let job = Arc::new(Job::default());
        std::thread::scope(|scope| {
            let function = &function;
            let ranks = (0..size).map(|rank| ThreadRank { rank, size, job: Arc::clone(&job) });
            let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || function(Arc::new(rank)))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|result| result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))).collect()
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.job.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every rank has made its deposit, and returns all of them.
    fn exchange(&self, deposit: Deposit) -> Result<Arc<Vec<Deposit>>, Error> {
        let mut state = self.state();
        let number = state.finished;
        state.deposits.push((self.rank, deposit));
        if state.deposits.len() == self.size {
            let mut deposits = std::mem::take(&mut state.deposits);
            deposits.indirect_sort_by_key(|(rank, _)| *rank);
            state.last = Arc::new(deposits.into_iter().map(|(_, deposit)| deposit).collect());
            state.finished += 1;
            self.job.changed.notify_all();
            return Ok(Arc::clone(&state.last));
        }
        loop {
            // No rank begins the next exchange before this one has read the deposits of this one.
            if state.finished > number {
                return Ok(Arc::clone(&state.last));
            }
            if let Some(reason) = &state.ended {
                return Err(Error::new("communicate", reason.clone()));
            }
            state = self.job.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, reason: String) {
        self.state().ended.get_or_insert(reason);
        self.job.changed.notify_all();
    }
}

impl Communicator for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, send: &[u8], counts: &[usize], receive: &mut [u8]) -> Result<(), Error> {
        let all = self.exchange((send.to_vec(), Vec::new()))?;
        let mut rest = receive;
        for ((bytes, _), count) in all.iter().zip(counts) {
            let (own, behind) = rest.split_at_mut(*count);
            own.copy_from_slice(bytes);
            rest = behind;
        }
        Ok(())
    }

    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error> {
        let all = self.exchange((send.to_vec(), send_counts.to_vec()))?;
        let mut rest = receive;
        for ((bytes, counts), count) in all.iter().zip(receive_counts) {
            let (own, behind) = rest.split_at_mut(*count);
            let start: usize = counts[..self.rank].iter().sum();
            own.copy_from_slice(&bytes[start..start + counts[self.rank]]);
            rest = behind;
        }
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let own = if self.rank == root { bytes.to_vec() } else { Vec::new() };
        let all = self.exchange((own, Vec::new()))?;
        bytes.copy_from_slice(&all[root].0);
        Ok(())
    }

    /// From the first rank to the last.
    fn sum(&self, dtype: DType, bytes: &mut [u8]) -> Result<bool, Error> {
        let all = self.exchange((bytes.to_vec(), Vec::new()))?;
        bytes.copy_from_slice(&all[0].0);
        all[1..].iter().for_each(|(other, _)| add(dtype, bytes, other));
        Ok(true)
    }

    fn abort(&self, message: &str) {
        self.end(format!("rank {} has ended the job: {message}", self.rank));
    }

    fn describe(&self) -> String {
        "threads of one process".to_owned()
    }
}

impl Drop for ThreadRank {
    /// Ranks that wait for this one learn that it is gone.
    fn drop(&mut self) {
        self.end(format!("rank {} has left the job", self.rank));
    }
}
