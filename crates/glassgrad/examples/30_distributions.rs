//! A network that predicts how sure it is: a normal distribution with a mean and a deviation for each point.
//!
//! The loss is the negative log-likelihood. With a fixed deviation that is the mean square error; with a learned one the
//! network also finds where the data are noisy.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 30_distributions`; it draws what it predicts into `target/pictures`, or into
//! the folder given as an argument.

mod picture;

use std::sync::Arc;

use glassgrad::Tensor;
use glassgrad::data::Examples;
use glassgrad::dist::{Distribution, Normal};
use glassgrad::expr::{Keys, s};
use glassgrad::nn::{Activation, Layer, Mlp};
use glassgrad::optim::{Optimizer, Schedule};
use glassgrad::rng::Key;
use glassgrad::train::Training;
use picture::{Corner, Panel, Point, linear, save};

/// How noisy the data are.
fn noise(x: f64) -> f64 {
    0.05 + 0.3 * (0.5 + 0.5 * x)
}

/// What the network says of some points.
fn predicted(network: &Mlp, x: &Tensor) -> Normal {
    let both = network.apply(x);
    let column = |k: isize| both.slice(&[s(..), s(k..k + 1)]);
    Normal { mean: column(0), log_deviation: column(1) }
}

fn main() {
    let key = Key::new(2);
    let xs: Vec<f64> = (0..600).map(|k| 2.0 * key.uniform(k) - 1.0).collect();
    let ys: Vec<f64> =
        xs.iter().enumerate().map(|(k, x)| (4.0 * x).sin() + noise(*x) * key.normal(1000 + k as u64)).collect();
    let column = |numbers: &[f64]| Tensor::new(numbers, [numbers.len(), 1]);
    let points = Arc::new(Examples::new((column(&xs), column(&ys))).expect("points"));
    let wrong = |network: &Mlp, (x, y): &(Tensor, Tensor), _: &Keys| predicted(network, x).loss(y).mean();
    let start = Mlp::new(Key::new(3), &[1, 32, 32, 2], Activation::Tanh);
    let start = glassgrad::tree::Tree::map(&start, |leaf| leaf.cast(glassgrad::dtype::DType::F64));
    let optimizer = Optimizer::adam(5e-3).schedule(Schedule::Cosine { steps: 200 * 10, least: 0.01 });
    let trained = Training::new(wrong, optimizer).epochs(200).batch_size(60).run(&start, &points).expect("training");
    println!("mean negative log-likelihood {:.3} at first, {:.3} in the end", trained.losses[0], trained.losses[199]);

    let grid: Vec<f64> = (0..=40).map(|k| -1.0 + k as f64 / 20.0).collect();
    let distribution = predicted(&trained.parameters, &column(&grid));
    let (means, variances) = (
        distribution.mean().to_vec::<f64>().expect("means"),
        distribution.variance().to_vec::<f64>().expect("variances"),
    );
    println!("{:>6} {:>10} {:>10}", "x", "deviation", "true one");
    for k in (4..=36).step_by(8) {
        let (found, actual) = (variances[k].sqrt(), noise(grid[k]));
        println!("{:>6.2} {found:>10.3} {actual:>10.3}", grid[k]);
        assert!((found / actual - 1.0).abs() < 0.35, "at {}", grid[k]);
    }
    let curve = |shift: f64| -> Vec<Point> {
        (0..grid.len()).map(|k| (grid[k], means[k] + shift * variances[k].sqrt())).collect()
    };
    let panel = Panel::new("A mean and two deviations on either side", linear("x", -1.0..1.0), linear("y", -2.2..2.2))
        .legend_at(Corner::LowerLeft)
        .dots("data", xs.iter().copied().zip(ys).collect())
        .line("mean", curve(0.0))
        .line("mean + 2 deviations", curve(2.0))
        .line("mean - 2 deviations", curve(-2.0));
    save("30_distributions", &[panel]);
}
