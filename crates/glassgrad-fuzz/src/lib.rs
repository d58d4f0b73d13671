//! A differential fuzzer for Glassgrad.
//!
//! A [`generator`](generator::Generator) makes a test case from a seed and puts it before its oracles: independent ways to
//! compute the same thing, which must agree. A case that fails is reduced to a minimal one and reported with the seed, so
//! that it can be reproduced and kept in `corpus/`.
//!
//! The folder `fuzz/` at the root of the repository is something else: coverage-guided `cargo-fuzz` targets for the
//! parsers, on arbitrary bytes. This crate makes well-formed computations, and needs no nightly toolchain.

pub mod counters;
pub mod emitted;
pub mod generator;
pub mod programs;
pub mod random;
pub mod runner;
pub mod structured;
pub mod tapes;
