//! Prefetching of batches.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::batches::{Batches, Position};
use super::dataset::Dataset;
use crate::error::Error;

/// An endless sequence of batches from a position on, loaded by a thread of their own. It ends after an error.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, data::{Batches, Examples, Position, Prefetch}, rng::Key};
/// let examples = Arc::new(Examples::new(Tensor::arange(10.0)).unwrap());
/// let batches = Batches::new(5, Key::new(1));
/// let mut ahead = Prefetch::new(Arc::clone(&examples), batches, Position::default(), 2);
/// let (position, batch) = ahead.nth(3).unwrap().unwrap();
/// assert_eq!(position, Position { epoch: 1, batch: 1 });
/// assert_eq!(batch.to_string(), batches.at(&*examples, position).unwrap().to_string());
/// ```
pub struct Prefetch<B> {
    batches: Option<Receiver<Result<(Position, B), Error>>>,
    maker: Option<JoinHandle<()>>,
}

impl<B: Send + 'static> Prefetch<B> {
    /// The capacity of the queue.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, data::{Batches, Examples, Position, Prefetch}, rng::Key};
    /// let none = Arc::new(Examples::new(Tensor::zeros([0])).unwrap());
    /// assert!(Prefetch::new(none, Batches::new(5, Key::new(1)), Position::default(), 2).next().unwrap().is_err());
    /// ```
    pub fn new<D: Dataset<Batch = B> + 'static>(
        dataset: Arc<D>,
        batches: Batches,
        start: Position,
        waiting: usize,
    ) -> Prefetch<B> {
        let (sender, receiver) = sync_channel(waiting.max(1));
        let make = move || {
            let (mut position, mut order) = (start, None);
            loop {
                let batch = if position.batch >= batches.count(&dataset) {
                    batches.at(&dataset, position)
                } else {
                    // One order serves all batches of an epoch.
                    let order = match &mut order {
                        Some((epoch, order)) if *epoch == position.epoch => order,
                        other => &mut other.insert((position.epoch, batches.order(dataset.len(), position.epoch))).1,
                    };
                    let begin = position.batch as usize * batches.size();
                    dataset.batch(&order[begin..(begin + batches.size()).min(order.len())])
                };
                let is_over = batch.is_err();
                // The receiver may have been dropped.
                if sender.send(batch.map(|batch| (position, batch))).is_err() || is_over {
                    return;
                }
                position = batches.after(&dataset, position);
            }
        };
        Prefetch { batches: Some(receiver), maker: Some(std::thread::spawn(make)) }
    }
}

impl<B> Iterator for Prefetch<B> {
    type Item = Result<(Position, B), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.as_ref()?.recv().ok()
    }
}

impl<B> Drop for Prefetch<B> {
    /// Joins the thread, which ends as soon as the receiver is dropped.
    fn drop(&mut self) {
        drop(self.batches.take());
        if let Some(maker) = self.maker.take() {
            // A panic in the user's dataset was reported where it happened.
            let _ = maker.join();
        }
    }
}
