//! Training one step at a time, under the caller's control.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

use super::backward::{Backward, with_untrained};
use super::diagnostics::{Diagnostic, compared, inspect};
use super::distributed::{Seen, ShardedStep, facts, part_of_state, whole_state};
use super::error::TrainError;
use super::observer::{Epoch, Flow, Observer, Step};
use super::precision::{LossScale, Precision, all_finite, unless_overflown};
use super::run::{Due, LossOutput, Run, Training};
use crate::clock::Instant;
use crate::collective::Shards;
use crate::compile::compile;
use crate::data::{Batches, Dataset, Position, Prefetch};
use crate::diff::grad;
use crate::error::Error;
use crate::expr::{Keys, Tensor};
use crate::glass::explain_non_finite;
use crate::optim::{Optimizer, Partition, State};
use crate::rng::Key;
use crate::save::{self, File};
use crate::tree::Tree;

/// The training state: the parameters, the state of the optimizer, and that of loss scaling.
pub(super) type TrainState<X> = (X, State<X>, Option<LossScale>);
/// A step: updates the training state in place, and returns the loss before it.
type Advance<'s, X, B> = dyn Fn(&mut TrainState<X>, &[Seen<B>]) -> Result<Tensor, Error> + 's;
/// The loss of a batch, in full precision or not, and the parameters with the next state of what is not trained.
pub(super) type Loss<'s, X, B> = dyn Fn(&X, &B, &Keys, Precision) -> (Tensor, Option<X>) + 's;

/// The interval of in-memory snapshots, from which steps are replayed to explain a failure or to inspect the last step.
const SNAPSHOT_INTERVAL: u64 = 64;

/// A training session: it takes a step on request, and can be inspected between steps.
///
/// [`Training::run`] is a loop over it. A loop with pauses, with an interactive learning rate, or with inspection
/// between the steps is written with it.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::Training};
/// let examples = Arc::new(Examples::new(Tensor::from([1.0, 3.0])).unwrap());
/// let loss = |x: &Tensor, batch: &Tensor, _: &Keys| (x - batch).square().mean();
/// let training = Training::new(loss, Optimizer::sgd(0.25)).epochs(3);
/// let mut session = training.session(&Tensor::from(0.0), &examples).unwrap();
/// let first = session.step().unwrap().unwrap();
/// assert_eq!((first.number, first.loss, session.parameters().item().unwrap()), (1, 5.0, 1.0));
/// // Half as fast from here on.
/// session.set_rate(0.125).unwrap();
/// assert_eq!(session.step().unwrap().unwrap().rate, 0.125);
/// assert_eq!(session.parameters().item().unwrap(), 1.25);
/// // The last step can be replayed.
/// assert_eq!(session.last().unwrap().unwrap().parameters.item().unwrap(), 1.0);
/// while session.step().unwrap().is_some() {}
/// assert_eq!(session.steps(), 3);
/// ```
pub struct Session<'s, X, D: Dataset> {
    advance: Box<Advance<'s, X, D::Batch>>,
    loss: Rc<Loss<'s, X, D::Batch>>,
    precision: Precision,
    optimizer: &'s Optimizer,
    checkpoint: Option<(PathBuf, Due)>,
    notes: &'s [(String, String)],
    inspections: Option<u64>,
    /// When the run was last saved, if the clock decides when it is saved again.
    saved: Option<Instant>,
    dataset: Arc<D>,
    batches: Batches,
    key: Key,
    epochs: u64,
    /// The next batches, or those of each local shard.
    ahead: Vec<Prefetch<D::Batch>>,
    shards: Option<Arc<Shards>>,
    /// The part of the trained leaves of which the state of the optimizer is on this rank, if not of all.
    part: Option<Partition>,
    /// The batch that comes next.
    position: Position,
    state: TrainState<X>,
    /// A recent snapshot, from which later states can be replayed.
    snapshot: (Position, TrainState<X>),
    /// The factor of the rate, and the one requested from the next step on.
    factor: f64,
    requested_factor: Option<f64>,
    steps: u64,
    losses: Vec<f64>,
    /// The sum of the losses of this epoch.
    sum: f64,
    /// Warnings about the checkpoint.
    warnings: Vec<String>,
}

/// The moment before a step, and what the step saw.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::Training};
/// let examples = Arc::new(Examples::new(Tensor::from([2.0])).unwrap());
/// let loss = |x: &Tensor, batch: &Tensor, _: &Keys| (x * batch).sum();
/// let training = Training::new(loss, Optimizer::sgd(0.5));
/// let mut session = training.session(&Tensor::from(5.0), &examples).unwrap();
/// session.step().unwrap();
/// let last = session.last().unwrap().unwrap();
/// assert_eq!((last.number, last.batch.to_string(), last.rate), (1, "[2]".to_owned(), 0.5));
/// assert_eq!((last.parameters.item().unwrap(), session.parameters().item().unwrap()), (5.0, 4.0));
/// ```
#[derive(Clone, Debug)]
pub struct Last<X, B> {
    /// The number of the step, from 1 on.
    pub number: u64,
    /// The parameters before it.
    pub parameters: X,
    /// The state of the optimizer before it.
    pub state: State<X>,
    /// The examples that it saw.
    pub batch: B,
    /// The random keys of its loss.
    pub key: Keys,
    /// Its rate.
    pub rate: f64,
}

impl<'w, X: Tree + Clone, F> Training<'w, X, F> {
    /// Checks before the first step that every shard of every batch has examples, and that all ranks run the same training.
    fn check_shards<D: Dataset>(
        &self,
        shards: &Shards,
        start: &X,
        dataset: &Arc<D>,
        batches: &Batches,
    ) -> Result<(), Error> {
        let last = Position { epoch: 0, batch: batches.count(dataset) - 1 };
        let (smallest, count) = (batches.share(dataset, last).1, shards.count());
        let numbers = [
            ("shards", count as u64),
            ("examples", dataset.len() as u64),
            ("batch size", self.size as u64),
            ("epochs", self.epochs),
            ("seed", self.seed),
            ("micro-batches", self.parts as u64),
            ("precision", self.precision as u64),
        ];
        let mut facts = facts(start, &numbers)?;
        facts.extend(self.notes.iter().map(|(name, text)| (name.as_str(), text.clone())));
        shards.agree(&facts)?;
        if smallest < count {
            let which = if batches.count(dataset) == 1 { "the batch" } else { "the last batch of an epoch" };
            let message = format!("{which} has {smallest} examples, fewer than the {count} shards");
            let help = "choose another batch size or fewer shards, or leave out the smaller batch with whole_batches";
            return Err(Error::new("train", message).help(help));
        }
        Ok(())
    }

    /// Training before its first step, or resumed from a checkpoint. It has no observer.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::Training};
    /// let none = Arc::new(Examples::new(Tensor::zeros([0])).unwrap());
    /// let training = Training::new(|x: &Tensor, _: &Tensor, _: &Keys| x.square(), Optimizer::sgd(0.1));
    /// let refused = training.session(&Tensor::from(1.0), &none).err().unwrap();
    /// assert!(refused.to_string().contains("0 examples make no batch of 32"));
    /// ```
    pub fn session<'s, D, R>(&'s self, start: &X, dataset: &Arc<D>) -> Result<Session<'s, X, D>, Error>
    where
        D: Dataset + 'static,
        F: Fn(&X, &D::Batch, &Keys) -> R,
        R: LossOutput<X>,
        'w: 's,
        X: 's,
    {
        let key = Key::new(self.seed);
        let batches = Batches::new(self.size, key.fold(0));
        let batches = if self.whole_only { batches.whole_only() } else { batches };
        if batches.count(dataset) == 0 {
            let message = format!("{} examples make no batch of {}", dataset.len(), self.size);
            return Err(Error::new("train", message));
        }
        let shards = self.shards.clone().filter(|shards| shards.count() > 1 || shards.ranks() > 1);
        if let Some(shards) = &shards {
            self.check_shards(shards, start, dataset, &batches)?;
        }
        let mut begin = Run::start(&self.optimizer, &start.realise()?);
        begin.loss_scale = (self.precision == Precision::F16).then(LossScale::start);
        let (run, warnings) = match &self.checkpoint {
            Some((path, _)) => match saved_file(path, shards.as_deref())? {
                Some(file) => Run::read(path, file, &begin, &self.notes)?,
                None => (begin, Vec::new()),
            },
            None => (begin, Vec::new()),
        };
        let position = run.position()?;
        let mut losses = run.losses.to_vec::<f64>()?;
        let sum = losses.pop().unwrap_or(0.0);
        let steps = run.optimizer.count.item()? as u64;
        let factor = run.optimizer.factor.item()?;
        let (optimizer, parts, budget, precision) = (&self.optimizer, self.parts, self.budget, self.precision);
        let part = shards.as_ref().filter(|shards| self.shard_state && shards.ranks() > 1);
        let part = part.map(|shards| Partition { part: shards.rank(), parts: shards.ranks() });
        let loss: Rc<Loss<'s, X, D::Batch>> = Rc::new(move |parameters, batch, key, precision| {
            (self.loss)(&precision.rounded(&self.optimizer, parameters), batch, key).parts()
        });
        let advance: Box<Advance<'s, X, D::Batch>> = match &shards {
            Some(shards) => {
                let (shards, bucket) = (Arc::clone(shards), self.bucket);
                Box::new(
                    ShardedStep { shards, optimizer, parts, bucket, budget, precision, part }
                        .compiled(Rc::clone(&loss)),
                )
            }
            None => {
                let own = Rc::clone(&loss);
                let step =
                    compile(move |((parameters, state, scale), (batch, key)): &(TrainState<X>, (D::Batch, Keys))| {
                        let loss =
                            |parameters: &X, batch: &D::Batch, key: &Keys| own(parameters, batch, key, precision);
                        let backward =
                            Backward { optimizer, parts, budget, scale: scale.as_ref().map(|scale| &scale.factor) };
                        let (value, gradient, untrained) = backward.run(loss, parameters, batch, key);
                        (updated(optimizer, (parameters, state, scale), &gradient, &value, untrained.as_deref()), value)
                    });
                Box::new(move |state, seen| {
                    let [Seen { data, .. }] = seen else { unreachable!("a step sees one batch") };
                    step.update(state, data)
                })
            }
        };
        let ahead = |batches: Batches| Prefetch::new(Arc::clone(dataset), batches, position, 2);
        let ahead = match &shards {
            Some(shards) => shards.local().map(|shard| ahead(batches.shard(shard, shards.count()))).collect(),
            None => vec![ahead(batches)],
        };
        let state = match part {
            Some(part) => part_of_state(optimizer, &run.optimizer, part)?,
            None => run.optimizer,
        };
        let state = (run.parameters, state, run.loss_scale);
        Ok(Session {
            part,
            advance,
            loss,
            precision,
            optimizer,
            checkpoint: self.checkpoint.clone(),
            notes: &self.notes,
            inspections: self.inspections,
            saved: matches!(self.checkpoint, Some((_, Due::Time(_)))).then(Instant::now),
            dataset: Arc::clone(dataset),
            batches,
            key,
            epochs: self.epochs,
            ahead,
            shards,
            position,
            snapshot: (position, state.clone()),
            state,
            factor,
            requested_factor: None,
            steps,
            losses,
            sum,
            warnings,
        })
    }
}

/// The training state after a step, from its gradient, its loss, and the leaves that are not trained.
pub(super) fn updated<X: Tree>(
    optimizer: &Optimizer,
    (parameters, state, scale): (&X, &State<X>, &Option<LossScale>),
    gradient: &X,
    value: &Tensor,
    untrained: Option<&[Tensor]>,
) -> TrainState<X> {
    let (next, next_state) = optimizer.update_with_loss(parameters, gradient, Some(value), state);
    let next = match untrained {
        Some(leaves) => with_untrained(optimizer, &next, leaves),
        None => next,
    };
    unless_scaled_down(gradient, (next, next_state), (parameters, state), scale)
}

/// The state after a step, or with loss scaling the state before it, where the gradient is not finite.
pub(super) fn unless_scaled_down<X: Tree>(
    gradient: &X,
    (next, next_state): (X, State<X>),
    before: (&X, &State<X>),
    scale: &Option<LossScale>,
) -> TrainState<X> {
    match scale {
        None => (next, next_state, None),
        Some(scale) => {
            let is_finite = all_finite(gradient);
            let (next, next_state) = unless_overflown(&is_finite, (next, next_state), before);
            (next, next_state, Some(scale.after(&is_finite)))
        }
    }
}

/// The checkpoint, if there is one. Rank 0 reads it for all.
fn saved_file(path: &Path, shards: Option<&Shards>) -> Result<Option<File>, Error> {
    let Some(shards) = shards.filter(|shards| shards.ranks() > 1) else {
        return path.exists().then(|| File::read(path)).transpose();
    };
    // A rank that cannot read it says so to the others: they wait for the bytes.
    let bytes = match shards.rank() == 0 && path.exists() {
        true => std::fs::read(path)
            .map(|bytes| [&[1], &bytes[..]].concat())
            .unwrap_or_else(|error| [&[2], error.to_string().as_bytes()].concat()),
        false => Vec::new(),
    };
    let about = || format!("cannot read {}", path.display());
    match shards.broadcast_first(bytes)?.split_first() {
        None => Ok(None),
        Some((1, bytes)) => File::from_bytes(bytes).map(Some).map_err(|error| error.within(about())),
        Some((_, reason)) => Err(Error::new("load", format!("{}: {}", about(), String::from_utf8_lossy(reason)))),
    }
}

impl<X: Tree + Clone, D: Dataset + 'static> Session<'_, X, D> {
    /// Makes a step; nothing comes back when all epochs are over.
    ///
    /// A loss that is not finite is an error, with the operation in which that began.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::{Training, TrainError}};
    /// let examples = Arc::new(Examples::new(Tensor::from([1.0])).unwrap());
    /// let training = Training::new(|x: &Tensor, batch: &Tensor, _: &Keys| (x.ln() * batch).sum(), Optimizer::sgd(2.0));
    /// let mut session = training.session(&Tensor::from(1.0), &examples).unwrap();
    /// assert!(session.step().is_ok());
    /// assert!(matches!(session.step(), Err(TrainError::NotFinite { step: 2, .. })));
    /// ```
    pub fn step(&mut self) -> Result<Option<Step>, TrainError<X>> {
        if self.is_over() {
            return Ok(None);
        }
        let position = self.position;
        let mut ahead = std::mem::take(&mut self.ahead);
        let next = ahead.iter_mut().enumerate().map(|(place, ahead)| {
            let Some(next) = ahead.next() else {
                // The thread of the batches ends before the last epoch only by a panic of the dataset.
                let Position { epoch, batch } = position;
                let message = format!("the dataset panicked while it loaded batch {batch} of epoch {epoch}");
                return Err(Error::new("train", message).help("the panic is reported where it happened"));
            };
            Ok(self.seen(place, position, next?.1))
        });
        // One batch, unless there are shards: no request for memory.
        let seen = next.collect::<Result<SmallVec<[_; 1]>, Error>>();
        self.ahead = ahead;
        let seen = seen?;
        let is_changed = self.requested_factor.is_some();
        if let Some(factor) = self.requested_factor.take() {
            self.factor = factor;
            self.state.1.factor = Tensor::from(factor);
        }
        if is_changed || self.steps.is_multiple_of(SNAPSHOT_INTERVAL) {
            self.snapshot = (self.position, self.state.clone());
        }
        let loss = (self.advance)(&mut self.state, &seen)?.item()?;
        self.steps += 1;
        if !loss.is_finite() {
            return Err(self.explain(loss, position)?);
        }
        self.sum += loss;
        self.position = self.batches.after(&self.dataset, position);
        if self.position.epoch > position.epoch {
            self.losses.push(self.sum / self.batches() as f64);
            self.sum = 0.0;
        }
        let rate = self.optimizer.rate_at(self.steps) * self.factor;
        Ok(Some(Step { position, batches: self.batches(), number: self.steps, loss, rate }))
    }

    /// Makes a step with all that belongs to it: observers see the step and the end of an epoch, with an inspection where one
    /// is due, and the run is saved where that is due. It returns whether an observer asks to stop; nothing comes back when
    /// all epochs are over.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer};
    /// use glassgrad::train::{EarlyStopping, Flow, Training};
    /// let examples = Arc::new(Examples::new(Tensor::from([1.0])).unwrap());
    /// let training = Training::new(|x: &Tensor, _: &Tensor, _: &Keys| x.square(), Optimizer::sgd(0.1)).epochs(1);
    /// let mut session = training.session(&Tensor::from(1.0), &examples).unwrap();
    /// let mut observer = EarlyStopping::new(3, |x: &Tensor| x.item());
    /// assert_eq!(session.advance(&mut observer).unwrap(), Some(Flow::Continue));
    /// assert_eq!(session.advance(&mut observer).unwrap(), None);
    /// assert_eq!(observer.best().unwrap().0, 0.8);
    /// ```
    pub fn advance(&mut self, observer: &mut dyn Observer<X>) -> Result<Option<Flow>, TrainError<X>> {
        let Some(finished) = self.step()? else { return Ok(None) };
        // Rank 0 alone reports, saves and decides.
        let is_first = self.shards.as_ref().is_none_or(|shards| shards.rank() == 0);
        let mut stopped = is_first && observer.step(&finished)? == Flow::Stop;
        let before = finished.position;
        let is_end_of_epoch = self.position.epoch > before.epoch;
        if is_first && is_end_of_epoch {
            let diagnostics = match self.inspections.is_some_and(|every| before.epoch.is_multiple_of(every)) {
                true => {
                    let (batch, key) = self.whole_at(before)?;
                    self.inspected(&batch, &key)?
                }
                false => Vec::new(),
            };
            let loss = self.losses.last().copied().unwrap_or(f64::NAN);
            let (number, parameters) = (before.epoch, self.parameters());
            stopped |= observer.epoch(&Epoch { number, loss, parameters, diagnostics: &diagnostics })? == Flow::Stop;
        }
        let is_due = |due: Due| match due {
            Due::Steps(every) => finished.number.is_multiple_of(every) || is_end_of_epoch,
            Due::Time(time) => self.saved.is_some_and(|saved| saved.elapsed() >= time),
        };
        let mut is_saved = self.checkpoint.as_ref().is_some_and(|(_, due)| is_due(*due));
        if let Some(shards) = &self.shards {
            let decided = shards.broadcast_first(vec![u8::from(stopped), u8::from(is_saved)])?;
            (stopped, is_saved) = (decided[0] == 1, decided[1] == 1);
        }
        if let Some((path, _)) = &self.checkpoint
            && (stopped || self.is_over() || is_saved)
        {
            // All ranks have a part in it.
            let run = self.whole_run()?;
            if is_first {
                let notes = self.notes.iter().map(|(name, text)| (name.as_str(), text.as_str()));
                let notes: Vec<(&str, &str)> = notes.chain([("what", "a run of training")]).collect();
                save::save(path, &run, &notes)?;
            }
            self.saved = self.saved.map(|_| Instant::now());
        }
        Ok(Some(if stopped { Flow::Stop } else { Flow::Continue }))
    }

    /// Whether all epochs are over.
    pub fn is_over(&self) -> bool {
        self.position.epoch >= self.epochs
    }

    /// Batches per epoch.
    pub fn batches(&self) -> u64 {
        self.batches.count(&self.dataset)
    }

    /// The total number of steps, those before a resumption included.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The batch that comes next.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The parameters as they are now.
    pub fn parameters(&self) -> &X {
        &self.state.0
    }

    /// The current state of the optimizer; with [`Training::shard_state`](super::Training::shard_state) that of this rank's part.
    pub fn state(&self) -> &State<X> {
        &self.state.1
    }

    /// The mean losses of the epochs that are over.
    pub fn losses(&self) -> &[f64] {
        &self.losses
    }

    /// Warnings about the checkpoint that training was resumed from, such as a missing checksum.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The rate of the next step.
    pub fn rate(&self) -> f64 {
        self.optimizer.rate_at(self.steps + 1) * self.requested_factor.unwrap_or(self.factor)
    }

    /// Changes the rate from the next step on: what it would be without its schedule.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::Training};
    /// let examples = Arc::new(Examples::new(Tensor::from([1.0])).unwrap());
    /// let training = Training::new(|x: &Tensor, _: &Tensor, _: &Keys| x.square(), Optimizer::sgd(0.1));
    /// let mut session = training.session(&Tensor::from(1.0), &examples).unwrap();
    /// session.set_rate(0.25).unwrap();
    /// assert_eq!(session.rate(), 0.25);
    /// assert!(session.set_rate(f64::NAN).is_err());
    /// ```
    pub fn set_rate(&mut self, rate: f64) -> Result<(), Error> {
        let factor = rate / self.optimizer.rate();
        if !(rate >= 0.0 && factor.is_finite()) {
            return Err(Error::new("rate", format!("a rate is a number that is not below zero, and not {rate}")));
        }
        self.requested_factor = Some(factor);
        Ok(())
    }

    /// The state before the last step: the steps since the last snapshot are replayed.
    pub fn last(&self) -> Result<Option<Last<X, D::Batch>>, Error> {
        let (mut position, mut state) = self.snapshot.clone();
        if position >= self.position {
            return Ok(None);
        }
        loop {
            let next = self.batches.after(&self.dataset, position);
            if next >= self.position {
                let (batch, key) = self.whole_at(position)?;
                let rate = self.optimizer.rate_at(self.steps) * self.factor;
                let (parameters, state, _) = state;
                return Ok(Some(Last { number: self.steps, parameters, state, batch, key, rate }));
            }
            (self.advance)(&mut state, &self.seen_at(position)?)?;
            position = next;
        }
    }

    /// The state of the run, as a checkpoint contains it. Where the state of the optimizer is distributed all ranks must ask for it.
    fn whole_run(&self) -> Result<Run<X>, Error> {
        let mut run = self.run();
        if let (Some(shards), Some(_)) = (&self.shards, self.part) {
            run.optimizer = whole_state(shards, self.optimizer, &run.parameters, &run.optimizer)?;
        }
        Ok(run)
    }

    /// The state of the run, as a checkpoint contains it; of the optimizer this rank's part, if it is distributed.
    pub fn run(&self) -> Run<X> {
        let losses: Vec<f64> = self.losses.iter().copied().chain([self.sum]).collect();
        let mut optimizer = self.state.1.clone();
        optimizer.factor = Tensor::from(self.requested_factor.unwrap_or(self.factor));
        Run {
            parameters: self.state.0.clone(),
            optimizer,
            position: Tensor::from([self.position.epoch as i64, self.position.batch as i64]),
            losses: Tensor::from(losses),
            loss_scale: self.state.2.clone(),
        }
    }

    /// The diagnostics of a step as it is computed, and of its precision.
    fn inspected(&self, batch: &D::Batch, key: &Keys) -> Result<Vec<Diagnostic>, Error> {
        let loss_in = |precision: Precision| {
            move |parameters: &X, batch: &D::Batch, key: &Keys| (self.loss)(parameters, batch, key, precision).0
        };
        let mut diagnostics = inspect(loss_in(self.precision), self.parameters(), batch, key)?;
        if let Some(dtype) = self.precision.dtype() {
            let scale = match &self.state.2 {
                Some(scale) => scale.factor.item()?,
                None => 1.0,
            };
            let gradient = |precision: Precision, scale: f64| {
                let loss = loss_in(precision);
                grad(|parameters: &X| loss(parameters, batch, key) * scale)(self.parameters()).scale(1.0 / scale)
            };
            let (full, rounded) = (gradient(Precision::Full, 1.0), gradient(self.precision, scale));
            diagnostics.extend(compared(dtype, &full, &rounded)?);
        }
        Ok(diagnostics)
    }

    /// The batch at a position, with all of its shards, and what its loss draws with.
    fn whole_at(&self, position: Position) -> Result<(D::Batch, Keys), Error> {
        Ok((self.batches.at(&self.dataset, position)?, Keys::from(self.key_at(position))))
    }

    /// What a step at a position sees.
    fn seen_at(&self, position: Position) -> Result<Vec<Seen<D::Batch>>, Error> {
        let one = |place: usize| Ok(self.seen(place, position, self.batches_of(place).at(&self.dataset, position)?));
        (0..self.ahead.len()).map(one).collect()
    }

    /// A batch, or one shard of it, with what its loss draws with. Keys belong to shards, wherever these run.
    fn seen(&self, place: usize, position: Position, batch: D::Batch) -> Seen<D::Batch> {
        let key = self.key_at(position);
        match &self.shards {
            None => Seen { data: (batch, Keys::from(key)), share: 1.0 },
            Some(shards) => {
                let (own, all) = self.batches_of(place).share(&self.dataset, position);
                let key = key.fold((shards.local().start + place) as u64);
                Seen { data: (batch, Keys::from(key)), share: own as f64 / all as f64 }
            }
        }
    }

    /// The batches of a local shard, or whole ones.
    fn batches_of(&self, place: usize) -> Batches {
        match &self.shards {
            None => self.batches,
            Some(shards) => self.batches.shard(shards.local().start + place, shards.count()),
        }
    }

    fn key_at(&self, position: Position) -> Key {
        self.key.fold(1).fold(position.epoch).fold(position.batch)
    }

    /// Explains a non-finite loss: the steps since the last snapshot are replayed.
    fn explain(&self, loss: f64, end: Position) -> Result<TrainError<X>, Error> {
        let (mut position, mut state) = self.snapshot.clone();
        // The last two states before the failure, with finite parameters if there are some.
        let mut before = (position, state.clone());
        while position < end {
            before = (position, state.clone());
            (self.advance)(&mut state, &self.seen_at(position)?)?;
            position = self.batches.after(&self.dataset, position);
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
        let (batch, key) = self.whole_at(at)?;
        let explanation =
            explain_non_finite(|parameters: &X| (self.loss)(parameters, &batch, &key, self.precision).0, &parameters)?;
        Ok(TrainError::NotFinite {
            loss,
            step: self.steps,
            position: end,
            steps_before,
            explanation: explanation.map(Box::new),
            last_good: Box::new(parameters),
            checkpoint: self.checkpoint.as_ref().map(|(path, _)| path.clone()).filter(|path| path.exists()),
        })
    }
}
