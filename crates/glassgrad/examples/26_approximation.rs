//! How well networks approximate functions: shallow and deep ones, by their number of units.
//!
//! One hidden layer can come as near to a continuous function as one likes, if it is wide enough; several layers of the same
//! number of units fold the line, and make more pieces of them. Four functions of one variable, from smooth to jumping, are
//! learned by networks with one and with three hidden layers, by L-BFGS. What is told is the root of the mean square of the error on
//! points in between those that were learned.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 26_approximation`; it draws the errors into `target/pictures`, or into the
//! folder given as an argument.

mod picture;

use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Initializer, Layer, Mlp};
use glassgrad::optim::Lbfgs;
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, loss};
use picture::{Corner, Panel, Point, logarithmic, save};

const ROUNDS: usize = 600;
const WIDTHS: [usize; 5] = [3, 6, 12, 24, 48];

type Function = fn(&Tensor) -> Tensor;

const FUNCTIONS: [(&str, Function); 4] = [
    ("sine", |x| (x * 6.0).sin()),
    ("bump", |x| (x.square() * -20.0).exp()),
    ("triangle", |x| 1.0 - (x * 2.0).abs()),
    ("step", |x| x.step(0.2)),
];

/// The error of a network between the points that it has learned.
fn error_of(function: Function, sizes: &[usize]) -> f64 {
    let x = Tensor::linspace(-1.0, 1.0, 128).reshape([128, 1]);
    let y = function(&x).detach().expect("points");
    let wrong = |network: &Mlp| loss::mse(&network.apply(&x), &y).mean();
    let start = Mlp::with_init(Key::new(7), sizes, Activation::Tanh, Initializer::Uniform(2.0))
        .map(|leaf| leaf.cast(DType::F64));
    let found = Lbfgs::new().rounds(ROUNDS).minimise(wrong, &start).expect("a minimum");
    let between = Tensor::linspace(-0.99, 0.99, 301).reshape([301, 1]);
    loss::mse(&found.point.apply(&between), &function(&between)).mean().sqrt().item().expect("an error")
}

fn main() {
    println!("{:<10} {:>6}  {:>12} {:>12}", "function", "units", "one layer", "three layers");
    let mut panels = Vec::new();
    for (name, function) in FUNCTIONS {
        let (mut shallow, mut deep): (Vec<Point>, Vec<Point>) = (Vec::new(), Vec::new());
        for units in WIDTHS {
            let third = units / 3;
            let errors = [error_of(function, &[1, units, 1]), error_of(function, &[1, third, third, third, 1])];
            println!("{name:<10} {units:>6}  {:>12.1e} {:>12.1e}", errors[0], errors[1]);
            shallow.push((units as f64, errors[0]));
            deep.push((units as f64, errors[1]));
        }
        let better = shallow[4].1.min(deep[4].1) / shallow[0].1;
        assert!(better < 0.7, "{name}: more units do not help, {better}");
        let panel = Panel::new(name, logarithmic("units", 2.0..60.0), logarithmic("error", 1e-5..1.0));
        panels.push(
            panel.legend_at(Corner::LowerLeft).line("one hidden layer", shallow).line("three hidden layers", deep),
        );
    }
    save("26_approximation", &panels);
}
