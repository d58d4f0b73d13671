//! Glassgrad on many machines: the communicator of its ranks by MPI.
//!
//! The feature `mpi` adds `MpiCommunicator` and the bindings of the system's MPI (Open MPI or MPICH), which must be installed with
//! libclang to build; `tools/mpi --install` does so. Without it this crate is empty, so that the workspace builds everywhere.

#[cfg(feature = "mpi")]
mod communicator;

#[cfg(feature = "mpi")]
pub use communicator::MpiCommunicator;
