//! What one neuron can learn, what it cannot, and how a gradient helps.
//!
//! Rosenblatt's perceptron fires when w·x + b ≥ 0. Its learning rule nudges the weights after every
//! mistake and needs no derivative. It finds a separating line whenever there is one, so it learns
//! AND and OR; for XOR there is none, and it goes round in circles for ever.
//!
//! Two layers can bend the boundary, but then the rule no longer says which layer was wrong. The
//! gradient does, if it exists: through a hard threshold it is zero everywhere, as the program
//! shows, and through tanh it is not. So the threshold goes, and XOR is learned by descent.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 05_perceptron`; it writes a picture into
//! `target/pictures`, or into the folder given as an argument.

mod picture;
mod random;

use glassgrad::scalar::{gradient, value_and_gradient};
use glassgrad::{Algebra, Real, c};
use picture::{Corner, Panel, linear, save};
use random::Random;

const INPUTS: [[f64; 2]; 4] = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]];
const AND: [f64; 4] = [0.0, 0.0, 0.0, 1.0];
const OR: [f64; 4] = [0.0, 1.0, 1.0, 1.0];
const XOR: [f64; 4] = [0.0, 1.0, 1.0, 0.0];
const HIDDEN: usize = 3;

/// The sum in the body of a neuron: weights for both inputs, then the bias.
fn excitation<T: Real>(weights: &[T], [x1, x2]: [f64; 2]) -> T {
    weights[0] * c(x1) + weights[1] * c(x2) + weights[2]
}

/// Rosenblatt's rule: after each mistake move the weights towards the input that was missed.
/// Returns the weights and the number of rounds, or none if it still errs after a thousand.
fn perceptron(targets: [f64; 4]) -> ([f64; 3], Option<usize>) {
    // A bias of one half keeps the sums away from zero, where the neuron would be undecided.
    let mut weights = [0.0_f64, 0.0, 0.5];
    for round in 1..=1000 {
        let mut mistakes = 0;
        for (input, target) in INPUTS.into_iter().zip(targets) {
            let error = target - excitation(&weights, input).step(0.0);
            weights[0] += error * input[0];
            weights[1] += error * input[1];
            weights[2] += error;
            mistakes += usize::from(error != 0.0);
        }
        if mistakes == 0 {
            return (weights, Some(round));
        }
    }
    (weights, None)
}

/// A layer of three neurons and one that listens to them. Its sign decides the class.
fn two_layers<T: Real>(weights: &[T], input: [f64; 2], activation: fn(T) -> T) -> T {
    let (hidden, output) = weights.split_at(3 * HIDDEN);
    let neurons = hidden.chunks(3).map(|neuron| activation(excitation(neuron, input)));
    neurons.zip(output).map(|(neuron, weight)| neuron * *weight).sum::<T>() + output[HIDDEN]
}

/// The mean cross-entropy of the classes, -ln σ(z) for a one and -ln (1 - σ(z)) for a zero.
fn cross_entropy<T: Real>(weights: &[T], activation: fn(T) -> T) -> T {
    let losses = INPUTS.into_iter().zip(XOR).map(|(input, target)| {
        // Both cases are a softplus, which cannot overflow and never takes the logarithm of zero.
        let score = two_layers(weights, input, activation);
        if target == 1.0 { (-score).softplus() } else { score.softplus() }
    });
    losses.sum::<T>() / c(4.0)
}

fn main() {
    let mut panels = Vec::new();
    for (name, targets) in [("AND", AND), ("OR", OR), ("XOR", XOR)] {
        let (weights, rounds) = perceptron(targets);
        let outcome =
            rounds.map_or("not learned in 1000 rounds".into(), |rounds| format!("learned in {rounds} rounds"));
        println!("perceptron, {name:<3}  {outcome}, weights {weights:?}");
        assert_eq!(rounds.is_some(), name != "XOR", "one neuron draws one straight line");
        panels.push(panel(format!("{name}: one neuron, {outcome}"), targets, |x1, x2| excitation(&weights, [x1, x2])));
    }

    let mut random = Random::new(5);
    let mut weights: Vec<f64> = (0..4 * HIDDEN + 1).map(|_| random.uniform(-1.0, 1.0)).collect();
    // The four sums of one neuron depend on its weights, but their thresholds do not: every derivative
    // of the first layer is exactly zero, and descent would not know where to go.
    let blind = gradient(|w| cross_entropy(w, |x| x.step(0.0)), &weights);
    assert!(blind[..3 * HIDDEN].iter().all(|g| *g == 0.0));
    println!("\nthrough a hard threshold the first layer has the gradient {:?}", &blind[..3 * HIDDEN]);

    for step in 0..=1000 {
        let (loss, g) = value_and_gradient(|w| cross_entropy(w, |x| x.tanh()), &weights);
        if step % 200 == 0 {
            println!("two layers, XOR  step {step:>4}  cross-entropy {loss:.6}");
        }
        weights.iter_mut().zip(&g).for_each(|(weight, g)| *weight -= 1.0 * g);
    }
    for (input, target) in INPUTS.into_iter().zip(XOR) {
        let probability = two_layers(&weights, input, |x| x.tanh()).sigmoid();
        println!("  {} xor {} = {target}: the network says {probability:.4}", input[0], input[1]);
        assert!((probability - target).abs() < 0.05, "two layers learn XOR");
    }
    panels.push(panel("XOR: two layers, learned by descent".into(), XOR, |x1, x2| {
        two_layers(&weights, [x1, x2], |x| x.tanh())
    }));
    save("05_perceptron", &panels);
}

fn panel(title: String, targets: [f64; 4], score: impl Fn(f64, f64) -> f64) -> Panel {
    let class = |wanted: f64| {
        let chosen = INPUTS.into_iter().zip(targets).filter(|(_, target)| *target == wanted);
        chosen.map(|([x1, x2], _)| (x1, x2)).collect()
    };
    Panel::new(title, linear("first input", -0.5..1.5), linear("second input", -0.5..1.9))
        .regions(score)
        .legend_at(Corner::UpperLeft)
        .dots("should be 0", class(0.0))
        .dots("should be 1", class(1.0))
}
