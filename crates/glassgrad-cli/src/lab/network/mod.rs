//! The networks that can be asked for by name: a file for each family.

mod convolutional;
mod dense;
mod reader;
mod sparse;
mod transformer;

use glassgrad::Tensor;
use glassgrad::expr::Keys;
use glassgrad::nn::{Gru, Layer, Linear, Lstm, Rnn};
use glassgrad::rng::Key;
use glassgrad::tree::{Branch, Tree};

use super::settings::{Model, Settings};
use super::task::View;
use crate::failure::Failure;
use convolutional::Convolutional;
pub(crate) use dense::Dense;
use reader::Reader;
use sparse::Sparse;
use transformer::Transformer;

/// A network of one of the families; its leaves have the names that they have in the family.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    Dense(Dense),
    Sparse(Sparse),
    Convolutional(Convolutional),
    Rnn(Reader<Rnn>),
    Lstm(Reader<Lstm>),
    Gru(Reader<Gru>),
    Transformer(Transformer),
}

/// What a network is between: how examples look, and how many numbers it tells of each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ends {
    pub(crate) view: View,
    pub(crate) outputs: usize,
}

/// What all families can.
pub(super) trait Family: Layer + Tree + Sized {
    /// Draws first weights; what cannot be built is told with the setting to change.
    fn build(key: Key, settings: &Settings, ends: &Ends) -> Result<Self, Failure>;
}

impl Network {
    /// A network with first weights, in the numbers that the settings ask for.
    pub(crate) fn build(settings: &Settings, ends: &Ends) -> Result<Network, Failure> {
        let key = Key::new(settings.seed).fold(1);
        if let Some(place) = settings.layers.iter().position(|width| *width == 0) {
            return Err(Failure::Input(format!(
                "--layers: layer {} is 0 wide; a layer has at least one unit",
                place + 1
            )));
        }
        let network = match settings.model {
            Model::Mlp => Network::Dense(Family::build(key, settings, ends)?),
            Model::Sparse => Network::Sparse(Family::build(key, settings, ends)?),
            Model::Cnn => Network::Convolutional(Family::build(key, settings, ends)?),
            Model::Rnn => Network::Rnn(Family::build(key, settings, ends)?),
            Model::Lstm => Network::Lstm(Family::build(key, settings, ends)?),
            Model::Gru => Network::Gru(Family::build(key, settings, ends)?),
            Model::Transformer => Network::Transformer(Family::build(key, settings, ends)?),
        };
        let dtype = settings.dtype.dtype();
        let network = network.map(|leaf| if leaf.is_float() { leaf.cast(dtype) } else { leaf.clone() });
        network.realise().map_err(|error| Failure::Input(error.to_string()))
    }
}

impl Network {
    /// A single linear layer.
    pub(crate) fn linear(layer: Linear) -> Network {
        Network::Dense(Dense::linear(layer))
    }
}

/// The same expression for whichever family it is.
macro_rules! each {
    ($network:expr, $family:ident => $result:expr) => {
        match $network {
            Network::Dense($family) => $result,
            Network::Sparse($family) => $result,
            Network::Convolutional($family) => $result,
            Network::Rnn($family) => $result,
            Network::Lstm($family) => $result,
            Network::Gru($family) => $result,
            Network::Transformer($family) => $result,
        }
    };
}

impl Layer for Network {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        each!(self, family => family.apply(x))
    }

    #[track_caller]
    fn apply_noisy(&self, x: &Tensor, key: &Keys) -> Tensor {
        each!(self, family => family.apply_noisy(x, key))
    }
}

impl Tree for Network {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        each!(self, family => family.visit(branch, visitor));
    }

    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Network {
        match self {
            Network::Dense(family) => Network::Dense(family.rebuild(branch, leaf)),
            Network::Sparse(family) => Network::Sparse(family.rebuild(branch, leaf)),
            Network::Convolutional(family) => Network::Convolutional(family.rebuild(branch, leaf)),
            Network::Rnn(family) => Network::Rnn(family.rebuild(branch, leaf)),
            Network::Lstm(family) => Network::Lstm(family.rebuild(branch, leaf)),
            Network::Gru(family) => Network::Gru(family.rebuild(branch, leaf)),
            Network::Transformer(family) => Network::Transformer(family.rebuild(branch, leaf)),
        }
    }
}
