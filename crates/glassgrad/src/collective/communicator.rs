//! The transport between ranks.

use crate::error::Error;

/// A transport between the ranks of a job, by messages of bytes. It moves data and computes nothing: sums are evaluated by the library,
/// in one order, so that every transport gives the same bits.
///
/// All ranks make the same calls in the same order, each from one thread at a time. The crate `glassgrad-mpi` implements it by MPI.
///
/// ```
/// use glassgrad::collective::{Communicator, ThreadRank};
/// let gathered = ThreadRank::run(3, |rank| {
///     let mut all = [0; 3];
///     rank.all_gather(&[10 + rank.rank() as u8], &[1, 1, 1], &mut all).unwrap();
///     all
/// });
/// assert_eq!(gathered, [[10, 11, 12]; 3]);
/// ```
pub trait Communicator: Send + Sync {
    /// The number of this rank, from 0 on.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// The bytes of all ranks one after another; rank `r` sends `counts[r]`.
    fn all_gather(&self, send: &[u8], counts: &[usize], receive: &mut [u8]) -> Result<(), Error>;

    /// Sends `send_counts[r]` bytes to each rank `r`, one part after another, and receives `receive_counts[r]` from it.
    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error>;

    /// The bytes of one rank, for all.
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error>;

    /// Ends the job on all ranks, because this one cannot continue.
    fn abort(&self, message: &str);

    /// The transport in a few words.
    fn describe(&self) -> String;
}

/// A job of one rank.
///
/// ```
/// use glassgrad::collective::{Communicator, Solo};
/// assert_eq!((Solo.rank(), Solo.size()), (0, 1));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Communicator for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, send: &[u8], _: &[usize], receive: &mut [u8]) -> Result<(), Error> {
        receive.copy_from_slice(send);
        Ok(())
    }

    fn all_to_all(&self, send: &[u8], _: &[usize], receive: &mut [u8], _: &[usize]) -> Result<(), Error> {
        receive.copy_from_slice(send);
        Ok(())
    }

    fn broadcast(&self, _: usize, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    /// There is no other rank to end.
    fn abort(&self, _: &str) {}

    fn describe(&self) -> String {
        "one process".to_owned()
    }
}
