//! Minimising functions of trees.
//!
//! Step by step, as networks are trained: an [`Optimiser`] is a rate, which follows a [`Schedule`], and a chain of links
//! from the gradient to the step, each of which is a file in `links`; its [`State`] is a tree.
//!
//! To the end, with derivatives that know their structure:
//!
//! - [`Newton`] takes steps of the structured Hessian, with a search along the line or within a region of trust;
//! - [`LevenbergMarquardt`] does so for sums of squares with the structured Jacobian alone;
//! - [`Lbfgs`] learns the curvature from gradients.
//!
//! These return a [`Minimum`], which says how it was found and why the search ended ([`Stop`]); `search` holds what they
//! share.

mod lbfgs;
mod least_squares;
mod links;
mod newton;
mod optimiser;
mod schedule;
mod search;

pub use lbfgs::Lbfgs;
pub use least_squares::LevenbergMarquardt;
pub use links::{Adagrad, Adam, Average, ClipNorm, ClipValue, Momentum, Plateau, PullToZero, RmsProp, WeightDecay};
pub use newton::{Newton, Steps};
pub use optimiser::{Link, Memory, Optimiser, Remembered, State, Step};
pub use schedule::Schedule;
pub use search::{Minimum, Round, Stop};
