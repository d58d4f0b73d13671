//! Runs an experiment: trains a network and records its history.

use std::cell::{OnceCell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use glassgrad::clock::Instant;
use glassgrad::collective::{Shards, Solo, Timeline};
use glassgrad::data::{Batches, Dataset as _};
use glassgrad::error::Error;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::rng::Key;
use glassgrad::train::{Epoch, Flow, Observer, Step, TrainError, Training};
use glassgrad::tree::{Path, Tree as _};
use glassgrad::{compile, grad};

use super::baseline::{self, Baseline};
use super::history::{EpochRecord, History, Norms};
use super::network::{Network, STATE};
use super::objective::{Evaluator, Objective, Score};
use super::recipe;
use super::samples::Sample;
use super::settings::{Engine, Reduction, Settings};
use super::task::Task;
use crate::failure::Failure;

/// An experiment that is ready to run.
pub struct Study {
    pub settings: Settings,
    pub task: Task,
    pub objective: Objective,
    /// The network before the first step.
    pub start: Network,
}

/// The training loss of a batch.
pub type Loss<'s> = Box<dyn Fn(&Network, &(Tensor, Tensor), &Keys) -> (Tensor, Network) + 's>;

/// The outcome of an experiment.
pub struct Outcome {
    pub network: Network,
    pub history: History,
    pub training: Score,
    pub test: Score,
    /// The linear baseline, where one is cheap to fit.
    pub linear: Option<Baseline>,
    /// The total number of steps.
    pub steps: u64,
    /// Whether the user stopped it early.
    pub stopped: bool,
    /// Warnings about the checkpoint that it was resumed from.
    pub warnings: Vec<String>,
    pub kept: Kept,
}

/// Lazily computed parts of an outcome.
#[derive(Default)]
pub struct Kept {
    outputs: OnceCell<Vec<f64>>,
    sample: OnceCell<Option<Sample>>,
}

impl Outcome {
    /// The outputs for the test set, row-major; empty for text.
    pub fn outputs(&self, study: &Study) -> Result<&[f64], Error> {
        let evaluated = || Ok(Evaluator::new(&study.objective, &study.task.test).evaluate(&self.network)?.outputs);
        let is_text = study.task.text.is_some();
        once(&self.kept.outputs, || if is_text { Ok(Vec::new()) } else { evaluated() }).map(Vec::as_slice)
    }

    /// Generated text, if the task is text.
    pub fn sample(&self, study: &Study) -> Result<Option<&Sample>, Error> {
        once(&self.kept.sample, || Sample::of(study, &self.network)).map(Option::as_ref)
    }
}

/// The cached value, or a new one, which is cached unless it fails.
fn once<T>(kept: &OnceCell<T>, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    match kept.get() {
        Some(value) => Ok(value),
        None => make().map(|value| kept.get_or_init(|| value)),
    }
}

/// The error of a run.
pub enum RunError {
    Failed(Failure),
    /// The loss was not a number; the last good network is there.
    Diverged {
        message: String,
        last_good: Box<Network>,
    },
}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> RunError {
        RunError::Failed(failure)
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> RunError {
        RunError::Failed(Failure::Result(error.to_string()))
    }
}

/// Options of a run that do not change its result.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// The checkpoint file, from which a run is resumed.
    pub checkpoint: Option<PathBuf>,
    /// The memory budget of a gradient in bytes.
    pub within: Option<usize>,
    /// The shards of every batch, distributed over the ranks of the job; otherwise all are here.
    pub shards: Option<Arc<Shards>>,
    /// The bytes of a bucket of gradients that are summed over shards, if not the default.
    pub bucket: Option<usize>,
    /// Whether the state of the optimizer is distributed over the ranks.
    pub shard_state: bool,
    /// The time between checkpoints.
    pub between_saves: Duration,
}

/// The result of an engine: the network, the number of steps, whether an observer has stopped it, the loss of each epoch.
pub(super) type Trained = (Network, u64, bool, Vec<f64>);

/// The most epochs whose gradients are recorded.
const LOOKS: u64 = 100;

/// The number of examples that gradients are recorded for.
pub const EXAMPLES_FOR_GRADIENTS: usize = 256;

impl Study {
    /// Draws the initial weights; settings that contradict each other are errors before anything runs.
    pub fn new(settings: Settings, task: Task) -> Result<Study, Failure> {
        settings.check()?;
        let objective = Objective::of(&settings, &task.about)?;
        settings.check_memory(&task.about, task.training.len())?;
        let start = Network::build(&settings, &task.about.ends(&settings))?;
        let study = Study { settings, task, objective, start };
        recipe::optimizer(&study.settings, study.batches())?;
        if study.settings.shards > 1 {
            study.check_shards()?;
        }
        if study.settings.engine == Engine::Scalar {
            super::scalar::check(&study)?;
        }
        Ok(study)
    }

    /// Refuses settings under which the shards of a batch do not add up to it.
    fn check_shards(&self) -> Result<(), Failure> {
        let Settings { shards, reduction, engine, .. } = &self.settings;
        let refuse = |why: &str| Err(Failure::Input(format!("--shards {shards}: {why}")));
        match (reduction, engine) {
            (Reduction::Sum, _) => refuse("the losses of shards are averaged; leave out --reduction sum"),
            (Reduction::Mean, Engine::Scalar) => {
                refuse("the scalar engine trains on whole batches; leave out --engine scalar")
            }
            (Reduction::Mean, Engine::Tensor) => match (self.task.training.len() - 1) % self.batch() + 1 {
                last if last < *shards => refuse(&format!(
                    "the smallest batch has {last} examples, fewer than the shards; choose another --batch or fewer --shards"
                )),
                _ => Ok(()),
            },
        }
    }

    /// The batch size.
    pub fn batch(&self) -> usize {
        match self.settings.batch {
            0 => self.task.training.len(),
            size => size.min(self.task.training.len()),
        }
    }

    /// Steps per epoch.
    pub fn batches(&self) -> u64 {
        Batches::new(self.batch(), Key::new(0)).count(&self.task.training)
    }

    /// The first examples of the training set, on which gradient norms are recorded.
    pub fn sample(&self) -> Result<(Tensor, Tensor), Error> {
        let count = self.task.training.len().min(EXAMPLES_FOR_GRADIENTS);
        self.task.training.batch(&(0..count).collect::<Vec<_>>())
    }

    /// Trains; the history, of which epochs before a resumption may be there already, is readable by the observer.
    pub fn run(
        &self,
        options: RunOptions,
        history: &RefCell<History>,
        observer: &mut dyn Observer<Network>,
    ) -> Result<Outcome, RunError> {
        let mut observers: Vec<Box<dyn Observer<Network> + '_>> =
            vec![Box::new(Recorder::new(self, history)?), Box::new(observer)];
        let (warnings, (network, steps, stopped, losses)) = match self.settings.engine {
            Engine::Tensor => self.run_tensors(options, observers)?,
            Engine::Scalar => (Vec::new(), super::scalar::run(self, &mut observers)?),
        };
        let mut history = history.borrow().clone();
        history.complete(&losses);
        let training = Evaluator::new(&self.objective, &self.task.training).evaluate(&network)?.score;
        let test = match history.epochs.last().and_then(|seen| seen.test) {
            Some(score) if !stopped => score,
            _ => Evaluator::new(&self.objective, &self.task.test).evaluate(&network)?.score,
        };
        // Where the network was found, that is what counts; a baseline that cannot be had is left out.
        let linear = baseline::fit(self).unwrap_or_default();
        Ok(Outcome { network, history, training, test, linear, steps, stopped, warnings, kept: Kept::default() })
    }

    /// Trains as a rank that does not report: rank 0 records the history, evaluates, and explains a divergence.
    pub fn follow(&self, options: RunOptions) -> Result<(), Failure> {
        match self.run_tensors(options, Vec::new()) {
            Ok(_) | Err(RunError::Diverged { .. }) => Ok(()),
            Err(RunError::Failed(failure)) => Err(failure),
        }
    }

    /// The training loop, not started yet.
    pub fn training(&self) -> Result<Training<'_, Network, Loss<'_>>, Failure> {
        let optimizer = recipe::optimizer(&self.settings, self.batches())?;
        let loss: Loss<'_> = Box::new(|network, batch, key| self.objective.of_step(network, batch, key));
        let training = Training::new(loss, optimizer).precision(self.settings.precision.of_training());
        Ok(training.epochs(self.settings.epochs).batch_size(self.batch()).seed(self.settings.seed))
    }

    /// Makes steps on shards for a while, at a learning rate at which nothing is learned: the median of their seconds, and when buckets of
    /// this many bytes were complete in the last one.
    pub fn time_steps(
        &self,
        shards: &Arc<Shards>,
        bucket: usize,
        patience: Duration,
    ) -> Result<(f64, Timeline), Failure> {
        let settings = Settings { lr: 1e-30, epochs: 1 << 30, ..self.settings.clone() };
        let study =
            Study { settings, task: self.task.clone(), objective: self.objective.clone(), start: self.start.clone() };
        let training = study.training()?.shards(Arc::clone(shards)).bucket(bucket);
        let mut session = training.session(&study.start, &study.task.training).map_err(Failure::result)?;
        let mut step = || -> Result<f64, Failure> {
            let start = Instant::now();
            match session.step() {
                Ok(Some(_)) => Ok(start.elapsed().as_secs_f64()),
                Ok(None) => unreachable!("there are more epochs than any measurement takes"),
                Err(error) => Err(Failure::Result(error.to_string())),
            }
        };
        // The first ones plan, and ask for memory. All ranks make as many steps, as rank 0 decides by its first one.
        let warm = (0..3).map(|_| step()).collect::<Result<Vec<f64>, Failure>>()?[2].max(1e-9);
        let count = (patience.as_secs_f64() / warm).clamp(5.0, 10_000.0) as u64;
        let count = shards.broadcast_first(count.to_ne_bytes().to_vec()).map_err(Failure::result)?;
        let count = <[u8; 8]>::try_from(&count[..]).map(u64::from_ne_bytes).map_err(Failure::result)?;
        let mut seconds = (0..count).map(|_| step()).collect::<Result<Vec<f64>, Failure>>()?;
        seconds.sort_by(f64::total_cmp);
        Ok((seconds[seconds.len() / 2], shards.timeline()))
    }

    fn run_tensors<'o>(
        &'o self,
        options: RunOptions,
        observers: Vec<Box<dyn Observer<Network> + 'o>>,
    ) -> Result<(Vec<String>, Trained), RunError> {
        let mut training = self.training()?;
        if let Some(path) = options.checkpoint {
            // Settings that were changed or damaged since do not go on with this run; more epochs are more of the same.
            let settings = Settings { epochs: 0, ..self.settings.clone() };
            let settings = serde_json::to_string(&settings).map_err(Failure::result)?;
            training = training.note("settings", settings).checkpoint_after(path, options.between_saves);
        }
        if let Some(bytes) = options.within {
            training = training.within(bytes);
        }
        let shards = match (options.shards, self.settings.shards) {
            (None, count @ 2..) => Some(Arc::new(Shards::new(Arc::new(Solo), count)?)),
            (shards, _) => shards,
        };
        if let Some(shards) = shards {
            training = training.shards(shards);
        }
        if options.shard_state {
            training = training.shard_state();
        }
        if let Some(bytes) = options.bucket {
            training = training.bucket(bytes);
        }
        match training.observe(observers).run(&self.start, &self.task.training) {
            Ok(trained) => Ok((trained.warnings, (trained.parameters, trained.steps, trained.stopped, trained.losses))),
            Err(trouble) => {
                let message = trouble.to_string();
                Err(match trouble {
                    TrainError::NotFinite { last_good, .. } => RunError::Diverged { message, last_good },
                    TrainError::Failed(error) => error.into(),
                })
            }
        }
    }
}

/// Whether a leaf has a gradient that is recorded: running statistics and integers have none.
fn is_weight(path: &Path, leaf: &Tensor) -> bool {
    leaf.is_float() && !path.starts_with(STATE)
}

/// From a network to the sizes of its gradients and numbers.
type NormsProgram<'o> = dyn Fn(&Network) -> Result<Vec<Norms>, Error> + 'o;

/// Records the history: loss and learning rate of each epoch, the score on the test set, norms of weights and gradients.
struct Recorder<'o> {
    history: &'o RefCell<History>,
    evaluator: Evaluator<'o>,
    sizes: Box<NormsProgram<'o>>,
    rate: f64,
    epochs: u64,
    /// When the epoch began: evaluation is not counted.
    began: Instant,
}

impl<'o> Recorder<'o> {
    fn new(study: &'o Study, history: &'o RefCell<History>) -> Result<Recorder<'o>, Error> {
        let parameters = study
            .start
            .leaves()
            .iter()
            .filter(|(path, leaf)| is_weight(path, leaf))
            .map(|(path, _)| path.to_string())
            .collect();
        let sample = study.sample()?;
        let gradients = compile(|(network, batch): &(Network, (Tensor, Tensor))| {
            let gradient = grad(|network: &Network| study.objective.of_batch_plainly(network, batch))(network);
            let size = |leaf: &Tensor| leaf.cast(glassgrad::dtype::DType::F64).square().mean().sqrt();
            let sizes = |tree: &Network| -> Vec<Tensor> {
                tree.leaves().iter().filter(|(path, leaf)| is_weight(path, leaf)).map(|(_, leaf)| size(leaf)).collect()
            };
            (sizes(&gradient), sizes(network))
        });
        let sizes = move |network: &Network| {
            let (gradients, numbers) = gradients.call(&(network.clone(), sample.clone()))?;
            let both = gradients.iter().zip(&numbers);
            both.map(|(gradient, number)| Ok(Norms { gradient: gradient.item()?, number: number.item()? })).collect()
        };
        history.borrow_mut().parameters = parameters;
        Ok(Recorder {
            history,
            evaluator: Evaluator::new(&study.objective, &study.task.test),
            sizes: Box::new(sizes),
            rate: study.settings.lr,
            epochs: study.settings.epochs,
            began: Instant::now(),
        })
    }
}

impl Observer<Network> for Recorder<'_> {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        self.rate = step.rate;
        Ok(Flow::Continue)
    }

    fn epoch(&mut self, epoch: &Epoch<'_, Network>) -> Result<Flow, Error> {
        let (number, network) = (epoch.number, epoch.parameters);
        let seconds = self.began.elapsed().as_secs_f64();
        // Epochs that were recorded before a resumption and are repeated are replaced.
        self.history.borrow_mut().epochs.retain(|seen| seen.epoch <= number);
        let is_looked_at = number.is_multiple_of(self.epochs.div_ceil(LOOKS).max(1)) || number + 1 == self.epochs;
        let seen = EpochRecord {
            epoch: number + 1,
            loss: epoch.loss,
            rate: self.rate,
            test: Some(self.evaluator.evaluate(network)?.score),
            sizes: if is_looked_at { (self.sizes)(network)? } else { Vec::new() },
            seconds,
        };
        self.history.borrow_mut().epochs.push(seen);
        self.began = Instant::now();
        Ok(Flow::Continue)
    }
}

/// The training set as it is trained on, in the order of an epoch; used where no `Training` does it.
pub(super) fn batches_of(study: &Study) -> (Batches, Arc<glassgrad::data::Examples<(Tensor, Tensor)>>) {
    // The same key as the training loop of tensors, so that both engines see the same batches.
    (Batches::new(study.batch(), Key::new(study.settings.seed).fold(0)), Arc::clone(&study.task.training))
}
