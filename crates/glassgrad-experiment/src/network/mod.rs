//! The networks that are selected by name: a file for each family.

mod convolutional;
mod dense;
mod gpt;
mod reader;
mod residual;
mod sparse;
mod transformer;

use glassgrad::Tensor;
use glassgrad::expr::Keys;
use glassgrad::models::Gpt;
use glassgrad::nn::{Dropout, Gru, Layer, Linear, Lstm, Rnn};
use glassgrad::rng::Key;
use glassgrad::tree::{Branch, Definition, Tree};

use super::settings::{Model, Settings, name_of};
use super::task::View;
use crate::failure::Failure;
use convolutional::Convolutional;
pub use dense::Dense;
use reader::Reader;
use residual::Residual;
use sparse::Sparse;
use transformer::Transformer;

/// The interface of a network: the shape of an example, and the number of outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct IoSpec {
    pub view: View,
    pub outputs: usize,
}

/// The interface of all families.
trait Family: Tree + Sized {
    /// Draws initial weights; an error names the setting to change.
    fn build(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Self, Failure>;

    /// The outputs for a batch; with keys, dropout and other training noise is sampled.
    #[track_caller]
    fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor;

    /// The outputs in training, and the network with its next running statistics, where it has some.
    #[track_caller]
    fn train(&self, x: &Tensor, key: &Keys) -> (Tensor, Option<Self>) {
        (self.run(x, Some(key)), None)
    }
}

/// The path of the leaves that a family keeps as running statistics: the optimizer does not update them.
pub const STATE: &str = "statistics";

/// Dropout of `x` with a key, if there is one.
#[track_caller]
fn noisy(dropout: &Dropout, x: Tensor, key: Option<&Keys>, number: u64) -> Tensor {
    match key {
        Some(key) => dropout.apply_train(&x, &key.fold(number)),
        None => x,
    }
}

/// How many numbers an example has; a text has none.
fn numbers(settings: &Settings, ends: &IoSpec) -> Result<usize, Failure> {
    match ends.view {
        View::Text { .. } => {
            let model = name_of(settings.model);
            Err(Failure::Input(format!("--model {model}: a text is read by rnn, lstm, gru, transformer or gpt")))
        }
        view => Ok(view.numbers()),
    }
}

/// A row for each family: the model that asks for it, what it is called, its type.
macro_rules! families {
    ($($Model:ident => $Name:ident($Family:ty),)*) => {
        /// A network of one of the families; its leaves have the names that they have in the family.
        #[derive(Clone, Debug)]
        pub enum Network {
            $($Name($Family),)*
        }

        impl Network {
            fn drawn(key: Key, settings: &Settings, ends: &IoSpec) -> Result<Network, Failure> {
                match settings.model {
                    $(Model::$Model => Family::build(key, settings, ends).map(Network::$Name),)*
                }
            }

            #[track_caller]
            fn run(&self, x: &Tensor, key: Option<&Keys>) -> Tensor {
                match self {
                    $(Network::$Name(family) => family.run(x, key),)*
                }
            }

            /// The outputs in training, and the network with its next running statistics.
            #[track_caller]
            pub fn train(&self, x: &Tensor, key: &Keys) -> (Tensor, Network) {
                match self {
                    $(Network::$Name(family) => {
                        let (outputs, next) = family.train(x, key);
                        (outputs, next.map_or_else(|| self.clone(), Network::$Name))
                    })*
                }
            }
        }

        impl Tree for Network {
            fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
                match self {
                    $(Network::$Name(family) => family.visit(branch, visitor),)*
                }
            }

            fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Network {
                match self {
                    $(Network::$Name(family) => Network::$Name(family.rebuild(branch, leaf)),)*
                }
            }

            fn define(&self, definition: &mut Definition) {
                definition.value(&std::mem::discriminant(self));
                match self {
                    $(Network::$Name(family) => family.define(definition),)*
                }
            }
        }
    };
}

families! {
    Mlp => Dense(Dense),
    Sparse => Sparse(Sparse),
    Cnn => Convolutional(Convolutional),
    Rnn => Rnn(Reader<Rnn>),
    Lstm => Lstm(Reader<Lstm>),
    Gru => Gru(Reader<Gru>),
    Transformer => Transformer(Transformer),
    Gpt => Gpt(Gpt),
    Resnet => Residual(Residual),
}

impl Network {
    /// A network with initial weights, in the numbers that the settings ask for.
    pub fn build(settings: &Settings, ends: &IoSpec) -> Result<Network, Failure> {
        if let Some(place) = settings.layers.iter().position(|width| *width == 0) {
            return Err(Failure::Input(format!(
                "--layers: layer {} is 0 wide; a layer has at least one unit",
                place + 1
            )));
        }
        let network = Network::drawn(Key::new(settings.seed).fold(1), settings, ends)?;
        let dtype = settings.dtype.dtype();
        let network = network.map(|leaf| if leaf.is_float() { leaf.cast(dtype) } else { leaf.clone() });
        network.realise().map_err(Failure::input)
    }

    /// The number of parameters: without running statistics.
    pub fn parameters(&self) -> usize {
        let leaves = self.leaves().into_iter().filter(|(path, _)| !path.starts_with(STATE));
        leaves.map(|(_, leaf)| leaf.shape().elements()).sum()
    }

    /// A single linear layer.
    pub fn linear(layer: Linear) -> Network {
        Network::Dense(Dense::linear(layer))
    }
}

impl Layer for Network {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        self.run(x, None)
    }

    #[track_caller]
    fn apply_train(&self, x: &Tensor, key: &Keys) -> Tensor {
        self.run(x, Some(key))
    }
}
