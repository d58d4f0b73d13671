//! Ten layers with rectifiers and a softmax cross-entropy, in the activations and in the weights of every layer.

use glassgrad::Tensor;
use glassgrad::calculus::Structure;

use crate::check::{agrees, matrix};

const SAMPLES: usize = 4;
const WIDTH: usize = 6;
const CLASSES: usize = 3;
const LAYERS: usize = 10;

fn weights() -> Vec<Tensor> {
    let scale = |layer: usize| if layer + 1 == LAYERS { (WIDTH, CLASSES) } else { (WIDTH, WIDTH) };
    (0..LAYERS).map(|layer| matrix(10 + layer as u64, scale(layer).0, scale(layer).1)).collect()
}

fn target() -> Tensor {
    Tensor::from([0_i64, 2, 1, 0]).one_hot(CLASSES, glassgrad::dtype::DType::F64)
}

/// The loss from the activations before some layer on.
fn loss_from(activations: &Tensor, weights: &[Tensor], target: &Tensor) -> Tensor {
    let mut h = activations.clone();
    for (place, weight) in weights.iter().enumerate() {
        h = h.matmul(weight);
        if place + 1 < weights.len() {
            h = h.relu();
        }
    }
    -(h.log_softmax(-1) * target).sum()
}

/// Activations that are positive, so that the networks do not die out.
fn activations() -> Tensor {
    matrix(1, SAMPLES, WIDTH).abs().detach().unwrap()
}

#[test]
fn hessians_in_activations_are_of_third_order() {
    let (weights, target) = (weights(), target());
    for layer in 0..LAYERS {
        let f = |h: &Tensor| loss_from(h, &weights[layer..], &target);
        let h = agrees(&format!("activations {layer}"), f, &activations());
        assert_eq!(h.structure(), Structure::Blocks { count: SAMPLES, size: WIDTH, copies: 1 }, "{h}");
        assert!(h.bytes() <= 8 * SAMPLES * WIDTH * WIDTH, "{h}");
        assert!(h.expression().contains("δ_ik"), "{h}");
    }
}

#[test]
fn hessians_in_weights_are_factored_over_samples() {
    let (weights, target) = (weights(), target());
    for layer in 0..LAYERS {
        let before = weights[..layer].iter().fold(activations(), |h, weight| h.matmul(weight).relu());
        let before = before.detach().unwrap();
        let f = |w: &Tensor| {
            let mut after = weights[layer..].to_vec();
            after[0] = w.clone();
            loss_from(&before, &after, &target)
        };
        let h = agrees(&format!("weights {layer}"), f, &weights[layer]);
        let columns = weights[layer].shape()[1];
        assert!(h.bytes() <= 8 * SAMPLES * (WIDTH + columns * columns), "{layer}: {h}");
    }
}

#[test]
fn smooth_networks_agree_too() {
    let (weights, target) = (weights(), target());
    let f = |h: &Tensor| {
        let mut h = h.clone();
        for weight in &weights[4..9] {
            h = h.matmul(weight).tanh();
        }
        -(h.matmul(&weights[9]).log_softmax(-1) * &target).sum()
    };
    let h = agrees("tanh", f, &activations());
    assert_eq!(h.structure(), Structure::Blocks { count: SAMPLES, size: WIDTH, copies: 1 });
}
