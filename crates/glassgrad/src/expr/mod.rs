//! The tensor graph: lazy, define-by-run, immutable.
//!
//! A [`Tensor`] is a handle onto a node; ordinary Rust control flow makes the graph. There are four
//! kinds of operation: pointwise ([`Op::Map`], rows of the table and formulas of them), multilinear
//! ([`Op::Einsum`], the only multiplication), linear with a named transpose (add, cast, reshape, reading
//! by a view and spreading, concatenate, gather and scatter-add), and flat (comparisons, places, rounding).
//! Choice and the largest element have rules of their own. Everything else is composed from these.
//!
//! - `node` is the graph itself: nodes, handles, and how they go;
//! - `build` makes checked nodes, and failed ones where a check does not pass;
//! - `behalf` lets what passes make carry the user's lines, `words` says operations in words;
//! - `create` makes leaves, `random` draws numbers, `custom` the user's own operations, `operators` the operators of
//!   Rust, `index` slices, `compose` the rest;
//! - `region` holds parts of a graph that passes treat as one, for they are computed anew.

mod behalf;
mod build;
mod compose;
mod create;
mod custom;
mod index;
mod node;
mod operators;
mod random;
mod region;
mod remember;
mod walk;
mod words;

pub(crate) use behalf::Behalf;
pub use behalf::Pass;
pub use compose::Axes;
pub use create::{IntoTensor, Number};
pub use custom::{Custom, CustomOp, FormulaFunction, PullbackFunction, PushforwardFunction, Rule};
pub use index::{Index, s};
pub(crate) use node::Inputs;
pub(crate) use node::Node;
pub use node::{Logic, Op, ScanBody, Tensor};
pub use random::{Distribution, Keys};
pub use region::{Region, Sweep};
pub(crate) use remember::{Partial, Request, partial, product, product_from};
pub(crate) use walk::{inner_nodes, nodes_behind};
pub(crate) use words::{Product, single_row};
