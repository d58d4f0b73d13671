//! `glassgrad tune`: a learning rate and layers are sought for some data.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use glassgrad::data::{Dataset as _, Examples, split};
use glassgrad::rng::Key;
use serde_json::json;

use crate::device::DeviceChoice;
use crate::experiment::command::command;
use crate::experiment::datasets;
use crate::experiment::options::Options;
use crate::experiment::search::{Candidate, Plan, Planned, Space, Trial, ranked};
use crate::experiment::settings::in_flags;
use crate::experiment::study::{RunError, RunOptions, Study};
use crate::experiment::task::{Part, Task};
use crate::failure::{Failure, print};
use crate::folder::Folder;
use crate::interrupt;
use crate::progress::Progress;
use crate::ranks::Ranks;
use crate::report;
use crate::sources::DataLocation;
use crate::table::Table;
use crate::terminal::counted;

/// Hyperparameter search: learning rate and layers
#[derive(Args)]
#[command(after_help = "\
Candidates are evaluated on a validation set, a fifth of the training set. The first candidate is the default
configuration; the best one is then trained on the whole training set and evaluated once on the test set.
As an MPI job (mpirun -np 4 glassgrad tune …) the ranks share the trials of a round; the trials are the same.

Examples:
  glassgrad tune moons
  glassgrad tune digits --search halving --trials 32 --epochs 40
  glassgrad tune prices.csv --search evolution --trials 40 --out tuned")]
pub(crate) struct Tune {
    /// Data set, as for train
    #[arg(value_name = "DATA")]
    data: String,

    /// Search strategy
    #[arg(long, value_enum, default_value_t = Search::Random)]
    search: Search,

    /// Number of trials
    #[arg(long, default_value_t = 20)]
    trials: usize,

    /// Range of the learning rate [default: from a 30th to ten times that of train]
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "LOW,HIGH")]
    rates: Option<Vec<f64>>,

    /// Largest number of hidden layers
    #[arg(long, default_value_t = 3)]
    depth: usize,

    /// Layer widths to choose from
    #[arg(long, value_delimiter = ',', default_value = "8,16,32,64,128")]
    widths: Vec<usize>,

    #[command(flatten)]
    options: Options,

    /// Directory with the files of mnist or fashion
    #[arg(long = "data", value_name = "DIR", help_heading = "Data")]
    directory: Option<PathBuf>,

    /// Write the trials and a report into a directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: DeviceChoice,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Search {
    /// Random search
    Random,
    /// Successive halving: many candidates with few epochs, then the better half with twice as many
    Halving,
    /// Evolutionary search: mutations of the best candidates so far
    Evolution,
}

impl Search {
    fn name(self) -> &'static str {
        match self {
            Search::Random => "random",
            Search::Halving => "halving",
            Search::Evolution => "evolution",
        }
    }
}

/// This part of the training examples decides between candidates.
const VALIDATION: f64 = 0.2;

/// At most this many trials are shown.
const SHOWN: usize = 15;

impl Tune {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let ranks = Ranks::join()?;
        let done = self.device.clone().run(|| self.run_there(&ranks));
        ranks.end(done)
    }

    fn run_there(self, ranks: &Ranks) -> Result<(), Failure> {
        datasets::check_file(&self.data)?;
        let mut settings = self.options.settings(&self.data)?;
        self.options.check_applies(&settings)?;
        ranks.check_settings(&settings, self.device.kind(), &[])?;
        let rates = self.rates.clone().unwrap_or_else(|| vec![settings.lr / 30.0, settings.lr * 10.0]);
        let [low, high] = rates[..] else {
            return Err(Failure::Input("--rates: two numbers, as in 0.001,0.1".to_owned()));
        };
        if self.trials == 0 {
            return Err(Failure::Input("--trials 0: at least one candidate is tried".to_owned()));
        }
        let space = Space { rates: (low, high), depth: self.depth, widths: self.widths.clone() };
        space.check()?;
        // Rank 0 alone reports and writes.
        let folder = self.out.as_deref().filter(|_| ranks.is_first()).map(Folder::create).transpose()?;
        let is_shown = !self.json && ranks.is_first();
        let places = DataLocation { folder: self.directory.clone(), ..DataLocation::default() };
        let task = datasets::load(&settings, &places)?;
        self.options.fit(&mut settings, &task.about);
        let inner = validation(&task, settings.seed)?;
        let attempt = |planned: Planned| {
            let Planned { number, candidate, epochs, .. } = &planned;
            let study = Study::new(candidate.settings(&settings, *epochs), inner.clone())?;
            let name = format!("trial {number}: lr {}, layers {:?}", candidate.lr, candidate.layers);
            let history = RefCell::default();
            let mut progress = Progress::new(&name, epochs * study.batches(), is_shown, &history, None);
            let outcome = study.run(RunOptions::default(), &history, &mut progress);
            drop(progress);
            if interrupt::is_asked() {
                return Ok(None);
            }
            let (score, seconds) = match outcome {
                Ok(outcome) => (Some(outcome.test), outcome.history.seconds()),
                Err(RunError::Diverged { .. }) => (None, 0.0),
                Err(RunError::Failed(failure)) => return Err(failure),
            };
            Ok(Some(planned.done(seconds, score)))
        };
        let mut run = |planned: Vec<Planned>| ranks.share(planned, attempt);
        let key = Key::new(settings.seed).fold(8);
        let first = Some(Candidate { lr: settings.lr, layers: settings.layers.clone() });
        let plan = Plan { space, count: self.trials, epochs: settings.epochs, key, first };
        let trials = match self.search {
            Search::Random => plan.random(&mut run),
            Search::Halving => plan.halving(&mut run),
            Search::Evolution => plan.evolution(&mut run),
        }?;
        let Some(best) = ranked(&trials).first().copied().filter(|trial| trial.score.is_some()) else {
            return Err(Failure::Result("every candidate diverged: try lower --rates".to_owned()));
        };
        if !ranks.is_first() {
            return Ok(());
        }
        // With the epochs of its trial: successive halving may rank an early stage first, and more epochs are another network.
        let study = Study::new(best.candidate.settings(&settings, best.epochs), task)?;
        let steps = study.settings.epochs * study.batches();
        let history = RefCell::default();
        let mut progress = Progress::new("the best", steps, is_shown, &history, None);
        let outcome = study.run(RunOptions::default(), &history, &mut progress);
        drop(progress);
        let test = match outcome {
            Ok(outcome) => outcome.test,
            Err(RunError::Diverged { message, .. }) => return Err(Failure::Result(in_flags(&message))),
            Err(RunError::Failed(failure)) => return Err(failure),
        };
        if let Some(folder) = &folder {
            folder.write_settings(&study.settings)?;
            folder.write("trials.csv", csv(&trials).as_bytes())?;
            folder
                .write("tuning.html", report::tuning(&study.task.about, &trials, &study.settings, test).as_bytes())?;
        }
        let command = command(&study.settings);
        if self.json {
            let object = json!({
                "dataset": study.task.about.name, "search": self.search.name(), "trials": trials, "best": best,
                "test": test, "command": command,
            });
            return print(&format!("{object}\n"));
        }
        let mut table = Table::new(["rank", "lr", "layers", "epochs", "validation", "loss", "seconds"]);
        for (rank, trial) in ranked(&trials).into_iter().take(SHOWN).enumerate() {
            let [measure, loss] = match trial.score {
                Some(score) => [score.measure.to_string(), format!("{:.4}", score.loss)],
                None => ["diverged".to_owned(), "–".to_owned()],
            };
            let Candidate { lr, layers } = &trial.candidate;
            let layers: Vec<String> = layers.iter().map(usize::to_string).collect();
            let (epochs, seconds) = (trial.epochs.to_string(), format!("{:.3}", trial.seconds));
            table.row([(rank + 1).to_string(), lr.to_string(), layers.join(","), epochs, measure, loss, seconds]);
        }
        let hidden = trials.len().saturating_sub(SHOWN);
        let more = if hidden > 0 { format!("  and {hidden} more\n") } else { String::new() };
        let written = folder.as_ref().map_or_else(String::new, |folder| {
            format!("written to {}: trials.csv, tuning.html\n", folder.path().display())
        });
        print(&format!(
            "{}: {}, {} search\n\n{}{more}\nthe best, trained on the whole training set: {} on the test set\n{command}\n{written}",
            study.task.about.name,
            counted(trials.len(), "trial"),
            self.search.name(),
            table.render(),
            test.measure,
        ))
    }
}

/// The same task, whose test set is a part of its training set.
fn validation(task: &Task, seed: u64) -> Result<Task, Failure> {
    let parts = split(&task.training, &[1.0 - VALIDATION, VALIDATION], Key::new(seed).fold(6));
    let part = |number: usize| -> Result<Part, Failure> {
        let places: Vec<usize> = (0..parts[number].len()).collect();
        Ok(Arc::new(Examples::new(parts[number].batch(&places).map_err(Failure::input)?).map_err(Failure::input)?))
    };
    let (training, test) = (part(0)?, part(1)?);
    if training.is_empty() || test.is_empty() {
        return Err(Failure::Input("there are too few examples for a validation set".to_owned()));
    }
    Ok(Task { training, test, ..task.clone() })
}

fn csv(trials: &[Trial]) -> String {
    let mut text = "trial,round,lr,layers,epochs,seconds,loss,measure\n".to_owned();
    for trial in trials {
        let layers: Vec<String> = trial.candidate.layers.iter().map(usize::to_string).collect();
        let [loss, measure] = match trial.score {
            Some(score) => [score.loss.to_string(), score.measure.number().to_string()],
            None => [String::new(), String::new()],
        };
        let Trial { number, round, epochs, seconds, .. } = trial;
        text += &format!(
            "{number},{round},{},{},{epochs},{seconds},{loss},{measure}\n",
            trial.candidate.lr,
            layers.join(" ")
        );
    }
    text
}
