//! Where the time and the memory of a training step go.
//!
//! A network with one hidden layer is trained by a step that is compiled: loss, gradient and new weights are one program.
//! `explain` tells what that program does: how the passes changed the graph, which steps are left and for which lines of
//! this file they work, how long each should take on this machine and how long it takes, and which values lie in memory
//! from when to when. A value whose last reader has run makes room for others, so the memory is smaller than the sum of
//! everything that is computed. The second network is recurrent: its program has one step for the whole loop over time,
//! and the steps inside of it are told for one moment. The pictures of the memory go into the folder that is given.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 21_explain target/pictures`.

use std::path::PathBuf;

use glassgrad::dtype::DType;
use glassgrad::explain::{Explanation, Limits};
use glassgrad::rng::Key;
use glassgrad::{Tensor, compile, scan, value_and_grad};

type Weights = (Tensor, Tensor);

fn normal(seed: u64, shape: &[usize], scale: f64) -> Tensor {
    (Tensor::normal(Key::new(seed), shape).cast(DType::F32) * scale).detach().expect("random numbers")
}

fn tell(title: &str, name: &str, explanation: &Explanation) {
    println!("{title}\n\n{explanation}");
    if let Some(folder) = std::env::args().nth(1).map(PathBuf::from) {
        let file = folder.join(format!("21_{name}.svg"));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(&file, explanation.arena_svg(title)).expect("a file");
        println!("The memory is drawn in {}.\n", file.display());
    }
}

fn main() {
    println!("{}", Limits::measured());

    let (x, y) = (normal(1, &[256, 64], 1.0), normal(2, &[256, 10], 1.0));
    let weights = (normal(3, &[64, 128], 0.1), normal(4, &[128, 10], 0.1));
    let layers = compile(|weights: &Weights| {
        let (loss, gradient) = value_and_grad(|(first, second): &Weights| {
            let hidden = x.matmul(first).tanh();
            (hidden.matmul(second) - &y).square().mean()
        })(weights);
        (loss, &weights.0 - gradient.0 * 0.1, &weights.1 - gradient.1 * 0.1)
    });
    let explanation = layers.explain(&weights).unwrap_or_else(|error| panic!("{error}"));
    tell("A training step of two layers", "layers", &explanation);
    // What is told is what runs: the same operations, of the same program.
    let program = layers.program(&weights).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((explanation.flops(), explanation.arena.bytes), (program.flops(), program.arena));
    assert!(
        explanation.arena.highest <= explanation.arena.bytes && explanation.arena.bytes < explanation.arena.unshared
    );

    let sequence = normal(5, &[100, 16, 64], 1.0);
    let inner = normal(6, &[64, 64], 0.1);
    let recurrent = |inner: &Tensor| {
        let step = |state: &Tensor, x: &Tensor| ((state.matmul(inner) + x).tanh(), ());
        let (last, ()) = scan(step, &Tensor::full([16, 64], 0.0, DType::F32), &sequence);
        last.square().mean()
    };
    let explanation = compile(value_and_grad(recurrent)).explain(&inner).unwrap_or_else(|error| panic!("{error}"));
    tell("The gradient of a recurrent network", "recurrent", &explanation);

    let slowest = explanation.steps.iter().max_by(|a, b| a.measured.total_cmp(&b.measured)).expect("steps");
    println!("Most of the time goes into: {}", slowest.what);
    assert!(!slowest.inside.is_empty(), "the loops over time take the most");
}
