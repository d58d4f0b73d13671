//! The irises, 4-10-3 with tanh: a hundred epochs of gradient descent on 120 flowers, from nothing.

use glassgrad::Tensor;
use glassgrad::error::Error;
use glassgrad::nn::{Activation, Layer as _, Mlp};
use glassgrad::optim::Optimizer;

use super::data::Source;
use super::training::{Mode, Training, cross_entropy};
use super::workload::Workload;
use crate::sources::IRIS;

const EPOCHS: usize = 100;

type Data = (Tensor, Tensor);

/// Each run builds the network and trains it.
pub(super) struct Iris {
    mode: Mode,
    data: Data,
    trained: Training<Mlp, Data>,
}

pub(super) fn workload(mode: Mode) -> Iris {
    let data = flowers();
    let trained = network(mode, &data);
    Iris { mode, data, trained }
}

/// One compiled step of the same network.
pub(super) fn step() -> Training<Mlp, Data> {
    network(Mode::Compiled, &flowers())
}

fn network(mode: Mode, data: &Data) -> Training<Mlp, Data> {
    let mut source = Source::default();
    let network = Mlp { layers: vec![source.layer(4, 10), source.layer(10, 3)], activation: Activation::Tanh };
    Training::new(loss, Optimizer::sgd(0.05), mode, network, vec![data.clone()])
}

fn loss(network: &Mlp, (x, targets): &Data) -> Tensor {
    cross_entropy(&network.apply(x), targets)
}

/// Four flowers of five, as they stand in the table, with their species as unit vectors.
fn flowers() -> Data {
    let rows = IRIS.lines().skip(1).enumerate().filter(|(row, _)| row % 5 != 4).map(|(_, line)| line);
    let (mut features, mut species) = (Vec::new(), Vec::new());
    for row in rows {
        let numbers: Vec<f32> = row.split(',').filter_map(|number| number.parse().ok()).collect();
        features.extend_from_slice(&numbers[..4]);
        species.extend((0..3).map(|class| f32::from(numbers[4] == class as f32)));
    }
    let count = features.len() / 4;
    (Tensor::new(&features, [count, 4]), Tensor::new(&species, [count, 3]))
}

impl Workload for Iris {
    fn run(&mut self) -> Result<(), Error> {
        self.trained = network(self.mode, &self.data);
        (0..EPOCHS).try_for_each(|_| self.trained.run())
    }

    fn forward(&mut self) -> Result<(), Error> {
        (0..EPOCHS).try_for_each(|_| self.trained.forward())
    }

    fn value(&self) -> f64 {
        self.trained.value()
    }

    fn results(&self) -> Vec<Tensor> {
        self.trained.results()
    }

    fn check(&self) -> Result<(), String> {
        self.trained.check()
    }
}
