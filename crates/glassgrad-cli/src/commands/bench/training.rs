//! Training: steps of an optimizer from the gradient of a loss.

use glassgrad::compile::Compiled;
use glassgrad::error::Error;
use glassgrad::optim::{Optimizer, State};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, loss, value_and_grad};

use super::gradient::{Function, check_gradient, check_gradient_in_f64};
use super::workload::Workload;

/// Whether a step is built anew each time, as in PyTorch, or compiled once.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// The graph of every step is built, differentiated and recognised.
    DefineByRun,
    /// It is built once, and the state is written over.
    Compiled,
}

/// Parameters, and what the optimizer remembers.
type TrainState<P> = (P, State<P>);
type TrainStep<P, D> = Box<dyn Fn(&(TrainState<P>, D)) -> (TrainState<P>, Tensor)>;

/// A model in training. A run is one step for each batch.
pub(super) struct Training<P, D> {
    loss: Function<P, D>,
    mode: Mode,
    step: TrainStep<P, D>,
    compiled: Compiled<TrainStep<P, D>, (TrainState<P>, Tensor)>,
    state: TrainState<P>,
    batches: Vec<D>,
    /// The sum of the losses of all batches in the first run.
    first: Option<f64>,
    /// The losses of the last run, which are read after it: a GPU would be waited for in every step.
    losses: Vec<Tensor>,
    check: Check,
}

/// How the gradient is checked against finite differences before it is timed.
#[derive(Clone, Copy)]
enum Check {
    InItsType,
    /// For deep networks.
    InF64,
    /// Not at all: at sizes for a GPU a check in 64 bits would take minutes, and the gradients of the same network at small sizes have
    /// golden values. The loss must still decrease.
    None,
}

impl<P: Tree + 'static, D: Tree + Clone + 'static> Training<P, D> {
    pub(super) fn new(loss: Function<P, D>, optimizer: Optimizer, mode: Mode, parameters: P, batches: Vec<D>) -> Self {
        let remembered = optimizer.init(&parameters);
        let step = |optimizer: Optimizer| -> TrainStep<P, D> {
            Box::new(move |((parameters, remembered), batch)| {
                let (value, gradient) = value_and_grad(|parameters: &P| loss(parameters, batch))(parameters);
                (optimizer.update(parameters, &gradient, remembered), value)
            })
        };
        let (compiled, step) = (compile(step(optimizer.clone())), step(optimizer));
        Training {
            loss,
            mode,
            step,
            compiled,
            state: (parameters, remembered),
            batches,
            first: None,
            losses: Vec::new(),
            check: Check::InItsType,
        }
    }

    /// The same with its gradient checked in 64 bits, for deep networks.
    pub(super) fn checked_in_f64(self) -> Self {
        Training { check: Check::InF64, ..self }
    }

    /// The same without finite differences.
    pub(super) fn without_differences(self) -> Self {
        Training { check: Check::None, ..self }
    }

    /// One step for one batch: the loss before it.
    fn step(&mut self, batch: usize) -> Result<Tensor, Error> {
        match self.mode {
            Mode::Compiled => self.compiled.update(&mut self.state, &self.batches[batch]),
            Mode::DefineByRun => {
                let (state, loss) = self.next(&self.batches[batch]).realise()?;
                self.state = state;
                Ok(loss)
            }
        }
    }

    /// The next state and the loss as a graph. The gradient is dropped here, so that the program need not materialize it.
    fn next(&self, batch: &D) -> (TrainState<P>, Tensor) {
        (self.step)(&(self.state.map(Tensor::clone), batch.clone()))
    }
}

impl<P: Tree + 'static, D: Tree + Clone + 'static> Workload for Training<P, D> {
    fn run(&mut self) -> Result<(), Error> {
        self.losses = (0..self.batches.len()).map(|batch| self.step(batch)).collect::<Result<_, Error>>()?;
        if self.first.is_none() {
            self.first = Some(self.value());
        }
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        self.batches.iter().try_for_each(|batch| (self.loss)(&self.state.0, batch).eval().map(drop))
    }

    /// The loss before the last step.
    fn value(&self) -> f64 {
        self.losses.iter().map(|loss| loss.item().unwrap_or(f64::NAN)).sum()
    }

    fn results(&self) -> Vec<Tensor> {
        self.batches.first().map(|batch| self.next(batch).flatten()).unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        let last = self.value();
        if let Some(first) = self.first.filter(|first| last >= *first) {
            return Err(format!("the loss does not decrease: it was {first} and is {last}"));
        }
        let check = match self.check {
            Check::InItsType => check_gradient,
            Check::InF64 => check_gradient_in_f64,
            Check::None => return Ok(()),
        };
        self.batches.iter().try_for_each(|batch| check(self.loss, &self.state.0, batch))
    }
}

/// The mean cross-entropy of logits and targets.
pub(super) fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    loss::cross_entropy(logits, targets).mean()
}
