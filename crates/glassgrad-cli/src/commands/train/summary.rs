//! The summary that is printed after training.

use glassgrad::data::Dataset as _;

use crate::experiment::predictions;
use crate::experiment::samples::Sample;
use crate::experiment::settings::name_of;
use crate::experiment::study::{Outcome, Study};
use crate::experiment::task::Kind;
use crate::folder::Folder;
use crate::plot::{Curve, is_coloured, plot};
use crate::table::Table;
use crate::terminal::counted;

/// More classes than this are not shown as a table of confusions.
const MOST_CLASSES: usize = 10;
/// At most this many characters of generated text are shown.
const MOST_WRITTEN: usize = 400;

/// The header, the curves, and the results. Only the curves have colours.
pub(super) fn text(study: &Study, outcome: &Outcome, folder: Option<&Folder>, written: &[&str]) -> [String; 3] {
    let (settings, about) = (&study.settings, &study.task.about);
    let ends = about.ends(settings);
    let colour = is_coloured(&std::io::stdout());
    let before = format!(
        "{}: {}\n{}, {}; {} lr {}, batch {}, seed {}; {}, {}\n\n",
        about.name,
        about.title,
        settings.network(ends.view.numbers(), ends.outputs),
        counted(study.start.parameters(), "parameter"),
        name_of(settings.optimizer),
        match settings.weight_decay {
            0.0 => settings.lr.to_string(),
            decay => format!("{}, weight decay {decay}", settings.lr),
        },
        study.batch(),
        settings.seed,
        counted(study.task.training.len(), "training example"),
        counted(study.task.test.len(), "test example"),
    );
    let curve = |name: &str, points: Vec<(f64, f64)>| Curve { name: name.to_owned(), points };
    let mut curves = vec![curve("training", outcome.history.curve(|seen| Some(seen.loss)))];
    // A loss that is summed over a batch has no place beside the mean of the test.
    if settings.reduction == crate::experiment::settings::Reduction::Mean {
        curves.push(curve("test", outcome.history.curve(|seen| Some(seen.test?.loss))));
    }
    let drawn = plot("loss by epoch", &curves, colour);
    let mut text = format!(
        "\n{:<10}{} on the training set, {} on {}\n",
        if matches!(about.kind, Kind::Text { .. }) { "bits" } else { outcome.test.measure.name() },
        outcome.training.measure,
        outcome.test.measure,
        if matches!(about.kind, Kind::Text { .. }) { "the held-out text" } else { "the test set" },
    );
    if let Some(linear) = outcome.linear {
        text += &format!(
            "{:<10}{} on the training set, {} on the test set: linear baseline, {}\n",
            "linear",
            linear.training.measure,
            linear.test.measure,
            counted(linear.rounds, "Newton step")
        );
    }
    let seconds = outcome.history.seconds();
    text += &format!("{:<10}{seconds:.3} s for {}\n", "time", counted(outcome.steps as usize, "step"));
    if let Some(written) = written_text(study, outcome) {
        text += &written;
    }
    if let Some(confusions) = confusions(study, outcome) {
        text += &format!("\n{confusions}");
    }
    if let Some(folder) = folder {
        text += &format!("\nwritten to {}: {}\n", folder.path().display(), written.join(", "));
    }
    if outcome.stopped {
        text += &match folder {
            Some(folder) => format!(
                "stopped early: resume with  glassgrad train {} --out {} --resume\n",
                settings.data,
                folder.path().display()
            ),
            None => "stopped early; with --out DIR a run can be resumed\n".to_owned(),
        };
    }
    [before, drawn, text]
}

/// The n-gram baseline, and a sample of generated text.
fn written_text(study: &Study, outcome: &Outcome) -> Option<String> {
    let Sample { begin, written, counted } = outcome.sample(study).ok()??;
    let lines: String = written.chars().take(MOST_WRITTEN).collect();
    Some(format!(
        "{:<10}{:.3} bits/character by the best of interpolated n-grams (order {}, discount {})\n\ngenerated text after {begin:?}:\n\n{lines}\n",
        "counting", counted.bits, counted.order, counted.discount
    ))
}

/// Which classes are taken for which, where some are.
fn confusions(study: &Study, outcome: &Outcome) -> Option<String> {
    let Kind::Classes { names } = &study.task.about.kind else { return None };
    if names.len() > MOST_CLASSES || outcome.test.measure.number() == 1.0 {
        return None;
    }
    let classes = study.task.test.tensors().1.to_vec::<i64>().ok()?;
    let counts = predictions::confusions(&classes, outcome.outputs(study).ok()?, names.len());
    let header: Vec<String> = std::iter::once("actual \\ predicted".to_owned()).chain(names.iter().cloned()).collect();
    let mut table = Table::of(header);
    for (class, name) in names.iter().enumerate() {
        let cell = |predicted: usize| counts.get(&(class, predicted)).map_or_else(|| "·".to_owned(), usize::to_string);
        table.push(std::iter::once(name.clone()).chain((0..names.len()).map(cell)).collect());
    }
    Some(table.render())
}
