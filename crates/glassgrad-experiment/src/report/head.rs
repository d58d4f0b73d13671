//! Head of the report: the result in one line, and the settings.

use glassgrad::data::Dataset as _;

use super::Subject;
use super::html::{facts, opening};
use crate::chart::number;
use crate::counts::plural;
use crate::objective::{Measure, Score};
use crate::settings::{Schedule, Settings, name_of as word};

/// The head of the page of one experiment.
pub(super) fn head(subject: &Subject<'_>) -> String {
    let (study, outcome) = (subject.study, subject.outcome);
    let (settings, about) = (&study.settings, &study.task.about);
    let ends = about.ends(settings);
    let (large, rest) = verdict(outcome.test, study.task.test.len());
    let ended = match outcome.stopped {
        true => "<p class=\"trouble\">It was ended early.</p>\n",
        false => "",
    };
    let mut pairs = vec![
        ("Network", settings.network(ends.view.numbers(), ends.outputs)),
        ("Parameters", thousands(study.start.parameters())),
        ("Optimizer", optimizer(settings)),
        ("Loss", format!("{}, {}", word(settings.loss), word(settings.reduction))),
        (
            "Examples",
            format!("{} training, {} test", thousands(study.task.training.len()), thousands(study.task.test.len())),
        ),
        ("Epochs", format!("{}, batch size {}", outcome.history.epochs.len(), study.batch())),
        ("Training set", outcome.training.measure.to_string()),
        ("Time", {
            let steps = outcome.steps as usize;
            format!("{} for {} step{}", duration(outcome.history.seconds()), thousands(steps), plural(steps))
        }),
        ("Random seed", settings.seed.to_string()),
    ];
    if let Some(linear) = &outcome.linear {
        pairs.push(("Linear baseline", linear.test.measure.to_string()));
    }
    let opening = opening("report of an experiment", about, &format!("<strong>{large}</strong> {rest}"));
    format!("{opening}{ended}{}", facts(&pairs))
}

/// The number that people look for, and what it is.
fn verdict(score: Score, examples: usize) -> (String, String) {
    let examples = format!("{} test example{}", thousands(examples), plural(examples));
    match score.measure {
        Measure::Accuracy(part) => (format!("{:.2} %", 100.0 * part), format!("accuracy on {examples}")),
        Measure::Error { rmse, r2 } if r2.is_finite() => {
            (format!("R² {r2:.4}"), format!("on {examples} (explained variance); RMSE {}", number(rmse)))
        }
        Measure::Error { rmse, .. } => (number(rmse), format!("RMSE on {examples}")),
        Measure::Bits(bits) => (format!("{bits:.3}"), "bits per character on the held-out text".to_owned()),
    }
}

/// The optimizer with what is not usual of it.
pub(super) fn optimizer(settings: &Settings) -> String {
    let mut text = format!("{}, learning rate {}", word(settings.optimizer), settings.lr);
    for (name, value) in
        [("momentum", settings.momentum), ("weight decay", settings.weight_decay), ("gradient clipping", settings.clip)]
    {
        if value > 0.0 {
            text += &format!(", {name} {value}");
        }
    }
    if settings.schedule != Schedule::Constant {
        text += &format!(", {}", word(settings.schedule));
    }
    text
}

/// A count with its thousands apart.
pub(super) fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in the unit that fits.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if !seconds.is_finite() => "an unknown time".to_owned(),
        seconds if seconds < 1.0 => format!("{:.0} ms", 1000.0 * seconds),
        seconds if seconds < 120.0 => format!("{seconds:.1} s"),
        seconds if seconds < 7200.0 => format!("{:.1} minutes", seconds / 60.0),
        seconds => format!("{:.1} hours", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0125, 2.0, 600.0, 1e4].map(duration), ["12 ms", "2.0 s", "10.0 minutes", "2.8 hours"]);
    }
}
