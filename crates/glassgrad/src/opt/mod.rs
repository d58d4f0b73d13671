//! From graph to program: passes over a graph as a list, and planning.

pub mod contract;
mod extract;
mod fingerprint;
pub mod graph;
mod in_place;
pub mod lower;
pub mod memory;
pub mod passes;
pub mod program;
pub mod revolve;
mod sweep;
mod verify;

pub(crate) use extract::{Extract, Leaf};
pub(crate) use in_place::in_place;
pub use verify::Violation;
