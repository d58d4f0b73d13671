//! Experiments: data, networks and recipes by name, run and seen.
//!
//! [`settings`] says what an experiment is, [`options`] its command-line options, [`datasets`] the named datasets; [`task`] is
//! what is learnt, [`network`] what learns it, [`objective`] what for, [`recipe`] how; [`study`] runs it and keeps a
//! [`history`]; [`folder`] is where it lies. What reports and the studio show of it is computed here too: [`predictions`], [`plane`],
//! [`units`], [`update`], [`graph`].

pub(crate) mod baseline;
pub(crate) mod choices;
pub(crate) mod command;
pub(crate) mod datasets;
pub(crate) mod folder;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod limits;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod ngram;
pub(crate) mod objective;
pub(crate) mod options;
pub(crate) mod plane;
pub(crate) mod predictions;
pub(crate) mod recipe;
pub(crate) mod samples;
mod scalar;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod study;
pub(crate) mod task;
mod text;
pub(crate) mod units;
pub(crate) mod update;
