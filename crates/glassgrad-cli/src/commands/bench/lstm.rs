//! A recurrent network with long short-term memory, 32 inputs and 64 states, that classifies sequences: steps of Adam,
//! batch 32, one for each length.

use glassgrad::dtype::DType;
use glassgrad::expr::s;
use glassgrad::{Tensor, scan};

use super::data::Source;
use super::training::{Mode, Optimizer, Training, cross_entropy};

type Parameters = [Tensor; 6];
type Data = (Tensor, Tensor);

const BATCH: usize = 32;
const INPUTS: usize = 32;
const STATES: usize = 64;

pub(super) fn workload(lengths: &[usize]) -> Training<Parameters, Data> {
    let mut source = Source::default();
    let bound = 1.0 / (STATES as f64).sqrt();
    let mut draw = |shape: &[usize]| source.uniform(shape, -bound, bound, DType::F32);
    // As in PyTorch, both products have a bias.
    let (input_weight, state_weight) = (draw(&[INPUTS, 4 * STATES]), draw(&[STATES, 4 * STATES]));
    let (input_bias, state_bias) = (draw(&[4 * STATES]), draw(&[4 * STATES]));
    let (weight, bias) = source.layer(STATES, 10);
    let parameters = [input_weight, state_weight, input_bias, state_bias, weight, bias];
    let batches = lengths.iter().map(|length| {
        let sequences = source.uniform([*length, BATCH, INPUTS], 0.0, 1.0, DType::F32);
        (sequences, source.targets(BATCH, 10))
    });
    let batches = batches.collect();
    Training::new(loss, Optimizer::Adam { rate: 1e-3 }, Mode::Compiled, parameters, batches)
}

fn loss(parameters: &Parameters, (sequences, targets): &Data) -> Tensor {
    let [input_weight, state_weight, input_bias, state_bias, weight, bias] = parameters;
    // What the inputs add to the gates does not depend on the states: one product for all times.
    let from_inputs = sequences.matmul(input_weight) + (input_bias + state_bias);
    let zeros = Tensor::full([BATCH, STATES], 0.0, input_weight.dtype());
    let step = |(output, memory): &(Tensor, Tensor), from_input: &Tensor| {
        let gates = from_input + output.matmul(state_weight);
        let gate = |k: usize| gates.slice(&[s(..), s((k * STATES) as isize..((k + 1) * STATES) as isize)]);
        let memory = gate(1).sigmoid() * memory + gate(0).sigmoid() * gate(2).tanh();
        ((gate(3).sigmoid() * memory.tanh(), memory), ())
    };
    let ((output, _), ()) = scan(step, &(zeros.clone(), zeros), &from_inputs);
    cross_entropy(&(output.matmul(weight) + bias), targets)
}
