//! Pages about experiments, each in one file that needs nothing else.
//!
//! [`page`] tells one experiment from its result inwards: how it learnt, what it learnt, its weights, the graph of its
//! loss, one step of one weight, which parameters the loss reaches, and how to make it again. [`comparison()`] shows several
//! side by side, [`tuning()`] what a search has tried. A part that cannot be made says why, and the others stand.

mod audit;
mod comparison;
mod curves;
mod head;
mod html;
mod inside;
mod predictions;
mod reproduce;
#[cfg(test)]
pub(crate) mod tests;
mod tuning;
mod update;
mod weights;

use glassgrad::error::Error;

use crate::experiment::history::History;
use crate::experiment::objective::Score;
use crate::experiment::search::Trial;
use crate::experiment::settings::Settings;
use crate::experiment::study::{Outcome, Study};
use crate::experiment::task::Description;
use crate::failure::Failure;
use html::{Section, escaped};

/// One of several experiments that are compared.
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) history: History,
    pub(crate) test: Option<Score>,
    /// What went wrong, if something did.
    pub(crate) trouble: Option<String>,
}

/// What a part of a page is made from.
struct Subject<'s> {
    study: &'s Study,
    outcome: &'s Outcome,
    /// What the network says of each test example, an example after another; nothing for texts.
    outputs: &'s [f64],
}

/// What makes a part of a page, or tells that there is nothing to show.
type Part = fn(&Subject<'_>) -> Result<Option<String>, Error>;

/// The parts in their order: what links to them, their headings, what makes them.
const PARTS: &[(&str, &str, Part)] = &[
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
pub(crate) fn page(study: &Study, outcome: &Outcome) -> Result<String, Failure> {
    let outputs = outcome.outputs(study).map_err(Failure::result)?;
    let subject = Subject { study, outcome, outputs };
    let mut sections = Vec::new();
    for (id, title, part) in PARTS {
        let body = match part(&subject) {
            Ok(None) => continue,
            Ok(Some(body)) => body,
            Err(error) => {
                format!("<p class=\"trouble\">This part could not be made: {}</p>", escaped(&error.to_string()))
            }
        };
        sections.push(Section { id, title, body });
    }
    let title = format!("{}: {}", study.task.about.name, outcome.test.measure);
    Ok(html::document(&title, &head::head(&subject), &sections))
}

/// The page of several experiments side by side.
pub(crate) fn comparison(about: &Description, contestants: &[Contestant]) -> String {
    comparison::page(about, contestants)
}

/// The page of a search for settings.
pub(crate) fn tuning(about: &Description, trials: &[Trial], best: &Settings, test: Score) -> String {
    tuning::page(about, trials, best, test)
}
