//! A denoising diffusion model of handwritten digits: a network learns to predict the noise in an image, and new digits are noise
//! from which it is removed step by step.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 38_diffusion`; `-- 300` trains for that many epochs.

mod digits;

use std::sync::Arc;

use glassgrad::Tensor;
use glassgrad::data::Examples;
use glassgrad::expr::Keys;
use glassgrad::models::{Denoiser, Diffusion};
use glassgrad::optim::{Optimizer, Schedule};
use glassgrad::rng::Key;
use glassgrad::train::Training;

fn main() {
    let epochs: u64 = std::env::args().nth(1).and_then(|epochs| epochs.parse().ok()).unwrap_or(60);
    // Ink from -1 to 1.
    let examples = Arc::new(Examples::new(digits::digits().0 * 2.0 - 1.0).expect("examples"));
    let chain = Diffusion::cosine(100);
    let objective = |network: &Denoiser, images: &Tensor, key: &Keys| chain.loss(network, images, key);
    let steps = epochs * 1797_u64.div_ceil(64);
    let optimizer = Optimizer::adam(2e-3).schedule(Schedule::Cosine { steps, least: 0.05 });
    let start = Denoiser::new(Key::new(1), 64, 128, 32);
    let training = Training::new(objective, optimizer).epochs(epochs).batch_size(64);
    let trained = training.run(&start, &examples).expect("training");
    let (first, last) = (trained.losses[0], trained.losses[trained.losses.len() - 1]);
    println!("mean squared error of the predicted noise: {first:.3} in the first epoch, {last:.3} in the last\n");
    let drawn = chain.sample(&trained.parameters, 6, Key::new(2)).expect("samples");
    println!("{}", digits::shown(&((drawn + 1.0) * 0.5)));
    assert!(last < 0.6 * first);
}
