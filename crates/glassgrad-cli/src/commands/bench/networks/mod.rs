//! Whole networks as people train them: `bench/run networks` measures them beside PyTorch and JAX.

mod character_gpt;
mod generation;
mod graph;
mod lstm;
mod pinn;
mod resnet;
mod vae;

use glassgrad::dtype::DType;
use glassgrad::train::Precision;
use glassgrad::tree::Tree;

use super::data::Source;
use super::workload::Make;

/// The networks by name.
pub(super) const NETWORKS: [(&str, Make); 10] = [
    ("resnet18", || Box::new(resnet::workload())),
    ("resnet18_bf16", || Box::new(resnet::in_bf16())),
    ("character_gpt", || Box::new(character_gpt::workload())),
    ("character_gpt_bf16", || Box::new(character_gpt::in_bf16())),
    ("generation_cached", || Box::new(generation::workload(true))),
    ("generation", || Box::new(generation::workload(false))),
    ("lstm_3x256", || Box::new(lstm::workload())),
    ("vae", || Box::new(vae::workload())),
    ("pinn", || Box::new(pinn::workload())),
    ("graph", || Box::new(graph::workload())),
];

/// Networks at sizes for a GPU; in `bf16` parameters and optimizer stay in 32 bits.
pub(super) const ON_A_GPU: [(&str, Make); 6] = [
    ("gpt2", || Box::new(character_gpt::gpt2(Precision::Full))),
    ("gpt2_bf16", || Box::new(character_gpt::gpt2(Precision::Bf16))),
    ("character_gpt_64", || Box::new(character_gpt::wide(Precision::Full))),
    ("character_gpt_64_bf16", || Box::new(character_gpt::wide(Precision::Bf16))),
    ("resnet18_512", || Box::new(resnet::wide(Precision::Full))),
    ("resnet18_512_bf16", || Box::new(resnet::wide(Precision::Bf16))),
];

/// A network as the forward pass of mixed precision sees it.
fn rounded<X: Tree>(network: &X, dtype: DType) -> X {
    network.map(|leaf| leaf.cast(dtype))
}

/// A network with parameters that all engines draw: in the order of the leaves, each from a stream of its own. Weights and the biases
/// behind them lie between ±1/√fan-in, embeddings between ±0.05, and those of recurrent cells between ±1/√states; scales and
/// shifts of normalizations stay 1 and 0.
fn filled<X: Tree>(source: &mut Source, network: &X) -> X {
    let mut bound = 0.0;
    network.map_with_path(|path, leaf| {
        let (path, shape) = (path.to_string(), leaf.shape().clone());
        let ends = |names: &[&str]| names.iter().any(|name| path.ends_with(name));
        if ends(&["scale", "shift"]) {
            return leaf.clone();
        }
        if ends(&["tokens.weight", "positions.weight"]) {
            bound = 0.05;
        } else if ends(&["state_weight", "input_weight", "state_bias", "input_bias"]) {
            bound = 1.0 / (shape[shape.len() - 1] as f64 / 4.0).sqrt();
        } else if !ends(&["bias"]) {
            let inputs = if shape.len() == 2 { shape[0] } else { shape[1..].iter().product() };
            bound = 1.0 / (inputs as f64).sqrt();
        }
        source.uniform(shape, -bound, bound, DType::F32)
    })
}
