//! A search for settings: every candidate that was tried, and the one that was chosen.

use super::head::duration;
use super::html::{Cell, Section, document, escaped, figure, note, opening, table};
use crate::chart::{Axis, Dot, Plot, colour, number};
use crate::counts::counted;
use crate::objective::Score;
use crate::search::{Trial, ranked};
use crate::settings::Settings;
use crate::task::Description;

const MOST_ROWS: usize = 200;

pub(super) fn page(about: &Description, trials: &[Trial], best: &Settings, test: Score) -> String {
    let verdict = format!(
        "<strong>{}</strong> on the test set, by layers {} and a learning rate of {}, the best of {}",
        escaped(&test.measure.to_string()),
        escaped(&widths(&best.layers)),
        number(best.lr),
        counted(trials.len(), "trial")
    );
    let head = opening("search for settings", about, &verdict);
    let sections = [
        Section { id: "trials", title: "Trials", body: chart(trials) },
        Section { id: "ranked", title: "Ranking", body: list(trials) },
        Section { id: "reproduce", title: "Train the best configuration", body: super::reproduce::command(best) },
    ];
    document(&format!("{}: search for settings", about.name), &head, &sections)
}

fn widths(layers: &[usize]) -> String {
    layers.iter().map(usize::to_string).collect::<Vec<_>>().join("-")
}

/// The learning rate of each trial against how well it did, by the number of its layers.
fn chart(trials: &[Trial]) -> String {
    let points: Vec<(usize, (f64, f64))> = trials
        .iter()
        .filter_map(|trial| Some((trial.candidate.layers.len(), (trial.candidate.lr, trial.score?.measure.number()))))
        .collect();
    let Some(measure) = trials.iter().find_map(|trial| Some(trial.score?.measure)) else {
        return note("Every candidate diverged.");
    };
    let across = Axis::logarithmic("learning rate", points.iter().map(|(_, point)| point.0));
    let up = Axis::fitting(measure.name(), points.iter().map(|(_, point)| point.1));
    let mut plot = Plot::new("Metric of each trial by learning rate", across, up);
    let deepest = points.iter().map(|(depth, _)| *depth).max().unwrap_or(0);
    for depth in 0..=deepest {
        let of_depth: Vec<(f64, f64)> =
            points.iter().filter(|(own, _)| *own == depth).map(|(_, point)| *point).collect();
        let name = if depth == 1 { "1 layer".to_owned() } else { format!("{depth} layers") };
        plot.dots(&name, &colour::of(depth.saturating_sub(1)), Dot::Plain, &of_depth);
    }
    if let Some((trial, score)) = ranked(trials).first().and_then(|trial| Some((trial, trial.score?))) {
        plot.dots("best", "var(--ink)", Dot::Cross, &[(trial.candidate.lr, score.measure.number())]);
    }
    let lost = trials.len() - points.len();
    let about = match lost {
        0 => "on the validation part, which the candidates do not learn from".to_owned(),
        lost => format!("on the validation part; {lost} came to no end, because their loss was not a number any more"),
    };
    format!("<div class=\"charts\">{}</div>", figure("Result by learning rate", &about, &plot))
}

fn list(trials: &[Trial]) -> String {
    let row = |(rank, trial): (usize, &&Trial)| {
        let [measure, loss] = match trial.score {
            Some(score) => [score.measure.to_string(), number(score.loss)],
            None => ["came to no end".to_owned(), "–".to_owned()],
        };
        vec![
            Cell::Number((rank + 1).to_string()),
            Cell::Number(number(trial.candidate.lr)),
            Cell::Path(widths(&trial.candidate.layers)),
            Cell::Number(trial.epochs.to_string()),
            Cell::Number(measure),
            Cell::Number(loss),
            Cell::Number(duration(trial.seconds)),
        ]
    };
    let all = ranked(trials);
    let rows: Vec<Vec<Cell>> = all.iter().enumerate().take(MOST_ROWS).map(row).collect();
    let more = match all.len() > MOST_ROWS {
        true => note(&format!("The first {MOST_ROWS} of {} trials are shown.", all.len())),
        false => String::new(),
    };
    table("Trials", &["rank", "learning rate", "layers", "epochs", "validation", "loss", "time"], &rows) + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Measure;
    use crate::report::tests::{classes, is_sound, study};
    use crate::search::Candidate;
    use crate::task::View;

    #[test]
    fn any_trials_make_a_page() {
        let study = study(classes(20, 2, 2), View::Row { numbers: 2 }, |_| {});
        let score = |part: f64| Score { loss: 1.0 - part, measure: Measure::Accuracy(part) };
        let trial = |number: usize, part: Option<f64>| Trial {
            number,
            round: 0,
            candidate: Candidate { lr: 0.001 * number as f64, layers: vec![8; number % 3 + 1] },
            epochs: 5,
            seconds: 0.5,
            score: part.map(score),
        };
        for trials in [vec![], vec![trial(1, None)], (1..=300).map(|k| trial(k, Some(1.0 / k as f64))).collect()] {
            let html = page(&study.task.about, &trials, &study.settings, score(0.75));
            is_sound(&html);
            assert!(html.contains("75.00 %") && html.contains("id=\"command\""), "{html}");
        }
        let two = page(&study.task.about, &[trial(1, Some(0.5)), trial(2, Some(0.75))], &study.settings, score(0.5));
        assert_eq!(two.matches("data-count=\"1\"").count(), 3, "two trials and the best of them: {two}");
    }
}
