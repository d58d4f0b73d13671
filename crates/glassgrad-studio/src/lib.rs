//! The studio without a server: it answers requests, runs experiments and publishes live views. Its hosts carry the messages:
//! `glassgrad studio` over HTTP and web sockets, the static site between a page and its worker.
//!
//! - [`Studio`] answers requests, which [`Route`] finds by method and path;
//! - `api/` answers questions about expressions, with the results of the library;
//! - `train/` runs experiments: a run is a future, which a host drives on a thread of its own or in slices of time
//!   ([`train::Job`], [`train::Slices`]);
//! - `views/` are live views of a run, `inside/` inspections of a network, `encode` the numbers of both as bytes;
//! - `tour` holds lessons with exercises, `gallery` examples with a `thumbnail` each, `glossary` the terms of the documentation, [`assets`] the files of the page, which are in the folder
//!   `page/` of this package.
//!
//! The page computes no derivative and no prediction: it draws answers. [`problem`], [`comparison`] and [`derivation`] are shared with
//! the commands of the program.

#![allow(missing_docs, reason = "an interface between crates of this workspace, not for others")]

mod answer;
mod api;
pub mod assets;
pub mod comparison;
pub mod derivation;
mod encode;
mod gallery;
mod glossary;
mod inside;
pub mod problem;
mod route;
mod studio;
mod thumbnail;
mod tour;
pub mod train;
mod views;

// Experiments under the names that modules use.
use glassgrad_experiment::{self as experiment, chart, failure, report};

pub use answer::{Answer, Cancel, Reply};
pub use route::{Body, Route, Unrouted};
pub use studio::{Limits, Studio};
