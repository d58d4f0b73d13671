//! The tensor graph: lazy, define-by-run, immutable.
//!
//! A [`Tensor`] is a handle onto a node; ordinary Rust control flow makes the graph. There are four
//! kinds of operation: pointwise ([`Op::Map`], rows of the table and formulas of them), multilinear
//! ([`Op::Einsum`], the only multiplication), linear with a named transpose (add, cast, reshape, reading
//! by a view and spreading, concatenate, gather and scatter-add), and flat (comparisons, places, rounding).
//! Choice and the largest element have rules of their own. Everything else is composed from these.
//!
//! - `node` is the graph itself: nodes, handles, and how they go;
//! - `build` makes checked nodes, and failed ones where a check does not pass; `promote` gives operands one element type;
//! - `provenance` records the primal node that each derived node came from, `display` writes operations as text;
//! - `axes` and `sizes` are arguments, `create` makes leaves, `random` draws numbers, `collective` communicates among shards, `custom` the user's own operations, `operators` the operators of
//!   Rust, `index` slices, `compose` the rest;
//! - `subgraph` holds parts of a graph as functions, and the operations with several outputs that contain one: loops,
//!   rematerialised regions and reverse sweeps.

mod axes;
mod build;
mod collective;
mod compose;
mod create;
mod custom;
mod display;
mod index;
mod memo;
mod node;
mod operators;
mod promote;
mod provenance;
mod random;
mod sizes;
mod subgraph;
mod walk;

pub use axes::{Axes, Axis};
pub(crate) use build::references;
pub use create::{IntoTensor, LiteralElement, Number};
pub(crate) use custom::value_by_parts;
pub use custom::{Custom, CustomOp, FormulaFunction, PullbackFunction, PushforwardFunction, Rule};
pub(crate) use display::{Product, single_row};
#[doc(hidden)]
pub use glassgrad_exec::host::{Elements, ElementsMut, Operand};
#[doc(inline)]
pub use glassgrad_exec::program::{AttentionKernel, Cumulation, CumulativeKernel, Distribution, FusedKernel, Logic};
pub use index::{Index, s};
pub(crate) use memo::{Partial, Request, partial, product, product_from};
pub(crate) use node::Inputs;
pub(crate) use node::Node;
pub use node::{Op, Tensor};
pub use provenance::Pass;
pub(crate) use provenance::ProvenanceScope;
pub use random::Keys;
pub use sizes::{Size, Sizes};
pub(crate) use subgraph::MultiNode;
pub use subgraph::{MultiOp, Region, RegionKind, Scan, Subgraph, Sweep};
pub(crate) use walk::{nodes_behind, sort_by_creation, with_inputs};
