//! The order in which examples are seen.

use std::ops::Range;

use super::dataset::Dataset;
use crate::error::Error;
use crate::rng::Key;

/// The position of a run in its data.
///
/// ```
/// use glassgrad::data::Position;
/// assert!(Position { epoch: 1, batch: 0 } > Position { epoch: 0, batch: 99 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of finished epochs.
    pub epoch: u64,
    /// The number of batches since then.
    pub batch: u64,
}

/// Batches of a size, in an order that a key and the epoch decide on.
///
/// ```
/// use glassgrad::{Tensor, data::{Batches, Examples, Position}, rng::Key};
/// let examples = Examples::new(Tensor::arange(10.0)).unwrap();
/// let batches = Batches::new(4, Key::new(1));
/// let mut seen = Vec::new();
/// for batch in 0..batches.count(&examples) {
///     seen.extend(batches.at(&examples, Position { epoch: 0, batch }).unwrap().to_vec::<f64>().unwrap());
/// }
/// seen.sort_by(f64::total_cmp);
/// assert_eq!(seen, (0..10).map(f64::from).collect::<Vec<_>>());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batches {
    size: usize,
    key: Key,
    shuffled: bool,
    whole_only: bool,
    /// The shard of each batch that is read, and how many there are.
    shard: (usize, usize),
}

impl Batches {
    /// In random order; the last batch of an epoch may be smaller.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples}, rng::Key};
    /// assert_eq!(Batches::new(4, Key::new(1)).count(&Examples::new(Tensor::zeros([10])).unwrap()), 3);
    /// ```
    pub fn new(size: usize, key: Key) -> Batches {
        Batches { size: size.max(1), key, shuffled: true, whole_only: false, shard: (0, 1) }
    }

    /// In the order of the dataset.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples, Position}, rng::Key};
    /// let examples = Examples::new(Tensor::arange(10.0)).unwrap();
    /// let batch = Batches::new(3, Key::new(1)).in_order().at(&examples, Position::default()).unwrap();
    /// assert_eq!(batch.to_string(), "[0, 1, 2]");
    /// ```
    pub fn in_order(self) -> Batches {
        Batches { shuffled: false, ..self }
    }

    /// Without the batch that would be smaller: one program fits all.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples}, rng::Key};
    /// assert_eq!(Batches::new(4, Key::new(1)).whole_only().count(&Examples::new(Tensor::zeros([10])).unwrap()), 2);
    /// ```
    pub fn whole_only(self) -> Batches {
        Batches { whole_only: true, ..self }
    }

    /// One shard of every batch: its examples are divided evenly, in order, into this many parts, of which the first ones may have
    /// fewer. What another rank reads is not read here.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples, Position}, rng::Key};
    /// let examples = Examples::new(Tensor::arange(10.0)).unwrap();
    /// let batches = Batches::new(6, Key::new(1)).in_order();
    /// let shard = |number| batches.shard(number, 4).at(&examples, Position::default()).unwrap().to_string();
    /// assert_eq!([shard(0), shard(1), shard(3)], ["[0]", "[1, 2]", "[4, 5]"]);
    /// ```
    pub fn shard(self, shard: usize, shards: usize) -> Batches {
        Batches { shard: (shard, shards.max(1)), ..self }
    }

    /// The share of a batch that the shard has: the examples of both.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples, Position}, rng::Key};
    /// let examples = Examples::new(Tensor::arange(10.0)).unwrap();
    /// let batches = Batches::new(6, Key::new(1)).shard(1, 4);
    /// assert_eq!(batches.share(&examples, Position { epoch: 0, batch: 1 }), (1, 4));
    /// ```
    pub fn share<D: Dataset>(&self, dataset: &D, position: Position) -> (usize, usize) {
        let whole = Batches { shard: (0, 1), ..*self };
        (self.places(dataset.len(), position).len(), whole.places(dataset.len(), position).len())
    }

    /// The places of a batch, or of the shard, in the order of an epoch of `count` examples.
    pub(super) fn places(&self, count: usize, position: Position) -> Range<usize> {
        let begin = (position.batch as usize).saturating_mul(self.size).min(count);
        let length = self.size.min(count - begin);
        let (shard, shards) = self.shard;
        begin + length * shard / shards..begin + length * (shard + 1) / shards
    }

    /// Batches per epoch.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples}, rng::Key};
    /// assert_eq!(Batches::new(10, Key::new(1)).count(&Examples::new(Tensor::zeros([10])).unwrap()), 1);
    /// ```
    pub fn count<D: Dataset>(&self, dataset: &D) -> u64 {
        let count = if self.whole_only { dataset.len() / self.size } else { dataset.len().div_ceil(self.size) };
        count as u64
    }

    /// The batch at a position.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples, Position}, rng::Key};
    /// let examples = Examples::new(Tensor::arange(10.0)).unwrap();
    /// assert!(Batches::new(4, Key::new(1)).at(&examples, Position { epoch: 0, batch: 3 }).is_err());
    /// ```
    pub fn at<D: Dataset>(&self, dataset: &D, position: Position) -> Result<D::Batch, Error> {
        let count = self.count(dataset);
        if position.batch >= count {
            let message = format!("there is no batch {} in an epoch of {count}", position.batch);
            return Err(Error::new("batches", message));
        }
        let order = self.order(dataset.len(), position.epoch);
        dataset.batch(&order[self.places(order.len(), position)])
    }

    /// The places of an epoch, one after another.
    pub(super) fn order(&self, count: usize, epoch: u64) -> Vec<usize> {
        if self.shuffled { self.key.fold(epoch).permutation(count) } else { (0..count).collect() }
    }

    /// The position behind another.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples, Position}, rng::Key};
    /// let examples = Examples::new(Tensor::arange(10.0)).unwrap();
    /// let next = Batches::new(5, Key::new(1)).after(&examples, Position { epoch: 2, batch: 1 });
    /// assert_eq!(next, Position { epoch: 3, batch: 0 });
    /// ```
    pub fn after<D: Dataset>(&self, dataset: &D, position: Position) -> Position {
        match position.batch + 1 < self.count(dataset) {
            true => Position { batch: position.batch + 1, ..position },
            false => Position { epoch: position.epoch + 1, batch: 0 },
        }
    }
}
