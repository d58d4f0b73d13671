//! Answers to questions about expressions, as JSON.

pub(crate) mod compare;
pub(crate) mod explore;
pub(crate) mod matrix;
pub(crate) mod paths;
pub(crate) mod plot;
