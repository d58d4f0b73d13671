//! The runtime: what is computed when a value is read, in which context, by which plan.
//!
//! - `schedule` captures what has to be computed, keeps values with live handles, and releases inputs;
//! - `context` owns the executor and the cache of plans, `budget` the memory budget of a gradient;
//! - `read` holds the methods of [`Tensor`](crate::expr::Tensor) that return values, `graph_eval` those of graphs, and
//!   `eval_all` evaluates every node for inspection.

mod budget;
mod context;
mod definitions;
mod eval_all;
mod graph_eval;
mod read;
mod schedule;

pub(crate) use budget::{MemoryBudget, Strategy};
pub use context::{Context, programs_planned};
pub(crate) use context::{executable_for, planned, prepare, take_budget, target, with_budget};
pub(crate) use eval_all::{ValueKey, every_value, value_of};
pub(crate) use schedule::{
    capture, capture_function, evaluate, evaluate_by_reference, known, program, reaches_variable,
};
