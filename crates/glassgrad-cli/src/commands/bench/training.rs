//! Training: steps of an optimiser from the gradient of a loss.

use glassgrad::error::Error;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, value_and_grad};

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

/// A model in training. A run is one step for each batch.
pub(super) struct Training<P, D> {
    loss: Function<P, D>,
    optimizer: Optimizer,
    parameters: P,
    /// Running means of the gradient and of its square; only Adam uses them.
    moments: (Vec<Tensor>, Vec<Tensor>),
    batches: Vec<D>,
    steps: i32,
    /// The sum of the losses of all batches, in the first run and in the last.
    first: Option<f64>,
    last: f64,
}

impl<P: Tree, D: Tree> Training<P, D> {
    pub(super) fn new(loss: Function<P, D>, optimizer: Optimizer, parameters: P, batches: Vec<D>) -> Self {
        let zeros = || match optimizer {
            Optimizer::Descent { .. } => Vec::new(),
            Optimizer::Adam { .. } => parameters.flatten().iter().map(Tensor::zeros_like).collect(),
        };
        let moments = (zeros(), zeros());
        Training { loss, optimizer, parameters, moments, batches, steps: 0, first: None, last: f64::NAN }
    }

    /// One step for one batch: the loss before it.
    fn step(&mut self, batch: usize) -> Result<f64, Error> {
        self.steps += 1;
        let (loss, parameters, moments) = self.next(&self.batches[batch]).realise()?;
        (self.parameters, self.moments) = (parameters, moments);
        loss.item()
    }

    /// The loss, and what follows from its gradient, as a graph. The gradient itself is let go of here: what nobody
    /// holds need not be kept.
    fn next(&self, batch: &D) -> (Tensor, P, (Vec<Tensor>, Vec<Tensor>)) {
        let (loss, slope) = value_and_grad(|parameters: &P| (self.loss)(parameters, batch))(&self.parameters);
        match self.optimizer {
            Optimizer::Descent { rate, decay } => {
                let moved = self.parameters.zip(&slope, |p, slope| match decay {
                    0.0 => p - slope * rate,
                    decay => p - (slope + p * decay) * rate,
                });
                (loss, moved, (Vec::new(), Vec::new()))
            }
            Optimizer::Adam { rate } => {
                let (moved, moments) = self.adam(rate, &slope);
                (loss, moved, moments)
            }
        }
    }

    fn adam(&self, rate: f64, slope: &P) -> (P, (Vec<Tensor>, Vec<Tensor>)) {
        const MEAN_DECAY: f64 = 0.9;
        const SQUARE_DECAY: f64 = 0.999;
        const EPSILON: f64 = 1e-8;
        let (slopes, (means, squares)) = (slope.flatten(), &self.moments);
        let towards = |old: &Tensor, new: Tensor, decay: f64| old * decay + new * (1.0 - decay);
        let means: Vec<Tensor> = means.iter().zip(&slopes).map(|(m, g)| towards(m, g.clone(), MEAN_DECAY)).collect();
        let squares: Vec<Tensor> = squares.iter().zip(&slopes).map(|(v, g)| towards(v, g * g, SQUARE_DECAY)).collect();
        // The means start at zero, and their early values are too small by these factors.
        let mean_share = 1.0 - MEAN_DECAY.powi(self.steps);
        let square_share = 1.0 - SQUARE_DECAY.powi(self.steps);
        let mut moments = means.iter().zip(&squares);
        let moved = self.parameters.map(|p| match moments.next() {
            Some((m, v)) => p - m * (rate / mean_share) / (v.sqrt() * (1.0 / square_share.sqrt()) + EPSILON),
            None => p.clone(),
        });
        (moved, (means, squares))
    }
}

impl<P: Tree, D: Tree> Workload for Training<P, D> {
    fn run(&mut self) -> Result<(), Error> {
        self.last = (0..self.batches.len()).map(|batch| self.step(batch)).sum::<Result<f64, Error>>()?;
        self.first.get_or_insert(self.last);
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        self.batches.iter().try_for_each(|batch| (self.loss)(&self.parameters, batch).eval().map(drop))
    }

    /// The loss before the last step.
    fn value(&self) -> f64 {
        self.last
    }

    fn results(&self) -> Vec<Tensor> {
        self.batches.first().map(|batch| self.next(batch).flatten()).unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        if let Some(first) = self.first.filter(|first| self.last >= *first) {
            return Err(format!("the loss does not decrease: it was {first} and is {}", self.last));
        }
        self.batches.iter().try_for_each(|batch| check_gradient(self.loss, &self.parameters, batch))
    }
}

/// The mean cross-entropy of logits and targets.
pub(super) fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    -logits.log_softmax(-1).inner(targets) / targets.shape()[0] as f64
}
