//! The demonstration of micrograd: a network of scalars learns to classify two half-moons.
//!
//! The network has two inputs, two hidden layers of sixteen rectified neurons and one linear output,
//! 337 parameters in all, whose sign is the class. The loss is the hinge max(0, 1 - y s), averaged
//! over all hundred points, plus 10⁻⁴ Σ p². The learning rate falls from 1 to 0.1 in a hundred steps.
//! Weights start between -1 and 1, biases at zero, as in micrograd.
//!
//! Each step records the whole computation anew, about 65,000 operations on scalars, and runs one
//! reverse sweep. The tape and the memory of the sweep are used again, so no step but the first
//! allocates for them. The same generic function, called with `f64`, is the trained network.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 07_moons`; it writes the decision boundary into
//! `target/pictures`, or into the folder given as an argument.

mod data;
mod picture;
mod random;

use std::time::Instant;

use glassgrad::scalar::Workspace;
use glassgrad::{Real, c};
use picture::{Panel, Point, linear, save};
use random::Random;

const SIZES: [usize; 4] = [2, 16, 16, 1];
const STEPS: usize = 100;

/// The output of the network. A neuron's parameters are its weights, one for each input, and its bias.
fn score<T: Real>(parameters: &[T], point: [f64; 2]) -> T {
    let mut signals: Vec<T> = point.map(c).to_vec();
    let mut rest = parameters;
    for (layer, size) in SIZES.into_iter().enumerate().skip(1) {
        let inputs = signals.len();
        let (neurons, later) = rest.split_at(size * (inputs + 1));
        let sums = neurons.chunks(inputs + 1).map(|neuron| {
            let weighted: T = signals.iter().zip(neuron).map(|(signal, weight)| *signal * *weight).sum();
            weighted + neuron[inputs]
        });
        let last = layer + 1 == SIZES.len();
        signals = sums.map(|sum| if last { sum } else { sum.relu() }).collect();
        rest = later;
    }
    signals[0]
}

/// The mean hinge loss of the points, of which each belongs to side 1 or -1, and a pull towards zero.
fn loss<T: Real>(parameters: &[T], points: &[([f64; 2], f64)]) -> T {
    let hinges = points.iter().map(|(point, side)| (c::<T>(1.0) - c::<T>(*side) * score(parameters, *point)).relu());
    let squares: T = parameters.iter().map(|parameter| parameter.square()).sum();
    hinges.sum::<T>() / c(points.len() as f64) + c::<T>(1e-4) * squares
}

fn accuracy(parameters: &[f64], points: &[([f64; 2], f64)]) -> f64 {
    let right = points.iter().filter(|(point, side)| (score(parameters, *point) > 0.0) == (*side > 0.0));
    right.count() as f64 / points.len() as f64
}

fn initial_parameters(random: &mut Random) -> Vec<f64> {
    let neurons = SIZES.windows(2).flat_map(|sizes| std::iter::repeat_n(sizes[0], sizes[1]));
    let neuron =
        |inputs: usize| (0..=inputs).map(|k| if k < inputs { random.uniform(-1.0, 1.0) } else { 0.0 }).collect();
    neurons.flat_map::<Vec<f64>, _>(neuron).collect()
}

fn main() {
    let points: Vec<_> =
        data::moons().into_iter().map(|(point, class)| (point, if class == 1 { 1.0 } else { -1.0 })).collect();
    let mut parameters = initial_parameters(&mut Random::new(1337));
    assert_eq!(parameters.len(), 337);

    let mut workspace = Workspace::new();
    let mut seconds = 0.0;
    for step in 0..STEPS {
        let report = (step % 10 == 0 || step + 1 == STEPS).then(|| accuracy(&parameters, &points));
        let started = Instant::now();
        let (value, gradient) = workspace.value_and_gradient(|parameters| loss(parameters, &points), &parameters);
        let rate = 1.0 - 0.9 * step as f64 / STEPS as f64;
        parameters.iter_mut().zip(gradient).for_each(|(parameter, partial)| *parameter -= rate * partial);
        seconds += started.elapsed().as_secs_f64();
        if let Some(accuracy) = report {
            println!("step {step:>2}  loss {value:.6}  accuracy {:>3.0} %", 100.0 * accuracy);
        }
    }
    let milliseconds = 1e3 * seconds / STEPS as f64;
    let (statements, megabytes) = (workspace.statements(), workspace.bytes() as f64 / 1e6);
    println!("{statements} statements, {megabytes:.1} MB of tape, {milliseconds:.2} ms a step");
    assert_eq!(accuracy(&parameters, &points), 1.0, "every point is on its side");

    let moon = |class: f64| -> Vec<Point> {
        points.iter().filter(|(_, side)| *side == class).map(|(point, _)| (point[0], point[1])).collect()
    };
    let panel = Panel::new("Two moons, 2-16-16-1 network", linear("x", -1.6..2.6), linear("y", -1.2..2.0))
        .regions(|x, y| score(&parameters, [x, y]))
        .dots("upper half-moon", moon(-1.0))
        .dots("lower half-moon", moon(1.0));
    save("07_moons", &[panel]);
}
