//! HTML reports of experiments, each a self-contained file.
//!
//! [`page`] reports one experiment: learning curves, predictions, weights, the graph of its
//! loss, one step of one weight, which parameters the loss reaches, and the command that reproduces it. [`comparison()`] shows several
//! side by side, [`tuning()`] the trials of a search. A section that fails shows its error; the others are unaffected.

mod audit;
mod comparison;
mod curves;
mod head;
mod html;
mod inside;
mod predictions;
mod reproduce;
#[cfg(test)]
pub mod tests;
mod tuning;
mod update;
mod weights;

use glassgrad::error::Error;

use crate::failure::Failure;
use crate::history::History;
use crate::objective::Score;
use crate::search::Trial;
use crate::settings::Settings;
use crate::study::{Outcome, Study};
use crate::task::Description;
use html::{Section, escaped};

/// One of several experiments that are compared.
pub struct Contestant {
    pub name: String,
    pub settings: Settings,
    pub history: History,
    pub test: Option<Score>,
    /// The error, if it failed.
    pub trouble: Option<String>,
}

/// The input of a section.
struct Subject<'s> {
    study: &'s Study,
    outcome: &'s Outcome,
    /// The outputs for each test example, row-major; empty for text.
    outputs: &'s [f64],
}

/// Renders a section, or returns `None` if there is nothing to show.
type Render = fn(&Subject<'_>) -> Result<Option<String>, Error>;

/// The sections in their order: id, heading, renderer.
const SECTIONS: &[(&str, &str, Render)] = &[
    ("curves", "Learning curves", curves::part),
    ("predictions", "Predictions", predictions::part),
    ("confusions", "Confusion matrix", predictions::confusion::part),
    ("units", "First-layer weights", weights::units),
    ("weights", "Weights and gradients", weights::part),
    ("graph", "Computation graph of the loss", inside::part),
    ("update", "Anatomy of a weight update", update::part),
    ("audit", "Gradient-path audit", audit::part),
    ("reproduce", "Reproduce", reproduce::part),
];

/// The page of one experiment.
pub fn page(study: &Study, outcome: &Outcome) -> Result<String, Failure> {
    let outputs = outcome.outputs(study).map_err(Failure::result)?;
    let subject = Subject { study, outcome, outputs };
    let mut sections = Vec::new();
    for (id, title, render) in SECTIONS {
        let body = match render(&subject) {
            Ok(None) => continue,
            Ok(Some(body)) => body,
            Err(error) => {
                format!("<p class=\"trouble\">This section could not be rendered: {}</p>", escaped(&error.to_string()))
            }
        };
        sections.push(Section { id, title, body });
    }
    let title = format!("{}: {}", study.task.about.name, outcome.test.measure);
    Ok(html::document(&title, &head::head(&subject), &sections))
}

/// The page of several experiments side by side.
pub fn comparison(about: &Description, contestants: &[Contestant]) -> String {
    comparison::page(about, contestants)
}

/// The page of a search for settings.
pub fn tuning(about: &Description, trials: &[Trial], best: &Settings, test: Score) -> String {
    tuning::page(about, trials, best, test)
}
