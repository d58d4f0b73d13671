//! Several features with classes: how sure the network is, and whether it may be.

use glassgrad::error::Error;

use super::told_of_test;
use crate::chart::{Axis, Dot, Plot, number};
use crate::experiment::predictions::{Prediction, are_probabilities};
use crate::report::Subject;
use crate::report::html::{Cell, figure, note, table};

/// Into so many parts the way from unsure to sure is cut.
const BINS: usize = 10;
const MOST_MISTAKES: usize = 12;

pub(super) fn part(subject: &Subject<'_>, names: &[String]) -> Result<String, Error> {
    let told = told_of_test(subject, names.len())?;
    let what = if are_probabilities(subject.study.settings.loss) { "probability" } else { "share of the scores" };
    let charts = [counted(&told, what), judged(&told, what)].concat();
    let mut wrong: Vec<(usize, &Prediction)> = told.iter().enumerate().filter(|(_, told)| !told.is_right()).collect();
    wrong.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    let mistakes = wrong.len();
    let name = |class: usize| Cell::Text(names.get(class).cloned().unwrap_or_default());
    let row = |(place, told): &(usize, &Prediction)| {
        let share = format!("{:.1} %", 100.0 * told.share);
        vec![Cell::Number((place + 1).to_string()), name(told.class), name(told.told), Cell::Number(share)]
    };
    let rows: Vec<Vec<Cell>> = wrong.iter().take(MOST_MISTAKES).map(row).collect();
    let list = match rows.is_empty() {
        true => note("No test example is misclassified."),
        false => format!(
            "<h3>Most confident errors</h3>\n{}",
            table("Most confident errors", &["test example", "actual", "predicted", what], &rows)
        ),
    };
    let about = format!(
        "{mistakes} of {} test examples are misclassified. In the reliability diagram, the points of a calibrated network lie on \
         the dashed line.",
        told.len()
    );
    Ok(format!("{}<div class=\"charts\" id=\"confidence\">{charts}</div>{list}", note(&about)))
}

/// Which part of the way from unsure to sure an example lies in.
fn bin(told: &Prediction) -> usize {
    ((told.share * BINS as f64) as usize).min(BINS - 1)
}

/// How many examples are told how surely.
fn counted(told: &[Prediction], what: &str) -> String {
    let edges: Vec<f64> = (0..=BINS).map(|k| k as f64 / BINS as f64).collect();
    let mut all = vec![0.0; BINS];
    let mut wrong = vec![0.0; BINS];
    for one in told {
        all[bin(one)] += 1.0;
        if !one.is_right() {
            wrong[bin(one)] += 1.0;
        }
    }
    let most = all.iter().copied().fold(1.0, f64::max);
    let up = Axis::between("examples", 0.0, 1.05 * most);
    let mut plot = Plot::new("Histogram of confidence", Axis::between(what, 0.0, 1.0), up);
    plot.bars("var(--c0)", &edges, &all);
    plot.bars("var(--c5)", &edges, &wrong);
    figure("Confidence", "all test examples in blue, misclassified ones in red", &plot)
}

/// How many of those that are told equally surely are right.
fn judged(told: &[Prediction], what: &str) -> String {
    // A little more than from 0 to 1, so that points at the ends are whole.
    let axis = |name: &str| Axis::between(name, -0.03, 1.03);
    let mut plot = Plot::new("Accuracy by confidence", axis(&format!("mean {what}")), axis("accuracy"));
    let points: Vec<(f64, f64)> = (0..BINS)
        .filter_map(|place| {
            let members: Vec<&Prediction> = told.iter().filter(|told| bin(told) == place).collect();
            let count = members.len() as f64;
            let sure = members.iter().map(|told| told.share).sum::<f64>() / count;
            let right = members.iter().filter(|told| told.is_right()).count() as f64 / count;
            (!members.is_empty()).then_some((sure, right))
        })
        .collect();
    plot.dashed("", "var(--edge)", &[(0.0, 0.0), (1.0, 1.0)]);
    plot.dots("", "var(--c0)", Dot::Plain, &points);
    let gap = told.iter().map(|told| told.share - f64::from(u8::from(told.is_right()))).sum::<f64>()
        / told.len().max(1) as f64;
    figure(
        "Calibration",
        &format!("on average {} {}", number(gap.abs()), if gap > 0.0 { "overconfident" } else { "underconfident" }),
        &plot,
    )
}
