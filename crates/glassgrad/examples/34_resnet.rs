//! A residual network classifies handwritten digits: batch normalization with running statistics, random crops, mixed precision.
//!
//! The running statistics are part of what `Training` carries: the loss returns them, and the optimizer freezes them.
//! `ResNetConfig::resnet18` is the full size, for images of 32×32.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 34_resnet`; `-- 30` trains for that many epochs.

mod digits;

use std::sync::Arc;

use glassgrad::Tensor;
use glassgrad::data::{Dataset as _, Examples, random_crop, split};
use glassgrad::dtype::DType;
use glassgrad::expr::Keys;
use glassgrad::models::{ResNet, ResNetConfig, ResNetStatistics};
use glassgrad::optim::{Optimizer, Schedule};
use glassgrad::rng::Key;
use glassgrad::train::{Precision, Training};
use glassgrad::tree::Tree as _;

type Model = (ResNet, ResNetStatistics);

fn main() {
    let epochs: u64 = std::env::args().nth(1).and_then(|epochs| epochs.parse().ok()).unwrap_or(10);
    let (images, classes) = digits::digits();
    let all = Arc::new(Examples::new((images.reshape([1797, 1, 8, 8]), classes)).expect("examples"));
    let parts = split(&all, &[0.8, 0.2], Key::new(1));
    let (train, test) = (Arc::new(parts[0].clone()), &parts[1]);

    let config = ResNetConfig { channels: 1, classes: 10, stages: vec![(8, 1), (16, 1)] };
    let start: Model = ResNet::new(Key::new(2), &config);
    println!("{} parameters", start.0.element_count());
    let objective = |(network, statistics): &Model, (images, classes): &(Tensor, Tensor), key: &Keys| {
        let (loss, statistics) = network.loss(&random_crop(images, 1, key), classes, statistics);
        (loss, (network.clone(), statistics))
    };
    let steps = epochs * train.len().div_ceil(32) as u64;
    let optimizer = Optimizer::adam(5e-3).matrix_decay(1e-2).freeze("1");
    let optimizer = optimizer.schedule(Schedule::Cosine { steps, least: 0.02 });
    let training = Training::new(objective, optimizer).epochs(epochs).precision(Precision::Bf16);
    let (network, statistics) = training.run(&start, &train).expect("training").parameters;

    let (images, classes) = test.batch(&(0..test.len()).collect::<Vec<_>>()).expect("the test set");
    let right = network.predict(&images, &statistics).argmax(-1).equal(&classes).cast(DType::F64).mean();
    let right = right.item().expect("a number");
    println!("{:.1} % of {} digits of the test set are classified correctly", 100.0 * right, test.len());
    assert!(right > 0.9);
}
