//! Files of a run: the model, the report, the history.

use crate::answer::Answer;
use crate::experiment::objective::Evaluator;
use crate::experiment::study::{Kept, Outcome};
use crate::experiment::{baseline, model as models, settings};
use crate::failure::Failure;
use crate::report as reports;
use crate::train::Snapshot;

/// The network in a file of safetensors.
pub(crate) fn model(snapshot: &Snapshot<'_>) -> Answer {
    let bytes = models::to_bytes(snapshot.study, snapshot.network);
    saved(snapshot, bytes, "safetensors", "application/octet-stream")
}

/// The report of the experiment so far, an HTML page.
pub(crate) fn report(snapshot: &Snapshot<'_>) -> Answer {
    saved(snapshot, rendered(snapshot), "html", "application/octet-stream")
}

/// The history as a table of CSV.
pub(crate) fn history(snapshot: &Snapshot<'_>) -> Answer {
    saved(snapshot, Ok(snapshot.history.csv().into_bytes()), "csv", "text/csv; charset=utf-8")
}

fn rendered(snapshot: &Snapshot<'_>) -> Result<Vec<u8>, Failure> {
    let study = snapshot.study;
    let evaluated = |part| {
        let evaluated = Evaluator::new(&study.objective, part).evaluate(snapshot.network);
        evaluated.map(|evaluated| evaluated.score).map_err(Failure::result)
    };
    let outcome = Outcome {
        network: snapshot.network.clone(),
        history: snapshot.history.clone(),
        training: evaluated(&study.task.training)?,
        test: evaluated(&study.task.test)?,
        linear: baseline::fit(study).unwrap_or_default(),
        steps: snapshot.session.steps(),
        stopped: !snapshot.session.is_over(),
        warnings: Vec::new(),
        kept: Kept::default(),
    };
    Ok(reports::page(study, &outcome)?.into_bytes())
}

/// A file that the browser saves.
fn saved(snapshot: &Snapshot<'_>, bytes: Result<Vec<u8>, Failure>, ending: &str, kind: &'static str) -> Answer {
    match bytes {
        Ok(body) => Answer { status: 200, kind, file: Some(format!("{}.{ending}", name(snapshot))), body },
        Err(failure) => Answer::error(500, failure.to_string()),
    }
}

fn name(snapshot: &Snapshot<'_>) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = snapshot.study.task.about.name.chars().take(40).map(plain).collect();
    format!("{name}-{}", settings::name_of(snapshot.study.settings.model))
}
