//! Minimising functions of trees.
//!
//! Step by step, as networks are trained: an [`Optimizer`] is a learning rate, which follows a [`Schedule`], and a chain of
//! links from the gradient to the step, each of which states its slots and its formula once, in a file in `links`. From the
//! formula over symbols ([`Rule`]) come the update of tensors and the explanation of one weight ([`WeightStep`]). The
//! [`State`] is a tree.
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
mod link;
mod links;
mod newton;
mod optimizer;
mod partition;
mod rule;
mod schedule;
mod search;
mod weight;

pub use lbfgs::Lbfgs;
pub use least_squares::LevenbergMarquardt;
pub use link::{Link, Quantity, Slot, Step};
pub use links::*;
pub use newton::{Newton, Steps};
pub use optimizer::{Optimizer, Slots, State};
pub(crate) use partition::Partition;
pub use rule::Rule;
pub use schedule::Schedule;
pub use search::{Minimum, Round, Stop};
pub use weight::{Line, LinkStep, SlotStep, WeightInputs, WeightStep};
