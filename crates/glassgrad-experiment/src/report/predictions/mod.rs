//! Predictions, plotted by the kind of data.

mod boundary;
mod confidence;
pub(super) mod confusion;
mod fitted;
mod images;
mod samples;
mod scatter;

use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;

use super::Subject;
use crate::objective::Evaluator;
use crate::predictions::{Prediction, inputs_of, predictions};
use crate::task::{Kind, View};

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let about = &subject.study.task.about;
    match (about.view, &about.kind) {
        (View::Row { numbers: 2 }, Kind::Classes { names }) => boundary::part(subject, names).map(Some),
        (View::Row { numbers: 1 }, Kind::Numbers { names, scale }) => fitted::part(subject, names, scale).map(Some),
        (View::Image { height, width }, Kind::Classes { names }) => {
            images::part(subject, names, [height, width]).map(Some)
        }
        (_, Kind::Classes { names }) => confidence::part(subject, names).map(Some),
        (_, Kind::Numbers { names, scale }) => scatter::part(subject, names, scale).map(Some),
        (_, Kind::Text { .. }) => samples::part(subject),
    }
}

/// The predictions for the test set.
fn test_predictions(subject: &Subject<'_>, classes: usize) -> Result<Vec<Prediction>, Error> {
    predictions(subject.study.settings.loss, &subject.study.task.test, subject.outputs, classes)
}

/// The predictions for the training set.
fn training_predictions(subject: &Subject<'_>, classes: usize) -> Result<Vec<Prediction>, Error> {
    let part = &subject.study.task.training;
    let outputs = Evaluator::new(&subject.study.objective, part).evaluate(&subject.outcome.network)?.outputs;
    predictions(subject.study.settings.loss, part, &outputs, classes)
}

/// The outputs of the network for unscaled features, in one batch.
fn outputs_at(subject: &Subject<'_>, features: &[f64]) -> Result<Tensor, Error> {
    use glassgrad::nn::Layer as _;
    Ok(subject.outcome.network.apply(&inputs_of(subject.study, features)?).cast(DType::F64))
}
