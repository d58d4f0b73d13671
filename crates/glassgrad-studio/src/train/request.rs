//! From a question to an experiment, within limits.

use glassgrad::data::Dataset as _;
use glassgrad::data::files::{Features, Table};
use glassgrad::tree::Tree as _;
use serde::Deserialize;

use super::registry::{Registry, Reserved};
use crate::answer::{Cancel, Refusal};
use crate::experiment::datasets::{self, Data};
use crate::experiment::limits;
use crate::experiment::model;
use crate::experiment::options::Options;
use crate::experiment::settings::{Engine, LARGEST_RATE, Settings};
use crate::experiment::sources::ImageSet;
use crate::experiment::study::Study;
use crate::experiment::task::Task;
use crate::failure::Failure;

/// The largest network of the studio. Larger ones are for the command line.
const MOST_WEIGHTS: usize = 4_000_000;
/// The maximum number of features, and of distinct words, of a table.
const MOST_FEATURES: usize = 4096;
const MOST_WORDS: usize = 4096;
/// The most bytes of memory that a table takes per byte of its text: a number of eight for a digit and a comma, its line, and as
/// much again when rows are left out or filled.
const BYTES_PER_CHARACTER: u64 = 12;
/// The accepted pace of a run.
const SLOWEST: f64 = 0.1;
const FASTEST: f64 = 1e9;

/// A network to train.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainRequest {
    /// The name of a data set; for a table, any name that ends in `.csv`.
    data: String,
    #[serde(default)]
    options: Options,
    /// The text of the table.
    csv: Option<String>,
    /// Whether it starts paused.
    #[serde(default)]
    pub(crate) paused: bool,
    /// The maximum number of steps per second.
    pub(crate) pace: Option<f64>,
}

impl TrainRequest {
    /// The default settings of the data, overridden by those of the request.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = self.options.settings(&self.data)?;
        match datasets::find(&self.data)? {
            Data::Named(_) => {}
            Data::Table(_) if self.csv.is_some() => {}
            Data::Table(_) => return Err(Failure::Input(format!("{}: send the text of the table with it", self.data))),
            // A file of this machine is not read because a request names it.
            Data::Arrays(_) | Data::Text(_) => {
                return Err(Failure::Input(format!(
                    "{}: the studio trains on named data sets and on CSV tables",
                    self.data
                )));
            }
        }
        settings.engine = Engine::Tensor;
        Ok(settings)
    }

    /// The settings as a run would have them, and what is wrong with the table, if anything is.
    pub(crate) fn fitted(&self, registry: &Registry, cancel: &Cancel) -> Result<(Settings, Option<String>), Refusal> {
        let mut settings = self.settings()?;
        let Some(text) = &self.csv else { return Ok((settings, None)) };
        let _parsing = registry.reserve(table_bytes(text)).map_err(Refusal::new)?;
        let is_regression = read_table(text, &settings, cancel)
            .and_then(|(table, target)| Ok(datasets::is_regression(&table, &target, &settings)?));
        match is_regression {
            Ok(is_regression) => {
                self.options.fit_target(&mut settings, is_regression);
                Ok((settings, None))
            }
            Err(refusal) => Ok((settings, Some(refusal.message()))),
        }
    }

    /// The experiment, ready to run, and the memory that is held for it.
    pub(crate) fn study(&self, registry: &Registry, cancel: &Cancel) -> Result<(Study, Reserved), Refusal> {
        let mut settings = self.settings()?;
        settings.check_for_studio()?;
        check_pace(self.pace)?;
        let (task, reserved) = match &self.csv {
            Some(text) => of_text(text, &settings, registry, cancel)?,
            None => {
                if let Data::Named(row) = datasets::find(&settings.data)?
                    && !(row.is_there)(registry.images.as_ref())
                {
                    // The host says what is missing; no memory is needed for that.
                    datasets::load(&settings, registry.images.as_ref())?;
                }
                let reserved = registry.reserve(bytes_to_load(&settings, registry)).map_err(Refusal::new)?;
                (datasets::load(&settings, registry.images.as_ref())?, reserved)
            }
        };
        cancel.check()?;
        self.options.fit(&mut settings, &task.about);
        Ok((study_of(settings, task)?, reserved))
    }
}

/// The memory that reading a table takes.
fn table_bytes(text: &str) -> u64 {
    (text.len() as u64).saturating_mul(BYTES_PER_CHARACTER)
}

/// A table as the settings ask for it, and its target column.
fn read_table(text: &str, settings: &Settings, cancel: &Cancel) -> Result<(Table, String), Refusal> {
    let table = settings.reading().most_words(MOST_WORDS).parse(text).map_err(datasets::reading_failure)?;
    cancel.check()?;
    Ok(datasets::prepared(table, settings)?)
}

/// The task of a table. Its memory is estimated from its text and its words, before anything is allocated.
fn of_text(text: &str, settings: &Settings, registry: &Registry, cancel: &Cancel) -> Result<(Task, Reserved), Refusal> {
    let parsing = registry.reserve(table_bytes(text)).map_err(Refusal::new)?;
    let (table, target) = read_table(text, settings, cancel)?;
    let features = Features::of(&table, &target).map_err(Failure::input)?;
    let (rows, width) = (table.rows(), features.width());
    if width > MOST_FEATURES {
        return Err(Refusal::new(format!(
            "the table has {width} features, a word counted as one each, and the studio takes {MOST_FEATURES}; drop \
             columns of words that are nearly all different, such as names"
        )));
    }
    let needed = limits::example_bytes(rows, width).saturating_add(table_bytes(text));
    drop(parsing);
    let reserved = registry.reserve(needed).map_err(Refusal::new)?;
    Ok((datasets::of_table(&table, &target, settings)?, reserved))
}

/// The memory that loading data of a name takes: images of 28 × 28 pixels come by the ten thousand.
fn bytes_to_load(settings: &Settings, registry: &Registry) -> u64 {
    let of_images = |set: ImageSet| registry.images.count(set) as u64 * 28 * 28 * 4 * 3;
    match settings.data.as_str() {
        "mnist" => of_images(ImageSet::Mnist),
        "fashion" => of_images(ImageSet::FashionMnist),
        _ => limits::example_bytes(settings.points.max(2_000), 65),
    }
}

/// An experiment that continues from a network in a file, on the data that the file names.
pub(crate) fn loaded(bytes: &[u8], registry: &Registry) -> Result<(Study, Reserved, Vec<String>), Refusal> {
    let parsing = registry.reserve((bytes.len() as u64).saturating_mul(8)).map_err(Refusal::new)?;
    let model::Model { settings, network, task, warnings } = model::from_bytes(bytes, "the file")?;
    settings.check_for_studio()?;
    if !matches!(datasets::find(&settings.data)?, Data::Named(_)) {
        return Err(Refusal::new(format!(
            "the network was trained on {}, which is not available here; use glassgrad train --init-weights",
            task.name
        )));
    }
    drop(parsing);
    let reserved = registry.reserve(bytes_to_load(&settings, registry)).map_err(Refusal::new)?;
    let own = datasets::load(&settings, registry.images.as_ref())?;
    let mut study = study_of(settings, own)?;
    study.start = network;
    Ok((study, reserved, warnings))
}

/// Refuses a learning rate that no run could go on with.
pub(crate) fn check_rate(rate: f64) -> Result<(), Failure> {
    match (0.0..=LARGEST_RATE).contains(&rate) {
        true => Ok(()),
        false => Err(Failure::Input(format!("rate: from 0 to 1e30, and not {rate}"))),
    }
}

/// Refuses a pace that is no number of steps a second.
pub(crate) fn check_pace(pace: Option<f64>) -> Result<(), Failure> {
    match pace {
        Some(pace) if !(SLOWEST..=FASTEST).contains(&pace) => {
            Err(Failure::Input(format!("pace: from {SLOWEST} to {FASTEST} steps a second, and not {pace}")))
        }
        _ => Ok(()),
    }
}

fn study_of(settings: Settings, task: Task) -> Result<Study, Failure> {
    let claimed = settings.weights(&task.about);
    if claimed > MOST_WEIGHTS {
        return Err(Failure::Input(format!(
            "layers: about {claimed} weights, and the studio trains up to {MOST_WEIGHTS}; choose fewer or narrower layers"
        )));
    }
    Study::new(settings, task)
}

/// The memory that a run takes, about: its examples, and weights, gradients, moments and moments that are remembered.
pub(crate) fn bytes_of(study: &Study) -> usize {
    let numbers = |part: &crate::experiment::task::Part| part.len() * (study.task.about.view.numbers() + 1);
    let element = study.settings.dtype.dtype().bytes();
    element * (numbers(&study.task.training) + numbers(&study.task.test)) + 8 * 10 * study.start.element_count()
}
