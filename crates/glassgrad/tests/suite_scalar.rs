//! The table of operations and the scalar engines. One program, since each costs a linking.

// Files include the judges that they need, so that each can also be a program of its own.
#![allow(clippy::duplicate_mod)]

#[cfg(feature = "jit")]
mod compiled_tapes;
// The file has the judge of golden numbers as a module of the same name.
#[allow(clippy::module_inception)]
mod golden;
mod more_garbow_hillstrom;
mod nist;
mod seeds;
mod sparse_derivatives;
mod table;
