//! Two features with classes: which class the network tells at every point of the plane, and the examples on it.

use glassgrad::error::Error;

use super::{answers, told_of_test, told_of_training};
use crate::chart::{Axis, Bitmap, Dot, Plot, colour};
use crate::experiment::plane::Plane;
use crate::experiment::predictions::{Prediction, are_probabilities, features, lead, spread};
use crate::report::Subject;
use crate::report::html::{figure, note};

/// The plane is looked at in so many places along each axis.
const PLACES: usize = 96;

/// Of each class and part at most so many examples are drawn.
const MOST_DOTS: usize = 1000;

/// More classes are not all named beside the picture.
const MOST_NAMES: usize = 20;

/// The strongest covering of the map, so that examples stand out on it.
const STRONGEST: f64 = 150.0;

pub(super) fn part(subject: &Subject<'_>, names: &[String]) -> Result<String, Error> {
    let (study, task) = (subject.study, &subject.study.task);
    let parts = [
        (features(&task.about, &task.training)?, told_of_training(subject, names.len())?),
        (features(&task.about, &task.test)?, told_of_test(subject, names.len())?),
    ];
    let column =
        |column: usize| parts.iter().flat_map(move |(numbers, _)| numbers.iter().skip(column).step_by(2).copied());
    let name = |place: usize| task.about.features.get(place).map_or("", String::as_str);
    let (across, up) = (Axis::linear(name(0), column(0)), Axis::linear(name(1), column(1)));
    let map = map(subject, names.len(), &across, &up)?;
    let mut plot = Plot::square("Decision boundary with the examples", across, up);
    plot.picture(&map.address());
    for ((dot, word), (numbers, told)) in [(Dot::Faint, ", training"), (Dot::Plain, ", test")].iter().zip(&parts) {
        for (class, class_name) in names.iter().enumerate() {
            let points = points(numbers, told, |told| told.class == class);
            let shown = if class < MOST_NAMES { format!("{class_name}{word}") } else { String::new() };
            plot.dots(&shown, &colour::of(class), *dot, &spread(&points, MOST_DOTS));
        }
    }
    for (numbers, told) in &parts {
        let wrong = points(numbers, told, |told| !told.is_right());
        plot.dots("misclassified", "var(--ink)", Dot::Cross, &spread(&wrong, MOST_DOTS));
    }
    let wrong = |part: usize| parts[part].1.iter().filter(|told| !told.is_right()).count();
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

/// The examples of a part that fit, as points.
fn points(numbers: &[f64], told: &[Prediction], fits: impl Fn(&Prediction) -> bool) -> Vec<(f64, f64)> {
    let pairs = numbers.chunks_exact(2).zip(told).filter(|(_, told)| fits(told));
    pairs.map(|(pair, _)| (pair[0], pair[1])).collect()
}

/// The network asked once for the whole plane.
fn map(subject: &Subject<'_>, classes: usize, across: &Axis, up: &Axis) -> Result<Bitmap, Error> {
    let plane = Plane { across: across.ends(), up: up.ends(), places: PLACES };
    let outputs = answers(subject, &plane.points())?.to_vec::<f64>()?;
    let pixel = |row: &[f64]| {
        let (class, lead) = lead(subject.study.settings.loss, row);
        let [red, green, blue] = colour::rgb(class);
        [red, green, blue, (STRONGEST * lead).round() as u8]
    };
    Ok(Bitmap::new(PLACES, outputs.chunks(classes.max(1)).map(pixel).collect()))
}
