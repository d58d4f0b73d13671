//! The transport between ranks.

use crate::dtype::DType;
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

    /// Replaces numbers of a compute type by their sums over all ranks, in an order of the transport's own, and returns whether it can;
    /// [`Shards::sum_in_any_order`](super::Shards::sum_in_any_order) asks for it.
    fn sum(&self, dtype: DType, bytes: &mut [u8]) -> Result<bool, Error> {
        let _ = (dtype, bytes);
        Ok(false)
    }

    /// Ends the job on all ranks, because this one cannot continue.
    fn abort(&self, message: &str);

    /// The transport in a few words.
    fn describe(&self) -> String;
}

impl dyn Communicator + '_ {
    /// The bytes of rank 0, for all ranks, whatever others have.
    ///
    /// ```
    /// use glassgrad::collective::{Communicator, ThreadRank};
    /// let all = ThreadRank::run(2, |rank| {
    ///     let rank: &dyn Communicator = &*rank;
    ///     rank.broadcast_first(vec![7; 3 * (1 - rank.rank())]).unwrap()
    /// });
    /// assert_eq!(all, [[7, 7, 7], [7, 7, 7]]);
    /// ```
    pub fn broadcast_first(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        if self.size() == 1 {
            return Ok(bytes);
        }
        let mut length = (bytes.len() as u64).to_ne_bytes();
        self.broadcast(0, &mut length)?;
        bytes.resize(u64::from_ne_bytes(length) as usize, 0);
        self.broadcast(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The bytes of each rank, for all ranks; their numbers may differ.
    ///
    /// ```
    /// use glassgrad::collective::{Communicator, ThreadRank};
    /// let all = ThreadRank::run(3, |rank| {
    ///     let rank: &dyn Communicator = &*rank;
    ///     rank.all_gather_lists(&vec![7; rank.rank()]).unwrap()
    /// });
    /// assert_eq!(all[0], [vec![], vec![7], vec![7, 7]]);
    /// ```
    pub fn all_gather_lists(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let ranks = self.size();
        let mut lengths = vec![0; 8 * ranks];
        self.all_gather(&(own.len() as u64).to_ne_bytes(), &vec![8; ranks], &mut lengths)?;
        let lengths = lengths.as_chunks::<8>().0.iter().map(|length| u64::from_ne_bytes(*length) as usize);
        let lengths: Vec<usize> = lengths.collect();
        let mut all = vec![0; lengths.iter().sum()];
        self.all_gather(own, &lengths, &mut all)?;
        let mut rest = &all[..];
        let list = |length: &usize| rest.split_off(..*length).unwrap_or_default().to_vec();
        Ok(lengths.iter().map(list).collect())
    }

    /// Checks that all ranks have the same facts, such as the version and the data; the error names the first difference, with both
    /// sides, and is the same on every rank.
    ///
    /// ```
    /// use glassgrad::collective::{Communicator, ThreadRank};
    /// let errors = ThreadRank::run(2, |rank| {
    ///     let epochs = if rank.rank() == 0 { "10" } else { "20" };
    ///     let rank: &dyn Communicator = &*rank;
    ///     rank.agree(&[("data", "iris".into()), ("epochs", epochs.into())]).unwrap_err().to_string()
    /// });
    /// assert!(errors[1].contains("rank 1 has epochs 20, and rank 0 has 10"), "{}", errors[1]);
    /// assert_eq!(errors[0], errors[1]);
    /// ```
    pub fn agree(&self, facts: &[(&str, String)]) -> Result<(), Error> {
        let ranks = self.size();
        if ranks == 1 {
            return Ok(());
        }
        let own: Vec<u8> = facts.iter().flat_map(|(_, fact)| [fact.as_bytes(), &[0]].concat()).collect();
        let text = |bytes: Vec<u8>| -> Vec<String> {
            String::from_utf8_lossy(&bytes).split_terminator('\0').map(str::to_owned).collect()
        };
        let texts: Vec<Vec<String>> = self.all_gather_lists(&own)?.into_iter().map(text).collect();
        for (rank, text) in texts.iter().enumerate() {
            for (number, (name, _)) in facts.iter().enumerate() {
                let [first, other] = [&texts[0], text].map(|text| text.get(number).map_or("nothing", String::as_str));
                if first != other {
                    let message = format!("rank {rank} has {name} {other}, and rank 0 has {first}");
                    let help = "start all ranks with the same program, settings and data";
                    return Err(Error::new("distribute", message).help(help));
                }
            }
        }
        Ok(())
    }
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

/// A job of several ranks of which this process is the first and there is no other: what it sends comes back as the messages of all others.
/// A step of it computes what a rank of such a job computes, with a wrong sum and without waiting for messages; for measurements.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, collective::{Echo, Shards}, compile};
/// let shards = Shards::new(Arc::new(Echo { ranks: 4 }), 8).unwrap();
/// assert_eq!(shards.local(), 0..2);
/// let sum = compile(|x: &Tensor| x.all_reduce()).call_shards(&shards, &[Tensor::from(1.0), Tensor::from(2.0)]).unwrap();
/// assert_eq!(sum[0].item().unwrap(), 12.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    /// The number of ranks: a divisor of the number of shards, so that all ranks have as many.
    pub ranks: usize,
}

impl Communicator for Echo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.ranks
    }

    fn all_gather(&self, send: &[u8], counts: &[usize], receive: &mut [u8]) -> Result<(), Error> {
        let mut rest = receive;
        for count in counts {
            let Some(part) = rest.split_off_mut(..*count) else {
                unreachable!("the counts of an all-gather are those of its result")
            };
            // Parts of one operand may differ by an element.
            let common = send.len().min(*count);
            part[..common].copy_from_slice(&send[..common]);
            part[common..].fill(0);
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
        self.all_gather(&send[..send_counts[0]], receive_counts, receive)
    }

    fn broadcast(&self, _: usize, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    /// There is no other rank to end.
    fn abort(&self, _: &str) {}

    fn describe(&self) -> String {
        "no transport".to_owned()
    }
}
