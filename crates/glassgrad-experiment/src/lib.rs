//! Experiments of the program `glassgrad` and its studio: data, networks and recipes by name, run and seen.
//!
//! The crate knows no terminal, no server and no thread: the program, the studio's server and a browser are its hosts. With the
//! feature `cli` settings are arguments of a command line too.
//!
//! [`settings`] says what an experiment is, [`options`] its command-line options, [`datasets`] the named datasets; [`task`] is
//! what is learnt, [`network`] what learns it, [`objective`] what for, [`recipe`] how; [`study`] runs it and keeps a
//! [`history`]. [`sources`] are the data; [`chart`] draws, and [`report`] makes pages. What reports and the studio show of it is computed here too: [`predictions`], [`plane`],
//! [`units`], [`update`], [`graph`].

#![allow(missing_docs, reason = "an interface between crates of this workspace, not for others")]

pub mod baseline;
pub mod chart;
pub mod choices;
pub mod command;
pub mod counts;
pub mod datasets;
pub mod failure;
pub mod graph;
pub mod history;
pub mod limits;
pub mod memory;
pub mod model;
pub mod network;
pub mod ngram;
pub mod objective;
pub mod options;
pub mod plane;
pub mod predictions;
pub mod recipe;
pub mod report;
pub mod samples;
mod scalar;
pub mod search;
pub mod settings;
pub mod sources;
pub mod study;
pub mod task;
mod text;
pub mod units;
pub mod update;
