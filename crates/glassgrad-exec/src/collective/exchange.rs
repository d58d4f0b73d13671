//! The messages of a collective among ranks.
//!
//! A sum over shards is a reduce-scatter and an all-gather: every rank receives its part of the elements of all partial sums, evaluates
//! the tree for that part, and sends it to all. Each rank sends and receives about twice the bytes of the operand, as in a ring, and
//! nothing is added in another order than that of the tree. Operands of few bytes are gathered as they are, in one message.

use std::ops::Range;
use std::sync::Arc;

use super::communicator::Communicator;
use super::kind::{Collective, CollectiveKind};
use super::tree::{Block, Stack, add, cover, shards_of};
use crate::dtype::DType;
use crate::error::Error;

/// Up to this many bytes an operand is sent to every rank as it is: two messages would cost more than the bytes.
const SMALL: usize = 4096;

/// A collective that all shards have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) collective: Collective,
    pub(super) dtype: DType,
    /// The bytes of the operand of a shard.
    pub(super) bytes: usize,
    /// The number of elements in front of the axis of the operation.
    pub(super) outer: usize,
}

/// What a collective gives to the shards of a rank.
pub(super) enum Outcome {
    /// The same to all.
    Same(Arc<Vec<u8>>),
    /// Something else to each, in their order.
    Each(Vec<Vec<u8>>),
}

impl Outcome {
    /// The bytes for one of the local shards.
    pub(super) fn of(&self, place: usize) -> &[u8] {
        match self {
            Outcome::Same(bytes) => bytes,
            Outcome::Each(all) => &all[place],
        }
    }
}

/// The bytes in front of the first message of a collective, by which ranks notice that they run different programs: the number of the
/// collective, its kind and parameter, the element type and the length.
const HEADER: usize = 32;

fn header(number: u64, request: &Request) -> [u8; HEADER] {
    let [kind, parameter, _] = request.collective.numbers();
    let words = [number, (kind << 8 | request.dtype as usize) as u64, parameter as u64, request.bytes as u64];
    let mut header = [0; HEADER];
    header.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_ne_bytes());
    header
}

/// A collective among ranks: its place in the sequence of all of them, and the ranks.
pub(super) struct Exchange<'e> {
    pub(super) communicator: &'e dyn Communicator,
    pub(super) number: u64,
    pub(super) request: Request,
    /// Whether sums may be evaluated in another order than that of the tree.
    pub(super) any_order: bool,
}

impl Exchange<'_> {
    /// The outcome for the shards of this rank, from their partial sums or operands.
    pub(super) fn run(&self, blocks: Vec<(Block, Vec<u8>)>) -> Result<Outcome, Error> {
        let Collective { kind, shards } = self.request.collective;
        let own = self.shards_of(self.communicator.rank());
        match kind {
            CollectiveKind::AllReduce => Ok(Outcome::Same(Arc::new(self.all_reduce(blocks)?))),
            CollectiveKind::Reduce { root } => {
                let mut sum = Some(self.all_reduce(blocks)?);
                let zeros = || vec![0; self.request.bytes];
                Ok(Outcome::Each(
                    own.map(|shard| if shard == root { sum.take().unwrap_or_else(zeros) } else { zeros() }).collect(),
                ))
            }
            CollectiveKind::Broadcast { root } => {
                let owner = (0..self.communicator.size()).find(|rank| self.shards_of(*rank).contains(&root));
                let Some(owner) = owner else { unreachable!("shard {root} of {shards} lies on no rank") };
                let mine = blocks.into_iter().find(|(block, _)| block.first == root).map(|(_, bytes)| bytes);
                let mut bytes = mine.unwrap_or_else(|| vec![0; self.request.bytes]);
                self.communicator.broadcast(owner, &mut bytes)?;
                Ok(Outcome::Same(Arc::new(bytes)))
            }
            CollectiveKind::AllGather { .. } => {
                let own: Vec<u8> = blocks.into_iter().flat_map(|(_, bytes)| bytes).collect();
                let all = self.gather(&own, |rank| self.shards_of(rank).len() * self.request.bytes)?.concat();
                Ok(Outcome::Same(Arc::new(transposed(&all, shards, self.request.outer))))
            }
            CollectiveKind::ReduceScatter { .. } => {
                // The blocks of shards lie inside of the elements in front of the axis.
                let ordered =
                    |(block, bytes): (Block, Vec<u8>)| (block, transposed(&bytes, self.request.outer, shards));
                let each = self.request.bytes / shards;
                let part = |rank: usize| {
                    let shards = self.shards_of(rank);
                    shards.start * each..shards.end * each
                };
                let sum = self.reduce_scatter(blocks.into_iter().map(ordered).collect(), part)?;
                Ok(Outcome::Each((0..own.len()).map(|place| sum[place * each..(place + 1) * each].to_vec()).collect()))
            }
        }
    }

    fn shards_of(&self, rank: usize) -> Range<usize> {
        shards_of(rank, self.communicator.size(), self.request.collective.shards)
    }

    /// The sum over all shards.
    fn all_reduce(&self, mut blocks: Vec<(Block, Vec<u8>)>) -> Result<Vec<u8>, Error> {
        let Request { dtype, bytes, .. } = self.request;
        let ranks = self.communicator.size();
        if ranks == 1 {
            let Some((_, sum)) = blocks.pop() else { unreachable!("a rank without shards") };
            return Ok(sum);
        }
        if bytes <= SMALL {
            let own: Vec<u8> = blocks.into_iter().flat_map(|(_, bytes)| bytes).collect();
            let all = self.gather(&own, |rank| cover(self.shards_of(rank)).len() * bytes)?;
            let parts = (0..ranks)
                .flat_map(|rank| cover(self.shards_of(rank)).into_iter().enumerate().map(move |of| (rank, of)));
            let mut sum = Stack::default();
            for (rank, (place, block)) in parts {
                sum.push(dtype, block, all[rank][place * bytes..(place + 1) * bytes].to_vec());
            }
            return Ok(sum.whole());
        }
        if self.any_order {
            // Which blocks there are depends on the ranks already.
            let mut sum = blocks.pop().map_or_else(|| vec![0; bytes], |(_, last)| last);
            blocks.iter().for_each(|(_, own)| add(dtype, &mut sum, own));
            if self.communicator.sum(dtype, &mut sum)? {
                return Ok(sum);
            }
            let help = "leave the order to the library: it is the same on any number of ranks";
            let message = format!("{} sums in the order of the tree only", self.communicator.describe());
            return Err(Error::new("all_reduce", message).help(help));
        }
        // Parts consist of whole elements.
        let elements = bytes / dtype.bytes();
        let part = |rank: usize| rank * elements / ranks * dtype.bytes()..(rank + 1) * elements / ranks * dtype.bytes();
        let own = self.reduce_scatter(blocks, part)?;
        let counts: Vec<usize> = (0..ranks).map(|rank| part(rank).len()).collect();
        let mut whole = vec![0; bytes];
        self.communicator.all_gather(&own, &counts, &mut whole)?;
        Ok(whole)
    }

    /// The part of the sum over all shards that belongs to this rank; `part` tells the bytes of each rank.
    fn reduce_scatter(
        &self,
        blocks: Vec<(Block, Vec<u8>)>,
        part: impl Fn(usize) -> Range<usize>,
    ) -> Result<Vec<u8>, Error> {
        let ranks = self.communicator.size();
        let mut send = Vec::with_capacity(blocks.len() * self.request.bytes + ranks * HEADER);
        let mut send_counts = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            let before = send.len();
            send.extend(header(self.number, &self.request));
            blocks.iter().for_each(|(_, bytes)| send.extend(&bytes[part(rank)]));
            send_counts.push(send.len() - before);
        }
        drop(blocks);
        let own = part(self.communicator.rank()).len();
        let covers: Vec<Vec<Block>> = (0..ranks).map(|rank| cover(self.shards_of(rank))).collect();
        let receive_counts: Vec<usize> = covers.iter().map(|blocks| HEADER + blocks.len() * own).collect();
        let mut received = vec![0; receive_counts.iter().sum()];
        self.communicator.all_to_all(&send, &send_counts, &mut received, &receive_counts)?;
        let (mut sum, mut rest) = (Stack::default(), &received[..]);
        for (rank, (blocks, count)) in covers.iter().zip(&receive_counts).enumerate() {
            let (message, behind) = rest.split_at(*count);
            rest = behind;
            let parts = self.checked(rank, message)?;
            for (place, block) in blocks.iter().enumerate() {
                sum.push(self.request.dtype, *block, parts[place * own..(place + 1) * own].to_vec());
            }
        }
        Ok(sum.whole())
    }

    /// The bytes of all ranks, by rank.
    fn gather(&self, own: &[u8], count: impl Fn(usize) -> usize) -> Result<Vec<Vec<u8>>, Error> {
        let send = [&header(self.number, &self.request)[..], own].concat();
        let counts: Vec<usize> = (0..self.communicator.size()).map(|rank| HEADER + count(rank)).collect();
        let mut received = vec![0; counts.iter().sum()];
        self.communicator.all_gather(&send, &counts, &mut received)?;
        let mut rest = &received[..];
        let one = |(rank, count): (usize, &usize)| {
            let (message, behind) = rest.split_at(*count);
            rest = behind;
            self.checked(rank, message).map(<[u8]>::to_vec)
        };
        counts.iter().enumerate().map(one).collect()
    }

    /// The bytes behind the header of a message, which must be that of the same collective.
    fn checked<'m>(&self, rank: usize, message: &'m [u8]) -> Result<&'m [u8], Error> {
        let (found, rest) = message.split_at(HEADER);
        if found == header(self.number, &self.request) {
            return Ok(rest);
        }
        let words: Vec<u64> = found.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let message = format!(
            "rank {rank} is at collective number {} of {} bytes, and rank {} at number {}, {} of {} bytes",
            words[0],
            words[3],
            self.communicator.rank(),
            self.number,
            self.request.collective,
            self.request.bytes,
        );
        Err(Error::new(self.request.collective.kind.name(), message)
            .help("every rank must run the same program: what it computes may not depend on the rank"))
    }
}

/// Row-major `[rows, columns]` with parts of equal size as elements, transposed.
fn transposed(bytes: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    let parts = rows * columns;
    if rows <= 1 || columns <= 1 || bytes.is_empty() {
        return bytes.to_vec();
    }
    let each = bytes.len() / parts;
    let part = |place: usize| &bytes[place * each..(place + 1) * each];
    (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column)).flat_map(part).copied().collect()
}
