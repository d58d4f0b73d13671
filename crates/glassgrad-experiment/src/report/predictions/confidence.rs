//! Several features with classes: confidence histogram, reliability diagram, and the most confident errors.

use glassgrad::error::Error;

use super::test_predictions;
use crate::chart::{Axis, Dot, Plot, number};
use crate::predictions::{Prediction, are_probabilities};
use crate::report::Subject;
use crate::report::html::{Cell, figure, note, table};

/// Bins of the histogram and of the reliability diagram.
const BINS: usize = 10;
const MOST_MISTAKES: usize = 12;

pub(super) fn part(subject: &Subject<'_>, names: &[String]) -> Result<String, Error> {
    let predictions = test_predictions(subject, names.len())?;
    let what = if are_probabilities(subject.study.settings.loss) { "probability" } else { "share of the scores" };
    let charts = [histogram(&predictions, what), calibration(&predictions, what)].concat();
    let mut wrong: Vec<(usize, &Prediction)> =
        predictions.iter().enumerate().filter(|(_, one)| !one.is_right()).collect();
    wrong.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    let mistakes = wrong.len();
    let name = |class: usize| Cell::Text(names.get(class).cloned().unwrap_or_default());
    let row = |(place, prediction): &(usize, &Prediction)| {
        let share = format!("{:.1} %", 100.0 * prediction.share);
        vec![
            Cell::Number((place + 1).to_string()),
            name(prediction.class),
            name(prediction.predicted),
            Cell::Number(share),
        ]
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
        predictions.len()
    );
    Ok(format!("{}<div class=\"charts\" id=\"confidence\">{charts}</div>{list}", note(&about)))
}

/// The bin of a prediction, by its confidence.
fn bin(prediction: &Prediction) -> usize {
    ((prediction.share * BINS as f64) as usize).min(BINS - 1)
}

/// Confidence histogram: all test examples, and the misclassified ones.
fn histogram(predictions: &[Prediction], what: &str) -> String {
    let edges: Vec<f64> = (0..=BINS).map(|k| k as f64 / BINS as f64).collect();
    let mut all = vec![0.0; BINS];
    let mut wrong = vec![0.0; BINS];
    for one in predictions {
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

/// Reliability diagram: accuracy against mean confidence, bin by bin.
fn calibration(predictions: &[Prediction], what: &str) -> String {
    // A little more than from 0 to 1, so that points at the ends are whole.
    let axis = |name: &str| Axis::between(name, -0.03, 1.03);
    let mut plot = Plot::new("Accuracy by confidence", axis(&format!("mean {what}")), axis("accuracy"));
    let points: Vec<(f64, f64)> = (0..BINS)
        .filter_map(|place| {
            let members: Vec<&Prediction> = predictions.iter().filter(|one| bin(one) == place).collect();
            let count = members.len() as f64;
            let confidence = members.iter().map(|one| one.share).sum::<f64>() / count;
            let accuracy = members.iter().filter(|one| one.is_right()).count() as f64 / count;
            (!members.is_empty()).then_some((confidence, accuracy))
        })
        .collect();
    plot.dashed("", "var(--edge)", &[(0.0, 0.0), (1.0, 1.0)]);
    plot.dots("", "var(--c0)", Dot::Plain, &points);
    let gap = predictions.iter().map(|one| one.share - f64::from(u8::from(one.is_right()))).sum::<f64>()
        / predictions.len().max(1) as f64;
    figure(
        "Calibration",
        &format!("on average {} {}", number(gap.abs()), if gap > 0.0 { "overconfident" } else { "underconfident" }),
        &plot,
    )
}
