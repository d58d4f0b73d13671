//! Glassgrad: automatic differentiation and neural networks that can be inspected.
//!
//! Tensors are lazy and immutable. Functions of them are transformed by [`grad`], [`jvp`], [`vmap`], [`hessian`] and others in any
//! nesting, [`compile()`] plans a function once and then only runs it, and every value, gradient and dependency can be shown in the
//! user's own names.
//!
//! # Tensors and gradients
//!
//! ```
//! use glassgrad::{Tensor, compile, grad, hessian, vmap};
//!
//! let x = Tensor::from([1.0, 2.0, 3.0]);
//! let f = |x: &Tensor| (x.square() * x.sin()).sum();
//! let gradient = grad(f)(&x);                  // a tensor like x; nothing is computed yet
//! let exact = &x * 2.0 * x.sin() + x.square() * x.cos();
//! assert!((gradient - exact).abs().max().item().unwrap() < 1e-12); // reading computes
//!
//! assert_eq!(hessian(|x: &Tensor| x.powi(3).sum())(&x).shape().to_string(), "[3, 3]");
//! assert_eq!(vmap(|row: &Tensor| row.sum())(&Tensor::ones([4, 3])).to_string(), "[3, 3, 3, 3]");
//!
//! let step = compile(move |x: &Tensor| x - grad(f)(x) * 0.01); // traced, differentiated and planned once
//! assert_eq!(step.call(&x).unwrap().shape().to_string(), "[3]");
//! ```
//!
//! # Element types
//!
//! `Tensor::from` keeps the type of the elements it is given, and literals of Rust are `f64`; `zeros`, `ones`, `eye`, random draws
//! and layers are `f32`, the default. Mixed types promote: bool < u8 < i32 < i64 < f16, bf16 < f32 < f64. Numbers beside a tensor take
//! its type, functions of floating-point numbers make `f32` of integers, and a gradient has the type of what it belongs to. Nothing is
//! narrowed but by [`cast`](Tensor::cast), which is also a method of layers and other trees.
//!
//! ```
//! use glassgrad::prelude::*;
//! use glassgrad::nn::Linear;
//!
//! let layer = Linear::new(Key::new(1), 3, 2);            // f32
//! let x = Tensor::from([[1.0, 2.0, 3.0]]);               // f64, because the literals are
//! assert_eq!(layer.apply(&x).dtype(), DType::F64);
//! let gradient = grad(|layer: &Linear| layer.apply(&x).square().sum())(&layer);
//! assert_eq!(gradient.weight.dtype(), DType::F32);
//! assert_eq!((Tensor::ones(3) * 2.0).dtype(), DType::F32);
//! assert_eq!((Tensor::from([1, 2, 3]) / 2).to_string(), "[0.5,   1, 1.5]");
//! assert_eq!(layer.cast(DType::F64).weight.dtype(), DType::F64);
//! ```
//!
//! # A layer and a training run
//!
//! A layer is a struct of tensors; `#[derive(Tree)]` gives its gradient and its optimizer state the same shape and the same names.
//!
//! ```
//! # #[cfg(all(feature = "glass", feature = "save"))] {
//! use std::sync::Arc;
//! use glassgrad::nn::{Activation, Layer, Linear};
//! use glassgrad::optim::Optimizer;
//! use glassgrad::train::Training;
//! use glassgrad::{Tensor, Tree, data::Examples, expr::Keys, loss, rng::Key};
//!
//! #[derive(Clone, Debug, Tree)]
//! struct Network {
//!     hidden: Linear,
//!     output: Linear,
//! }
//!
//! impl Layer for Network {
//!     fn apply(&self, x: &Tensor) -> Tensor {
//!         self.output.apply(&Activation::Tanh.apply(&self.hidden.apply(x)))
//!     }
//! }
//!
//! let key = Key::new(1);
//! let network = Network { hidden: Linear::new(key.fold(0), 1, 16), output: Linear::new(key.fold(1), 16, 1) };
//! let x = Tensor::linspace(-1.0_f32, 1.0, 64).reshape([64, 1]);
//! let examples = Arc::new(Examples::new((x.clone(), (&x * 3.0).sin())).unwrap());
//! let mse = |network: &Network, (x, y): &(Tensor, Tensor), _: &Keys| loss::mse(&network.apply(x), y).mean();
//! let trained = Training::new(mse, Optimizer::adam(1e-2)).epochs(60).run(&network, &examples).unwrap();
//! assert!(trained.losses[59] < 0.5 * trained.losses[0]);
//! # }
//! ```
//!
//! # Scalars
//!
//! Functions of numbers are written once, generic over [`Real`], and differentiated forwards, in reverse, to any order and nested:
//!
//! ```
//! use glassgrad::Real;
//! use glassgrad::scalar::{derivatives, gradient, hessian};
//!
//! fn f<T: Real>(x: &[T]) -> T {
//!     x[0].ln() + x[0] * x[1] - x[1].sin()
//! }
//!
//! assert_eq!(gradient(|x| f(x), &[2.0_f64, 5.0])[0], 5.5);
//! assert_eq!(hessian(|x| f(x), &[2.0, 5.0]).row(0), [-0.25, 1.0]);
//! // x^x at 1, with its first four derivatives.
//! let series = derivatives(|x| x.pow(x), 1.0_f64, 4);
//! assert!(series.iter().zip([1.0, 1.0, 2.0, 3.0, 8.0]).all(|(d, exact)| (d - exact).abs() < 1e-12));
//! ```
//!
//! A literal in a generic function is `c(2.0)`, as in `c::<T>(2.0) * x` and `x * c(2.0)`: `2.0 * x` would need `f64: Mul<T>` for every `T`, which
//! the orphan rule does not allow, and `x * 2.0` needs `f32: Mul<f64>`, which neither Rust nor this crate can add. For tensors both work.
//!
//! # Modules
//!
//! | for | modules |
//! |---|---|
//! | tensors | [`expr`] (with [`Tensor`]), [`operations`], [`einsum`], [`array`](mod@array), [`dtype`], [`shape`], [`view`], [`rng`], [`error`] |
//! | transforms | [`diff`], [`compile`](mod@compile), [`tree`], [`calculus`] (structured Jacobians and Hessians) |
//! | learning | [`nn`], [`models`], [`loss`], [`dist`], [`optim`], [`data`], `train` (features `glass` and `save`), `save` |
//! | scalars | [`scalar`], [`ops`] (the table of operations), [`algebra`], [`formula`] |
//! | execution | [`runtime`], [`exec`], [`collective`] (many machines) |
//! | inspection | `lang`, `trace`, `picture`, `explain`, `glass`, `certify` (feature `glass`), `calculator` (also `linalg`) |
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `glass` | yes | inspection: expressions as text, traces, pictures, explanations, provenance and certificates |
//! | `save` | yes | models as safetensors files |
//! | `linalg` | no | dense linear algebra: solvers, factorisations, determinants, the matrix exponential |
//! | `fft` | no | Fourier transforms |
//! | `files` | no | data from CSV, NPY, NPZ and idx files |
//! | `tokens` | no | byte-pair encoding of text with the vocabulary of GPT-2 |

// The bare library keeps what only the layers that show computations, or the calculator, ask for.
#![cfg_attr(not(all(feature = "glass", feature = "linalg")), allow(dead_code, unused_imports))]

// The derive macro names the crate by its name, also inside of it.
extern crate self as glassgrad;

#[doc(inline)]
pub use glassgrad_math::{algebra, array, clock, dtype, einsum, error, formula, ops, rng, shape, view};
#[doc(hidden)]
pub use glassgrad_math::{hashing, interning, sorting};
pub(crate) use glassgrad_math::{numbering, special};

#[doc(inline)]
pub use glassgrad_exec::collective;

pub mod expr;

// Internal: for the tests and tools of this workspace, and without a promise of stability. What programs do is shown by `explain`.
#[doc(hidden)]
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

pub mod models;

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

/// What most programs import: tensors and their transforms, trees, element types, slices, random keys, and the traits of
/// numbers.
///
/// ```
/// use glassgrad::prelude::*;
/// let x = Tensor::normal(Key::new(1), [3, 2]);
/// let gradient = grad(|x: &Tensor| x.slice(&[s(0)]).square().sum())(&x);
/// assert_eq!(gradient.dtype(), DType::F32);
/// ```
pub mod prelude {
    pub use crate::algebra::{Literal, c};
    pub use crate::compile::{compile, jit};
    pub use crate::diff::{grad, hessian, hvp, jacfwd, jacobian, jacrev, jvp, scan, value_and_grad, vjp, vmap};
    pub use crate::dtype::DType;
    pub use crate::expr::{Axes, Keys, Tensor, s};
    pub use crate::nn::Layer;
    pub use crate::ops::{Algebra, Real};
    pub use crate::rng::Key;
    pub use crate::tree::Tree;
    pub use glassgrad_derive::Tree;
}

pub use algebra::{Literal, c};
pub use compile::{compile, jit};
pub use diff::{
    Within, checkpoint, cond, fori_loop, grad, hessian, hvp, jacfwd, jacobian, jacrev, jvp, linearize, no_grad, scan,
    scan_length, value_and_grad, vjp, vmap, while_loop, while_loop_up_to,
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

#[cfg(all(doctest, feature = "glass", feature = "save"))]
#[doc = include_str!("../../../docs/scaling.md")]
struct ScalingSnippets;

#[cfg(all(doctest, feature = "files", feature = "save"))]
#[doc = include_str!("../../../docs/data.md")]
struct DataSnippets;
