//! The studio in a browser, without a server: a WebAssembly module that a web worker runs.
//!
//! [`Worker`] answers the requests of the page and advances its runs in slices of time, with the messages of the server. `exports`
//! is its interface for JavaScript, bytes in and bytes out, which `site/js/worker.js` uses; it needs no generated glue.

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod exports;
mod images;
mod worker;

pub use images::Images;
pub use worker::{Page, Worker};
