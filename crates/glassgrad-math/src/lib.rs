//! The mathematics of [glassgrad](https://docs.rs/glassgrad), which re-exports all of it: no graph, no device.
//!
//! It is a crate of its own so that the compiler enforces the lowest layer: nothing here can refer to a graph, a derivative
//! transform or an executor. Items that are hidden from this documentation are for the crates of this workspace and change
//! without notice.

pub mod algebra;
pub mod array;
pub mod clock;
pub mod dtype;
pub mod einsum;
#[doc(hidden)]
pub mod hashing;
#[doc(hidden)]
pub mod interning;
#[doc(hidden)]
pub mod numbering;
pub mod rng;
pub mod shape;
#[doc(hidden)]
pub mod sorting;
#[doc(hidden)]
pub mod special;
pub mod view;

pub mod ops;

pub mod formula;

pub mod error;
