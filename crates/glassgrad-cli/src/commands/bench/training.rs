//! Training: steps of an optimiser from the gradient of a loss.

use glassgrad::compile::Compiled;
use glassgrad::error::Error;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, value_and_grad};

use super::gradient::{Function, check_gradient};
use super::workload::Workload;

/// How parameters move.
#[derive(Clone, Copy)]
pub(super) enum Optimizer {
    /// Against the gradient, and towards zero.
    Descent { rate: f64, decay: f64 },
    /// Adam with its usual constants.
    Adam { rate: f64 },
}

/// Whether a step is built anew each time, as in PyTorch, or compiled once.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// The graph of every step is built, differentiated and recognised.
    DefineByRun,
    /// It is built once, and the state is written over.
    Compiled,
}

/// Parameters, and running means of the gradient and of its square; only Adam has these.
type State<P> = (P, (Vec<Tensor>, Vec<Tensor>));
/// A batch, and the two factors of a step that change from step to step.
type Argument<D> = (D, [Tensor; 2]);
type Step<P, D> = Box<dyn Fn(&(State<P>, Argument<D>)) -> (State<P>, Tensor)>;

/// A model in training. A run is one step for each batch.
pub(super) struct Training<P, D> {
    loss: Function<P, D>,
    optimizer: Optimizer,
    mode: Mode,
    step: Step<P, D>,
    compiled: Compiled<Step<P, D>, (State<P>, Tensor)>,
    state: State<P>,
    batches: Vec<D>,
    steps: i32,
    /// The sum of the losses of all batches, in the first run and in the last.
    first: Option<f64>,
    last: f64,
}

impl<P: Tree + 'static, D: Tree + Clone + 'static> Training<P, D> {
    pub(super) fn new(loss: Function<P, D>, optimizer: Optimizer, mode: Mode, parameters: P, batches: Vec<D>) -> Self {
        let zeros = || match optimizer {
            Optimizer::Descent { .. } => Vec::new(),
            Optimizer::Adam { .. } => parameters.flatten().iter().map(Tensor::zeros_like).collect(),
        };
        let moments = (zeros(), zeros());
        let step = || -> Step<P, D> { Box::new(move |argument| next(loss, optimizer, argument)) };
        let (compiled, step) = (compile(step()), step());
        let state = (parameters, moments);
        Training { loss, optimizer, mode, step, compiled, state, batches, steps: 0, first: None, last: f64::NAN }
    }

    /// One step for one batch: the loss before it.
    fn step(&mut self, batch: usize) -> Result<f64, Error> {
        self.steps += 1;
        match self.mode {
            Mode::Compiled => {
                let argument = (self.batches[batch].clone(), self.optimizer.factors(self.steps));
                self.compiled.update(&mut self.state, &argument)?.item()
            }
            Mode::DefineByRun => {
                let (state, loss) = self.next(&self.batches[batch], self.steps).realise()?;
                self.state = state;
                loss.item()
            }
        }
    }

    /// The next state and the loss as a graph. The gradient itself is let go of here: what nobody holds need not be kept.
    fn next(&self, batch: &D, steps: i32) -> (State<P>, Tensor) {
        let state = (self.state.0.map(Tensor::clone), self.state.1.clone());
        (self.step)(&(state, (batch.clone(), self.optimizer.factors(steps))))
    }
}

impl Optimizer {
    /// What the gradient, or the running mean of it, and the root of the mean square are multiplied with.
    fn factors(self, steps: i32) -> [Tensor; 2] {
        let factors = match self {
            Optimizer::Descent { rate, .. } => [rate, 1.0],
            Optimizer::Adam { rate } => {
                // The means start at zero, and their early values are too small by these shares.
                let (mean_share, square_share) = (1.0 - MEAN_DECAY.powi(steps), 1.0 - SQUARE_DECAY.powi(steps));
                [rate / mean_share, 1.0 / square_share.sqrt()]
            }
        };
        factors.map(|factor| Tensor::from(factor as f32))
    }
}

const MEAN_DECAY: f64 = 0.9;
const SQUARE_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The next state, and the loss of this one.
fn next<P: Tree, D: Tree>(
    loss: Function<P, D>,
    optimizer: Optimizer,
    ((parameters, moments), (batch, [factor, root_factor])): &(State<P>, Argument<D>),
) -> (State<P>, Tensor) {
    let (value, slope) = value_and_grad(|parameters: &P| loss(parameters, batch))(parameters);
    let Optimizer::Adam { .. } = optimizer else {
        let decay = if let Optimizer::Descent { decay, .. } = optimizer { decay } else { 0.0 };
        let moved = parameters.zip(&slope, |p, slope| match decay {
            0.0 => p - slope * factor,
            decay => p - (slope + p * decay) * factor,
        });
        return ((moved, (Vec::new(), Vec::new())), value);
    };
    let (slopes, (means, squares)) = (slope.flatten(), moments);
    let towards = |old: &Tensor, new: Tensor, decay: f64| old * decay + new * (1.0 - decay);
    let means: Vec<Tensor> = means.iter().zip(&slopes).map(|(m, g)| towards(m, g.clone(), MEAN_DECAY)).collect();
    let squares: Vec<Tensor> = squares.iter().zip(&slopes).map(|(v, g)| towards(v, g * g, SQUARE_DECAY)).collect();
    let mut pairs = means.iter().zip(&squares);
    let moved = parameters.map(|p| match pairs.next() {
        Some((m, v)) => p - m * factor / (v.sqrt() * root_factor + EPSILON),
        None => p.clone(),
    });
    ((moved, (means, squares)), value)
}

impl<P: Tree + 'static, D: Tree + Clone + 'static> Workload for Training<P, D> {
    fn run(&mut self) -> Result<(), Error> {
        self.last = (0..self.batches.len()).map(|batch| self.step(batch)).sum::<Result<f64, Error>>()?;
        self.first.get_or_insert(self.last);
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        self.batches.iter().try_for_each(|batch| (self.loss)(&self.state.0, batch).eval().map(drop))
    }

    /// The loss before the last step.
    fn value(&self) -> f64 {
        self.last
    }

    fn results(&self) -> Vec<Tensor> {
        self.batches.first().map(|batch| self.next(batch, self.steps + 1).flatten()).unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        if let Some(first) = self.first.filter(|first| self.last >= *first) {
            return Err(format!("the loss does not decrease: it was {first} and is {}", self.last));
        }
        self.batches.iter().try_for_each(|batch| check_gradient(self.loss, &self.state.0, batch))
    }
}

/// The mean cross-entropy of logits and targets.
pub(super) fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    -logits.log_softmax(-1).inner(targets) / targets.shape()[0] as f64
}
