//! The order in which examples are seen.

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
}

impl Batches {
    /// In random order; the last batch of an epoch may be smaller.
    ///
    /// ```
    /// use glassgrad::{Tensor, data::{Batches, Examples}, rng::Key};
    /// assert_eq!(Batches::new(4, Key::new(1)).count(&Examples::new(Tensor::zeros([10])).unwrap()), 3);
    /// ```
    pub fn new(size: usize, key: Key) -> Batches {
        Batches { size: size.max(1), key, shuffled: true, whole_only: false }
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
        let begin = position.batch as usize * self.size;
        dataset.batch(&order[begin..(begin + self.size).min(order.len())])
    }

    /// The places of an epoch, one after another.
    pub(super) fn order(&self, count: usize, epoch: u64) -> Vec<usize> {
        if self.shuffled { self.key.fold(epoch).permutation(count) } else { (0..count).collect() }
    }

    pub(super) fn size(&self) -> usize {
        self.size
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
