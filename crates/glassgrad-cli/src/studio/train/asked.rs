//! From a question to an experiment, within limits.

use glassgrad::data::Dataset as _;
use glassgrad::data::files::Table;
use glassgrad::tree::Tree as _;
use serde::Deserialize;

use crate::failure::Failure;
use crate::lab::datasets::{self, Data};
use crate::lab::model;
use crate::lab::options::Options;
use crate::lab::settings::{Engine, Settings};
use crate::lab::study::Study;
use crate::lab::task::Task;
use crate::sources::Place;

/// What a run of the studio may be. Larger ones are for the command line.
const MOST_POINTS: usize = 20_000;
const MOST_EPOCHS: u64 = 100_000;
const MOST_LAYERS: usize = 12;
const WIDEST: usize = 4096;
const MOST_WEIGHTS: usize = 4_000_000;

/// A network to train.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::studio) struct Asked {
    /// The name of a data set; for a table, any name that ends in `.csv`.
    data: String,
    #[serde(default)]
    options: Options,
    /// The text of the table.
    csv: Option<String>,
    /// Whether it waits for an order before its first step.
    #[serde(default)]
    pub(in crate::studio) paused: bool,
    /// How many steps it makes a second at most.
    pub(in crate::studio) pace: Option<f64>,
}

impl Asked {
    /// The settings that suit the data, with what was asked for.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = self.options.settings(&self.data)?;
        match datasets::find(&self.data)? {
            Data::Named(_) => {}
            Data::Table(_) if self.csv.is_some() => {}
            Data::Table(_) => return Err(Failure::Input(format!("{}: send the text of the table with it", self.data))),
            // A file of this machine is not read because a request names it.
            Data::Arrays(_) | Data::Text(_) => {
                return Err(Failure::Input(format!(
                    "{}: the studio learns from data sets by name and from tables",
                    self.data
                )));
            }
        }
        settings.engine = Engine::Tensor;
        Ok(settings)
    }

    /// The experiment, ready to run.
    pub(super) fn study(&self, places: &Place) -> Result<Study, Failure> {
        let mut settings = self.settings()?;
        within_limits(&settings)?;
        let task = self.task(&settings, places)?;
        self.options.fit(&mut settings, &task.about);
        study_of(settings, task)
    }

    fn task(&self, settings: &Settings, places: &Place) -> Result<Task, Failure> {
        match &self.csv {
            Some(text) => {
                let table = Table::parse(text).map_err(|error| Failure::Input(error.to_string()))?;
                datasets::of_table(table, settings)
            }
            None => datasets::load(settings, places),
        }
    }
}

/// An experiment that goes on with a network from a file, on the data that the file names.
pub(super) fn loaded(bytes: &[u8], places: &Place) -> Result<Study, Failure> {
    let model::Model { settings, network, task } = model::from_bytes(bytes, "the file")?;
    within_limits(&settings)?;
    if !matches!(datasets::find(&settings.data)?, Data::Named(_)) {
        return Err(Failure::Input(format!(
            "the network was trained on {}, which is not at hand; the command line can go on with it (--init-weights)",
            task.name
        )));
    }
    let own = datasets::load(&settings, places)?;
    let mut study = study_of(settings, own)?;
    study.start = network;
    Ok(study)
}

fn study_of(settings: Settings, task: Task) -> Result<Study, Failure> {
    let claimed = settings.weights(&task.about);
    if claimed > MOST_WEIGHTS {
        return Err(Failure::Input(format!(
            "layers: about {claimed} weights, and the studio trains networks of up to {MOST_WEIGHTS}; choose fewer or narrower layers"
        )));
    }
    Study::new(settings, task)
}

fn within_limits(settings: &Settings) -> Result<(), Failure> {
    let refuse = |name: &str, told: String| Err(Failure::Input(format!("{name}: {told}")));
    if settings.points > MOST_POINTS || settings.points < 2 {
        return refuse("points", format!("from 2 to {MOST_POINTS}, and not {}", settings.points));
    }
    if settings.epochs > MOST_EPOCHS || settings.epochs == 0 {
        return refuse("epochs", format!("from 1 to {MOST_EPOCHS}, and not {}", settings.epochs));
    }
    if settings.layers.len() > MOST_LAYERS {
        return refuse("layers", format!("at most {MOST_LAYERS}, and not {}", settings.layers.len()));
    }
    if let Some(width) = settings.layers.iter().find(|width| **width > WIDEST) {
        return refuse("layers", format!("at most {WIDEST} wide, and not {width}"));
    }
    if settings.wires > WIDEST || settings.context > WIDEST || settings.heads > WIDEST {
        return refuse("wires, context and heads", format!("at most {WIDEST}"));
    }
    Ok(())
}

/// The memory that a run takes, about: its examples, and weights, slopes, moments and moments that are remembered.
pub(super) fn bytes_of(study: &Study) -> usize {
    let numbers = |part: &crate::lab::task::Part| part.len() * (study.task.about.view.numbers() + 1);
    4 * (numbers(&study.task.training) + numbers(&study.task.test)) + 8 * 10 * study.start.element_count()
}
