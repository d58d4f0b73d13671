//! Regression on one feature: the fitted curve over the examples.

use glassgrad::error::Error;

use super::outputs_at;
use crate::chart::{Axis, Dot, Plot};
use crate::predictions::{Numbers, column as column_of, features, spread, targets};
use crate::report::Subject;
use crate::report::html::{figure, note};
use crate::task::Scale;

/// Points of the curve.
const PLACES: usize = 300;
const MOST_DOTS: usize = 1500;
/// At most this many target columns are shown.
const MOST_NUMBERS: usize = 4;

pub(super) fn part(subject: &Subject<'_>, names: &[String], scale: &Scale) -> Result<String, Error> {
    let task = &subject.study.task;
    let mut parts = Vec::new();
    for part in [&task.training, &task.test] {
        parts.push((features(&task.about, part)?, targets(part, names.len(), scale)?));
    }
    let name = task.about.features.first().map_or("", String::as_str);
    let across = Axis::linear(name, parts.iter().flat_map(|(xs, _)| xs.iter().copied()));
    let (low, high) = across.ends();
    let xs: Vec<f64> = (0..PLACES).map(|k| low + (high - low) * k as f64 / (PLACES - 1) as f64).collect();
    let predicted = Numbers::of(subject.study.settings.loss, scale, &outputs_at(subject, &xs)?)?;
    let mut charts = String::new();
    for (column, name) in names.iter().enumerate().take(MOST_NUMBERS) {
        let every = |numbers: &[f64]| column_of(numbers, column, names.len());
        let means = every(&predicted.means);
        let deviations = predicted.deviations.as_deref().map(every);
        let points = |place: usize| -> Vec<(f64, f64)> {
            let (xs, ys): &(Vec<f64>, Vec<f64>) = &parts[place];
            spread(&xs.iter().copied().zip(every(ys)).collect::<Vec<_>>(), MOST_DOTS)
        };
        let seen = (0..2).flat_map(points).map(|point| point.1);
        let up = Axis::linear(name, seen.chain(means.iter().copied()).collect::<Vec<_>>().into_iter());
        let mut plot = Plot::square("Fitted curve with the examples", across.clone(), up);
        if let Some(deviations) = &deviations {
            let ends = xs
                .iter()
                .zip(&means)
                .zip(deviations)
                .map(|((x, mean), deviation)| (*x, mean - 2.0 * deviation, mean + 2.0 * deviation));
            plot.band("± 2 standard deviations", "var(--c1)", &ends.collect::<Vec<_>>());
        }
        plot.dots("training", "var(--c0)", Dot::Faint, &points(0));
        plot.dots("test", "var(--c2)", Dot::Plain, &points(1));
        plot.line("prediction", "var(--c1)", &xs.iter().copied().zip(means).collect::<Vec<_>>());
        charts += &figure("Fitted curve", "", &plot);
    }
    let about = match predicted.deviations {
        Some(_) => {
            "The network predicts a mean and a standard deviation; about 95 % of the examples should lie in the band."
        }
        None => "The prediction, between the examples and beyond them.",
    };
    Ok(format!("{}<div class=\"charts\" id=\"fitted\">{charts}</div>", note(about)))
}
