//! Whole networks: architectures that people train, with configurable sizes. One file per family.
//!
//! - [`Gpt`]: a decoder-only Transformer with tied embeddings, from character models to GPT-2, with generation over a KV cache;
//! - [`ResNet`]: a residual network with batch normalization, for small images;
//! - [`Vae`]: a variational autoencoder;
//! - [`GraphNetwork`]: message passing along the edges of a graph;
//! - [`Pinn`]: a physics-informed network, with the Laplacian of its output;
//! - [`Diffusion`] and [`Denoiser`]: a denoising diffusion model.
//!
//! A model is a tree like any layer, and its loss a method that returns a number for each example or their mean. What training
//! changes besides parameters, as the running statistics of batch normalization, is a tree of its own, which the training step
//! returns beside the loss.

mod diffusion;
mod gpt;
#[cfg(feature = "save")]
mod gpt_files;
mod graph;
mod pinn;
mod resnet;
mod vae;

pub use diffusion::{Denoiser, Diffusion};
pub use gpt::{Gpt, GptConfig, Sampling};
pub use graph::{GraphConvolution, GraphNetwork};
pub use pinn::Pinn;
pub use resnet::{ConvNorm, ResNet, ResNetConfig, ResNetStatistics, ResidualBlock, ResidualStatistics};
pub use vae::{Latent, Vae};
