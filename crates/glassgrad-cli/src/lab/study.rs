//! An experiment run: a network learns a task by a recipe, and everything worth seeing is kept.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassgrad::data::{Batches, Dataset as _};
use glassgrad::error::Error;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::rng::Key;
use glassgrad::train::{Epoch, Flow, Step, Training, Trouble, Watch};
use glassgrad::tree::Tree as _;
use glassgrad::{compile, grad};

use super::baseline::{self, Baseline};
use super::history::{History, Seen, Sizes};
use super::network::Network;
use super::objective::{Judge, Objective, Score};
use super::recipe;
use super::settings::{Engine, Settings};
use super::task::Task;
use super::verse::Verse;
use crate::failure::Failure;

/// An experiment that is ready to run.
pub(crate) struct Study {
    pub(crate) settings: Settings,
    pub(crate) task: Task,
    pub(crate) objective: Objective,
    /// The network before the first step.
    pub(crate) start: Network,
}

/// The loss of a batch that an experiment makes small.
pub(crate) type Loss<'s> = Box<dyn Fn(&Network, &(Tensor, Tensor), &Keys) -> Tensor + 's>;

/// What an experiment has made.
pub(crate) struct Outcome {
    pub(crate) network: Network,
    pub(crate) history: History,
    pub(crate) training: Score,
    pub(crate) test: Score,
    /// What a linear model makes of it, where one is quickly fitted.
    pub(crate) linear: Option<Baseline>,
    /// The steps that were made in all.
    pub(crate) steps: u64,
    /// Whether someone has ended it before its time.
    pub(crate) stopped: bool,
    /// What the user should know about the checkpoint that it was resumed from.
    pub(crate) warnings: Vec<String>,
    pub(crate) kept: Kept,
}

/// What is made of an outcome when someone first asks for it, because not everyone does.
#[derive(Default)]
pub(crate) struct Kept {
    outputs: OnceCell<Vec<f64>>,
    verse: OnceCell<Option<Verse>>,
}

impl Outcome {
    /// What the network tells of each example of the test part, an example after another; nothing for texts.
    pub(crate) fn outputs(&self, study: &Study) -> Result<&[f64], Error> {
        let judged = || Ok(Judge::new(&study.objective, &study.task.test).judge(&self.network)?.outputs);
        let is_text = study.task.text.is_some();
        once(&self.kept.outputs, || if is_text { Ok(Vec::new()) } else { judged() }).map(Vec::as_slice)
    }

    /// What the network writes by itself, if it has learnt a text.
    pub(crate) fn verse(&self, study: &Study) -> Result<Option<&Verse>, Error> {
        once(&self.kept.verse, || Verse::of(study, &self.network)).map(Option::as_ref)
    }
}

/// What was made before, or is made now and kept unless it fails.
fn once<T>(kept: &OnceCell<T>, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    match kept.get() {
        Some(made) => Ok(made),
        None => make().map(|made| kept.get_or_init(|| made)),
    }
}

/// How an experiment can end badly.
pub(crate) enum Mishap {
    Failed(Failure),
    /// The loss was not a number; the last good network is there.
    Spoiled {
        message: String,
        last_good: Box<Network>,
    },
}

impl From<Failure> for Mishap {
    fn from(failure: Failure) -> Mishap {
        Mishap::Failed(failure)
    }
}

impl From<Error> for Mishap {
    fn from(error: Error) -> Mishap {
        Mishap::Failed(Failure::Result(error.to_string()))
    }
}

/// Someone who sees an experiment while it runs.
pub(crate) trait Spectator {
    /// After a step, of so many in an epoch.
    fn step(&mut self, step: &Step) -> Flow {
        let _ = step;
        Flow::Continue
    }

    /// After an epoch.
    fn epoch(&mut self, history: &History, network: &Network) -> Result<Flow, Error> {
        let _ = (history, network);
        Ok(Flow::Continue)
    }
}

impl Spectator for () {}

/// What decides on how an experiment runs and not on what it makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conduct {
    /// Where the run is saved, and gone on from.
    pub(crate) run: Option<PathBuf>,
    /// What was seen before, where it goes on.
    pub(crate) history: History,
    /// The bytes that a gradient may take.
    pub(crate) within: Option<usize>,
}

/// What an engine has made: the network, the steps in all, whether someone has ended it, and what was seen.
type Trained = (Network, u64, bool, History);

/// A run is saved when so much time has passed.
const BETWEEN_SAVES: Duration = Duration::from_secs(5);

/// At most so many epochs have their slopes looked at.
const LOOKS: u64 = 100;

/// So many examples are looked at for slopes.
pub(crate) const EXAMPLES_FOR_SLOPES: usize = 256;

impl Study {
    /// Draws the first weights; what does not fit together is told before anything runs.
    pub(crate) fn new(settings: Settings, task: Task) -> Result<Study, Failure> {
        settings.check()?;
        let objective = Objective::of(&settings, &task.about)?;
        settings.check_memory(&task.about, task.training.len())?;
        let start = Network::build(&settings, &task.about.ends(&settings))?;
        let study = Study { settings, task, objective, start };
        recipe::optimiser(&study.settings, study.batches())?;
        if study.settings.engine == Engine::Scalar {
            super::scalar::check(&study)?;
        }
        Ok(study)
    }

    /// How many examples a step sees.
    pub(crate) fn batch(&self) -> usize {
        match self.settings.batch {
            0 => self.task.training.len(),
            size => size.min(self.task.training.len()),
        }
    }

    /// How many steps an epoch has.
    pub(crate) fn batches(&self) -> u64 {
        Batches::new(self.batch(), Key::new(0)).count(&self.task.training)
    }

    /// Some examples, those at the beginning of the training part, by which slopes are looked at.
    pub(crate) fn sample(&self) -> Result<(Tensor, Tensor), Error> {
        let count = self.task.training.len().min(EXAMPLES_FOR_SLOPES);
        self.task.training.batch(&(0..count).collect::<Vec<_>>())
    }

    /// Trains.
    pub(crate) fn run(&self, conduct: Conduct, spectator: &mut dyn Spectator) -> Result<Outcome, Mishap> {
        let watch = Observer::new(self, conduct.history, spectator)?;
        let (warnings, (network, steps, stopped, history)) = match self.settings.engine {
            Engine::Tensor => self.run_tensors(conduct.run, conduct.within, watch)?,
            Engine::Scalar => (Vec::new(), super::scalar::run(self, watch)?),
        };
        let training = Judge::new(&self.objective, &self.task.training).judge(&network)?.score;
        let test = match history.epochs.last().and_then(|seen| seen.test) {
            Some(score) if !stopped => score,
            _ => Judge::new(&self.objective, &self.task.test).judge(&network)?.score,
        };
        // Where the network was found, that is what counts; a baseline that cannot be had is left out.
        let linear = baseline::fit(self).unwrap_or_default();
        Ok(Outcome { network, history, training, test, linear, steps, stopped, warnings, kept: Kept::default() })
    }

    /// How the network is trained, by nobody yet.
    pub(crate) fn training(&self) -> Result<Training<'_, Network, Loss<'_>>, Failure> {
        let optimiser = recipe::optimiser(&self.settings, self.batches())?;
        let loss: Loss<'_> = Box::new(|network, batch, key| self.objective.of_batch(network, batch, key));
        let training = Training::new(loss, optimiser);
        Ok(training.epochs(self.settings.epochs).batch_size(self.batch()).seed(self.settings.seed))
    }

    fn run_tensors(
        &self,
        run: Option<PathBuf>,
        within: Option<usize>,
        watch: Observer<'_>,
    ) -> Result<(Vec<String>, Trained), Mishap> {
        let mut training = self.training()?;
        if let Some(path) = run {
            // Settings that were changed or damaged since do not go on with this run; more epochs are more of the same.
            let settings = Settings { epochs: 0, ..self.settings.clone() };
            let settings = serde_json::to_string(&settings).map_err(Failure::result)?;
            training = training.note("settings", settings).checkpoint_after(path, BETWEEN_SAVES);
        }
        if let Some(bytes) = within {
            training = training.within(bytes);
        }
        let mut watch = watch;
        let trained = training.watch(&mut watch).run(&self.start, &self.task.training);
        match trained {
            Ok(trained) => {
                let history = watch.finished(&trained.losses);
                Ok((trained.warnings, (trained.parameters, trained.steps, trained.stopped, history)))
            }
            Err(trouble) => {
                let message = trouble.to_string();
                Err(match trouble {
                    Trouble::NotFinite { last_good, .. } => Mishap::Spoiled { message, last_good },
                    Trouble::Failed(error) => error.into(),
                })
            }
        }
    }
}

/// From a network to the sizes of its slopes and numbers.
type Look<'o> = dyn Fn(&Network) -> Result<Vec<Sizes>, Error> + 'o;

/// Keeps the history, and passes on what it sees.
pub(super) struct Observer<'o> {
    history: History,
    spectator: &'o mut dyn Spectator,
    judge: Judge<'o>,
    sizes: Box<Look<'o>>,
    rate: f64,
    epochs: u64,
    /// When the epoch began, not counting what was spent on looking.
    began: Instant,
}

impl<'o> Observer<'o> {
    fn new(study: &'o Study, history: History, spectator: &'o mut dyn Spectator) -> Result<Observer<'o>, Error> {
        let parameters =
            study.start.leaves().iter().filter(|(_, leaf)| leaf.is_float()).map(|(path, _)| path.to_string()).collect();
        let sample = study.sample()?;
        let slopes = compile(|(network, batch): &(Network, (Tensor, Tensor))| {
            let slope = grad(|network: &Network| study.objective.of_batch_plainly(network, batch))(network);
            let size = |leaf: &Tensor| leaf.cast(glassgrad::dtype::DType::F64).square().mean().sqrt();
            let sizes = |tree: &Network| -> Vec<Tensor> {
                tree.flatten().iter().filter(|leaf| leaf.is_float()).map(size).collect()
            };
            (sizes(&slope), sizes(network))
        });
        let sizes = move |network: &Network| {
            let (slopes, numbers) = slopes.call(&(network.clone(), sample.clone()))?;
            let both = slopes.iter().zip(&numbers);
            both.map(|(slope, number)| Ok(Sizes { slope: slope.item()?, number: number.item()? })).collect()
        };
        Ok(Observer {
            history: History { parameters, epochs: history.epochs },
            spectator,
            judge: Judge::new(&study.objective, &study.task.test),
            sizes: Box::new(sizes),
            rate: study.settings.lr,
            epochs: study.settings.epochs,
            began: Instant::now(),
        })
    }

    pub(super) fn see_step(&mut self, step: &Step) -> Flow {
        self.rate = step.rate;
        self.spectator.step(step)
    }

    pub(super) fn see_epoch(&mut self, number: u64, loss: f64, network: &Network) -> Result<Flow, Error> {
        let seconds = self.began.elapsed().as_secs_f64();
        // What was seen of this epoch and of later ones before a resumption is seen again.
        self.history.epochs.retain(|seen| seen.epoch <= number);
        let is_looked_at = number.is_multiple_of(self.epochs.div_ceil(LOOKS).max(1)) || number + 1 == self.epochs;
        self.history.epochs.push(Seen {
            epoch: number + 1,
            loss,
            rate: self.rate,
            test: Some(self.judge.judge(network)?.score),
            sizes: if is_looked_at { (self.sizes)(network)? } else { Vec::new() },
            seconds,
        });
        let flow = self.spectator.epoch(&self.history, network)?;
        self.began = Instant::now();
        Ok(flow)
    }

    /// The history, with the losses of epochs that were over before a resumption and not written down.
    pub(super) fn finished(self, losses: &[f64]) -> History {
        let mut history = self.history;
        for (epoch, loss) in (1..).zip(losses) {
            if !history.epochs.iter().any(|seen| seen.epoch == epoch) {
                let unseen = Seen { epoch, loss: *loss, rate: f64::NAN, test: None, sizes: Vec::new(), seconds: 0.0 };
                history.epochs.push(unseen);
            }
        }
        history.epochs.sort_by_key(|seen| seen.epoch);
        history
    }
}

impl Watch<Network> for &mut Observer<'_> {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        Ok(self.see_step(step))
    }

    fn epoch(&mut self, epoch: &Epoch<'_, Network>) -> Result<Flow, Error> {
        self.see_epoch(epoch.number, epoch.loss, epoch.parameters)
    }
}

/// The training part as it is trained on, in the order of an epoch; used where no `Training` does it.
pub(super) fn batches_of(study: &Study) -> (Batches, Arc<glassgrad::data::Examples<(Tensor, Tensor)>>) {
    // The same key as the training loop of tensors, so that both engines see the same batches.
    (Batches::new(study.batch(), Key::new(study.settings.seed).fold(0)), Arc::clone(&study.task.training))
}
