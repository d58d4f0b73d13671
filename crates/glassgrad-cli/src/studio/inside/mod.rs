//! What is inside of a network and of the step that changes it, for those who ask: a file for each question.
//!
//! - `weight`: the last step of one weight, taken apart;
//! - `sample`: one example on its way through the layers, and the gradient on its way back;
//! - `graph`: the graph of the loss, folded;
//! - `passes`: what becomes of the graph of a step before it runs;
//! - `audit`: which parameters the loss reaches, and what else hinders learning;
//! - `drawn`: the prediction for a drawn image, and `prepared`, which preprocesses drawings to match the data.
//!
//! How bytes are written stands in [`super::encode`]. A plan of a graph is what `Graph::plan` of the library gives.

pub(in crate::studio) mod audit;
pub(in crate::studio) mod drawn;
pub(in crate::studio) mod graph;
pub(in crate::studio) mod passes;
pub(in crate::studio) mod prepared;
pub(in crate::studio) mod sample;
pub(in crate::studio) mod weight;
