//! Operations on tensors, their transforms and their errors. One program, since each costs a linking.

// Files include the judges that they need, so that each can also be a program of its own.
#![allow(clippy::duplicate_mod)]

mod array_operations;
mod attention;
mod coming_from;
mod composed_operations;
mod contract;
mod control;
mod convolution;
mod custom;
mod error_messages;
mod first_programs;
mod golden_operations;
mod linalg;
mod not_supported;
mod promotion;
mod solve_soundness;
mod soundness;
mod sparse;
mod storage_types;
mod strict;
mod tensor_errors;
mod tensor_operations;
mod tensor_transforms;
mod tree;
