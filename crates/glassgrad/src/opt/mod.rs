//! From graph to program: passes over a graph as a list, and planning.

mod capabilities;
mod capture;
pub mod contract;
pub mod graph;
mod in_place;
pub mod lower;
pub mod memory;
pub mod passes;
pub mod program;
pub mod revolve;
mod structural_hash;
mod verify;

pub use capabilities::{Capabilities, EpilogueLimits};
pub(crate) use capture::{Capture, Leaf};
pub(crate) use in_place::in_place;
pub use verify::Violation;
