//! The same training on a tape on which every single number is a node: slow, simple, a second opinion.

use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::nn::Activation;
use glassgrad::scalar::{Matrix, Tape};
use glassgrad::train::{Epoch, Flow, Observer, Step};
use glassgrad::{Real, Tensor, c};

use super::network::{Dense, Network};
use super::recipe;
use super::settings::{Loss, OptimizerName, Reduction, name_of};
use super::study::{RunError, Study, Trained, batches_of};
use super::task::Kind;
use crate::failure::Failure;

/// At most this many nodes in a step.
const MOST_NODES: usize = 20_000_000;

/// Refuses what the tape has no layers for.
pub(super) fn check(study: &Study) -> Result<(), Failure> {
    let settings = &study.settings;
    let refuse = |message: String| Err(Failure::Input(format!("--engine scalar: {message}")));
    let Network::Dense(dense) = &study.start else {
        return refuse(format!("it trains --model mlp, not {}", name_of(settings.model)));
    };
    if settings.optimizer != OptimizerName::of("sgd")
        || settings.momentum > 0.0
        || settings.weight_decay > 0.0
        || settings.clip > 0.0
    {
        return refuse("it knows --optimizer sgd without momentum, decay and clipping".to_owned());
    }
    if settings.dropout > 0.0 {
        return refuse("it has no --dropout".to_owned());
    }
    if !matches!(settings.loss, Loss::CrossEntropy | Loss::Mse) {
        return refuse(format!("it knows --loss cross-entropy and mse, not {}", name_of(settings.loss)));
    }
    let products: usize = dense.layers.iter().map(|layer| layer.weight.shape().elements()).sum();
    let nodes = 2 * products * study.batch();
    if nodes > MOST_NODES {
        return refuse(format!(
            "a step would have {nodes} nodes, and at most {MOST_NODES} are kept; try a smaller --batch"
        ));
    }
    Ok(())
}

/// A layer as numbers of any engine: weights, and a row of biases.
type Layer<T> = [Matrix<T>; 2];

/// Trains on the tape.
pub(super) fn run(study: &Study, observer: &mut dyn Observer<Network>) -> Result<Trained, RunError> {
    let Network::Dense(dense) = &study.start else {
        return Err(Failure::Input("--engine scalar: it trains --model mlp".to_owned()).into());
    };
    let optimizer = recipe::optimizer(&study.settings, study.batches())?;
    let (batches, examples) = batches_of(study);
    let count = batches.count(&examples);
    let mut layers = layers_of(dense)?;
    let (mut tape, mut position, mut number) = (Tape::new(), glassgrad::data::Position::default(), 0);
    let (mut sum, mut losses, mut stopped) = (0.0, Vec::new(), false);
    while position.epoch < study.settings.epochs && !stopped {
        let (inputs, targets) = batches.at(&examples, position)?;
        let inputs = matrix(&inputs)?;
        tape.clear();
        let nodes: Vec<Layer<_>> =
            layers.iter().map(|layer| layer.each_ref().map(|matrix| matrix.map(|number| tape.input(number)))).collect();
        let outputs = outputs(&nodes, dense.activation, &inputs.map(c));
        let losses_of = match &study.task.about.kind {
            Kind::Numbers { .. } => squares(&outputs, &matrix(&targets)?),
            _ => of_classes(study.settings.loss, &outputs, &targets.to_vec::<i64>()?),
        };
        let loss = match study.settings.reduction {
            Reduction::Sum => losses_of,
            Reduction::Mean => losses_of * (1.0 / inputs.rows() as f64),
        };
        let adjoints = tape.reverse(loss);
        number += 1;
        let rate = optimizer.rate_at(number);
        for (layer, nodes) in layers.iter_mut().zip(&nodes) {
            for (matrix, nodes) in layer.iter_mut().zip(nodes) {
                *matrix = matrix.zip(nodes, |number, node| number - rate * adjoints.of(node));
            }
        }
        let loss = loss.value();
        if !loss.is_finite() {
            let message =
                format!("the loss is {loss} in step {number}; --engine tensor shows the operation where that began");
            return Err(RunError::Diverged { message, last_good: Box::new(study.start.clone()) });
        }
        sum += loss;
        stopped |= observer.step(&Step { position, batches: count, number, loss, rate })? == Flow::Stop;
        let before = position;
        position = batches.after(&examples, position);
        if position.epoch > before.epoch {
            let loss = sum / count as f64;
            losses.push(loss);
            sum = 0.0;
            let parameters = &network_of(dense, &layers, study.settings.dtype.dtype());
            let epoch = Epoch { number: before.epoch, loss, parameters, diagnostics: &[] };
            stopped |= observer.epoch(&epoch)? == Flow::Stop;
        }
    }
    let network = network_of(dense, &layers, study.settings.dtype.dtype());
    Ok((network, number, stopped, losses))
}

fn matrix(tensor: &Tensor) -> Result<Matrix<f64>, Error> {
    let (rows, columns) = match tensor.shape()[..] {
        [rows, columns] => (rows, columns),
        [columns] => (1, columns),
        _ => return Err(Error::new("matrix", format!("{} is no matrix", tensor.shape()))),
    };
    Ok(Matrix::from_elements(rows, columns, tensor.cast(DType::F64).to_vec::<f64>()?))
}

fn layers_of(dense: &Dense) -> Result<Vec<Layer<f64>>, Error> {
    let layer = |layer: &glassgrad::nn::Linear| {
        let weight = matrix(&layer.weight)?;
        let bias = match &layer.bias {
            Some(bias) => matrix(bias)?,
            None => Matrix::zeros(1, weight.columns()),
        };
        Ok([weight, bias])
    };
    dense.layers.iter().map(layer).collect()
}

fn network_of(dense: &Dense, layers: &[Layer<f64>], dtype: DType) -> Network {
    let mut dense = dense.clone();
    for (layer, [weight, bias]) in dense.layers.iter_mut().zip(layers) {
        layer.weight = Tensor::new(weight.elements(), [weight.rows(), weight.columns()]).cast(dtype);
        layer.bias = Some(Tensor::new(bias.elements(), [bias.columns()]).cast(dtype));
    }
    Network::Dense(dense)
}

fn outputs<T: Real>(layers: &[Layer<T>], activation: Activation, inputs: &Matrix<T>) -> Matrix<T> {
    let mut x = inputs.clone();
    for (number, [weight, bias]) in layers.iter().enumerate() {
        if number > 0 {
            x = x.map(|x| active(activation, x));
        }
        x = x.matmul(weight).add_row(bias);
    }
    x
}

fn active<T: Real>(activation: Activation, x: T) -> T {
    match activation {
        Activation::Sigmoid => x.sigmoid(),
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.relu(),
        Activation::LeakyRelu(slope) => x.leaky_relu(c(slope)),
        Activation::Elu(alpha) => x.elu(c(alpha)),
        Activation::Gelu => x.gelu(),
        Activation::Silu => x.silu(),
        Activation::Softplus => x.softplus(),
        _ => x,
    }
}

/// The sum of the losses of examples with classes.
fn of_classes<T: Real>(loss: Loss, outputs: &Matrix<T>, classes: &[i64]) -> T {
    let example = |(row, class): (usize, &i64)| {
        let z = outputs.row(row);
        if loss == Loss::Mse {
            let square = |(place, z): (usize, &T)| (*z - c(f64::from(u8::from(place as i64 == *class)))).powi(2);
            return z.iter().enumerate().map(square).sum::<T>();
        }
        let largest = c(z.iter().map(|z| z.primal()).fold(f64::NEG_INFINITY, f64::max));
        z.iter().map(|z| (*z - largest).exp()).sum::<T>().ln() - (z[*class as usize] - largest)
    };
    classes.iter().enumerate().map(example).sum()
}

/// The sum of the squared errors.
fn squares<T: Real>(outputs: &Matrix<T>, targets: &Matrix<f64>) -> T {
    outputs.zip(targets, |output, target| (output - c(target)).powi(2)).sum()
}
