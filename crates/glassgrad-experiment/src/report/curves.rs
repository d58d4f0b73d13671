//! Loss, measure and learning rate, epoch by epoch.

use glassgrad::error::Error;

use super::Subject;
use super::html::{figure, note};
use crate::chart::{Axis, Plot, colour};
use crate::history::{EpochRecord, History};
use crate::objective::Measure;
use crate::settings::Reduction;

/// Curves with more points are drawn with every second, third, … of them.
const MOST_POINTS: usize = 2000;

/// A curve with its name.
pub(super) type Named<'n> = (&'n str, Vec<(f64, f64)>);

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let (history, settings) = (&subject.outcome.history, &subject.study.settings);
    if history.epochs.is_empty() {
        return Ok(Some(note("No epoch was run: these are the initial weights.")));
    }
    let mut charts = Vec::new();
    let training = ("training", curve(history, |seen| Some(seen.loss)));
    let test = ("test", curve(history, |seen| Some(seen.test?.loss)));
    match settings.reduction {
        Reduction::Mean => charts.push(chart("Loss", "mean loss per example, by epoch", "loss", &[training, test])),
        // A sum over a batch and a mean over the test set have no axis in common.
        Reduction::Sum => {
            charts.push(chart("Training loss", "summed loss of a batch, by epoch", "loss", &[training]));
            charts.push(chart("Test loss", "mean loss per example", "loss", &[test]));
        }
    }
    let (title, about, name) = match subject.outcome.test.measure {
        Measure::Accuracy(_) => ("Accuracy", "fraction of the test examples that are classified correctly", "accuracy"),
        Measure::Error { .. } => ("RMSE", "root mean squared error on the test set, in the units of the data", "RMSE"),
        Measure::Bits(_) => ("Bits per character", "on the held-out text", "bits"),
    };
    charts.push(chart(title, about, name, &[("test", curve(history, |seen| Some(seen.test?.measure.number())))]));
    let rates = curve(history, |seen| Some(seen.rate));
    let known = || rates.iter().map(|point| point.1).filter(|rate| rate.is_finite());
    if known().any(|rate| Some(rate) != known().next()) {
        charts.push(chart("Learning rate", "of the last step of each epoch", "rate", &[("rate", rates)]));
    }
    Ok(Some(format!("<div class=\"charts\">\n{}</div>", charts.concat())))
}

/// The points of a curve: every epoch, or every n-th so that the page stays small, and the last one.
pub(super) fn curve(history: &History, of: impl Fn(&EpochRecord) -> Option<f64>) -> Vec<(f64, f64)> {
    thinned(history.curve(of), MOST_POINTS)
}

fn thinned(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    let (last, every) = (points.len().saturating_sub(1), points.len().div_ceil(most).max(1));
    let is_kept = |place: usize| place.is_multiple_of(every) || place == last;
    points.into_iter().enumerate().filter(|(place, _)| is_kept(*place)).map(|(_, point)| point).collect()
}

/// A chart of curves by epoch.
pub(super) fn chart(title: &str, about: &str, name: &str, curves: &[Named<'_>]) -> String {
    let all = || curves.iter().flat_map(|(_, points)| points);
    chart_over(title, about, Axis::fitting(name, all().map(|point| point.1)), curves)
}

/// A chart of curves by epoch over an axis of one's choice.
pub(super) fn chart_over(title: &str, about: &str, up: Axis, curves: &[Named<'_>]) -> String {
    let all = || curves.iter().flat_map(|(_, points)| points);
    let across = Axis::counted("epoch", all().map(|point| point.0));
    let logarithmic = if up.is_logarithmic() { "; logarithmic" } else { "" };
    let mut plot = Plot::new(&format!("{title} by epoch"), across, up);
    for (number, (name, points)) in curves.iter().enumerate() {
        plot.line(name, &colour::of(number), points);
    }
    let unknown = all().filter(|point| !point.1.is_finite()).count();
    let gaps = if unknown > 0 { format!("; {unknown} values are not finite and left out") } else { String::new() };
    figure(title, &format!("{about}{logarithmic}{gaps}"), &plot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_thinned_and_keep_their_ends() {
        let points: Vec<(f64, f64)> = (0..100_001).map(|k| (f64::from(k), 0.0)).collect();
        let thin = thinned(points, MOST_POINTS);
        assert!(thin.len() <= MOST_POINTS + 1, "{}", thin.len());
        assert_eq!((thin[0].0, thin[thin.len() - 1].0), (0.0, 100_000.0));
        assert_eq!(thinned(Vec::new(), 5), []);
        assert_eq!(thinned(vec![(1.0, 2.0)], 5).len(), 1);
    }

    #[test]
    fn empty_and_spoiled_histories_make_charts() {
        for points in [vec![], vec![(1.0, f64::NAN)], vec![(1.0, 0.5)], vec![(1.0, f64::INFINITY), (2.0, 1.0)]] {
            let html = chart("Loss", "", "loss", &[("training", points)]);
            assert!(html.contains("<svg") && !html.contains("NaN"), "{html}");
        }
    }
}
