//! Compressed Jacobians and Hessians against dense ones by nested automatic differentiation, with the structure and the
//! bytes that must be found.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/tensors.rs"]
mod tensors;

#[path = "calculus/check.rs"]
mod check;
#[path = "calculus/expressions.rs"]
mod expressions;
#[path = "calculus/gathers.rs"]
mod gathers;
#[path = "calculus/hostile.rs"]
mod hostile;
#[path = "calculus/large.rs"]
mod large;
#[path = "calculus/networks.rs"]
mod networks;
#[path = "calculus/problems.rs"]
mod problems;

/// Roundings that two ways of computing the same derivative may differ by.
const ROUNDINGS: f64 = 4096.0;
