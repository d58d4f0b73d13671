//! Linear baseline of the same task, fitted by Newton's method.

use glassgrad::data::Examples;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::nn::Linear;
use glassgrad::optim::Newton;
use glassgrad::tree::Tree as _;
use glassgrad::{Tensor, loss};
use std::sync::Arc;

use super::network::Network;
use super::objective::{Evaluator, Objective, Score};
use super::settings::{Loss, Settings};
use super::study::Study;
use super::task::{Kind, Part, View};

/// A linear model that was fitted.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    pub training: Score,
    pub test: Score,
    /// The steps that Newton's method took.
    pub rounds: usize,
}

/// Larger models take longer than the network that they are beside.
const MOST_WEIGHTS: usize = 600;
const MOST_NUMBERS: usize = 1 << 20;

/// Ridge penalty, for each example: enough for a minimum to exist.
const RIDGE: f64 = 1.0;

/// Fits a linear model to a task whose examples are rows of numbers, unless it would be large.
pub fn fit(study: &Study) -> Result<Option<Baseline>, Error> {
    let about = &study.task.about;
    let View::Row { numbers } = about.view else { return Ok(None) };
    let outputs = match &about.kind {
        Kind::Classes { names } => names.len(),
        Kind::Numbers { names, .. } => names.len(),
        Kind::Text { .. } => return Ok(None),
    };
    let (inputs, targets) = study.task.training.tensors();
    if (numbers + 1) * outputs > MOST_WEIGHTS || inputs.shape().elements() > MOST_NUMBERS {
        return Ok(None);
    }
    let (loss_of, is_class) = match about.kind {
        Kind::Classes { .. } => (Loss::CrossEntropy, true),
        _ => (Loss::Mse, false),
    };
    let inputs = inputs.cast(DType::F64).detach()?;
    let targets = if is_class { targets.clone() } else { targets.cast(DType::F64).detach()? };
    let count = inputs.shape()[0] as f64;
    let objective = |(weight, bias): &(Tensor, Tensor)| {
        let predicted = inputs.matmul(weight) + bias;
        let losses = match loss_of {
            Loss::CrossEntropy => loss::cross_entropy(&predicted, &targets),
            _ => loss::mse(&predicted, &targets).sum_over(-1),
        };
        // The biases too, a little: classes that all gain the same change nothing.
        losses.mean() + (loss::l2(weight) * RIDGE + loss::l2(bias) * 1e-6) * (1.0 / count)
    };
    let start = (Tensor::zeros([numbers, outputs]).cast(DType::F64), Tensor::zeros([outputs]).cast(DType::F64));
    let minimum = Newton::new().tolerance(1e-9).minimise(objective, &start)?;
    let (weight, bias) = minimum.point;
    let settings = Settings { loss: loss_of, layers: Vec::new(), ..study.settings.clone() };
    let Ok(objective) = Objective::of(&settings, about) else { return Ok(None) };
    let network = Network::linear(Linear { weight, bias: Some(bias) }).realise()?;
    let evaluated = |part: &Part| -> Result<Score, Error> {
        let (inputs, targets) = part.tensors();
        let targets = if is_class { targets.clone() } else { targets.cast(DType::F64) };
        let part = Arc::new(Examples::new((inputs.cast(DType::F64), targets))?);
        Ok(Evaluator::new(&objective, &part).evaluate(&network)?.score)
    };
    Ok(Some(Baseline {
        training: evaluated(&study.task.training)?,
        test: evaluated(&study.task.test)?,
        rounds: minimum.rounds.len(),
    }))
}
