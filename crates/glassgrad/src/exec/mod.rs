//! Executors: what runs programs, on processors and GPUs.
//!
//! A program is lowered for the capabilities of a [`Target`], and an executor derives a plan from it, which is launched. A
//! [`Context`](crate::runtime::Context) says where programs run. Executors are the crate `glassgrad-exec`, which knows no graph and no derivative.

#[cfg(all(test, feature = "cuda"))]
mod tests;

#[doc(hidden)]
pub use glassgrad_exec::reference::with_rounding_noise;
pub(crate) use glassgrad_exec::{Executable, Executor, Input, Output, Results, Timed, cpu, host, reference};
#[cfg(feature = "cuda")]
#[doc(inline)]
pub use glassgrad_exec::{Gpu, NcclCommunicator, gpus};
#[doc(inline)]
pub use glassgrad_exec::{Isa, MatmulPrecision, Target, accuracy, footprint, threads, with_isa, with_threads};
