//! A recurrent network with long short-term memory, 32 inputs and 64 states, that classifies sequences: steps of Adam,
//! batch 32, one for each length.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::nn::{Layer as _, Linear, Lstm, Recurrent};
use glassgrad::optim::Optimizer;

use super::data::Source;
use super::training::{Mode, Training, cross_entropy};

type Network = (Recurrent<Lstm>, Linear);
type Data = (Tensor, Tensor);

const BATCH: usize = 32;
const INPUTS: usize = 32;
const STATES: usize = 64;

pub(super) fn workload(lengths: &[usize]) -> Training<Network, Data> {
    let mut source = Source::default();
    let bound = 1.0 / (STATES as f64).sqrt();
    let mut draw = |shape: &[usize]| source.uniform(shape, -bound, bound, DType::F32);
    let (input_weight, state_weight) = (draw(&[INPUTS, 4 * STATES]), draw(&[STATES, 4 * STATES]));
    let (input_bias, state_bias) = (draw(&[4 * STATES]), draw(&[4 * STATES]));
    let cell = Lstm { input_weight, state_weight, input_bias, state_bias };
    let network = (Recurrent::new(cell), source.layer(STATES, 10));
    let batches = lengths.iter().map(|length| {
        let sequences = source.uniform([*length, BATCH, INPUTS], 0.0, 1.0, DType::F32);
        (sequences, source.targets(BATCH, 10))
    });
    let batches = batches.collect();
    Training::new(loss, Optimizer::adam(1e-3), Mode::Compiled, network, batches)
}

fn loss((recurrent, output): &Network, (sequences, targets): &Data) -> Tensor {
    let (_, (last, _)) = recurrent.run(sequences);
    cross_entropy(&output.apply(&last), targets)
}
