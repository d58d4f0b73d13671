//! Networks that learn in the studio.
//!
//! - `request` turns a request into an experiment, within limits;
//! - `runner` is one run, a future: it takes steps, executes commands, and updates views within its time budget;
//! - `inbox` brings it commands, and says what it waits for; [`Job`] is a run that a host drives on a thread, [`Slices`] drives
//!   several in turns;
//! - `broadcast` holds the latest message of each kind for the pages that watch a run;
//! - `registry` holds all runs, and deletes those that no page shows;
//! - `curve` keeps a curve of any length in a few hundred points;
//! - `curves` puts the curves of several runs beside each other;
//! - `inspect` answers questions about a network, `files` are what can be saved of it.

mod broadcast;
mod curve;
pub(crate) mod curves;
pub(crate) mod files;
mod inbox;
pub(crate) mod inspect;
mod job;
pub(crate) mod registry;
pub(crate) mod request;
mod runner;
mod slices;

pub use broadcast::{Message, Watcher};
pub use job::{Job, Spawn};
pub(crate) use runner::{Command, Snapshot};
pub use slices::Slices;
