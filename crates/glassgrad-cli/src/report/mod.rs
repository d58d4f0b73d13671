//! Pages about experiments, each in one file that needs nothing else.

use crate::failure::Failure;
use crate::lab::history::History;
use crate::lab::objective::Score;
use crate::lab::settings::Settings;
use crate::lab::study::{Outcome, Study};
use crate::lab::task::Description;

/// One of several experiments that are compared.
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) history: History,
    pub(crate) test: Option<Score>,
    /// What went wrong, if something did.
    pub(crate) trouble: Option<String>,
}

/// The page of one experiment.
pub(crate) fn page(study: &Study, outcome: &Outcome) -> Result<String, Failure> {
    let _ = (study, outcome);
    Ok(String::new())
}

/// The page of several experiments side by side.
pub(crate) fn comparison(about: &Description, contestants: &[Contestant]) -> String {
    let _ = (about, contestants);
    String::new()
}

/// The page of a search for settings.
pub(crate) fn tuning(
    about: &Description,
    trials: &[crate::lab::search::Trial],
    best: &Settings,
    test: Score,
) -> String {
    let _ = (about, trials, best, test);
    String::new()
}
