//! From graphs to programs, and how these run. One program, since each costs a linking.

// Files include the judges that they need, so that each can also be a program of its own.
#![allow(clippy::duplicate_mod)]

#[cfg(feature = "cuda")]
mod cuda;
mod draws;
mod hostile;
mod integrity;
mod joint_planning;
mod kernels;
mod layouts;
mod matrix_vector;
#[cfg(feature = "cuda")]
mod nccl;
mod pooled;
mod programs;
mod random_graphs;
mod scan;
mod single_operations;
mod update;
mod verifier;
