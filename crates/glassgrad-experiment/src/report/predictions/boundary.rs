//! Decision boundary of two features: the predicted class at every point of a grid, with the examples.

use glassgrad::error::Error;

use super::{outputs_at, test_predictions, training_predictions};
use crate::chart::{Axis, Bitmap, Dot, Plot, colour};
use crate::plane::Plane;
use crate::predictions::{Prediction, are_probabilities, features, lead, spread};
use crate::report::Subject;
use crate::report::html::{figure, note};

/// Grid points along each axis.
const PLACES: usize = 96;

/// At most this many examples of each class are drawn, in training set and test set each.
const MOST_DOTS: usize = 1000;

/// At most this many classes are in the legend.
const MOST_NAMES: usize = 20;

/// The largest opacity of the map, so that examples stand out on it.
const STRONGEST: f64 = 150.0;

pub(super) fn part(subject: &Subject<'_>, names: &[String]) -> Result<String, Error> {
    let (study, task) = (subject.study, &subject.study.task);
    let parts = [
        (features(&task.about, &task.training)?, training_predictions(subject, names.len())?),
        (features(&task.about, &task.test)?, test_predictions(subject, names.len())?),
    ];
    let column =
        |column: usize| parts.iter().flat_map(move |(numbers, _)| numbers.iter().skip(column).step_by(2).copied());
    let name = |place: usize| task.about.features.get(place).map_or("", String::as_str);
    let (across, up) = (Axis::linear(name(0), column(0)), Axis::linear(name(1), column(1)));
    let map = map(subject, names.len(), &across, &up)?;
    let mut plot = Plot::square("Decision boundary with the examples", across, up);
    plot.picture(&map.address());
    for ((dot, word), (numbers, predictions)) in [(Dot::Faint, ", training"), (Dot::Plain, ", test")].iter().zip(&parts)
    {
        for (class, class_name) in names.iter().enumerate() {
            let points = points(numbers, predictions, |one| one.class == class);
            let shown = if class < MOST_NAMES { format!("{class_name}{word}") } else { String::new() };
            plot.dots(&shown, &colour::of(class), *dot, &spread(&points, MOST_DOTS));
        }
    }
    for (numbers, predictions) in &parts {
        let wrong = points(numbers, predictions, |one| !one.is_right());
        plot.dots("misclassified", "var(--ink)", Dot::Cross, &spread(&wrong, MOST_DOTS));
    }
    let wrong = |part: usize| parts[part].1.iter().filter(|one| !one.is_right()).count();
    let what = if are_probabilities(study.settings.loss) { "probability" } else { "margin" };
    let about = format!(
        "The colour is the predicted class, its strength the {what}. \
         {} of {} training examples and {} of {} test examples are misclassified.",
        wrong(0),
        parts[0].1.len(),
        wrong(1),
        parts[1].1.len()
    );
    Ok(format!(
        "{}<div class=\"charts\" id=\"boundary\">{}</div>",
        note(&about),
        figure("Decision boundary", "", &plot)
    ))
}

/// The examples whose predictions satisfy a condition, as points.
fn points(numbers: &[f64], predictions: &[Prediction], fits: impl Fn(&Prediction) -> bool) -> Vec<(f64, f64)> {
    let pairs = numbers.chunks_exact(2).zip(predictions).filter(|(_, one)| fits(one));
    pairs.map(|(pair, _)| (pair[0], pair[1])).collect()
}

/// The network evaluated once on the whole grid.
fn map(subject: &Subject<'_>, classes: usize, across: &Axis, up: &Axis) -> Result<Bitmap, Error> {
    let plane = Plane { across: across.ends(), up: up.ends(), places: PLACES };
    let outputs = outputs_at(subject, &plane.points())?.to_vec::<f64>()?;
    let pixel = |row: &[f64]| {
        let (class, lead) = lead(subject.study.settings.loss, row);
        let [red, green, blue] = colour::rgb(class);
        [red, green, blue, (STRONGEST * lead).round() as u8]
    };
    Ok(Bitmap::new(PLACES, outputs.chunks(classes.max(1)).map(pixel).collect()))
}
