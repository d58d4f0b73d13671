//! The glass box of tensors: what a graph computes, why a derivative is what it is, and what is wrong with it.
//!
//! - [`Graph`] shows a graph as text, DOT, SVG and JSON, with values and gradients on every node;
//! - [`audit`] reports for each parameter whether a loss reaches it, and if not, which operation at which line
//!   is the reason; [`independent`] lists the outputs and inputs of any function that have nothing to do with
//!   each other;
//! - [`explain_non_finite`] finds where a NaN or an infinity began, in a value, a gradient or a second
//!   derivative, how it came to the output, and a repair that has been tried; [`Tensor::eval_checked`] is a
//!   read that fails with that explanation.
//!
//! All of it inspects a graph from outside: a computation that is not inspected pays nothing for it.
//!
//! [`Tensor::eval_checked`]: crate::expr::Tensor::eval_checked

mod audit;
mod collapse;
mod graph;
mod labels;
mod provenance;
mod repair;
mod scope;
mod search;
mod summary;

pub use audit::{Audit, Cut, Finding, Verdict, Warning, audit, independent};
pub use graph::{Graph, Shown};
pub(crate) use labels::Labels;
pub use provenance::{Carrier, DerivativeOrder, NonFinite, Provenance, explain_non_finite, non_finite_in};
pub use repair::Repair;
pub(crate) use scope::Scope;
pub use summary::Summary;

use std::panic::Location;

/// A line of the user's source, as explanations name it.
fn place(origin: &Location<'_>) -> String {
    format!("{}:{}:{}", origin.file(), origin.line(), origin.column())
}

/// An index into an array, as explanations name it; a single number has none.
fn index_text(index: &[usize]) -> String {
    format!("[{}]", index.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}
