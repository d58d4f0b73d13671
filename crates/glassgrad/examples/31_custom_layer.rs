//! A custom layer: a gated linear unit with a residual, in a network of them.
//!
//! A layer is a structure of tensors and layers with `#[derive(Tree)]`, and a function. Its gradient, the state of its
//! optimizer and what is saved have its type and its names; nothing is registered anywhere.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 31_custom_layer`.

use glassgrad::nn::{Layer, LayerNorm, Linear};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, Tree, compile, loss, value_and_grad};

/// x + (norm(x) V) ∘ sigmoid(norm(x) W).
#[derive(Clone, Tree)]
struct Gated {
    norm: LayerNorm,
    content: Linear,
    gate: Linear,
}

impl Gated {
    fn new(key: Key, width: usize) -> Gated {
        let linear = |number: u64| Linear::new(key.fold(number), width, width);
        Gated { norm: LayerNorm::new(width), content: linear(0), gate: linear(1) }
    }
}

impl Layer for Gated {
    fn apply(&self, x: &Tensor) -> Tensor {
        let normal = self.norm.apply(x);
        x + self.content.apply(&normal) * self.gate.apply(&normal).sigmoid()
    }
}

type Network = (Linear, Vec<Gated>, Linear);

fn main() {
    let key = Key::new(1);
    let gated = (0..3).map(|number| Gated::new(key.fold(number), 16)).collect();
    let network: Network = (Linear::new(key.fold(10), 2, 16), gated, Linear::new(key.fold(11), 16, 1));
    for (path, leaf) in network.leaves().iter().skip(2).take(4) {
        println!("{path}  {}{}", leaf.dtype(), leaf.shape());
    }
    // The product of two numbers, which no linear layer knows.
    let x = Tensor::uniform(Key::new(2), [256, 2]).detach().expect("points") * 2.0 - 1.0;
    let y = x.prod_over(1).unsqueeze(1);
    let optimizer = Optimizer::adam(3e-3);
    let step = compile(|((network, state), (x, y)): &((Network, _), (Tensor, Tensor))| {
        let wrong = |network: &Network| loss::mse(&network.apply(x), y).mean();
        let (value, gradient) = value_and_grad(wrong)(network);
        (optimizer.update(network, &gradient, state), value)
    });
    let mut moment = (network.map(Tensor::clone), optimizer.init(&network));
    let mut last = f64::NAN;
    for number in 0..=400 {
        last = step.update(&mut moment, &(x.clone(), y.clone())).expect("a step").item().expect("a number");
        if number % 100 == 0 {
            println!("step {number:3}  loss {last:.5}");
        }
    }
    assert!(last < 1e-3);
}
