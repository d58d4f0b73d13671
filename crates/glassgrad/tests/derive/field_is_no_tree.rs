use glassgrad::{Tensor, Tree};

struct Settings;

#[derive(Tree)]
struct Layer {
    weight: Tensor,
    settings: Settings,
}

fn main() {}
