use glassgrad::{Tensor, Tree};

#[derive(Tree)]
struct Layer {
    weight: Tensor,
    #[tree(frozen)]
    width: usize,
}

fn main() {}
