//! Layers that carry a state along sequences.

use super::layer::Layer;
use crate::diff::scan;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::tree::Tree;

/// One step of a recurrent layer.
///
/// ```
/// use glassgrad::{Tensor, Tree, nn::{Cell, Layer, Recurrent}};
///
/// /// A custom cell: sums that decay.
/// #[derive(Tree)]
/// struct Decay(Tensor);
///
/// impl Cell for Decay {
///     type State = Tensor;
///     fn start(&self, batch: usize) -> Tensor {
///         Tensor::zeros([batch, 1])
///     }
///     fn prepared(&self, sequences: &Tensor) -> Tensor {
///         sequences.clone()
///     }
///     fn step(&self, prepared: &Tensor, state: &Tensor) -> Tensor {
///         state * &self.0 + prepared
///     }
///     fn output(state: &Tensor) -> Tensor {
///         state.clone()
///     }
/// }
///
/// let sums = Recurrent::new(Decay(Tensor::from(0.5_f32))).apply(&Tensor::ones([3, 1, 1]));
/// assert_eq!(sums.flatten().to_string(), "[   1,  1.5, 1.75]");
/// ```
pub trait Cell {
    /// The state that is carried from step to step, for all sequences of a batch.
    type State: Tree;

    /// The initial state.
    fn start(&self, batch: usize) -> Self::State;

    /// The input projection, which does not depend on the state: one product for all time steps.
    fn prepared(&self, sequences: &Tensor) -> Tensor;

    /// The next state, from the projected input of one time step and the previous state.
    fn step(&self, prepared: &Tensor, state: &Self::State) -> Self::State;

    /// The output (hidden state) of a state.
    fn output(state: &Self::State) -> Tensor;
}

/// A recurrent layer: a cell unrolled over sequences `[time, batch, inputs]`, with outputs `[time, batch, outputs]`.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, Lstm, Recurrent}, rng::Key};
/// let layer = Recurrent::new(Lstm::new(Key::new(1), 8, 16));
/// assert_eq!(layer.apply(&Tensor::ones([50, 32, 8])).shape().to_string(), "[50, 32, 16]");
/// ```
#[derive(Clone, Debug, crate::Tree)]
pub struct Recurrent<C> {
    /// The cell.
    pub cell: C,
}

impl<C: Cell> Recurrent<C> {
    /// A recurrent layer over this cell.
    ///
    /// ```
    /// use glassgrad::{nn::{Recurrent, Rnn}, rng::Key, tree::Tree};
    /// let layer = Recurrent::new(Rnn::new(Key::new(1), 2, 2));
    /// assert_eq!(layer.leaves()[0].0.to_string(), "cell.input_weight");
    /// ```
    pub fn new(cell: C) -> Recurrent<C> {
        Recurrent { cell }
    }

    /// The outputs of all time steps, and the final state.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Gru, Recurrent}, rng::Key};
    /// let (outputs, last) = Recurrent::new(Gru::new(Key::new(1), 3, 5)).run(&Tensor::ones([7, 2, 3]));
    /// assert_eq!(outputs.shape().to_string(), "[7, 2, 5]");
    /// assert_eq!(outputs.slice(&[(-1).into()]).to_string(), last.to_string());
    /// ```
    #[track_caller]
    pub fn run(&self, sequences: &Tensor) -> (Tensor, C::State) {
        if let Some(failed) = not_sequences(sequences) {
            return (failed.clone(), self.cell.start(1).map(|_| failed.clone()));
        }
        let start = self.cell.start(sequences.shape().get(1).copied().unwrap_or(1));
        let step = |state: &C::State, prepared: &Tensor| {
            let next = self.cell.step(prepared, state);
            let output = C::output(&next);
            (next, output)
        };
        let prepared = self.cell.prepared(sequences).reported_as("recurrent", &[sequences]);
        if prepared.error().is_some() {
            return (prepared.clone(), self.cell.start(1).map(|_| prepared.clone()));
        }
        let (last, outputs) = scan(step, &start, &prepared);
        (outputs, last)
    }

    /// The same for padded sequences of different lengths: after its end a sequence keeps its state, and its outputs are zero.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Recurrent, Rnn}, rng::Key};
    /// let layer = Recurrent::new(Rnn::new(Key::new(1), 3, 4));
    /// let sequences = Tensor::ones([5, 2, 3]);
    /// let (outputs, last) = layer.run_lengths(&sequences, &Tensor::from([5_i64, 2]));
    /// let short = layer.run(&sequences.slice(&[(..2).into(), (1..2).into()])).1;
    /// assert!(last.slice(&[1.into()]).all_close(&short.slice(&[0.into()]), 1e-6, 0.0).item().unwrap() == 1.0);
    /// assert_eq!(outputs.slice(&[4.into(), 1.into()]).to_string(), "[0, 0, 0, 0]");
    /// ```
    #[track_caller]
    pub fn run_lengths(&self, sequences: &Tensor, lengths: &Tensor) -> (Tensor, C::State) {
        if let Some(failed) = not_sequences(sequences).or_else(|| not_lengths(sequences, lengths)) {
            return (failed.clone(), self.cell.start(1).map(|_| failed.clone()));
        }
        let time = sequences.shape().first().copied().unwrap_or(0);
        let start = self.cell.start(sequences.shape().get(1).copied().unwrap_or(1));
        let times = Tensor::arange(time as i64);
        let ends = lengths.unsqueeze(-1);
        let step = |state: &C::State, (prepared, now): &(Tensor, Tensor)| {
            let goes_on = now.lt(&ends);
            let next = self.cell.step(prepared, state).zip(state, |next, before| goes_on.choose(next, before));
            let output = C::output(&next);
            (next, goes_on.choose(&output, &output.zeros_like()))
        };
        let prepared = self.cell.prepared(sequences).reported_as("recurrent", &[sequences]);
        if prepared.error().is_some() {
            return (prepared.clone(), self.cell.start(1).map(|_| prepared.clone()));
        }
        let (last, outputs) = scan(step, &start, &(prepared, times));
        (outputs, last)
    }
}

/// The error for inputs that are not `[time, batch, inputs]`.
#[track_caller]
fn not_sequences(sequences: &Tensor) -> Option<Tensor> {
    if sequences.error().is_some() {
        return Some(sequences.clone());
    }
    if sequences.rank() == 3 {
        return None;
    }
    let message = format!("sequences must be of shape [time, batch, inputs], not {}", sequences.shape());
    let error = Error::new("Recurrent", message);
    let error = if sequences.rank() == 2 { error.help("for one sequence, use .unsqueeze(1)") } else { error };
    Some(Tensor::refused(error, &[sequences]))
}

/// The error for lengths that are not one per sequence.
#[track_caller]
fn not_lengths(sequences: &Tensor, lengths: &Tensor) -> Option<Tensor> {
    if lengths.error().is_some() {
        return Some(lengths.clone());
    }
    if lengths.dtype() == DType::I64 && **lengths.shape() == sequences.shape()[1..2] {
        return None;
    }
    let batch = sequences.shape()[1];
    let message = format!("lengths must be i64[{batch}], one for each sequence, not {}", lengths.describe());
    Some(Tensor::refused(Error::new("Recurrent", message), &[sequences, lengths]))
}

impl<C: Cell> Layer for Recurrent<C> {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self.run(x).0
    }
}

/// A bidirectional recurrent layer: two cells over sequences `[time, batch, inputs]`, one per direction, with concatenated outputs
/// `[time, batch, outputs of both]`.
///
/// ```
/// use glassgrad::{Tensor, nn::{Bidirectional, Gru, Layer}, rng::Key};
/// let layer = Bidirectional::new(Gru::new(Key::new(1), 3, 5), Gru::new(Key::new(2), 3, 5));
/// assert_eq!(layer.apply(&Tensor::ones([7, 2, 3])).shape().to_string(), "[7, 2, 10]");
/// ```
#[derive(Clone, Debug, crate::Tree)]
pub struct Bidirectional<C> {
    /// The forward direction.
    pub forward: Recurrent<C>,
    /// The backward direction.
    pub backward: Recurrent<C>,
}

impl<C: Cell> Bidirectional<C> {
    /// A bidirectional layer over these cells.
    ///
    /// ```
    /// use glassgrad::{nn::{Bidirectional, Rnn}, rng::Key, tree::Tree};
    /// let layer = Bidirectional::new(Rnn::new(Key::new(1), 2, 2), Rnn::new(Key::new(2), 2, 2));
    /// assert_eq!(layer.leaves()[0].0.to_string(), "forward.cell.input_weight");
    /// ```
    pub fn new(forward: C, backward: C) -> Bidirectional<C> {
        Bidirectional { forward: Recurrent::new(forward), backward: Recurrent::new(backward) }
    }

    /// The outputs of all time steps, and the final states of both cells: the forward one after the last time step, the backward
    /// one after the first.
    ///
    /// ```
    /// use glassgrad::{Tensor, expr::s, nn::{Bidirectional, Rnn}, rng::Key};
    /// let layer = Bidirectional::new(Rnn::new(Key::new(1), 3, 4), Rnn::new(Key::new(2), 3, 4));
    /// let (outputs, (_, first)) = layer.run(&Tensor::ones([7, 2, 3]));
    /// assert_eq!(outputs.slice(&[s(0), s(..), s(4..)]).to_string(), first.to_string());
    /// ```
    #[track_caller]
    pub fn run(&self, sequences: &Tensor) -> (Tensor, (C::State, C::State)) {
        let (forward, last) = self.forward.run(sequences);
        let reversed = if not_sequences(sequences).is_some() { sequences.clone() } else { sequences.flip([0]) };
        let (backward, first) = self.backward.run(&reversed);
        if forward.error().is_some() || backward.error().is_some() {
            return (forward, (last, first));
        }
        (Tensor::concatenate([&forward, &backward.flip([0])], 2), (last, first))
    }
}

impl<C: Cell> Layer for Bidirectional<C> {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self.run(x).0
    }
}
