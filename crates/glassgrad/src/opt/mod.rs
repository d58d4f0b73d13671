//! From graph to program: passes over a graph as a list, and planning.

mod capture;
pub mod contract;
pub mod graph;
mod in_place;
pub mod lower;
pub mod passes;
mod structural_hash;

pub(crate) use capture::{Capture, Leaf};
pub use glassgrad_exec::{Capabilities, EpilogueLimits, Violation, memory, program, revolve};
pub(crate) use in_place::in_place;
