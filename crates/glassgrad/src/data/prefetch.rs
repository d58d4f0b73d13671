//! Prefetching of batches.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::batches::{Batches, Position};
use super::dataset::Dataset;
use crate::error::Error;

/// An endless sequence of batches from a position on, loaded by a thread of their own; where a target has no threads, when they are
/// asked for. It ends after an error.
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
pub struct Prefetch<B>(Source<B>);

/// A batch with its position, or why there is none.
type Loaded<B> = Result<(Position, B), Error>;

enum Source<B> {
    Thread { batches: Option<Receiver<Loaded<B>>>, loader: Option<JoinHandle<()>> },
    OnDemand(Box<dyn FnMut() -> Option<Loaded<B>> + Send>),
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
        let (mut position, mut order, mut is_over) = (start, None, false);
        let mut load = move || {
            if is_over {
                return None;
            }
            let batch = if position.batch >= batches.count(&dataset) {
                batches.at(&dataset, position)
            } else {
                // One order serves all batches of an epoch.
                let order = match &mut order {
                    Some((epoch, order)) if *epoch == position.epoch => order,
                    other => &mut other.insert((position.epoch, batches.order(dataset.len(), position.epoch))).1,
                };
                dataset.batch(&order[batches.places(order.len(), position)])
            };
            is_over = batch.is_err();
            let loaded = batch.map(|batch| (position, batch));
            position = batches.after(&dataset, position);
            Some(loaded)
        };
        if cfg!(target_family = "wasm") {
            return Prefetch(Source::OnDemand(Box::new(load)));
        }
        let (sender, receiver) = sync_channel(waiting.max(1));
        let send_all = move || {
            // The receiver may have been dropped.
            while let Some(loaded) = load()
                && sender.send(loaded).is_ok()
            {}
        };
        Prefetch(Source::Thread { batches: Some(receiver), loader: Some(std::thread::spawn(send_all)) })
    }
}

impl<B> Iterator for Prefetch<B> {
    type Item = Result<(Position, B), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Thread { batches, .. } => batches.as_ref()?.recv().ok(),
            Source::OnDemand(load) => load(),
        }
    }
}

impl<B> Drop for Prefetch<B> {
    /// Joins the thread, which ends as soon as the receiver is dropped.
    fn drop(&mut self) {
        let Source::Thread { batches, loader } = &mut self.0 else { return };
        drop(batches.take());
        if let Some(loader) = loader.take() {
            // A panic in the user's dataset was reported where it happened.
            let _ = loader.join();
        }
    }
}
