//! What a network has learnt, shown in the way that suits the data.

mod boundary;
mod confidence;
pub(super) mod confusion;
mod fitted;
mod images;
mod truth;
mod verse;

use glassgrad::data::Dataset as _;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;

use super::Subject;
use crate::lab::objective::{Judge, told_classes};
use crate::lab::settings::Loss;
use crate::lab::task::{Kind, Part, View};

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let about = &subject.study.task.about;
    match (about.view, &about.kind) {
        (View::Row { numbers: 2 }, Kind::Classes { names }) => boundary::part(subject, names).map(Some),
        (View::Row { numbers: 1 }, Kind::Numbers { names, scale }) => fitted::part(subject, names, scale).map(Some),
        (View::Image { height, width }, Kind::Classes { names }) => {
            images::part(subject, names, [height, width]).map(Some)
        }
        (_, Kind::Classes { names }) => confidence::part(subject, names).map(Some),
        (_, Kind::Numbers { names, scale }) => truth::part(subject, names, scale).map(Some),
        (_, Kind::Text { alphabet }) => verse::part(subject, alphabet),
    }
}

/// One example of a part: what it is, what it is told to be, and how surely.
struct Told {
    class: usize,
    told: usize,
    share: f64,
}

impl Told {
    fn is_right(&self) -> bool {
        self.class == self.told
    }
}

/// What is told of the examples of the test part.
fn told_of_test(subject: &Subject<'_>, classes: usize) -> Result<Vec<Told>, Error> {
    told(subject, &subject.study.task.test, &subject.outputs, classes)
}

/// What is told of the examples of the training part.
fn told_of_training(subject: &Subject<'_>, classes: usize) -> Result<Vec<Told>, Error> {
    let part = &subject.study.task.training;
    let outputs = Judge::new(&subject.study.objective, part).judge(&subject.outcome.network)?.outputs;
    told(subject, part, &outputs, classes)
}

fn told(subject: &Subject<'_>, part: &Part, outputs: &[f64], classes: usize) -> Result<Vec<Told>, Error> {
    let right = part.tensors().1.to_vec::<i64>()?;
    let rows = outputs.chunks(classes.max(1));
    let told = told_classes(outputs, classes).zip(rows).zip(right).map(|((told, row), class)| {
        let told = told as usize;
        Told { class: class as usize, told, share: shares(subject.study.settings.loss, row)[told] }
    });
    Ok(told.collect())
}

/// What the outputs of one example say of each class, as parts of one.
///
/// They are probabilities where the loss makes them so; squared errors and margins say less, and are only brought to the
/// same form.
fn shares(loss: Loss, outputs: &[f64]) -> Vec<f64> {
    let parts: Vec<f64> = match loss {
        Loss::Binary => outputs.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect(),
        Loss::Mse => outputs.iter().map(|z| z.clamp(0.0, 1.0)).collect(),
        _ => {
            let largest = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            outputs.iter().map(|z| (z - largest).exp()).collect()
        }
    };
    let sum: f64 = parts.iter().sum();
    match sum > 0.0 && sum.is_finite() {
        true => parts.iter().map(|part| part / sum).collect(),
        false => vec![1.0 / outputs.len().max(1) as f64; outputs.len()],
    }
}

/// Whether [`shares`] are probabilities.
fn are_probabilities(loss: Loss) -> bool {
    matches!(loss, Loss::CrossEntropy | Loss::Binary)
}

/// The features of a part as they were before they were scaled, an example after another.
fn features(subject: &Subject<'_>, part: &Part) -> Result<Vec<f64>, Error> {
    let inputs = part.tensors().0.reshape([part.len(), subject.study.task.about.view.numbers()]).cast(DType::F64);
    subject.study.task.about.scale.invert(&inputs).to_vec::<f64>()
}

/// What the network tells of features that are not scaled yet, all at once.
fn answers(subject: &Subject<'_>, features: &[f64]) -> Result<Tensor, Error> {
    use glassgrad::nn::Layer as _;
    let study = subject.study;
    let numbers = study.task.about.view.numbers();
    let table = Tensor::new(features, [features.len() / numbers, numbers]);
    Ok(subject.outcome.network.apply(&study.task.about.inputs(&table, &study.settings)).cast(DType::F64))
}

/// At most so many of a list, evenly spread over it.
fn spread<T: Clone>(list: &[T], most: usize) -> Vec<T> {
    list.iter().step_by(list.len().div_ceil(most).max(1)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_one_whatever_the_outputs_are() {
        for loss in [Loss::CrossEntropy, Loss::Binary, Loss::Mse, Loss::Hinge] {
            for outputs in
                [&[0.0, 2.0, -1.0][..], &[f64::NAN, 1.0], &[1e308, -1e308], &[f64::INFINITY, 0.0], &[-5.0, -5.0]]
            {
                let sum: f64 = shares(loss, outputs).iter().sum();
                assert!((sum - 1.0).abs() < 1e-12, "{loss:?} {outputs:?}: {sum}");
            }
        }
        let [zero, two] = shares(Loss::CrossEntropy, &[0.0, 2.0])[..] else { panic!("two shares") };
        assert!((two / zero - 2_f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn a_spread_is_even() {
        assert_eq!(spread(&[0, 1, 2, 3, 4, 5], 3), [0, 2, 4]);
        assert_eq!(spread(&[1], 3), [1]);
        assert!(spread::<i32>(&[], 3).is_empty());
    }
}
