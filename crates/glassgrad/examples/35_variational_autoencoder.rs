//! A variational autoencoder of handwritten digits: the evidence lower bound, the reparametrization trick, and new digits from the
//! prior. `Vae::new(key, 784, 400, 20)` is the usual size for MNIST.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 35_variational_autoencoder`.

mod digits;

use std::sync::Arc;

use glassgrad::Tensor;
use glassgrad::data::{Dataset as _, Examples};
use glassgrad::expr::Keys;
use glassgrad::models::Vae;
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::train::Training;

fn main() {
    let examples = Arc::new(Examples::new(digits::digits().0).expect("examples"));
    let objective = |network: &Vae, images: &Tensor, key: &Keys| network.loss(images, key).mean();
    let training = Training::new(objective, Optimizer::adam(3e-3)).epochs(15).batch_size(64);
    let trained = training.run(&Vae::new(Key::new(1), 64, 128, 8), &examples).expect("training");
    let (first, last) = (trained.losses[0], trained.losses[trained.losses.len() - 1]);
    println!("negative evidence lower bound: {first:.1} nats in the first epoch, {last:.1} in the last");

    let network = trained.parameters;
    let images = examples.batch(&[0, 1, 2, 3, 4, 5]).expect("images");
    println!("\ndigits, and their reconstructions from 8 latent variables:\n{}", digits::shown(&images));
    println!("{}", digits::shown(&network.decode(&network.encode(&images).mean).sigmoid()));
    let drawn = network.decode(&Tensor::normal(Key::new(2), [6, 8])).sigmoid();
    println!("new ones, from the prior:\n{}", digits::shown(&drawn));
    assert!(last < 0.75 * first);
}
