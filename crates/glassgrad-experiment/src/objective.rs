//! The training objective, and its evaluation.

use glassgrad::data::Dataset as _;
use glassgrad::dist::{Distribution as _, Normal};
use glassgrad::error::Error;
use glassgrad::expr::{Keys, s};
use glassgrad::nn::Layer as _;
use glassgrad::{Tensor, compile, loss};
use serde::{Deserialize, Serialize};

use super::history::number;
use super::network::Network;
use super::settings::{Loss, Reduction, Settings, name_of};
use super::task::{Description, Kind, Part};
use super::text::NOT_COUNTED;
use crate::failure::Failure;

/// The loss of a batch, as a function of the network.
#[derive(Clone, Debug)]
pub struct Objective {
    loss: Loss,
    reduction: Reduction,
    outputs: usize,
    kind: Kind,
}

/// The evaluation of a network on a split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The mean loss of an example, or of a character.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// The metric.
    pub measure: Measure,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The fraction of the examples that are classified correctly.
    Accuracy(#[serde(deserialize_with = "number")] f64),
    /// The root mean squared error in the units of the data, and the coefficient of determination R².
    Error {
        #[serde(deserialize_with = "number")]
        rmse: f64,
        #[serde(deserialize_with = "number")]
        r2: f64,
    },
    /// Bits per character.
    Bits(#[serde(deserialize_with = "number")] f64),
}

impl Measure {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Accuracy(_) => "accuracy",
            Measure::Error { .. } => "rmse",
            Measure::Bits(_) => "bits per character",
        }
    }

    /// Its value, for plots.
    pub fn number(self) -> f64 {
        match self {
            Measure::Accuracy(part) => part,
            Measure::Error { rmse, .. } => rmse,
            Measure::Bits(bits) => bits,
        }
    }

    /// Whether this one is better than another of its kind.
    pub fn is_better_than(self, other: Measure) -> bool {
        match self {
            Measure::Accuracy(part) => part > other.number(),
            _ => self.number() < other.number(),
        }
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Measure::Accuracy(part) => write!(formatter, "{:.2} %", 100.0 * part),
            Measure::Error { rmse, r2 } if r2.is_finite() => {
                write!(formatter, "RMSE {}, R² {}", metric(*rmse), metric(*r2))
            }
            // The variance of the targets is zero: of one example, or of equal ones.
            Measure::Error { rmse, .. } => write!(formatter, "RMSE {}, R² undefined", metric(*rmse)),
            Measure::Bits(bits) => write!(formatter, "{bits:.3} bits/character"),
        }
    }
}

/// A metric with four decimals, or fewer digits of large numbers.
pub fn metric(value: f64) -> String {
    match value.abs() {
        0.0 => "0.0000".to_owned(),
        size if (1e-3..1e3).contains(&size) => format!("{value:.4}"),
        size if (1e3..1e6).contains(&size) => format!("{value:.1}"),
        _ => format!("{value:.4e}"),
    }
}

/// Batch size of the evaluation.
const AT_ONCE: usize = 512;

impl Objective {
    /// The loss that the settings ask for, if it fits what is learnt.
    pub fn of(settings: &Settings, about: &Description) -> Result<Objective, Failure> {
        let fits = match about.kind {
            Kind::Classes { .. } => {
                matches!(settings.loss, Loss::CrossEntropy | Loss::Binary | Loss::Hinge | Loss::Mse)
            }
            Kind::Numbers { .. } => matches!(settings.loss, Loss::Mse | Loss::Huber | Loss::Normal),
            Kind::Text { .. } => settings.loss == Loss::CrossEntropy,
        };
        if !fits {
            let (what, losses) = match about.kind {
                Kind::Classes { .. } => ("classes", "cross-entropy, binary, hinge or mse"),
                Kind::Numbers { .. } => ("numbers", "mse, huber or normal"),
                Kind::Text { .. } => ("characters", "cross-entropy"),
            };
            let message = format!("--loss {}: {} is about {what}; choose {losses}", name_of(settings.loss), about.name);
            return Err(Failure::Input(message));
        }
        let outputs = about.ends(settings).outputs;
        Ok(Objective { loss: settings.loss, reduction: settings.reduction, outputs, kind: about.kind.clone() })
    }

    /// The loss of each example, or character.
    #[track_caller]
    pub fn losses(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let is_class = !matches!(self.kind, Kind::Numbers { .. });
        let dense = || if is_class { targets.one_hot(self.outputs, outputs.dtype()) } else { targets.clone() };
        match self.loss {
            Loss::CrossEntropy if matches!(self.kind, Kind::Text { .. }) => {
                // Padding is no character: its loss is zero, and so is its derivative.
                let counted = targets.not_equal(NOT_COUNTED);
                let losses = loss::cross_entropy(outputs, &counted.choose(targets, &targets.zeros_like()));
                counted.choose(&losses, &losses.zeros_like())
            }
            Loss::CrossEntropy => loss::cross_entropy(outputs, targets),
            Loss::Binary => loss::binary_cross_entropy(outputs, &dense()).sum_over(-1),
            Loss::Hinge => loss::hinge(outputs, &(dense() * 2.0 - 1.0)).sum_over(-1),
            Loss::Mse => loss::mse(outputs, &dense()).sum_over(-1),
            Loss::Huber => loss::huber(outputs, targets, 1.0).sum_over(-1),
            Loss::Normal => normal(outputs).loss(targets).sum_over(-1),
        }
    }

    /// The loss of a batch in training.
    #[track_caller]
    pub fn of_batch(&self, network: &Network, (inputs, targets): &(Tensor, Tensor), key: &Keys) -> Tensor {
        self.reduced(&self.losses(&network.apply_train(inputs, key), targets))
    }

    /// The loss of a batch in training, and the network with its next running statistics.
    #[track_caller]
    pub fn of_step(&self, network: &Network, (inputs, targets): &(Tensor, Tensor), key: &Keys) -> (Tensor, Network) {
        let (outputs, next) = network.train(inputs, key);
        (self.reduced(&self.losses(&outputs, targets)), next)
    }

    /// The loss of a batch without noise, as pictures and audits see it.
    #[track_caller]
    pub fn of_batch_plainly(&self, network: &Network, (inputs, targets): &(Tensor, Tensor)) -> Tensor {
        self.reduced(&self.losses(&network.apply(inputs), targets))
    }

    #[track_caller]
    fn reduced(&self, losses: &Tensor) -> Tensor {
        match self.reduction {
            Reduction::Mean => losses.mean(),
            Reduction::Sum => losses.sum(),
        }
    }
}

/// The normal distributions that the outputs parametrize: means, then logarithms of standard deviations.
#[track_caller]
pub fn normal(outputs: &Tensor) -> Normal {
    let count = outputs.shape().last().map_or(0, |count| count / 2) as isize;
    let part = |from: isize, to: isize| outputs.slice(&[s(..), s(from..to)]);
    Normal { mean: part(0, count), log_deviation: part(count, 2 * count) }
}

/// Evaluates networks on one split, with a program that is compiled once.
pub struct Evaluator<'j> {
    part: &'j Part,
    program: Box<CompiledEvaluation<'j>>,
    objective: Objective,
}

/// From a network and some examples to the sum of their losses and the outputs.
type CompiledEvaluation<'j> = dyn Fn(&(Network, (Tensor, Tensor))) -> Result<(Tensor, Tensor), Error> + 'j;

/// The result of an evaluation.
pub struct Evaluation {
    pub score: Score,
    /// The outputs of the network, row-major; empty for text, where they would be too large.
    pub outputs: Vec<f64>,
}

impl<'j> Evaluator<'j> {
    pub fn new(objective: &Objective, part: &'j Part) -> Evaluator<'j> {
        let (own, is_text) = (objective.clone(), matches!(objective.kind, Kind::Text { .. }));
        let program = compile(move |(network, (inputs, targets)): &(Network, (Tensor, Tensor))| {
            let outputs = network.apply(inputs);
            let losses = own.losses(&outputs, targets).sum();
            let predicted = if is_text { losses.clone() } else { outputs };
            (losses, predicted)
        });
        let program = move |x: &(Network, (Tensor, Tensor))| program.call(x);
        Evaluator { part, program: Box::new(program), objective: objective.clone() }
    }

    /// Evaluates all examples.
    pub fn evaluate(&self, network: &Network) -> Result<Evaluation, Error> {
        let count = self.part.len();
        let at_once = match self.objective.kind {
            Kind::Text { .. } => AT_ONCE / 16,
            _ => AT_ONCE,
        };
        let (mut sum, mut outputs) = (0.0, Vec::new());
        for begin in (0..count).step_by(at_once) {
            let places: Vec<usize> = (begin..count.min(begin + at_once)).collect();
            let (losses, predicted) = (self.program)(&(network.clone(), self.part.batch(&places)?))?;
            sum += losses.item()?;
            if !matches!(self.objective.kind, Kind::Text { .. }) {
                outputs.extend(predicted.cast(glassgrad::dtype::DType::F64).to_vec::<f64>()?);
            }
        }
        let targets = &self.part.tensors().1;
        let (counted, measure) = match &self.objective.kind {
            Kind::Classes { names } => {
                let classes = targets.to_vec::<i64>()?;
                let right = predicted_classes(&outputs, names.len())
                    .zip(&classes)
                    .filter(|(predicted, class)| predicted == *class)
                    .count();
                (count, Measure::Accuracy(right as f64 / count as f64))
            }
            Kind::Numbers { names, scale } => {
                let targets = targets.cast(glassgrad::dtype::DType::F64).to_vec::<f64>()?;
                (count, error(&outputs, &targets, names.len(), &scale.deviation))
            }
            Kind::Text { .. } => {
                let counted = targets.to_vec::<i64>()?.iter().filter(|symbol| **symbol >= 0).count();
                (counted, Measure::Bits(sum / counted as f64 / std::f64::consts::LN_2))
            }
        };
        Ok(Evaluation { score: Score { loss: sum / counted as f64, measure }, outputs })
    }
}

/// The predicted class of each row of outputs: the argmax.
pub fn predicted_classes(outputs: &[f64], classes: usize) -> impl Iterator<Item = i64> + '_ {
    outputs.chunks(classes.max(1)).map(|row| {
        let best = row.iter().enumerate().fold(
            (0, f64::NEG_INFINITY),
            |best, (class, z)| {
                if *z > best.1 { (class, *z) } else { best }
            },
        );
        best.0 as i64
    })
}

/// RMSE and R² in the units of the data; the first columns of the outputs are the predictions.
fn error(outputs: &[f64], targets: &[f64], columns: usize, deviations: &[f64]) -> Measure {
    let rows = targets.len() / columns.max(1);
    let width = outputs.len() / rows.max(1);
    let (mut squares, mut variance) = (0.0, 0.0);
    for column in 0..columns {
        let mean = targets.iter().skip(column).step_by(columns).sum::<f64>() / rows as f64;
        for row in 0..rows {
            let right = targets[row * columns + column];
            let deviation = deviations[column];
            squares += ((outputs[row * width + column] - right) * deviation).powi(2);
            variance += ((right - mean) * deviation).powi(2);
        }
    }
    Measure::Error { rmse: (squares / (rows * columns) as f64).sqrt(), r2: 1.0 - squares / variance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_few_digits() {
        assert_eq!(
            [0.0, 0.25, 12.0, 1234.56, 2e-7].map(metric),
            ["0.0000", "0.2500", "12.0000", "1234.6", "2.0000e-7"]
        );
        let error = |rmse, r2| Measure::Error { rmse, r2 }.to_string();
        assert_eq!(error(61_973_317_882_184_679_424.0, 0.5), "RMSE 6.1973e19, R² 0.5000");
        assert_eq!(error(1.5, f64::NEG_INFINITY), "RMSE 1.5000, R² undefined");
        assert_eq!(error(1.5, f64::NAN), "RMSE 1.5000, R² undefined");
    }
}
