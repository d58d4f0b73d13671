//! The graph of the loss, and the ways of folding it until it can be read.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::glass::{self, Audit, Graph};

use super::network::Network;
use super::study::Study;

/// A way of folding a graph.
pub type Fold = fn(Graph) -> Graph;

/// The ways of folding, from the finest on.
pub const FOLDS: [(&str, Fold); 5] = [
    ("every operation is a box", |graph| graph),
    ("operations that belong to a layer are one box", |graph| graph.collapse_to_depth(2)),
    ("operations that belong to a part of the network are one box", |graph| graph.collapse_to_depth(1)),
    ("operations of one source line are one box", |graph| graph.collapse_to_depth(2).collapse_lines()),
    ("operations of one layer or of one source line are one box", |graph| graph.collapse_to_depth(1).collapse_lines()),
];

/// A graph with more boxes is folded further.
pub const READABLE: usize = 16;

/// The graph of the loss of the first examples of the training set, with values and gradients.
pub fn of_loss(study: &Study, network: &Network, examples: usize) -> Result<Graph, Error> {
    let places: Vec<usize> = (0..study.task.training.len().min(examples)).collect();
    let (inputs, targets) = study.task.training.batch(&places)?;
    let batch: (Tensor, Tensor) = (inputs.named("inputs"), targets.named("targets"));
    let loss = |network: &Network| study.objective.of_batch_plainly(network, &batch).named("loss");
    Graph::trace(loss, network).with_gradients()
}

/// Which parameters the loss of the sample reaches.
pub fn audit(study: &Study, network: &Network) -> Result<Audit, Error> {
    let sample = study.sample()?;
    glass::audit(|network: &Network| study.objective.of_batch_plainly(network, &sample), network)
}
