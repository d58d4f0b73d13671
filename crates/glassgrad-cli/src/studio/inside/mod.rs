//! Inspection of a network and of its last step: a file for each request.
//!
//! - `weight`: the last step of one weight, taken apart;
//! - `sample`: one example on its way through the layers, and the gradient on its way back;
//! - `graph`: the graph of the loss, folded;
//! - `passes`: what becomes of the graph of a step before it runs;
//! - `audit`: which parameters the loss reaches, and what else hinders learning;
//! - `drawn`: the prediction for a drawn image, and `prepared`, which preprocesses drawings to match the data.
//!
//! The encoding of bytes is in [`super::encode`]. The layout of a graph is that of `Graph::plan` of the library.

pub(in crate::studio) mod audit;
pub(in crate::studio) mod drawn;
pub(in crate::studio) mod graph;
pub(in crate::studio) mod passes;
pub(in crate::studio) mod prepared;
pub(in crate::studio) mod sample;
pub(in crate::studio) mod weight;
