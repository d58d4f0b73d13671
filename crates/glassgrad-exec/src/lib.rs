//! Programs and executors of [glassgrad](https://docs.rs/glassgrad), which re-exports what users need of them.
//!
//! A [`program`] is a list of steps over memory: fused loops, contractions, calls, loops of programs. It refers to no graph and no
//! tensor; [`verify`] checks everything that executors rely on. An executor ([`Executor`]) states its [`Capabilities`], which
//! lowering respects, derives plans from programs, and owns the memory of its device. To add one: a folder here, and a row
//! in [`Target`]. [`collective`] is the communication among the shards of a batch.
//!
//! It is a crate of its own so that the compiler enforces this layer: nothing here can refer to a graph, a derivative or a transform.
//! Items are for the crates of this workspace and change without notice, but for those that `glassgrad` re-exports.

pub(crate) use glassgrad_math::{algebra, array, clock, dtype, error, interning, ops, rng, shape, sorting, view};

pub mod capabilities;
pub mod collective;
pub mod memory;
pub mod program;
pub mod revolve;
pub mod verify;

mod executor;
pub mod host;

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod reference;

pub use capabilities::{Capabilities, EpilogueLimits};
pub use cpu::footprint;
pub use cpu::{Isa, accuracy, threads, with_isa, with_threads};
#[cfg(feature = "cuda")]
pub use cuda::{Gpu, NcclCommunicator, gpus};
pub use executor::{
    Executable, Executor, Input, MatmulPrecision, Output, Results, Target, Timed, Times, bind_result, check_bindings,
};
pub use verify::Violation;
