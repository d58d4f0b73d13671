//! Whole networks as people train them: `bench/run networks` measures them beside PyTorch and JAX.

mod character_gpt;
mod resnet;

use super::workload::Make;

/// The networks by name.
pub(super) const NETWORKS: [(&str, Make); 2] =
    [("resnet18", || Box::new(resnet::workload())), ("character_gpt", || Box::new(character_gpt::workload()))];
