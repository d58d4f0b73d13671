//! Differentiation as a pass from graph to graph.
//!
//! A derivative is an ordinary graph, so any order, printing and running need nothing new. Every rule
//! takes a (co)tangent with a set of leading axes: none of them is backpropagation, a unit tensor as the
//! seed gives a whole Jacobian, a batch axis a batched derivative. Rules return contributions; the
//! engines alone accumulate.
//!
//! - `reverse` pulls cotangents back, `forward` pushes tangents, `batch` carries a leading axis through;
//! - `custom` derives what the rule of a user's own operation leaves out;
//! - `scan` is a loop whose body is in the graph once, `checkpoint` a part of a graph that is computed anew;
//! - `within` sets a budget of memory, `budget` finds out how to keep it, `chain` cuts a function into steps;
//! - `control` has branches and loops on values, `jacobian` whole derivatives and their traces;
//! - `transforms` turns functions of trees into functions of trees: [`grad`], [`jvp`], [`vmap`], ….

mod batch;
mod budget;
mod chain;
mod checkpoint;
mod control;
mod custom;
mod forward;
mod jacobian;
mod residuals;
mod reverse;
mod scan;
mod transforms;
mod within;

pub(crate) use batch::batched;
pub(crate) use checkpoint::FusedRegion;
pub use checkpoint::checkpoint;
pub use control::{cond, fori_loop, scan_length, while_loop, while_loop_up_to};
pub(crate) use forward::pushforward;
pub use jacobian::{divergence, hessian, hessian_blocks, jacfwd, jacobian, jacrev, laplacian};
pub(crate) use reverse::{cotangents, dependent_nodes, pullback};
pub use scan::scan;
pub(crate) use transforms::first_error;
pub use transforms::{
    Fallible, Gradients, Outcome, grad, hvp, jvp, linearize, no_grad, value_and_grad, value_and_grad_aux, vjp, vmap,
    vmap_axes,
};
pub use within::Within;
