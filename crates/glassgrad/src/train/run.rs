//! The loop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::distributed::BUCKET;
use super::error::TrainError;
use super::observer::{Flow, Observer};
use super::precision::{LossScale, Precision};
use crate::Tree;
use crate::collective::Shards;
use crate::data::{Dataset, Position};
use crate::error::Error;
use crate::expr::{Keys, Tensor};
use crate::optim::{Optimizer, State};
use crate::save::File;
use crate::tree::Tree;

/// What a loss of training returns: the loss alone, or the loss and the parameters with the next state of leaves that no
/// gradient updates, as the running statistics of batch normalization. Those leaves are frozen in the optimizer; of the second
/// part only they count.
///
/// ```
/// use std::sync::Arc;
/// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::Training};
/// // A weight that is trained, and the running sum of all that was seen.
/// type Model = (Tensor, Tensor);
/// let loss = |(w, seen): &Model, batch: &Tensor, _: &Keys| {
///     ((w - batch).square().mean(), (w.clone(), seen + batch.sum()))
/// };
/// let examples = Arc::new(Examples::new(Tensor::from([1.0, 2.0, 3.0])).unwrap());
/// let training = Training::new(loss, Optimizer::sgd(0.1).freeze("1")).epochs(2);
/// let trained = training.run(&(Tensor::from(0.0), Tensor::from(0.0)), &examples).unwrap();
/// assert_eq!(trained.parameters.1.item().unwrap(), 12.0);
/// ```
pub trait LossOutput<X> {
    /// The loss, and the parameters with the next state, if there is one.
    fn parts(self) -> (Tensor, Option<X>);
}

impl<X> LossOutput<X> for Tensor {
    fn parts(self) -> (Tensor, Option<X>) {
        (self, None)
    }
}

impl<X> LossOutput<X> for (Tensor, X) {
    fn parts(self) -> (Tensor, Option<X>) {
        (self.0, Some(self.1))
    }
}

/// A training configuration: the loss of a batch, an optimizer, and the number of epochs.
pub struct Training<'w, X, F> {
    pub(super) loss: F,
    pub(super) optimizer: Optimizer,
    pub(super) epochs: u64,
    pub(super) size: usize,
    pub(super) parts: usize,
    pub(super) whole_only: bool,
    pub(super) seed: u64,
    pub(super) checkpoint: Option<(PathBuf, Due)>,
    pub(super) budget: Option<usize>,
    pub(super) notes: Vec<(String, String)>,
    pub(super) inspections: Option<u64>,
    pub(super) precision: Precision,
    pub(super) shards: Option<Arc<Shards>>,
    /// The bytes of a bucket of gradients that are summed over shards.
    pub(super) bucket: usize,
    /// Whether each rank has the state of the optimizer for a part of the parameters.
    pub(super) shard_state: bool,
    observers: Vec<Box<dyn Observer<X> + 'w>>,
}

/// When a run is saved.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// After every `n` steps, and at the end of every epoch.
    Steps(u64),
    /// At the end of a step when so much time has passed since the last time, and when training is over.
    Time(Duration),
}

/// The state of a whole run: what a checkpoint contains.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimizer, train::Run, tree::Tree};
/// let run = Run::start(&Optimizer::adam(0.1), &Tensor::from([1.0]));
/// assert_eq!(run.leaves()[0].0.to_string(), "parameters");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Run<X> {
    /// The parameters.
    pub parameters: X,
    /// The state of the optimizer.
    pub optimizer: State<X>,
    /// The epoch, and how many of its batches were seen.
    pub position: Tensor,
    /// The losses of the epochs that are over, and the sum of those of the batches of this one.
    pub losses: Tensor,
    /// The state of dynamic loss scaling, in training with [`Precision::F16`].
    pub loss_scale: Option<LossScale>,
}

/// The result of training.
#[derive(Clone, Debug)]
pub struct Trained<X> {
    /// The parameters.
    pub parameters: X,
    /// The mean loss of each epoch.
    pub losses: Vec<f64>,
    /// The total number of steps, those before a resumption included.
    pub steps: u64,
    /// Whether an observer has stopped it before all epochs were over.
    pub stopped: bool,
    /// Warnings about the checkpoint that it was resumed from, see [`File::warnings`].
    pub warnings: Vec<String>,
}

impl<X: Tree> Run<X> {
    /// Before the first step.
    ///
    /// ```
    /// use glassgrad::{Tensor, optim::Optimizer, train::Run};
    /// assert_eq!(Run::start(&Optimizer::sgd(0.1), &Tensor::from([1.0])).position.to_string(), "[0, 0]");
    /// ```
    pub fn start(optimizer: &Optimizer, parameters: &X) -> Run<X> {
        Run {
            parameters: parameters.map(Tensor::clone),
            optimizer: optimizer.init(parameters),
            position: Tensor::from([0_i64, 0]),
            losses: Tensor::from([0.0]),
            loss_scale: None,
        }
    }

    /// The run in a file, with the warnings about it; one before its first step says what is expected.
    pub(super) fn read(
        path: &Path,
        file: File,
        start: &Run<X>,
        notes: &[(String, String)],
    ) -> Result<(Run<X>, Vec<String>), Error> {
        if let Some((name, _)) = notes.iter().find(|(name, text)| file.notes.get(name).is_some_and(|own| own != text)) {
            let message = format!("{} was saved by another run: its note {name:?} differs", path.display());
            return Err(
                Error::new("resume", message).help("resume with what the run was begun with, or begin a new one")
            );
        }
        // There is a loss for each epoch so far: as many as the file says, if it is a list.
        let losses = file.tensors.get("losses").filter(|losses| losses.rank() == 1 && losses.is_float());
        let losses = losses.unwrap_or(&start.losses).clone();
        let run = file.tree(&Run { losses, ..start.map(Tensor::clone) })?;
        Ok((run, file.warnings))
    }

    pub(super) fn position(&self) -> Result<Position, Error> {
        match self.position.to_vec::<i64>()?[..] {
            [epoch, batch] if epoch >= 0 && batch >= 0 => Ok(Position { epoch: epoch as u64, batch: batch as u64 }),
            ref other => Err(Error::new("resume", format!("{other:?} is no position in the data"))),
        }
    }
}

impl<'w, X, F> Training<'w, X, F> {
    /// With ten epochs, batches of 32, and the seed 0.
    pub fn new(loss: F, optimizer: Optimizer) -> Training<'w, X, F> {
        Training {
            loss,
            optimizer,
            epochs: 10,
            size: 32,
            parts: 1,
            whole_only: false,
            seed: 0,
            checkpoint: None,
            budget: None,
            notes: Vec::new(),
            inspections: None,
            precision: Precision::Full,
            shards: None,
            bucket: BUCKET,
            shard_state: false,
            observers: Vec::new(),
        }
    }

    /// The number of epochs.
    pub fn epochs(self, epochs: u64) -> Self {
        Training { epochs, ..self }
    }

    /// The batch size.
    pub fn batch_size(self, size: usize) -> Self {
        Training { size, ..self }
    }

    /// Computes the gradient of a batch as the mean of those of this many micro-batches, one after another: what a step needs of memory
    /// is what one part needs. A batch that cannot be divided evenly is seen as a whole.
    pub fn accumulate(self, parts: usize) -> Self {
        Training { parts: parts.max(1), ..self }
    }

    /// Without the batch at the end of an epoch that would be smaller.
    pub fn whole_batches(self) -> Self {
        Training { whole_only: true, ..self }
    }

    /// The random seed of the order of the examples and of the loss.
    pub fn seed(self, seed: u64) -> Self {
        Training { seed, ..self }
    }

    /// Checkpoints the run every `steps` steps and at the end of every epoch, and resumes from the file if it exists.
    pub fn checkpoint(self, path: impl Into<PathBuf>, every: u64) -> Self {
        Training { checkpoint: Some((path.into(), Due::Steps(every.max(1)))), ..self }
    }

    /// Checkpoints the run when this much time has passed since the last checkpoint, and when training is over, and resumes from the
    /// file if it is there.
    pub fn checkpoint_after(self, path: impl Into<PathBuf>, time: Duration) -> Self {
        Training { checkpoint: Some((path.into(), Due::Time(time))), ..self }
    }

    /// Writes a note into every checkpoint, such as the settings of the run. A checkpoint in which it differs is of another
    /// run, and is not resumed.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::Training};
    /// # let path = std::env::temp_dir().join(format!("glassgrad-note-{}", std::process::id()));
    /// let examples = Arc::new(Examples::new(Tensor::from([1.0])).unwrap());
    /// let train = |momentum: f64| {
    ///     let training = Training::new(|x: &Tensor, _: &Tensor, _: &Keys| x.square(), Optimizer::sgd(0.1).momentum(momentum));
    ///     training.note("momentum", momentum.to_string()).checkpoint(&path, 1).run(&Tensor::from(1.0), &examples)
    /// };
    /// assert!(train(0.9).is_ok());
    /// assert!(train(0.8).unwrap_err().to_string().contains("its note \"momentum\" differs"));
    /// # std::fs::remove_file(&path).unwrap();
    /// ```
    pub fn note(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.notes.push((name.into(), text.into()));
        self
    }

    /// Gradients take at most this many bytes of memory; what does not fit is computed anew, see [`Within`](crate::Within).
    pub fn within(self, bytes: usize) -> Self {
        Training { budget: Some(bytes), ..self }
    }

    /// The precision of the forward and the backward pass; the parameters and the state of the optimizer keep their type.
    pub fn precision(self, precision: Precision) -> Self {
        Training { precision, ..self }
    }

    /// Trains on the shards of every batch, distributed over the ranks of a job. Every rank calls [`Training::run`] with the same
    /// parameters and data and has the same result, which depends on the number of shards and not on that of the ranks. Each rank reads
    /// its own shards only. Batch normalization is synchronised: it normalises by the statistics of the whole batch. Random keys of the
    /// loss belong to shards. Rank 0 alone has observers, decides when to stop, and reads and writes checkpoints.
    ///
    /// The loss must be a mean over the examples of a batch.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use glassgrad::collective::{Shards, ThreadRank};
    /// use glassgrad::{Tensor, data::Examples, expr::Keys, optim::Optimizer, train::Training};
    /// let train = |ranks: usize| {
    ///     ThreadRank::run(ranks, |rank| {
    ///         let examples = Arc::new(Examples::new(Tensor::linspace(0.1_f32, 2.9, 60)).unwrap());
    ///         let loss = |x: &Tensor, batch: &Tensor, _: &Keys| (x - batch).square().mean();
    ///         let shards = Arc::new(Shards::new(rank, 4).unwrap());
    ///         let training = Training::new(loss, Optimizer::sgd(0.1)).batch_size(20).shards(shards);
    ///         training.run(&Tensor::from(0.0_f32), &examples).unwrap().parameters.item().unwrap()
    ///     })
    /// };
    /// let alone = train(1)[0];
    /// assert!((alone - 1.5).abs() < 0.05);
    /// assert_eq!(train(3), [alone; 3]);
    /// ```
    pub fn shards(self, shards: Arc<Shards>) -> Self {
        Training { shards: Some(shards), ..self }
    }

    /// Distributes the state of the optimizer over the ranks of [`Training::shards`] (ZeRO stage 1): each rank keeps the slots of a part of every
    /// trained leaf and updates it, and all parts are gathered after a step. Results and checkpoints have the same bits; with R ranks the state
    /// takes 1/R of the memory on each, and the parameters are sent once more in each step.
    pub fn shard_state(self) -> Self {
        Training { shard_state: true, ..self }
    }

    /// Sums gradients over shards in buckets of about this many bytes, instead of 1 MiB. The sums are the same; `glassgrad plan` tells which size
    /// is fastest on a network.
    pub fn bucket(self, bytes: usize) -> Self {
        Training { bucket: bytes.max(1), ..self }
    }

    /// Applies [`inspect`](super::inspect) to a step after the first epoch, and then after every `epochs`; in 16 bits
    /// [`inspect_precision`](super::inspect_precision) too.
    pub fn inspect_every(self, epochs: u64) -> Self {
        Training { inspections: Some(epochs.max(1)), ..self }
    }

    /// Adds an observer.
    pub fn observe(mut self, observer: impl Observer<X> + 'w) -> Self {
        self.observers.push(Box::new(observer));
        self
    }
}

impl<X: Tree + Clone, F> Training<'_, X, F> {
    /// Trains parameters on examples.
    pub fn run<D, R>(mut self, start: &X, dataset: &Arc<D>) -> Result<Trained<X>, TrainError<X>>
    where
        D: Dataset + 'static,
        F: Fn(&X, &D::Batch, &Keys) -> R,
        R: LossOutput<X>,
    {
        let mut observers = std::mem::take(&mut self.observers);
        let mut session = self.session(start, dataset)?;
        let mut stopped = false;
        while !stopped && let Some(flow) = session.advance(&mut observers)? {
            stopped = flow == Flow::Stop;
        }
        Ok(Trained {
            parameters: session.parameters().clone(),
            losses: session.losses().to_vec(),
            steps: session.steps(),
            stopped,
            warnings: session.warnings().to_vec(),
        })
    }
}
