//! Layers of neural networks: plain structures of tensors.
//!
//! A layer is a tree, so that its gradient, the state of its optimizer and its next value have its own type and names.
//! There are no registries and no modes: what differs between training and prediction is another method.
//! [`Layer::apply`] predicts; [`Layer::apply_train`] draws what a layer draws in training, with a key;
//! [`BatchNorm::normalize`] returns the statistics that it measured beside its result.
//!
//! - [`Linear`], [`SparseLinear`], [`Mlp`], and sequential composition: tuples, arrays and vectors of layers;
//! - [`Conv`], [`MaxPool`], [`AvgPool`], for one axis, two or three; [`Flatten`];
//! - [`BatchNorm`], [`LayerNorm`], [`GroupNorm`], [`InstanceNorm`], [`RmsNorm`], [`Dropout`];
//! - [`Embedding`], [`Recurrent`] and [`Bidirectional`] over an [`Rnn`], [`Lstm`] or [`Gru`] cell, [`MultiHeadAttention`],
//!   [`TransformerBlock`];
//! - [`Activation`], [`PRelu`] and [`StochasticUnit`]; [`Initializer`].

mod activation;
mod attention;
mod cells;
mod convolution;
mod embedding;
mod group_norm;
mod initializer;
mod layer;
mod linear;
mod mlp;
mod noise;
mod normalization;
mod pooling;
mod recurrent;
mod sparse;

pub use activation::{Activation, PRelu};
pub use attention::{KvCache, MultiHeadAttention, TransformerBlock};
pub use cells::{Gru, Lstm, Rnn};
pub use convolution::{Conv, Conv1d, Conv2d, Conv3d};
pub use embedding::Embedding;
pub use group_norm::{GroupNorm, InstanceNorm, RmsNorm};
pub use initializer::{Fans, Initializer};
pub use layer::Layer;
pub use linear::Linear;
pub use mlp::Mlp;
pub use noise::{Dropout, StochasticUnit};
pub use normalization::{BatchNorm, LayerNorm, Statistics};
pub use pooling::{AvgPool, Flatten, MaxPool};
pub use recurrent::{Bidirectional, Cell, Recurrent};
pub use sparse::SparseLinear;
