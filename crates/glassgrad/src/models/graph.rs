//! Graph networks: message passing by gathers along edges and segment sums.

use crate::Tree;
use crate::expr::Tensor;
use crate::nn::{Layer as _, Linear};
use crate::rng::Key;

/// One round of message passing: each node adds the mean of the features of its in-neighbours, projected, to its own features,
/// projected (GraphSAGE with mean aggregation).
///
/// ```
/// use glassgrad::{Tensor, models::GraphConvolution, rng::Key};
/// let layer = GraphConvolution::new(Key::new(1), 4, 8);
/// // The edges 0 → 1, 1 → 2 and 0 → 2.
/// let (sources, targets) = (Tensor::from([0_i64, 1, 0]), Tensor::from([1_i64, 2, 2]));
/// assert_eq!(layer.apply(&Tensor::ones([3, 4]), &sources, &targets).shape().to_string(), "[3, 8]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct GraphConvolution {
    /// The projection of a node's own features, with the bias.
    pub own: Linear,
    /// The projection of the aggregated messages.
    pub neighbours: Linear,
}

impl GraphConvolution {
    /// A layer from `inputs` to `outputs` features of each node.
    pub fn new(key: Key, inputs: usize, outputs: usize) -> GraphConvolution {
        GraphConvolution {
            own: Linear::new(key.fold(0), inputs, outputs),
            neighbours: Linear::new(key.fold(1), inputs, outputs).without_bias(),
        }
    }

    /// The next features of nodes `[nodes, inputs]`, with edges given by the indices of their ends.
    #[track_caller]
    pub fn apply(&self, nodes: &Tensor, sources: &Tensor, targets: &Tensor) -> Tensor {
        let count = nodes.shape().first().copied().unwrap_or(0);
        let messages = nodes.take(sources, 0).segment_mean(targets, count);
        self.own.apply(nodes) + self.neighbours.apply(&messages)
    }
}

/// A graph network that classifies nodes: graph convolutions with ReLU, and a linear layer.
///
/// ```
/// use glassgrad::{Tensor, models::GraphNetwork, rng::Key, tree::Tree};
/// let network = GraphNetwork::new(Key::new(1), &[4, 8, 8], 3);
/// assert_eq!(network.element_count(), 2 * 4 * 8 + 8 + 2 * 8 * 8 + 8 + 8 * 3 + 3);
/// let (sources, targets) = (Tensor::from([0_i64, 1, 0]), Tensor::from([1_i64, 2, 2]));
/// assert_eq!(network.apply(&Tensor::ones([3, 4]), &sources, &targets).shape().to_string(), "[3, 3]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct GraphNetwork {
    /// The graph convolutions.
    pub layers: Vec<GraphConvolution>,
    /// From the features of a node to its logits.
    pub output: Linear,
}

impl GraphNetwork {
    /// A network with these numbers of features, those of the inputs first, and `classes` outputs for each node.
    pub fn new(key: Key, widths: &[usize], classes: usize) -> GraphNetwork {
        let layer =
            |(number, ends): (usize, &[usize])| GraphConvolution::new(key.fold(1 + number as u64), ends[0], ends[1]);
        GraphNetwork {
            layers: widths.windows(2).enumerate().map(layer).collect(),
            output: Linear::new(key.fold(0), widths.last().copied().unwrap_or(0), classes),
        }
    }

    /// The logits of each node.
    #[track_caller]
    pub fn apply(&self, nodes: &Tensor, sources: &Tensor, targets: &Tensor) -> Tensor {
        let mut nodes = nodes.clone();
        for layer in &self.layers {
            nodes = layer.apply(&nodes, sources, targets).relu();
        }
        self.output.apply(&nodes)
    }
}
