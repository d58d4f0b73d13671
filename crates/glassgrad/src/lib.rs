//! Glassgrad: a see-through automatic-differentiation engine.
//!
//! Every value, every gradient and every dependency of a computation can be asked for and is shown
//! in the user's own names. Functions are written once, generic over [`Real`], and differentiated
//! forwards, in reverse, to any order and nested:
//!
//! ```
//! use glassgrad::Real;
//! use glassgrad::scalar::{derivatives, gradient, hessian};
//!
//! fn f<T: Real>(x: &[T]) -> T {
//!     x[0].ln() + x[0] * x[1] - x[1].sin()
//! }
//!
//! let slope = gradient(|x| f(x), &[2.0_f64, 5.0]);
//! assert_eq!(slope[0], 5.5);
//! assert!((slope[1] - 1.7163378145367738).abs() < 1e-15);
//!
//! let curvature = hessian(|x| f(x), &[2.0, 5.0]);
//! assert_eq!(curvature.row(0), [-0.25, 1.0]);
//!
//! // x^x at 1, with its first four derivatives.
//! let series = derivatives(|x| x.pow(x), 1.0_f64, 4);
//! assert!(series.iter().zip([1.0, 1.0, 2.0, 3.0, 8.0]).all(|(d, exact)| (d - exact).abs() < 1e-12));
//! ```
//!
//! The layers, from the bottom up: [`algebra`] and [`ops`] state the mathematics in one table;
//! [`scalar`] holds the engines (dual numbers, Taylor numbers, the tape) and the operators on
//! functions; [`formula`] writes rules down; [`lang`] reads expressions that people type; [`trace`]
//! tells what a tape did, step by step, and [`picture`] draws it; [`glass`] does both for tensors, [`explain`] tells
//! what their programs do and how long it takes, and [`certify`] puts derivatives of either before exact identities.

// The bare library keeps what only the layers that show computations, or the calculator, ask for.
#![cfg_attr(not(all(feature = "glass", feature = "linalg")), allow(dead_code, unused_imports))]

// The derive macro names the crate by its name, also inside of it.
extern crate self as glassgrad;

pub mod algebra;
pub mod array;
pub mod dtype;
pub mod einsum;
mod few;
pub mod rng;
pub mod shape;
pub mod shared;
mod special;
pub mod view;

pub mod ops;

pub mod formula;

pub mod error;

pub mod expr;

pub mod opt;

pub mod exec;

pub mod runtime;

pub mod tree;

pub mod diff;

pub mod compile;

pub mod operations;

pub mod calculus;

pub mod optim;

pub mod nn;

pub mod loss;

pub mod dist;

pub mod data;

#[cfg(feature = "save")]
pub mod save;

pub mod scalar;

#[cfg(feature = "glass")]
pub mod lang;

#[cfg(all(feature = "glass", feature = "linalg"))]
pub mod calculator;

#[cfg(feature = "glass")]
pub mod trace;

#[cfg(feature = "glass")]
pub mod picture;

#[cfg(feature = "glass")]
pub mod explain;

#[cfg(feature = "glass")]
pub mod glass;

#[cfg(feature = "glass")]
pub mod certify;

#[cfg(all(feature = "glass", feature = "save"))]
pub mod train;

/// What most programs import: the traits of numbers, and the literal helper.
pub mod prelude {
    pub use crate::algebra::{Literal, c};
    pub use crate::ops::{Algebra, Real};
}

pub use algebra::{Literal, c};
pub use compile::compile;
pub use diff::{
    Within, checkpoint, grad, hessian, hvp, jacobian, jvp, linearize, no_grad, scan, value_and_grad, vjp, vmap,
};
pub use expr::Tensor;
pub use glassgrad_derive::Tree;
pub use ops::{Algebra, Operation, Real};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeSnippets;

#[cfg(all(doctest, feature = "glass", feature = "save"))]
#[doc = include_str!("../../../docs/learning.md")]
struct LearningSnippets;

#[cfg(all(doctest, feature = "files", feature = "save"))]
#[doc = include_str!("../../../docs/data.md")]
struct DataSnippets;
