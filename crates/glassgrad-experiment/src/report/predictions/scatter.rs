//! Predicted against actual values.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;

use crate::chart::{Axis, Dot, Plot};
use crate::objective::Evaluator;
use crate::predictions::{column as column_of, spread, targets};
use crate::report::Subject;
use crate::report::html::{figure, note};
use crate::task::{Part, Scale};

const MOST_DOTS: usize = 1500;
/// At most this many target columns are shown.
const MOST_NUMBERS: usize = 4;

pub(super) fn part(subject: &Subject<'_>, names: &[String], scale: &Scale) -> Result<String, Error> {
    let study = subject.study;
    let training = Evaluator::new(&study.objective, &study.task.training).evaluate(&subject.outcome.network)?.outputs;
    let parts = [(&study.task.training, &training[..]), (&study.task.test, subject.outputs)];
    let mut charts = String::new();
    for (column, name) in names.iter().enumerate().take(MOST_NUMBERS) {
        let mut points = Vec::new();
        for (part, outputs) in parts {
            points.push(spread(&pairs(part, outputs, column, names.len(), scale)?, MOST_DOTS));
        }
        let all: Vec<f64> = points.iter().flatten().flat_map(|(actual, predicted)| [*actual, *predicted]).collect();
        let axis = |name: &str| Axis::linear(name, all.iter().copied());
        let ends = axis("").ends();
        let mut plot = Plot::square("Predicted against actual", axis("actual"), axis("predicted"));
        plot.dashed("", "var(--edge)", &[(ends.0, ends.0), (ends.1, ends.1)]);
        plot.dots("training", "var(--c0)", Dot::Faint, &points[0]);
        plot.dots("test", "var(--c1)", Dot::Plain, &points[1]);
        charts += &figure(&format!("{name}: predicted against actual"), "", &plot);
    }
    let more = match names.len() > MOST_NUMBERS {
        true => format!(" The first {MOST_NUMBERS} of {} numbers are shown.", names.len()),
        false => String::new(),
    };
    let about = format!("Perfect predictions lie on the dashed line.{more}");
    Ok(format!("{}<div class=\"charts\" id=\"truth\">{charts}</div>", note(&about)))
}

/// Pairs of actual and predicted values, in the units of the data.
fn pairs(part: &Part, outputs: &[f64], column: usize, columns: usize, scale: &Scale) -> Result<Vec<(f64, f64)>, Error> {
    let actual = column_of(&targets(part, columns, scale)?, column, columns);
    // The first columns of the outputs are the predictions.
    let predicted = column_of(outputs, column, outputs.len() / part.len().max(1));
    let (mean, deviation) = (scale.mean[column], scale.deviation[column]);
    Ok(actual.into_iter().zip(predicted.iter().map(|value| value * deviation + mean)).collect())
}
