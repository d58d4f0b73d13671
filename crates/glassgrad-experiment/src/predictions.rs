//! Predictions for display: classes with their shares, values in the units of the data, features
//! with their scaling inverted.

use std::collections::BTreeMap;

use glassgrad::data::Dataset as _;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::tree::Tree as _;

use super::objective::{normal, predicted_classes};
use super::settings::Loss;
use super::study::Study;
use super::task::{Description, Part, Scale};

/// One example: its actual class, its predicted class, and the confidence.
pub struct Prediction {
    pub class: usize,
    pub predicted: usize,
    pub share: f64,
}

impl Prediction {
    pub fn is_right(&self) -> bool {
        self.class == self.predicted
    }
}

/// The predictions for the first examples of a split, from row-major outputs.
pub fn predictions(loss: Loss, part: &Part, outputs: &[f64], classes: usize) -> Result<Vec<Prediction>, Error> {
    let right = part.tensors().1.to_vec::<i64>()?;
    let rows = outputs.chunks(classes.max(1));
    let predictions = predicted_classes(outputs, classes).zip(rows).zip(right).map(|((predicted, row), class)| {
        let predicted = predicted as usize;
        Prediction { class: class as usize, predicted, share: shares(loss, row)[predicted] }
    });
    Ok(predictions.collect())
}

/// The share of each class in the outputs of one example; the shares sum to one.
///
/// They are probabilities where the loss is a likelihood; squared errors and margins are only normalized to the
/// same form.
pub fn shares(loss: Loss, outputs: &[f64]) -> Vec<f64> {
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
pub fn are_probabilities(loss: Loss) -> bool {
    matches!(loss, Loss::CrossEntropy | Loss::Binary)
}

/// The class with the largest share, and its margin over the uniform share, from 0 to 1.
pub fn lead(loss: Loss, outputs: &[f64]) -> (usize, f64) {
    let even = 1.0 / outputs.len().max(1) as f64;
    let (class, share) = shares(loss, outputs)
        .into_iter()
        .enumerate()
        .fold((0, 0.0), |best, (class, share)| if share > best.1 { (class, share) } else { best });
    let lead = if even < 1.0 { (share - even) / (1.0 - even) } else { 1.0 };
    (class, lead.clamp(0.0, 1.0))
}

/// Counts of (actual class, predicted class), sparse: pairs that do not occur are absent.
pub type Counts = BTreeMap<(usize, usize), usize>;

/// The confusion matrix of examples with these classes and row-major outputs.
pub fn confusions(classes: &[i64], outputs: &[f64], count: usize) -> Counts {
    let mut counts = Counts::new();
    for (class, predicted) in classes.iter().zip(predicted_classes(outputs, count)) {
        *counts.entry((*class as usize, predicted as usize)).or_default() += 1;
    }
    counts
}

/// The features of a split with their scaling inverted, row-major.
pub fn features(about: &Description, part: &Part) -> Result<Vec<f64>, Error> {
    unscaled(about, &part.tensors().0, part.len())
}

/// Inputs with their scaling inverted, row-major.
pub fn unscaled(about: &Description, inputs: &Tensor, count: usize) -> Result<Vec<f64>, Error> {
    let inputs = inputs.reshape([count, about.view.numbers()]).cast(DType::F64);
    about.scale.invert(&inputs).to_vec::<f64>()
}

/// Unscaled features as inputs of the network.
pub fn inputs_of(study: &Study, features: &[f64]) -> Result<Tensor, Error> {
    let about = &study.task.about;
    let numbers = about.view.numbers();
    let table = Tensor::new(features, [features.len() / numbers.max(1), numbers]);
    about.inputs(&table, &study.settings).realise()
}

/// Predicted values in the units of the data, row-major.
pub struct Numbers {
    pub means: Vec<f64>,
    /// Where the loss is that of a normal distribution.
    pub deviations: Option<Vec<f64>>,
}

impl Numbers {
    /// The values of a table of outputs, a row for each example.
    pub fn of(loss: Loss, scale: &Scale, outputs: &Tensor) -> Result<Numbers, Error> {
        let outputs = outputs.cast(DType::F64);
        if loss != Loss::Normal {
            return Ok(Numbers { means: scale.invert(&outputs).to_vec::<f64>()?, deviations: None });
        }
        let predicted = normal(&outputs);
        let deviations = predicted.log_deviation.exp().to_vec::<f64>()?;
        let units = scale.deviation.iter().copied().cycle();
        Ok(Numbers {
            means: scale.invert(&predicted.mean).to_vec::<f64>()?,
            deviations: Some(deviations.into_iter().zip(units).map(|(deviation, unit)| deviation * unit).collect()),
        })
    }
}

/// The targets of a split in the units of the data, row-major.
pub fn targets(part: &Part, columns: usize, scale: &Scale) -> Result<Vec<f64>, Error> {
    scale.invert(&part.tensors().1.reshape([part.len(), columns]).cast(DType::F64)).to_vec::<f64>()
}

/// One column of a row-major table.
pub fn column(table: &[f64], column: usize, columns: usize) -> Vec<f64> {
    table.iter().skip(column).step_by(columns.max(1)).copied().collect()
}

/// At most `most` elements of a list, evenly spaced.
pub fn spread<T: Clone>(list: &[T], most: usize) -> Vec<T> {
    list.iter().step_by(list.len().div_ceil(most).max(1)).cloned().collect()
}

/// A histogram with bins of equal width.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    pub low: f64,
    pub high: f64,
    pub counts: Vec<usize>,
    /// How many values are not finite, and in no bin.
    pub lost: usize,
}

impl Histogram {
    /// Values between two ends; outliers are counted in the outermost bins.
    pub fn between(numbers: &[f64], bins: usize, low: f64, high: f64) -> Histogram {
        let mut histogram = Histogram { low, high, counts: vec![0; bins.max(1)], lost: 0 };
        let last = histogram.counts.len() - 1;
        // Halves, because the difference of the largest numbers overflows.
        let width = high / 2.0 - low / 2.0;
        for number in numbers {
            if !number.is_finite() {
                histogram.lost += 1;
                continue;
            }
            let part = if width > 0.0 { (number / 2.0 - low / 2.0) / width } else { 0.5 };
            histogram.counts[((part * (last + 1) as f64) as usize).min(last)] += 1;
        }
        histogram
    }

    /// Numbers between the smallest and the largest of those that are finite.
    pub fn of(numbers: &[f64], bins: usize) -> Histogram {
        let finite = || numbers.iter().copied().filter(|number| number.is_finite());
        let (low, high) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
        Histogram::between(numbers, bins, low, high)
    }
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
    fn a_lead_goes_from_unsure_to_sure() {
        assert_eq!(lead(Loss::CrossEntropy, &[1.0, 1.0]), (0, 0.0));
        assert_eq!(lead(Loss::Mse, &[0.0, 1.0, 0.0]), (1, 1.0));
        assert_eq!(lead(Loss::CrossEntropy, &[7.0]), (0, 1.0));
        assert_eq!(lead(Loss::CrossEntropy, &[]), (0, 1.0));
        // Two thirds of two: (2/3 − 1/2)/(1/2).
        assert!((lead(Loss::CrossEntropy, &[2_f64.ln(), 0.0]).1 - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn confusions_are_counted_by_actual_and_predicted_class() {
        let outputs = [1.0, 0.0, 0.0, 1.0, 3.0, 2.0, f64::NAN, f64::NAN];
        assert_eq!(confusions(&[0, 0, 1, 1], &outputs, 2), [((0, 0), 1), ((0, 1), 1), ((1, 0), 2)].into());
        assert!(confusions(&[], &[], 3).is_empty());
    }

    #[test]
    fn a_spread_is_even() {
        assert_eq!(spread(&[0, 1, 2, 3, 4, 5], 3), [0, 2, 4]);
        assert_eq!(spread(&[1], 3), [1]);
        assert!(spread::<i32>(&[], 3).is_empty());
    }

    #[test]
    fn every_number_is_in_a_bin_or_lost() {
        for numbers in
            [&[][..], &[0.0; 5], &[f64::NAN, 1.0], &[f64::MAX, f64::MIN, 0.0], &[1.0, 2.0, 3.0], &[f64::INFINITY]]
        {
            let histogram = Histogram::of(numbers, 24);
            assert_eq!(histogram.counts.iter().sum::<usize>() + histogram.lost, numbers.len(), "{numbers:?}");
            assert!(histogram.low.is_finite() && histogram.high.is_finite());
        }
        let counted = Histogram::of(&[0.0, 0.1, 1.0, 1.9, 2.0], 2);
        assert_eq!((counted.low, counted.high, counted.counts), (0.0, 2.0, vec![2, 3]));
    }
}
