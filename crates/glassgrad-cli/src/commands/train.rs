//! `glassgrad train`: a network learns from data, and what happened is shown.

mod compare;
mod explain;
mod summary;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use glassgrad::save;
use serde_json::{Value, json};

use crate::device::DeviceChoice;
use crate::experiment::datasets;
use crate::experiment::options::Options;
use crate::experiment::settings::{OptimizerName, Settings, in_flags};
use crate::experiment::study::{Outcome, RunError, RunOptions, Study};
use crate::experiment::{model, objective::Measure};
use crate::failure::{Failure, print};
use crate::folder::{self, Folder};
use crate::progress::Progress;
use crate::ranks::{self, Ranks};
use crate::report;
use crate::sources::DataLocation;
use crate::terminal::{print_around, warn};

/// Train a network and report how it learns
#[derive(Args)]
#[command(after_help = after_help())]
pub(crate) struct Train {
    /// Data set: a name from the list below, or a file
    #[arg(value_name = "DATA")]
    data: String,

    #[command(flatten)]
    options: Options,

    /// Directory with the files of mnist or fashion
    #[arg(long = "data", value_name = "DIR", help_heading = "Data")]
    directory: Option<PathBuf>,

    /// Download the files of mnist or fashion if they are missing
    #[arg(long, help_heading = "Data")]
    download: bool,

    /// Mirror to download from
    #[arg(long, value_name = "URL", requires = "download", help_heading = "Data")]
    mirror: Option<String>,

    /// Initialize with the weights of a saved model
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    init_weights: Option<PathBuf>,

    /// Memory budget of the gradient in bytes: what does not fit is rematerialized
    #[arg(long, value_name = "BYTES")]
    within: Option<usize>,

    /// Write the model, the metrics and a report into a directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Resume the experiment in --out
    #[arg(long, requires = "out")]
    resume: bool,

    /// Seconds between checkpoints in --out
    #[arg(long, value_name = "SECONDS", requires = "out", default_value_t = 5.0, value_parser = seconds)]
    checkpoint_every: f64,

    /// Mebibytes of gradient that the shards of a batch sum in one message; changes no bit (see `glassgrad plan`)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    bucket: Option<u16>,

    /// Distribute the state of the optimizer over the ranks of an MPI job (ZeRO stage 1); changes no bit
    #[arg(long)]
    shard_state: bool,

    /// Sum gradients in the order of the MPI library: results then depend on the number of ranks
    #[arg(long)]
    any_order: bool,

    /// Exchange messages between the GPUs of the ranks by NCCL
    #[arg(long)]
    nccl: bool,

    /// Compare several optimizers
    #[arg(long, value_enum, value_delimiter = ',', value_name = "OPTIMIZERS", conflicts_with_all = ["resume", "explain"])]
    compare: Option<Vec<OptimizerName>>,

    /// Explain one training step instead of training: compiler passes, program steps, times, memory
    #[arg(long)]
    explain: bool,

    /// Draw the memory plan of the step as SVG
    #[arg(long, value_name = "FILE", requires = "explain")]
    explain_svg: Option<PathBuf>,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: DeviceChoice,
}

/// A time that is not negative.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0 to 1e9".to_owned())
}

/// The named datasets, and the options of training.
fn after_help() -> String {
    let flags = |name: &str| match name {
        "mnist" | "fashion" => " (--data DIR, or --download)",
        "function" => ": see --function",
        _ => "",
    };
    let rows: Vec<String> =
        datasets::ROWS.iter().map(|row| format!("  {:<10}{}{}", row.name, row.about, flags(row.name))).collect();
    format!(
        "Data:\n{}\n  FILE.csv  a table: predicts the last column, or --target\n  \
         FILE.npz  arrays of NumPy's named x and y\n  FILE.txt  a text, character by character\n\n\
         Examples:\n  glassgrad train iris\n  glassgrad train moons --layers 16,16 --out moons\n  \
         glassgrad train digits --model cnn --epochs 20\n  glassgrad train mnist --data DIR --out mnist\n  \
         glassgrad train prices.csv --target price\n  glassgrad train sonnets.txt --model transformer\n  \
         glassgrad train moons --compare sgd,momentum,adam",
        rows.join("\n")
    )
}

impl Train {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut ranks = Ranks::join()?;
        if self.nccl {
            ranks = ranks.by_nccl(self.device.device)?;
        }
        let done = self.device.clone().run(|| self.run_there(&ranks));
        ranks.end(done)
    }

    fn run_there(self, ranks: &Ranks) -> Result<(), Failure> {
        let places =
            DataLocation { folder: self.directory.clone(), download: self.download, mirror: self.mirror.clone() };
        datasets::check_file(&self.data)?;
        if ranks.size() > 1 && (self.compare.is_some() || self.explain) {
            let flag = if self.explain { "--explain" } else { "--compare" };
            return Err(Failure::Input(format!(
                "{flag} runs in one process, and this is a job of {} ranks",
                ranks.size()
            )));
        }
        if let Some(optimizers) = &self.compare {
            self.options.check_applies(&self.options.settings(&self.data)?)?;
            return compare::run(&self, optimizers, &places);
        }
        self.options.check_applies(&self.options.settings(&self.data)?)?;
        let flags = [("--any-order", self.any_order), ("--shard-state", self.shard_state), ("--nccl", self.nccl)];
        ranks.check_settings(&self.options.settings(&self.data)?, self.device.kind(), &flags)?;
        let (folder, mut settings) = ranks.broadcast_first(|| self.place(ranks.size()))?;
        let task = ranks.one_before_others(self.download, || datasets::load(&settings, &places))?;
        self.options.fit(&mut settings, &task.about);
        let mut study = Study::new(settings, task)?;
        if let Some(path) = &self.init_weights {
            let loaded = save::load(path, &study.start).map_err(Failure::input)?;
            loaded.warnings.iter().for_each(|warning| warn(warning));
            study.start = loaded.tree;
        }
        if self.explain {
            return explain::run(&self, &study);
        }
        let between_saves = Duration::from_secs_f64(self.checkpoint_every);
        let (bucket, shard_state) = (self.bucket.map(|mebibytes| usize::from(mebibytes) << 20), self.shard_state);
        let shards = ranks.shards(study.settings.shards, self.any_order)?;
        if let Some(shards) = &shards {
            ranks::check_data(shards, &study.task)?;
        }
        if !ranks.is_first() {
            // Rank 0 reads and writes the file.
            let checkpoint = self.out.as_ref().map(|path| path.join(folder::RUN));
            return study.follow(RunOptions {
                checkpoint,
                within: self.within,
                shards,
                bucket,
                shard_state,
                between_saves,
            });
        }
        let history = match &folder {
            Some(folder) => {
                folder.write_settings(&study.settings)?;
                folder.history()?
            }
            None => Default::default(),
        };
        let history = RefCell::new(history);
        let checkpoint = folder.as_ref().map(|folder| folder.file(folder::RUN));
        let options =
            RunOptions { checkpoint, within: self.within, shards: shards.clone(), bucket, shard_state, between_saves };
        let steps = study.settings.epochs * study.batches();
        let mut progress = Progress::new(&study.task.about.name, steps, !self.json, &history, folder.as_ref());
        let outcome = study.run(options, &history, &mut progress);
        drop(progress);
        let outcome = outcome.map_err(|mishap| diverged(mishap, &study, folder.as_ref()))?;
        outcome.warnings.iter().for_each(|warning| warn(warning));
        let written = match &folder {
            Some(folder) => write(folder, &study, &outcome)?,
            None => Vec::new(),
        };
        let distributed = shards.as_deref().map(ranks::Distributed::of);
        match self.json {
            true => {
                let mut object = object(&study, &outcome);
                if let Some(distributed) = distributed {
                    object["distributed"] = distributed.to_json();
                }
                print(&format!("{object}\n"))
            }
            false => {
                let [before, drawn, mut behind] = summary::text(&study, &outcome, folder.as_ref(), &written);
                if let Some(distributed) = distributed {
                    behind.push_str(&format!("\n{distributed}\n"));
                }
                print_around(&before, &drawn, &behind)
            }
        }
    }

    /// The directory, if one is asked for, and the settings: the saved ones if a run is resumed.
    fn place(&self, ranks: usize) -> Result<(Option<Folder>, Settings), Failure> {
        let mut asked = self.options.settings(&self.data)?;
        if self.options.shards.is_none() && ranks > 1 {
            asked.shards = ranks::default_shards(ranks);
        }
        let Some(path) = &self.out else { return Ok((None, asked)) };
        if !self.resume {
            return Ok((Some(Folder::create(path)?), asked));
        }
        let (folder, before) = Folder::open(path)?;
        let mut settings = before.clone();
        self.options.change(&mut settings);
        settings.data.clone_from(&self.data);
        // More epochs are more of the same; anything else would be another experiment.
        if (Settings { epochs: before.epochs, ..settings.clone() }) != before {
            let shown = path.display();
            let message = format!(
                "--resume: {shown} was begun with other settings (see {shown}/{}); leave out all options but --epochs",
                folder::SETTINGS
            );
            return Err(Failure::Input(message));
        }
        Ok((Some(folder), settings))
    }
}

/// The report of a divergence; the last network with a finite loss is saved.
fn diverged(mishap: RunError, study: &Study, folder: Option<&Folder>) -> Failure {
    match mishap {
        RunError::Failed(failure) => failure,
        RunError::Diverged { message, last_good } => {
            let kept = folder.map(|folder| {
                let path = folder.file("last-good.safetensors");
                match model::write(&path, study, &last_good) {
                    Ok(()) => format!("\n  the last good network is in {}", path.display()),
                    Err(failure) => format!("\n  the last good network could not be kept: {failure}"),
                }
            });
            Failure::Result(format!("{}{}", in_flags(&message), kept.unwrap_or_default()))
        }
    }
}

/// Writes the results, and prints the names of the files.
fn write(folder: &Folder, study: &Study, outcome: &Outcome) -> Result<Vec<&'static str>, Failure> {
    model::write(&folder.file(folder::MODEL), study, &outcome.network)?;
    folder.write(folder::METRICS, outcome.history.csv().as_bytes())?;
    let history = outcome.history.to_json().map_err(Failure::result)?;
    folder.write(folder::HISTORY, &history)?;
    let page = report::page(study, outcome)?;
    folder.write(folder::REPORT, page.as_bytes())?;
    Ok(vec![folder::MODEL, folder::METRICS, folder::HISTORY, folder::REPORT])
}

/// The result as JSON.
fn object(study: &Study, outcome: &Outcome) -> Value {
    let mut object = json!({
        "dataset": study.task.about.name, "seed": study.settings.seed, "epochs": study.settings.epochs,
        "train_seconds": outcome.history.seconds(), "steps": outcome.steps, "stopped": outcome.stopped,
        "losses": outcome.history.epochs.iter().map(|seen| seen.loss).collect::<Vec<_>>(),
        "test_losses": outcome.history.epochs.iter().map(|seen| seen.test.map(|score| score.loss)).collect::<Vec<_>>(),
        "train_loss": outcome.training.loss, "test_loss": outcome.test.loss, "settings": study.settings,
    });
    let linear = outcome.linear.map(|linear| [("linear_train", linear.training), ("linear_test", linear.test)]);
    let network = [("train", outcome.training), ("test", outcome.test)];
    for (part, score) in network.into_iter().chain(linear.into_iter().flatten()) {
        match score.measure {
            Measure::Accuracy(accuracy) => object[format!("{part}_accuracy")] = accuracy.into(),
            Measure::Error { rmse, r2 } => {
                object[format!("{part}_rmse")] = rmse.into();
                object[format!("{part}_r2")] = r2.into();
            }
            Measure::Bits(bits) => object[format!("{part}_bits_per_character")] = bits.into(),
        }
    }
    object
}
