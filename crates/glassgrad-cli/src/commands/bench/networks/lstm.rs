//! Three LSTM layers of 256 states over sequences of 100 steps: a step of Adam, batch 32.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::expr::s;
use glassgrad::nn::{Layer as _, Linear, Lstm, Recurrent};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;

use super::super::data::Source;
use super::super::training::{Mode, Training, cross_entropy};
use super::filled;

const BATCH: usize = 32;
const TIME: usize = 100;
const STATES: usize = 256;

type Network = (Vec<Recurrent<Lstm>>, Linear);
type Data = (Tensor, Tensor);

pub(super) fn workload() -> Training<Network, Data> {
    let mut source = Source::default();
    let layer = |_| Recurrent::new(Lstm::new(Key::new(0), STATES, STATES));
    let network = filled(&mut source, &((0..3).map(layer).collect(), Linear::new(Key::new(0), STATES, 10)));
    let sequences = source.uniform([TIME, BATCH, STATES], -1.0, 1.0, DType::F32);
    let data = vec![(sequences, source.targets(BATCH, 10))];
    Training::new(loss, Optimizer::adam(1e-3), Mode::Compiled, network, data)
}

fn loss((layers, output): &Network, (sequences, targets): &Data) -> Tensor {
    cross_entropy(&output.apply(&layers.apply(sequences).slice(&[s(-1)])), targets)
}
