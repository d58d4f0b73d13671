//! Broadcast of a run to its watchers: the latest message of each kind.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use glassgrad::clock::Instant;
use serde_json::{Value, json};

/// A serialized message, shared by all watchers.
pub type Message = Arc<str>;

/// The latest message of each kind. A slow watcher skips superseded messages; nothing is queued.
pub(crate) struct Broadcast {
    posted: Mutex<Posts>,
    watchers: AtomicUsize,
    /// Whether the run is training.
    running: AtomicBool,
    /// Whether the run was freed.
    closed: AtomicBool,
    /// The time of the last request.
    touched: Mutex<Instant>,
}

/// The messages, with the number of the latest.
#[derive(Default)]
struct Posts {
    messages: Vec<Posted>,
    version: u64,
    /// Watchers that wait for the next message.
    wakers: Vec<Waker>,
}

struct Posted {
    kind: &'static str,
    version: u64,
    message: Message,
}

impl Broadcast {
    pub(super) fn new() -> Broadcast {
        Broadcast {
            posted: Mutex::default(),
            watchers: AtomicUsize::new(0),
            running: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            touched: Mutex::new(Instant::now()),
        }
    }

    fn posted(&self) -> MutexGuard<'_, Posts> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a message, which replaces the one of its kind.
    pub(super) fn post(&self, kind: &'static str, data: &Value) {
        let message: Message = json!({ "kind": kind, "data": data }).to_string().into();
        let wakers = {
            let mut posted = self.posted();
            posted.version += 1;
            let version = posted.version;
            match posted.messages.iter_mut().find(|one| one.kind == kind) {
                Some(one) => (one.version, one.message) = (version, message),
                None => posted.messages.push(Posted { kind, version, message }),
            }
            std::mem::take(&mut posted.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The messages since a version, and the current version.
    pub(super) fn since(&self, version: u64) -> (u64, Vec<Message>) {
        let posted = self.posted();
        let newer = posted.messages.iter().filter(|one| one.version > version);
        (posted.version, newer.map(|one| Arc::clone(&one.message)).collect())
    }

    /// All there is, by kind.
    pub(crate) fn all(&self) -> Value {
        let posted = self.posted();
        Value::Object(posted.messages.iter().map(|one| (one.kind.to_owned(), data_of(&one.message))).collect())
    }

    /// The latest message of one kind.
    pub(super) fn one(&self, kind: &str) -> Value {
        let posted = self.posted();
        posted.messages.iter().find(|one| one.kind == kind).map_or(Value::Null, |one| data_of(&one.message))
    }

    pub(super) fn set_running(&self, running: bool) {
        self.running.store(running, Ordering::Relaxed);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// Notifies all watchers that the run was freed.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.post("freed", &Value::Null);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    pub(super) fn touch(&self) {
        *self.touched.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The time of the last activity; now, if there are watchers.
    pub(super) fn touched(&self) -> Instant {
        match self.is_watched() {
            true => Instant::now(),
            false => *self.touched.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn data_of(message: &str) -> Value {
    serde_json::from_str(message).map_or(Value::Null, |mut message: Value| message["data"].take())
}

/// A subscription to the messages of a run, until it is dropped.
pub struct Watcher {
    broadcast: Arc<Broadcast>,
    /// The number of the latest message that it got.
    version: u64,
}

impl Watcher {
    pub(crate) fn new(broadcast: Arc<Broadcast>) -> Watcher {
        broadcast.watchers.fetch_add(1, Ordering::Relaxed);
        Watcher { broadcast, version: 0 }
    }

    /// The messages since the last call, the latest of each kind.
    pub fn messages(&mut self) -> Vec<Message> {
        let (version, messages) = self.broadcast.since(self.version);
        self.version = version;
        messages
    }

    /// Waits until there is a message.
    pub async fn changed(&self) {
        poll_fn(|context| {
            let mut posted = self.broadcast.posted();
            if posted.version > self.version {
                return Poll::Ready(());
            }
            if !posted.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                posted.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Whether the run was deleted, so that no message follows.
    pub fn is_closed(&self) -> bool {
        self.broadcast.is_closed()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.broadcast.touch();
        self.broadcast.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_is_kept() {
        let broadcast = Arc::new(Broadcast::new());
        for step in 0..1000 {
            broadcast.post("state", &json!({ "step": step }));
        }
        broadcast.post("curves", &json!([1]));
        let (version, messages) = broadcast.since(0);
        assert_eq!(messages.len(), 2);
        assert_eq!(broadcast.all(), json!({ "state": { "step": 999 }, "curves": [1] }));
        assert!(broadcast.since(version).1.is_empty());
        broadcast.post("state", &json!({}));
        assert_eq!(broadcast.since(version).1.len(), 1);
        let watcher = Watcher::new(Arc::clone(&broadcast));
        assert!(broadcast.is_watched());
        drop(watcher);
        assert!(!broadcast.is_watched());
    }
}
