//! Minimising functions of trees with derivatives that know their structure.
//!
//! - [`Newton`] takes steps of the structured Hessian, with a search along the line or within a region of trust;
//! - [`LevenbergMarquardt`] does so for sums of squares with the structured Jacobian alone;
//! - [`Lbfgs`] learns the curvature from gradients.
//!
//! All return a [`Minimum`], which tells how it was found and whether it was; `search` holds what they share.

mod lbfgs;
mod least_squares;
mod newton;
mod search;

pub use lbfgs::Lbfgs;
pub use least_squares::LevenbergMarquardt;
pub use newton::{Newton, Steps};
pub use search::{Minimum, Round};
