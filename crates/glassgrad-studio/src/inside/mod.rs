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

pub(crate) mod audit;
pub(crate) mod drawn;
pub(crate) mod graph;
pub(crate) mod passes;
pub(crate) mod prepared;
pub(crate) mod sample;
pub(crate) mod weight;
