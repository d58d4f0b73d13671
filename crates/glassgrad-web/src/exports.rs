//! The interface of the module for JavaScript: numbers, and ranges of its memory.
//!
//! JavaScript writes a request at the address that [`buffer`] returns, and calls [`request`]; the module calls the imports of `host`
//! with the addresses of answers, which are copied before they return.

#![allow(unsafe_code, reason = "the names of exports must be unique among all crates, which the compiler cannot check")]

use std::cell::RefCell;
use std::time::Duration;

use glassgrad_studio::Answer;

use crate::worker::{Page, Worker};

#[link(wasm_import_module = "host")]
// SAFETY: `worker.js` defines these functions with numbers as arguments, and they write no memory.
unsafe extern "C" {
    /// Milliseconds of a monotonic clock.
    safe fn now() -> f64;
    safe fn respond(
        request: u32,
        status: u32,
        kind: *const u8,
        kind_length: usize,
        file: *const u8,
        file_length: usize,
        body: *const u8,
        body_length: usize,
    );
    safe fn publish(watcher: u32, message: *const u8, length: usize);
    /// Reports a panic, after which the module is not called again.
    safe fn panicked(message: *const u8, length: usize);
}

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::default());
    /// The request that JavaScript writes.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The page behind the imports.
struct Host;

impl Page for Host {
    fn respond(&mut self, request: u32, answer: &Answer) {
        let Answer { status, kind, file, body } = answer;
        let file = file.as_deref().unwrap_or_default();
        let status = u32::from(*status);
        respond(request, status, kind.as_ptr(), kind.len(), file.as_ptr(), file.len(), body.as_ptr(), body.len());
    }

    fn publish(&mut self, watcher: u32, message: &str) {
        publish(watcher, message.as_ptr(), message.len());
    }
}

/// Prepares the module; called once, before anything else.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn start() {
    glassgrad::clock::provide(|| Duration::from_secs_f64(now() / 1e3));
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.to_string();
        panicked(message.as_ptr(), message.len());
    }));
}

/// The address at which a request of this length is written.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn buffer(length: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(length, 0);
        buffer.as_mut_ptr()
    })
}

/// Answers the request in the buffer: a method, a space and a path, which end at `head`, then the body.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn request(number: u32, head: usize) {
    let bytes = BUFFER.take();
    let (head, body) = bytes.split_at(head.min(bytes.len()));
    let head = String::from_utf8_lossy(head);
    let (method, path) = head.split_once(' ').unwrap_or((&head, ""));
    WORKER.with_borrow_mut(|worker| worker.request(number, method, path, body, &mut Host));
}

/// The site has a file of images, which is being fetched.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn expect_images() {
    WORKER.with_borrow(|worker| worker.images().expect());
}

/// The file of images in the buffer; 0 if it is not whole.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn provide_images() -> u32 {
    let bytes = BUFFER.take();
    WORKER.with_borrow(|worker| worker.images().provide(&bytes)).is_ok().into()
}

/// Begins to publish the updates of a run; 0 if there is no such run.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn watch(number: u32, run: u32) -> u32 {
    WORKER.with_borrow_mut(|worker| worker.watch(number, u64::from(run), &mut Host)).into()
}

/// Ends the updates to a watcher.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn unwatch(number: u32) {
    WORKER.with_borrow_mut(|worker| worker.unwatch(number));
}

/// Advances all runs by this many milliseconds each; returns those until there is something to do, or -1 if only a request
/// can change that.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn advance(slice: f64) -> f64 {
    let slice = Duration::from_secs_f64(slice.clamp(0.0, 1e3) / 1e3);
    let due = WORKER.with_borrow_mut(|worker| worker.advance(slice, &mut Host));
    due.map_or(-1.0, |due| due.as_secs_f64() * 1e3)
}
