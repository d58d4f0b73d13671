//! Irises, with the same first weights as in PyTorch: both curves in one picture.
//!
//! The network of DiffX, 4-10-3 with tanh, learns the mean cross-entropy of all 150 flowers by gradient descent in 64 bits.
//! PyTorch's losses were written down by `bench/golden/learning.py`.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 25_irises`; it draws the curves into `target/pictures`, or into the folder
//! given as an argument.

mod picture;

use std::sync::Arc;

use glassgrad::data::Examples;
use glassgrad::expr::Keys;
use glassgrad::nn::{Activation, Layer, Mlp};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::train::Training;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, loss};
use picture::{Panel, Point, linear, save};
use serde_json::Value;

fn tensor(stored: &Value) -> Tensor {
    let list = |name: &str| stored[name].as_array().expect("a list");
    let shape: Vec<usize> = list("shape").iter().filter_map(|size| Some(size.as_u64()? as usize)).collect();
    let numbers: Vec<f64> = list("numbers").iter().filter_map(Value::as_f64).collect();
    Tensor::new(&numbers, shape)
}

fn main() {
    let golden: Value = serde_json::from_str(include_str!("../tests/golden/learning.json")).expect("JSON");
    let case = &golden["irises"];
    let network = Mlp::new(Key::new(1), &[4, 10, 3], Activation::Tanh);
    let network = network.map_with_path(|path, _| tensor(&case["start"][path.to_string()]));
    let flowers = (tensor(&case["features"]), tensor(&case["classes"]).cast(glassgrad::dtype::DType::I64));
    let flowers = Arc::new(Examples::new(flowers).expect("a table"));

    let wrong = |network: &Mlp, (x, y): &(Tensor, Tensor), _: &Keys| loss::cross_entropy(&network.apply(x), y).mean();
    let training = Training::new(wrong, Optimizer::sgd(0.5)).epochs(100).batch_size(150);
    let trained = training.run(&network, &flowers).expect("training");

    let theirs: Vec<f64> = case["losses"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    let apart = trained.losses.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let (x, y) = flowers.tensors();
    let right = trained.parameters.apply(x).argmax(-1).equal(y).cast(glassgrad::dtype::DType::F64).mean();
    println!("loss {:.4} at first, {:.4} after 100 epochs", trained.losses[0], trained.losses[99]);
    println!("{:.1} % of the flowers are classified correctly", 100.0 * right.item().expect("a number"));
    println!("the curve of PyTorch is nowhere more than {apart:.1e} away");
    assert!(apart < 1e-8);

    let curve = |losses: &[f64]| -> Vec<Point> { losses.iter().enumerate().map(|(k, y)| (k as f64, *y)).collect() };
    let few: Vec<Point> = curve(&theirs).into_iter().step_by(5).collect();
    let panel =
        Panel::new("Irises, 4-10-3 tanh, mean cross-entropy", linear("epoch", 0.0..100.0), linear("loss", 0.0..2.0))
            .line("Glassgrad", curve(&trained.losses))
            .dots("PyTorch, every fifth", few);
    save("25_irises", &[panel]);
}
