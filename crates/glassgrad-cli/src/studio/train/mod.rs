//! Networks that learn in the studio.
//!
//! - `request` turns a request into an experiment, within limits;
//! - `runner` is the thread of one run: it takes steps, executes commands, and updates views within its time budget;
//! - `broadcast` holds the latest message of each kind for the pages that watch a run;
//! - `registry` holds all runs, and deletes those that no page shows;
//! - `curve` keeps a curve of any length in a few hundred points;
//! - `handlers` and `stream` answer requests.

mod broadcast;
mod curve;
mod handlers;
mod inspect;
mod registry;
mod request;
mod runner;
mod stream;

pub(super) use handlers::routes;
pub(super) use registry::Registry;
