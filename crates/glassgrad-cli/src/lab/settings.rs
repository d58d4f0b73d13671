//! What an experiment is: everything that decides on its result, as it is written down beside it.

use clap::ValueEnum;
use glassgrad::data::files::Table;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::nn;
use serde::{Deserialize, Serialize};

/// All that has to be known to train the same network again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The name of a data set, or the path of a file.
    pub(crate) data: String,
    pub(crate) model: Model,
    /// The widths of the layers between the first and the last; for `cnn`, channels and then the width of a last layer.
    pub(crate) layers: Vec<usize>,
    pub(crate) activation: Activation,
    pub(crate) initial: Initial,
    pub(crate) loss: Loss,
    pub(crate) reduce: Reduce,
    pub(crate) optimizer: Optimizer,
    pub(crate) lr: f64,
    pub(crate) momentum: f64,
    pub(crate) weight_decay: f64,
    /// Gradients longer than this are made this long; 0 leaves them as they are.
    pub(crate) clip: f64,
    pub(crate) schedule: Schedule,
    /// The part of the learning rate that a schedule ends with.
    pub(crate) lr_end: f64,
    pub(crate) warmup: u64,
    pub(crate) dropout: f64,
    pub(crate) epochs: u64,
    /// How many examples a step sees; 0 is all of them.
    pub(crate) batch: usize,
    pub(crate) seed: u64,
    pub(crate) dtype: Number,
    pub(crate) engine: Engine,
    /// The part of the examples that is kept for the test, where a data set has no test part of its own.
    pub(crate) test: f64,
    /// How many points are made, for data that is made.
    pub(crate) points: usize,
    pub(crate) noise: f64,
    /// The function that is fitted, for `function`.
    pub(crate) function: String,
    /// The column that is predicted, for a table.
    pub(crate) target: Option<String>,
    /// What becomes of rows of a table in which something is missing.
    pub(crate) missing: Missing,
    /// Whether the target of a table is a class or a number.
    pub(crate) answers: Answers,
    /// How many heads attention has.
    pub(crate) heads: usize,
    /// How many wires each unit of a sparse layer has.
    pub(crate) wires: usize,
    /// How many characters a network sees at once.
    pub(crate) context: usize,
}

/// A kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Model {
    /// Linear layers with an activation between them
    Mlp,
    /// Layers of units that see a few others each, by random wires
    Sparse,
    /// Convolutions with pooling, then a linear layer
    Cnn,
    /// A simple recurrent network that reads an example row by row
    Rnn,
    /// A long short-term memory
    Lstm,
    /// A gated recurrent unit
    Gru,
    /// Blocks of attention
    Transformer,
}

/// What stands between layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Activation {
    Identity,
    Sigmoid,
    Tanh,
    Relu,
    LeakyRelu,
    Elu,
    Gelu,
    Silu,
    Softplus,
}

/// How first weights are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Initial {
    /// Uniform between ±1/√inputs, weights and biases
    Inputs,
    Xavier,
    He,
    Orthogonal,
    /// Zero throughout: nothing breaks the symmetry, and the report shows it
    Zero,
}

/// What is made small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Loss {
    /// How unlikely the right class is (classes)
    CrossEntropy,
    /// A yes or no for each class (classes)
    Binary,
    /// The margin by which the right class wins (classes)
    Hinge,
    /// The square of the error
    Mse,
    /// The square of a small error, the size of a large one (numbers)
    Huber,
    /// How unlikely a number is under a normal distribution whose deviation is predicted too (numbers)
    Normal,
}

/// How the losses of the examples become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reduce {
    Mean,
    Sum,
}

/// What makes a step of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Optimizer {
    /// Gradient descent
    Sgd,
    /// Gradient descent with momentum
    Momentum,
    /// Gradient descent with Nesterov's momentum
    Nesterov,
    Rmsprop,
    Adagrad,
    Adam,
    Adamw,
}

/// How the learning rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Schedule {
    Constant,
    /// In equal parts, one an epoch, to the part told by --lr-end
    Linear,
    /// Along half a cosine
    Cosine,
    /// By the same factor each epoch
    Exponential,
}

/// The numbers that are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Number {
    F32,
    F64,
}

/// What becomes of rows of a table in which something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Missing {
    /// They are refused, with the line
    Refused,
    /// They are left out
    Dropped,
    /// Numbers are replaced by the mean of their column
    Filled,
}

/// What the target of a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answers {
    /// Words and few whole numbers are classes
    Auto,
    Classes,
    Numbers,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    /// Tensors, in compiled programs
    Tensor,
    /// A tape on which every single number is a node: slow, and each is seen
    Scalar,
}

impl Activation {
    /// The layer that it is.
    pub(crate) fn layer(self) -> nn::Activation {
        match self {
            Activation::Identity => nn::Activation::Identity,
            Activation::Sigmoid => nn::Activation::Sigmoid,
            Activation::Tanh => nn::Activation::Tanh,
            Activation::Relu => nn::Activation::Relu,
            Activation::LeakyRelu => nn::Activation::LeakyRelu(0.01),
            Activation::Elu => nn::Activation::Elu(1.0),
            Activation::Gelu => nn::Activation::Gelu,
            Activation::Silu => nn::Activation::Silu,
            Activation::Softplus => nn::Activation::Softplus,
        }
    }
}

impl Initial {
    /// What draws.
    pub(crate) fn drawn(self) -> nn::Initial {
        match self {
            Initial::Inputs => nn::Initial::Inputs,
            Initial::Xavier => nn::Initial::Xavier,
            Initial::He => nn::Initial::He,
            Initial::Orthogonal => nn::Initial::Orthogonal(1.0),
            Initial::Zero => nn::Initial::Constant(0.0),
        }
    }
}

impl Missing {
    /// The table without what is missing.
    pub(crate) fn treated(self, table: Table) -> Result<Table, Error> {
        match self {
            Missing::Refused => Ok(table),
            Missing::Dropped => table.without_missing(),
            Missing::Filled => table.with_means(),
        }
    }
}

impl Answers {
    /// Whether they are classes, where that is decided.
    pub(crate) fn is_classes(self) -> Option<bool> {
        match self {
            Answers::Auto => None,
            Answers::Classes => Some(true),
            Answers::Numbers => Some(false),
        }
    }
}

impl Number {
    pub(crate) fn dtype(self) -> DType {
        match self {
            Number::F32 => DType::F32,
            Number::F64 => DType::F64,
        }
    }
}

/// The name that a person writes.
pub(crate) fn name_of<E: ValueEnum>(value: E) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Settings {
    /// A line about the network: what it is and how wide.
    pub(crate) fn network(&self, inputs: usize, outputs: usize) -> String {
        let widths: Vec<String> =
            [&[inputs], &self.layers[..], &[outputs]].concat().iter().map(usize::to_string).collect();
        let between = match self.model {
            Model::Mlp | Model::Sparse | Model::Cnn => format!(" {}", name_of(self.activation)),
            _ => String::new(),
        };
        format!("{} {}{between}", name_of(self.model), widths.join("-"))
    }
}

/// A network of the widths that a file claims may have so many times the numbers that the file holds, and no more.
const ROOM: usize = 16;

impl Settings {
    /// About how many weights the network has, by its widths alone: before it is made.
    pub(crate) fn weights(&self, task: &super::task::Description) -> usize {
        let ends = task.ends(self);
        if let (Model::Cnn, Some((hidden, channels))) = (self.model, self.layers.split_last()) {
            // Nine numbers for each pair of channels; each convolution halves height and width.
            let (mut before, mut pixels, mut sum) = (1_usize, ends.view.numbers(), 0_usize);
            for outputs in channels {
                sum = sum.saturating_add(9_usize.saturating_mul(before).saturating_mul(*outputs));
                (before, pixels) = (*outputs, pixels / 4);
            }
            let linear = before.saturating_mul(pixels).saturating_add(ends.outputs).saturating_mul(*hidden);
            return sum.saturating_add(linear);
        }
        let first = if self.model == Model::Transformer { self.context } else { ends.view.numbers() };
        let widths = [&[first], &self.layers[..], &[ends.outputs]].concat();
        let weights = |pair: &[usize]| match self.model {
            Model::Mlp | Model::Cnn => pair[0].saturating_mul(pair[1]),
            Model::Sparse => pair[1].saturating_mul(self.wires),
            // A block of attention has twelve squares of its width, and no recurrent cell has more.
            Model::Rnn | Model::Lstm | Model::Gru | Model::Transformer => {
                12_usize.saturating_mul(pair[1]).saturating_mul(pair[0].max(pair[1]))
            }
        };
        widths.windows(2).map(weights).fold(0, usize::saturating_add)
    }

    /// Refuses widths that would make a network far larger than the numbers that are there.
    pub(crate) fn check_size(&self, task: &super::task::Description, numbers: usize) -> Result<(), String> {
        let claimed = self.weights(task);
        match claimed > numbers.saturating_mul(ROOM).max(1 << 16) {
            true => Err(format!("it claims to have {claimed} weights, and holds {numbers} numbers")),
            false => Ok(()),
        }
    }
}
