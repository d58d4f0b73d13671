//! The studio of one page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::images::Images;
use glassgrad_studio::train::{Slices, Watcher};
use glassgrad_studio::{Answer, Cancel, Limits, Reply, Route, Studio, Unrouted};

/// The memory of all runs, about: a module has 4 GB of addresses, and a browser gives it less.
const MOST_BYTES: usize = 512 << 20;
/// A run that the page does not show is deleted after this time, as on the server.
const LINGER: Duration = Duration::from_secs(30);

/// The receiver of messages.
pub trait Page {
    /// An answer to a request, by its number.
    fn respond(&mut self, request: u32, answer: &Answer);

    /// A message about a run to a watcher, by its number.
    fn publish(&mut self, watcher: u32, message: &str);
}

/// Answers that wait to be sent: a run replies in the middle of its step.
type Outbox = Arc<Mutex<Vec<(u32, Answer)>>>;

/// A studio on one thread.
pub struct Worker {
    studio: Arc<Studio>,
    slices: Slices,
    outbox: Outbox,
    watchers: BTreeMap<u32, Watcher>,
    images: Images,
}

impl Default for Worker {
    fn default() -> Worker {
        let slices = Slices::default();
        let limits = Limits { bytes: MOST_BYTES, linger: LINGER };
        let images = Images::default();
        let studio = Studio::new(Box::new(images.clone()), slices.spawn(), limits);
        Worker { studio, slices, outbox: Outbox::default(), watchers: BTreeMap::new(), images }
    }
}

impl Worker {
    /// The images that the page fetches for it.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Answers a request, now or after a step of a run.
    pub fn request(&mut self, number: u32, method: &str, path: &str, body: &[u8], page: &mut dyn Page) {
        let outbox = Arc::clone(&self.outbox);
        let reply = Reply::new(move |answer| {
            outbox.lock().unwrap_or_else(PoisonError::into_inner).push((number, answer));
        });
        match Route::find(method, path) {
            Ok(route) => self.studio.answer(route, body, &Cancel::default(), reply),
            Err(Unrouted::Path) => reply.send(Answer::error(404, format!("there is no request {path}"))),
            Err(Unrouted::Method) => reply.send(Answer::error(405, format!("{path} is not for {method}"))),
        }
        self.flush(page);
    }

    /// Begins to publish the updates of a run to a watcher; false if there is no such run.
    pub fn watch(&mut self, number: u32, run: u64, page: &mut dyn Page) -> bool {
        let Some(watcher) = self.studio.watch(run) else { return false };
        self.watchers.insert(number, watcher);
        self.flush(page);
        true
    }

    /// Ends the updates to a watcher.
    pub fn unwatch(&mut self, number: u32) {
        self.watchers.remove(&number);
    }

    /// Advances all runs by a slice of time each, and publishes what is new. Returns the time until a run has something to do;
    /// `None` if only a request can wake one.
    pub fn advance(&mut self, slice: Duration, page: &mut dyn Page) -> Option<Duration> {
        self.studio.collect_garbage();
        self.slices.advance(slice);
        self.flush(page);
        self.slices.until_due()
    }

    fn flush(&mut self, page: &mut dyn Page) {
        let answers = std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, answer) in &answers {
            page.respond(*number, answer);
        }
        self.watchers.retain(|number, watcher| {
            for message in watcher.messages() {
                page.publish(*number, &message);
            }
            !watcher.is_closed()
        });
    }
}
