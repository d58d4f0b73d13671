use glassgrad::Tree;

#[derive(Tree)]
union Either {
    whole: u32,
    real: f32,
}

fn main() {}
