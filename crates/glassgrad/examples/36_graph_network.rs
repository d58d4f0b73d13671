//! A graph network finds communities: nodes of a random graph whose edges mostly stay inside of a community, with noisy features, and
//! classes known for a tenth of the nodes.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 36_graph_network`.

use glassgrad::dtype::DType;
use glassgrad::models::GraphNetwork;
use glassgrad::nn::{Layer as _, Linear};
use glassgrad::optim::{Optimizer, State};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, loss, value_and_grad};

const NODES: usize = 600;
const COMMUNITIES: usize = 4;
const FEATURES: usize = 8;

/// Trains a model on the known nodes, and returns the accuracy on the others.
fn trained<X: Tree + Clone>(start: &X, classes: &Tensor, known: &Tensor, logits: impl Fn(&X) -> Tensor) -> f64 {
    let optimizer = Optimizer::adam(1e-2).matrix_decay(1e-2);
    let step = compile(|((model, state), ()): &((X, State<X>), ())| {
        let objective = |model: &X| {
            let losses = loss::cross_entropy(&logits(model), classes);
            (&losses * known).sum() / known.sum()
        };
        let (value, gradient) = value_and_grad(objective)(model);
        (optimizer.update(model, &gradient, state), value)
    });
    let mut state = (start.clone(), optimizer.init(start));
    for _ in 0..100 {
        step.update(&mut state, &()).expect("a step");
    }
    let right = logits(&state.0).argmax(-1).equal(classes).cast(DType::F32) * (1.0 - known);
    (right.sum() / (1.0 - known).sum()).item().expect("a number")
}

fn main() {
    let key = Key::new(1);
    let community = |node: usize| node % COMMUNITIES;
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    for a in 0..NODES {
        for b in 0..a {
            let probability = if community(a) == community(b) { 0.09 } else { 0.006 };
            if key.uniform((a * NODES + b) as u64) < probability {
                sources.extend([a as i64, b as i64]);
                targets.extend([b as i64, a as i64]);
            }
        }
    }
    println!("{NODES} nodes, {} edges, {COMMUNITIES} communities", sources.len() / 2);
    let (sources, targets) = (Tensor::from(sources), Tensor::from(targets));
    let classes = Tensor::from((0..NODES).map(|node| community(node) as i64).collect::<Vec<_>>());
    let known = Tensor::from((0..NODES).map(|node| f32::from(u8::from(node < NODES / 10))).collect::<Vec<_>>());
    // A weak trace of the community in features that are mostly noise.
    let noise = Tensor::normal(Key::new(2), [NODES, FEATURES]);
    let features = (classes.one_hot(FEATURES, DType::F32) * 0.7 + noise).detach().expect("features");

    let alone =
        trained(&Linear::new(Key::new(3), FEATURES, COMMUNITIES), &classes, &known, |model| model.apply(&features));
    let network = GraphNetwork::new(Key::new(3), &[FEATURES, 16, 16], COMMUNITIES);
    let linked = trained(&network, &classes, &known, |model| model.apply(&features, &sources, &targets));
    println!(
        "accuracy on nodes of unknown class: {:.1} % by features alone, {:.1} % by the graph",
        100.0 * alone,
        100.0 * linked
    );
    assert!(linked > 0.8 && linked > alone + 0.3);
}
