//! `glassgrad train`: a network trained end to end.
//!
//! For now it trains one network on one data set, that of DiffX: irises, 4-10-3 with tanh, summed
//! cross-entropy, gradient descent on the whole training part. Two engines run the same mathematics: the
//! tensor graph, and the matrix of scalar values in which every element is a node.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use glassgrad::dtype::DType;
use glassgrad::rng::Key;
use glassgrad::scalar::{Matrix, Tape};
use glassgrad::tree::Tree as _;
use glassgrad::{Real, Tensor, Tree, c, compile, value_and_grad};
use serde_json::json;

use crate::failure::{Failure, print};
use crate::table::Table;

/// Fisher's irises, as shipped with scikit-learn.
pub(super) const IRIS: &str = include_str!("../../../glassgrad/examples/data/iris.csv");

const FEATURES: usize = 4;
const HIDDEN: usize = 10;
const CLASSES: usize = 3;

/// Train a network on a data set
#[derive(Args)]
pub(crate) struct Train {
    /// The data set
    #[arg(value_enum)]
    dataset: Dataset,

    /// The seed of the split and of the first weights
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// How often the whole training part is seen
    #[arg(long, default_value_t = 100)]
    epochs: usize,

    /// The learning rate
    #[arg(long, default_value_t = 0.05, allow_negative_numbers = true)]
    lr: f64,

    /// What computes: the tensor graph, or a matrix in which every element is a node
    #[arg(long, value_enum, default_value_t = Engine::Tensor)]
    engine: Engine,

    /// Explain one step of training instead of training: passes, steps of the program, times, memory
    #[arg(long)]
    explain: bool,

    /// Draw the memory of the step into a file
    #[arg(long, value_name = "FILE", requires = "explain")]
    explain_svg: Option<PathBuf>,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dataset {
    /// 150 flowers of three species, by four lengths
    Iris,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Engine {
    Tensor,
    Scalar,
}

/// Rows of features and their classes.
struct Part {
    features: Matrix<f64>,
    classes: Vec<usize>,
}

/// The parameters of the network: weights and biases of two layers.
#[derive(Clone, Tree)]
struct Network {
    hidden_weight: Tensor,
    hidden_bias: Tensor,
    output_weight: Tensor,
    output_bias: Tensor,
}

/// The same parameters as numbers of any engine.
type Layers<T> = [Matrix<T>; 4];

impl Train {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Dataset::Iris = self.dataset;
        if !self.lr.is_finite() || self.lr <= 0.0 {
            return Err(Failure::Input(format!("--lr {}: the learning rate must be a positive number", self.lr)));
        }
        let (training, testing) = iris(self.seed)?;
        let start = first_weights(self.seed);
        if self.explain {
            return self.explain(&start, &training);
        }
        let started = Instant::now();
        let (layers, losses) = match self.engine {
            Engine::Scalar => self.train_scalar(start, &training),
            Engine::Tensor => {
                self.train_tensor(&start, &training).map_err(|error| Failure::Result(error.to_string()))?
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        let [train_accuracy, test_accuracy] = [&training, &testing].map(|part| accuracy(&layers, part));
        if self.json {
            let object = json!({
                "dataset": "iris", "seed": self.seed, "epochs": self.epochs, "train_accuracy": train_accuracy,
                "test_accuracy": test_accuracy, "train_seconds": seconds, "losses": losses,
            });
            return print(&format!("{object}\n"));
        }
        let mut table = Table::new(["epoch", "loss"]);
        let shown = (self.epochs / 10).max(1);
        for (epoch, loss) in
            losses.iter().enumerate().filter(|(epoch, _)| epoch % shown == 0 || epoch + 1 == losses.len())
        {
            table.row([(epoch + 1).to_string(), format!("{loss:.4}")]);
        }
        let percent = |accuracy: f64| format!("{:.1} %", 100.0 * accuracy);
        print(&format!(
            "iris, 4-10-3 tanh network, seed {}\n\n{}\naccuracy  {} in training, {} on flowers not seen\ntime      {seconds:.3} s\n",
            self.seed,
            table.render(),
            percent(train_accuracy),
            percent(test_accuracy)
        ))
    }

    fn train_tensor(
        &self,
        start: &Layers<f64>,
        part: &Part,
    ) -> Result<(Layers<f64>, Vec<f64>), glassgrad::error::Error> {
        let (mut network, features, targets) = as_tensors(start, part)?;
        let step = compile(|network: &Network| network.descended(&features, &targets, self.lr));
        let mut losses = Vec::new();
        for _ in 0..self.epochs {
            let (loss, updated) = step.call(&network)?;
            losses.push(loss.item()?);
            network = updated;
        }
        let shapes = start.each_ref().map(|matrix| (matrix.rows(), matrix.columns()));
        let trained: Vec<Matrix<f64>> = network
            .flatten()
            .iter()
            .zip(shapes)
            .map(|(leaf, (rows, columns))| Ok(Matrix::from_elements(rows, columns, leaf.to_vec::<f64>()?)))
            .collect::<Result<_, glassgrad::error::Error>>()?;
        let layers = std::array::from_fn(|k| trained[k].clone());
        Ok((layers, losses))
    }

    /// Tells what one step of training does.
    fn explain(&self, start: &Layers<f64>, part: &Part) -> Result<(), Failure> {
        if self.engine == Engine::Scalar {
            return Err(Failure::Input("--explain: only the tensor engine runs a program".to_owned()));
        }
        let explanation = || {
            let (network, features, targets) = as_tensors(start, part)?;
            compile(|network: &Network| network.descended(&features, &targets, self.lr)).explain(&network)
        };
        let explanation = explanation().map_err(|error: glassgrad::error::Error| Failure::Result(error.to_string()))?;
        let title = "a training step of the iris network";
        if let Some(path) = &self.explain_svg {
            std::fs::write(path, explanation.arena_svg(title))
                .map_err(|error| Failure::Input(format!("cannot write {}: {error}", path.display())))?;
        }
        match self.json {
            true => print(&format!("{}\n", explanation.to_json())),
            false => print(&format!("{title}\n\n{explanation}")),
        }
    }

    fn train_scalar(&self, mut layers: Layers<f64>, part: &Part) -> (Layers<f64>, Vec<f64>) {
        let mut tape = Tape::new();
        let mut losses = Vec::new();
        for _ in 0..self.epochs {
            tape.clear();
            let recorded = layers.each_ref().map(|matrix| matrix.map(|number| tape.input(number)));
            let logits = logits(&recorded, &part.features.map(c));
            let loss = cross_entropy(&logits, &part.classes);
            let adjoints = tape.reverse(loss);
            losses.push(loss.value());
            for (matrix, nodes) in layers.iter_mut().zip(&recorded) {
                *matrix = matrix.zip(nodes, |number, node| number - self.lr * adjoints.of(node));
            }
        }
        (layers, losses)
    }
}

impl Network {
    /// The cross-entropy from the logits, summed over the flowers.
    fn cross_entropy(&self, features: &Tensor, targets: &Tensor) -> Tensor {
        let hidden = (features.matmul(&self.hidden_weight) + &self.hidden_bias).tanh();
        let logits = hidden.matmul(&self.output_weight) + &self.output_bias;
        -logits.log_softmax(-1).inner(targets)
    }

    /// The loss, and the network after a step against its gradient.
    fn descended(&self, features: &Tensor, targets: &Tensor, rate: f64) -> (Tensor, Network) {
        let (loss, slope) = value_and_grad(|network: &Network| network.cross_entropy(features, targets))(self);
        (loss, self.zip(&slope, |weight, slope| weight - slope * rate))
    }
}

/// The network, the features and the classes as unit vectors.
fn as_tensors(start: &Layers<f64>, part: &Part) -> Result<(Network, Tensor, Tensor), glassgrad::error::Error> {
    let tensor = |matrix: &Matrix<f64>| Tensor::new(matrix.elements(), [matrix.rows(), matrix.columns()]);
    let [hidden_weight, hidden_bias, output_weight, output_bias] = start.each_ref().map(tensor);
    let network = Network { hidden_weight, hidden_bias, output_weight, output_bias };
    let classes: Vec<i64> = part.classes.iter().map(|class| *class as i64).collect();
    let targets = Tensor::from(classes).one_hot(CLASSES, DType::F64).detach()?;
    Ok((network, tensor(&part.features), targets))
}

fn logits<T: Real>(layers: &Layers<T>, features: &Matrix<T>) -> Matrix<T> {
    let [hidden_weight, hidden_bias, output_weight, output_bias] = layers;
    let hidden = features.matmul(hidden_weight).add_row(hidden_bias).tanh();
    hidden.matmul(output_weight).add_row(output_bias)
}

fn cross_entropy<T: Real>(logits: &Matrix<T>, classes: &[usize]) -> T {
    let flower = |(row, class): (usize, &usize)| {
        let z = logits.row(row);
        let largest = c(z.iter().map(|z| z.primal()).fold(f64::NEG_INFINITY, f64::max));
        z.iter().map(|z| (*z - largest).exp()).sum::<T>().ln() - (z[*class] - largest)
    };
    classes.iter().enumerate().map(flower).sum()
}

fn accuracy(layers: &Layers<f64>, part: &Part) -> f64 {
    let logits = logits(layers, &part.features);
    let right = part.classes.iter().enumerate().filter(|(row, class)| {
        let z = logits.row(*row);
        z.iter().all(|logit| *logit <= z[**class])
    });
    right.count() as f64 / part.classes.len() as f64
}

/// Uniform weights between ±1/√(number of inputs), as PyTorch draws them, for weights and biases.
fn first_weights(seed: u64) -> Layers<f64> {
    let key = Key::new(seed).fold(1);
    let layer = |number: u64, rows: usize, columns: usize, inputs: usize| {
        let (key, bound) = (key.fold(number), 1.0 / (inputs as f64).sqrt());
        Matrix::from_fn(rows, columns, |i, j| bound * (2.0 * key.uniform((i * columns + j) as u64) - 1.0))
    };
    [
        layer(0, FEATURES, HIDDEN, FEATURES),
        layer(1, 1, HIDDEN, FEATURES),
        layer(2, HIDDEN, CLASSES, HIDDEN),
        layer(3, 1, CLASSES, HIDDEN),
    ]
}

/// The irises, split four to one by a seed, with features standardised on the training part.
fn iris(seed: u64) -> Result<(Part, Part), Failure> {
    let broken = |line: &str| Failure::Result(format!("the embedded table of irises is damaged at: {line}"));
    let mut flowers: Vec<([f64; FEATURES], usize)> = Vec::new();
    for line in IRIS.lines().skip(1) {
        let numbers: Vec<f64> = line.split(',').filter_map(|number| number.parse().ok()).collect();
        let (class, features) = numbers.split_last().ok_or_else(|| broken(line))?;
        flowers.push((features.try_into().map_err(|_| broken(line))?, *class as usize));
    }
    let order = Key::new(seed).fold(0).permutation(flowers.len());
    let (training, testing) = order.split_at(flowers.len() * 4 / 5);
    let standard: [(f64, f64); FEATURES] = std::array::from_fn(|k| {
        let mean = training.iter().map(|flower| flowers[*flower].0[k]).sum::<f64>() / training.len() as f64;
        let variance =
            training.iter().map(|flower| (flowers[*flower].0[k] - mean).powi(2)).sum::<f64>() / training.len() as f64;
        (mean, variance.sqrt())
    });
    let part = |chosen: &[usize]| Part {
        features: Matrix::from_fn(chosen.len(), FEATURES, |row, k| {
            (flowers[chosen[row]].0[k] - standard[k].0) / standard[k].1
        }),
        classes: chosen.iter().map(|flower| flowers[*flower].1).collect(),
    };
    Ok((part(training), part(testing)))
}
