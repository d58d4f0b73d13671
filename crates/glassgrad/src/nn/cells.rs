//! Recurrent cells (RNN, LSTM, GRU), with gates in the order of PyTorch.

use super::initializer::{Fans, Initializer};
use super::layer::narrowed;
use super::recurrent::Cell;
use crate::Tree;
use crate::expr::Tensor;
use crate::rng::Key;

macro_rules! cell {
    ($(#[doc = $words:literal])+ $Cell:ident, $gates:literal) => {
        $(#[doc = $words])+
        ///
        /// ```
        #[doc = concat!("use glassgrad::{Tensor, nn::{", stringify!($Cell), ", Layer, Recurrent}, rng::Key, tree::Tree};")]
        #[doc = concat!("let cell = ", stringify!($Cell), "::new(Key::new(1), 4, 6);")]
        #[doc = concat!("assert_eq!(cell.element_count(), ", $gates, " * (4 * 6 + 6 * 6 + 2 * 6));")]
        /// let outputs = Recurrent::new(cell).apply(&Tensor::ones([3, 2, 4]));
        /// assert_eq!(outputs.shape().to_string(), "[3, 2, 6]");
        /// ```
        #[derive(Clone, Debug, Tree)]
        pub struct $Cell {
            /// The input weight, `[inputs, gates × states]`.
            pub input_weight: Tensor,
            /// The recurrent weight, `[states, gates × states]`.
            pub state_weight: Tensor,
            /// The bias of the input projection.
            pub input_bias: Tensor,
            /// The bias of the recurrent projection.
            pub state_bias: Tensor,
        }

        impl $Cell {
            /// A cell with this input size and state size; all weights and biases uniform in ±1/√states.
            ///
            /// ```
            #[doc = concat!("use glassgrad::{nn::", stringify!($Cell), ", rng::Key};")]
            #[doc = concat!("assert_eq!(", stringify!($Cell), "::new(Key::new(1), 4, 6).state_weight.shape()[0], 6);")]
            /// ```
            pub fn new(key: Key, inputs: usize, states: usize) -> $Cell {
                let width = $gates * states;
                let fans = Fans::of_matrix(states, width);
                let draw = |number: u64, shape: &[usize]| Initializer::FanIn.draw(key.fold(number), shape, fans);
                $Cell {
                    input_weight: draw(0, &[inputs, width]),
                    state_weight: draw(1, &[states, width]),
                    input_bias: draw(2, &[width]),
                    state_bias: draw(3, &[width]),
                }
            }

            fn zeros(&self, batch: usize) -> Tensor {
                let states = self.state_weight.shape().first().copied().unwrap_or(0);
                Tensor::full([batch, states], 0.0, self.state_weight.dtype())
            }
        }
    };
}

cell! {
    /// The Elman cell: the next state is tanh(x W + b + h U + c).
    Rnn, 1
}

cell! {
    /// Long short-term memory: input, forget and output gates control a cell state beside the hidden state.
    Lstm, 4
}

cell! {
    /// A gated recurrent unit: the reset gate controls the candidate state, the update gate interpolates between it and the state.
    Gru, 3
}

/// One gate of the concatenated gate activations.
#[track_caller]
fn gate(gates: &Tensor, number: usize, count: usize) -> Tensor {
    let states = gates.shape().last().copied().unwrap_or(0) / count;
    gates.slice(&[(..).into(), ((number * states) as isize..((number + 1) * states) as isize).into()])
}

impl Cell for Rnn {
    type State = Tensor;

    fn start(&self, batch: usize) -> Tensor {
        self.zeros(batch)
    }

    fn prepared(&self, sequences: &Tensor) -> Tensor {
        narrowed(sequences, &self.input_weight).matmul(&self.input_weight) + (&self.input_bias + &self.state_bias)
    }

    fn step(&self, prepared: &Tensor, state: &Tensor) -> Tensor {
        (prepared + state.matmul(&self.state_weight)).tanh()
    }

    fn output(state: &Tensor) -> Tensor {
        state.clone()
    }
}

impl Cell for Lstm {
    /// The hidden state and the cell state.
    type State = (Tensor, Tensor);

    fn start(&self, batch: usize) -> (Tensor, Tensor) {
        (self.zeros(batch), self.zeros(batch))
    }

    fn prepared(&self, sequences: &Tensor) -> Tensor {
        narrowed(sequences, &self.input_weight).matmul(&self.input_weight) + (&self.input_bias + &self.state_bias)
    }

    fn step(&self, prepared: &Tensor, (output, memory): &(Tensor, Tensor)) -> (Tensor, Tensor) {
        let gates = prepared + output.matmul(&self.state_weight);
        let [write, keep, content, show] = [0, 1, 2, 3].map(|number| gate(&gates, number, 4));
        let memory = keep.sigmoid() * memory + write.sigmoid() * content.tanh();
        (show.sigmoid() * memory.tanh(), memory)
    }

    fn output((output, _): &(Tensor, Tensor)) -> Tensor {
        output.clone()
    }
}

impl Cell for Gru {
    type State = Tensor;

    fn start(&self, batch: usize) -> Tensor {
        self.zeros(batch)
    }

    fn prepared(&self, sequences: &Tensor) -> Tensor {
        narrowed(sequences, &self.input_weight).matmul(&self.input_weight) + &self.input_bias
    }

    fn step(&self, prepared: &Tensor, state: &Tensor) -> Tensor {
        let from_state = state.matmul(&self.state_weight) + &self.state_bias;
        let both = |number: usize| (gate(prepared, number, 3) + gate(&from_state, number, 3)).sigmoid();
        let (enter, stay) = (both(0), both(1));
        let content = (gate(prepared, 2, 3) + enter * gate(&from_state, 2, 3)).tanh();
        &content + stay * (state - &content)
    }

    fn output(state: &Tensor) -> Tensor {
        state.clone()
    }
}
