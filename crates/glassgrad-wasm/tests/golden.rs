//! The golden cases of operations by JAX and PyTorch, in whatever target this is compiled for.

#[path = "../../glassgrad/tests/golden_operations.rs"]
mod golden_operations;
