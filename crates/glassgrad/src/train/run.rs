//! The loop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::concerns::inspect;
use super::trouble::Trouble;
use super::watch::{Epoch, Flow, Step, Watch};
use crate::Tree;
use crate::compile::compile;
use crate::data::{Batches, Dataset, Position, Prefetch};
use crate::diff::{Within as _, scan, value_and_grad};
use crate::error::Error;
use crate::expr::{Keys, Tensor};
use crate::glass::explain_non_finite;
use crate::optim::{Optimiser, State};
use crate::rng::Key;
use crate::save::{self, File};
use crate::tree::Tree;

/// How parameters are trained: a loss of a batch, an optimiser, how often everything is seen.
pub struct Training<'w, X, F> {
    loss: F,
    optimiser: Optimiser,
    epochs: u64,
    size: usize,
    parts: usize,
    whole_only: bool,
    seed: u64,
    checkpoint: Option<(PathBuf, Due)>,
    budget: Option<usize>,
    inspections: Option<u64>,
    watches: Vec<Box<dyn Watch<X> + 'w>>,
}

/// When a run is saved.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// After every so many steps, and at the end of every epoch.
    Steps(u64),
    /// At the end of a step when so much time has passed since the last time, and when training is over.
    Time(Duration),
}

/// A whole run at one moment: what is saved, and what it goes on from.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimiser, train::Run, tree::Tree};
/// let run = Run::start(&Optimiser::adam(0.1), &Tensor::from([1.0]));
/// assert_eq!(run.leaves()[0].0.to_string(), "parameters");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Run<X> {
    /// The parameters.
    pub parameters: X,
    /// What the optimiser remembers.
    pub optimiser: State<X>,
    /// The epoch, and how many of its batches were seen.
    pub position: Tensor,
    /// The losses of the epochs that are over, and the sum of those of the batches of this one.
    pub losses: Tensor,
}

/// What training has made.
#[derive(Clone, Debug)]
pub struct Trained<X> {
    /// The parameters.
    pub parameters: X,
    /// The mean loss of each epoch.
    pub losses: Vec<f64>,
    /// How many steps were made in all, those before a resumption included.
    pub steps: u64,
    /// Whether a watch has ended it before all epochs were over.
    pub stopped: bool,
}

impl<X: Tree> Run<X> {
    /// Before the first step.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimiser, train::Run};
    /// assert_eq!(Run::start(&Optimiser::sgd(0.1), &Tensor::from([1.0])).position.to_string(), "[0, 0]");
    /// ```
    pub fn start(optimiser: &Optimiser, parameters: &X) -> Run<X> {
        Run {
            parameters: parameters.map(Tensor::clone),
            optimiser: optimiser.start(parameters),
            position: Tensor::from([0_i64, 0]),
            losses: Tensor::from([0.0]),
        }
    }

    /// Reads a run from a file; one before its first step says what is expected.
    fn read(path: &Path, start: &Run<X>) -> Result<Run<X>, Error> {
        let file = File::read(path)?;
        // There is a loss for each epoch so far: as many as the file says, if it is a list.
        let losses = file.tensors.get("losses").filter(|losses| losses.rank() == 1 && losses.is_float());
        let losses = losses.unwrap_or(&start.losses).clone();
        file.tree(&Run { losses, ..start.map(Tensor::clone) })
    }

    fn position(&self) -> Result<Position, Error> {
        match self.position.to_vec::<i64>()?[..] {
            [epoch, batch] if epoch >= 0 && batch >= 0 => Ok(Position { epoch: epoch as u64, batch: batch as u64 }),
            ref other => Err(Error::new("resume", format!("{other:?} is no position in the data"))),
        }
    }
}

impl<'w, X, F> Training<'w, X, F> {
    /// With ten epochs, batches of 32, and the seed 0.
    pub fn new(loss: F, optimiser: Optimiser) -> Training<'w, X, F> {
        Training {
            loss,
            optimiser,
            epochs: 10,
            size: 32,
            parts: 1,
            whole_only: false,
            seed: 0,
            checkpoint: None,
            budget: None,
            inspections: None,
            watches: Vec::new(),
        }
    }

    /// How often everything is seen.
    pub fn epochs(self, epochs: u64) -> Self {
        Training { epochs, ..self }
    }

    /// How many examples a batch has.
    pub fn batch_size(self, size: usize) -> Self {
        Training { size, ..self }
    }

    /// Computes the gradient of a batch as the mean of those of so many parts, one after another: what a step needs of memory
    /// is what one part needs. A batch that cannot be divided evenly is seen as a whole.
    pub fn accumulate(self, parts: usize) -> Self {
        Training { parts: parts.max(1), ..self }
    }

    /// Without the batch at the end of an epoch that would be smaller.
    pub fn whole_batches(self) -> Self {
        Training { whole_only: true, ..self }
    }

    /// What decides on the order of the examples, and on all that the loss draws.
    pub fn seed(self, seed: u64) -> Self {
        Training { seed, ..self }
    }

    /// Saves the whole run every so many steps and at the end of every epoch, and goes on from the file if it is there.
    pub fn checkpoint(self, path: impl Into<PathBuf>, every: u64) -> Self {
        Training { checkpoint: Some((path.into(), Due::Steps(every.max(1)))), ..self }
    }

    /// Saves the whole run when so much time has passed since it was saved, and when training is over, and goes on from the
    /// file if it is there.
    pub fn checkpoint_after(self, path: impl Into<PathBuf>, time: Duration) -> Self {
        Training { checkpoint: Some((path.into(), Due::Time(time))), ..self }
    }

    /// Gradients take at most so many bytes of memory; what does not fit is computed anew, see [`Within`](crate::Within).
    pub fn within(self, bytes: usize) -> Self {
        Training { budget: Some(bytes), ..self }
    }

    /// Looks with [`inspect`] at a step after the first epoch, and then after every so many.
    pub fn inspect_every(self, epochs: u64) -> Self {
        Training { inspections: Some(epochs.max(1)), ..self }
    }

    /// Someone more who watches.
    pub fn watch(mut self, watch: impl Watch<X> + 'w) -> Self {
        self.watches.push(Box::new(watch));
        self
    }
}

/// What a step changes: the parameters, and what the optimiser remembers.
type Moment<X> = (X, State<X>);

/// So many steps lie at most between two moments that are remembered, for when something goes wrong.
const REMEMBERED: u64 = 64;

impl<X: Tree + Clone, F> Training<'_, X, F> {
    /// Trains parameters on examples.
    pub fn run<D>(mut self, start: &X, dataset: &Arc<D>) -> Result<Trained<X>, Trouble<X>>
    where
        D: Dataset + 'static,
        F: Fn(&X, &D::Batch, &Keys) -> Tensor,
    {
        let key = Key::new(self.seed);
        let batches = Batches::new(self.size, key.fold(0));
        let batches = if self.whole_only { batches.whole_only() } else { batches };
        let count = batches.count(dataset);
        if count == 0 {
            let message = format!("{} examples make no batch of {}", dataset.len(), self.size);
            return Err(Error::new("train", message).into());
        }
        let begin = Run::start(&self.optimiser, &start.realise()?);
        let mut run = match &self.checkpoint {
            Some((path, _)) if path.exists() => Run::read(path, &begin)?,
            _ => begin,
        };
        let mut position = run.position()?;
        let mut losses = run.losses.to_vec::<f64>()?;
        let mut sum = losses.pop().unwrap_or(0.0);
        let mut number = run.optimiser.count.item()? as u64;
        let key_at = |position: Position| Keys::from(key.fold(1).fold(position.epoch).fold(position.batch));
        let watches = &mut self.watches;
        let (loss, optimiser, parts, budget) = (&self.loss, &self.optimiser, self.parts, self.budget);
        let step = compile(|((parameters, state), (batch, key)): &(Moment<X>, (D::Batch, Keys))| {
            let (value, slope) = accumulated(loss, parameters, batch, key, (parts, budget));
            let next = optimiser.update_knowing(parameters, &slope, Some(&value), state);
            (next, value)
        });
        let mut state = (run.parameters.clone(), run.optimiser.clone());
        let mut remembered = (position, state.clone());
        let mut ahead = Prefetch::new(Arc::clone(dataset), batches, position, 2);
        let mut stopped = false;
        let mut saved = Instant::now();
        while position.epoch < self.epochs && !stopped {
            let Some(next) = ahead.next() else { break };
            let (_, batch) = next?;
            if number.is_multiple_of(REMEMBERED) {
                remembered = (position, state.clone());
            }
            let value = step.update(&mut state, &(batch, key_at(position)))?.item()?;
            number += 1;
            if !value.is_finite() {
                let replayed = |state: &mut Moment<X>, position: Position| -> Result<(), Error> {
                    let batch = batches.at(dataset, position)?;
                    step.update(state, &(batch, key_at(position))).map(drop)
                };
                let failed = Failed { loss: value, step: number, position };
                let found = self.explain(failed, remembered, &batches, dataset, key_at, replayed);
                return Err(found?);
            }
            sum += value;
            if !watches.is_empty() {
                let made = Step { position, batches: count, number, loss: value, rate: self.optimiser.rate_at(number) };
                for watch in &mut *watches {
                    stopped |= watch.step(&made)? == Flow::Stop;
                }
            }
            let before = position;
            position = batches.after(dataset, position);
            if position.epoch > before.epoch {
                losses.push(sum / count as f64);
                sum = 0.0;
                let is_due = |every: u64| before.epoch.is_multiple_of(every);
                let concerns = match self.inspections.is_some_and(is_due) {
                    true => inspect(loss, &state.0, &batches.at(dataset, before)?, &key_at(before))?,
                    false => Vec::new(),
                };
                let mean = losses[losses.len() - 1];
                let seen = Epoch { number: before.epoch, loss: mean, parameters: &state.0, concerns: &concerns };
                for watch in &mut *watches {
                    stopped |= watch.epoch(&seen)? == Flow::Stop;
                }
            }
            let is_last = stopped || position.epoch >= self.epochs;
            let is_due = |due: Due| match due {
                Due::Steps(every) => number.is_multiple_of(every) || position.epoch > before.epoch,
                Due::Time(time) => saved.elapsed() >= time,
            };
            if let Some((path, due)) = &self.checkpoint
                && (is_last || is_due(*due))
            {
                saved = Instant::now();
                let all: Vec<f64> = losses.iter().copied().chain([sum]).collect();
                let place = [position.epoch as i64, position.batch as i64];
                run = Run {
                    parameters: state.0.clone(),
                    optimiser: state.1.clone(),
                    position: Tensor::from(place),
                    losses: Tensor::from(all),
                };
                save::save(path, &run, &[("what", "a run of training")])?;
            }
        }
        Ok(Trained { parameters: state.0, losses, steps: number, stopped })
    }

    /// What made the loss infinite: the steps since the last remembered moment are made again.
    fn explain<D>(
        &self,
        failed: Failed,
        (mut position, mut state): (Position, Moment<X>),
        batches: &Batches,
        dataset: &Arc<D>,
        key_at: impl Fn(Position) -> Keys,
        replayed: impl Fn(&mut Moment<X>, Position) -> Result<(), Error>,
    ) -> Result<Trouble<X>, Error>
    where
        D: Dataset + 'static,
        F: Fn(&X, &D::Batch, &Keys) -> Tensor,
    {
        let Failed { loss, step, position: end } = failed;
        // The last two moments before the failure, with finite parameters if there are some.
        let mut before = (position, state.clone());
        while position < end {
            before = (position, state.clone());
            replayed(&mut state, position)?;
            position = batches.after(dataset, position);
        }
        let is_good = |parameters: &X| -> Result<bool, Error> {
            let mut good = true;
            for leaf in parameters.flatten().iter().filter(|leaf| leaf.is_float()) {
                good &= leaf.is_finite().all().item()? == 1.0;
            }
            Ok(good)
        };
        let (steps_before, (at, parameters)) = match is_good(&state.0)? || before.0 == end {
            true => (0, (position, state.0)),
            false => (1, (before.0, before.1.0)),
        };
        let batch = batches.at(dataset, at)?;
        let key = key_at(at);
        let explanation = explain_non_finite(|parameters: &X| (self.loss)(parameters, &batch, &key), &parameters)?;
        let checkpoint = self.checkpoint.as_ref().map(|(path, _)| path.clone()).filter(|path| path.exists());
        Ok(Trouble::NotFinite {
            loss,
            step,
            position: end,
            steps_before,
            explanation: explanation.map(Box::new),
            last_good: Box::new(parameters),
            checkpoint,
        })
    }
}

/// The loss of a batch and its gradient, as means over parts of the batch; each part draws with a key of its own.
fn accumulated<X: Tree, B: Tree>(
    loss: impl Fn(&X, &B, &Keys) -> Tensor,
    parameters: &X,
    batch: &B,
    key: &Keys,
    (parts, budget): (usize, Option<usize>),
) -> (Tensor, X) {
    let sloped = |batch: &B, key: &Keys| {
        let function = value_and_grad(|parameters: &X| loss(parameters, batch, key));
        match budget {
            Some(bytes) => function.within(bytes)(parameters),
            None => function(parameters),
        }
    };
    let divides = |leaf: &Tensor| leaf.shape().first().is_some_and(|count| count.is_multiple_of(parts));
    if parts == 1 || !batch.flatten().iter().all(divides) {
        return sloped(batch, key);
    }
    let divided = batch.map(|leaf| {
        let count = leaf.shape()[0] / parts;
        leaf.reshape([&[parts, count], &leaf.shape()[1..]].concat())
    });
    let one = |sums: &X, (part, key): &(B, Keys)| {
        let (value, slope) = sloped(part, key);
        (sums.add(&slope), value)
    };
    let (sums, values) = scan(one, &Tree::zeros_like(parameters), &(divided, key.split(parts)));
    let share = |sum: &Tensor| if sum.is_float() { sum * (1.0 / parts as f64) } else { sum.clone() };
    (values.mean(), sums.map(share))
}

/// A step whose loss was not finite.
struct Failed {
    loss: f64,
    step: u64,
    position: Position,
}
