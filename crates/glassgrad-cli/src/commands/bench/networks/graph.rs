//! A graph network of two layers of width 64 over 20,000 nodes and 200,000 edges: a step of Adam.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::models::GraphNetwork;
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};
use super::filled;

const NODES: usize = 20_000;
const EDGES: usize = 200_000;
const WIDTH: usize = 64;

/// The features of the nodes, both ends of the edges, and the classes of the nodes.
type Data = (Tensor, (Tensor, Tensor), Tensor);

pub(super) fn workload() -> Training<GraphNetwork, Data> {
    let mut source = Source::default();
    let network = filled(&mut source, &GraphNetwork::new(Key::new(0), &[WIDTH; 3], 10));
    let nodes = source.uniform([NODES, WIDTH], -1.0, 1.0, DType::F32);
    let edges = (source.indices(EDGES, NODES), source.indices(EDGES, NODES));
    let data = vec![(nodes, edges, source.targets(NODES, 10))];
    Training::new(loss, Optimizer::adam(1e-3), Mode::Compiled, network, data)
}

fn loss(network: &GraphNetwork, (nodes, (sources, targets), classes): &Data) -> Tensor {
    cross_entropy(&network.apply(nodes, sources, targets), classes)
}
