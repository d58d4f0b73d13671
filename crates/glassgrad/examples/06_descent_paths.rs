//! Three ways downhill on three landscapes, drawn as paths.
//!
//! - *Gradient descent* follows the negative gradient, x ← x - α g.
//! - *Momentum* follows a running average, m ← β m + (1 - β) g and x ← x - α m. The average damps the
//!   zigzag across a ravine, and so allows a larger learning rate.
//! - *Stochastic descent* sees, at each step, only one of the terms whose average is the function.
//!   Here term i tilts the landscape by aᵢ·x, and the tilts cancel on the average.
//!
//! On the bowl all three arrive. On the saddle z = x² - y², started on its ridge, the first two stop
//! at a point that is no minimum, and the noise of the third is what sets it free. In Rosenbrock's
//! valley gradient descent crawls, and momentum is well ahead of it.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 06_descent_paths`; it writes a picture into
//! `target/pictures`, or into the folder given as an argument.

mod picture;
mod random;

use glassgrad::scalar::gradient;
use glassgrad::{Real, c};
use picture::{Panel, Point, linear, save};
use random::Random;

/// How many terms a function is the average of.
const TERMS: usize = 20;

#[derive(Clone, Copy)]
enum Landscape {
    Bowl,
    Saddle,
    Rosenbrock,
}

impl Landscape {
    fn height<T: Real>(self, x: T, y: T) -> T {
        match self {
            Landscape::Bowl => c::<T>(0.5) * x.square() + c::<T>(5.0) * y.square(),
            Landscape::Saddle => x.square() - y.square(),
            Landscape::Rosenbrock => (c::<T>(1.0) - x).square() + c::<T>(100.0) * (y - x.square()).square(),
        }
    }
}

/// One way downhill: plain descent has neither memory nor noise.
struct Method {
    rate: f64,
    /// The share β of the old direction in the new one.
    memory: f64,
    /// The size of the tilts in which the terms differ.
    noise: f64,
}

fn descend(landscape: Landscape, start: Point, steps: usize, method: &Method) -> Vec<Point> {
    let mut random = Random::new(6);
    let mut tilts = [0; TERMS].map(|_| [random.normal(), random.normal()]);
    let mean = [0, 1].map(|k| tilts.iter().map(|tilt| tilt[k]).sum::<f64>() / TERMS as f64);
    tilts = tilts.map(|tilt| [0, 1].map(|k| method.noise * (tilt[k] - mean[k])));
    let mut order = Vec::new();
    let mut average = [0.0; 2];
    let mut path = vec![start];
    for step in 0..steps {
        // Every term is visited once, in random order, before any comes again.
        if order.is_empty() {
            order = random.permutation(TERMS);
        }
        let tilt = tilts[order.pop().expect("a term is left")];
        let (x, y) = path[step];
        let g = gradient(|x| landscape.height(x[0], x[1]) + x[0] * tilt[0] + x[1] * tilt[1], &[x, y]);
        average = [0, 1].map(|k| method.memory * average[k] + (1.0 - method.memory) * g[k]);
        path.push((x - method.rate * average[0], y - method.rate * average[1]));
    }
    path
}

/// The paths of plain descent, of momentum and of stochastic descent, each at a rate that suits it.
fn three_paths(landscape: Landscape, start: Point, steps: usize, rates: [f64; 3], noise: f64) -> [Vec<Point>; 3] {
    let methods = [
        Method { rate: rates[0], memory: 0.0, noise: 0.0 },
        Method { rate: rates[1], memory: 0.9, noise: 0.0 },
        Method { rate: rates[2], memory: 0.0, noise },
    ];
    methods.map(|method| descend(landscape, start, steps, &method))
}

fn distance(path: &[Point], goal: Point) -> f64 {
    let end = path[path.len() - 1];
    (end.0 - goal.0).hypot(end.1 - goal.1)
}

/// Adds the three paths, plain descent uppermost, and stops where one leaves the panel for good.
fn with_paths(panel: Panel, paths: [Vec<Point>; 3], inside: impl Fn(&Point) -> bool) -> Panel {
    let [plain, averaged, noisy] = paths.map(|path| path.into_iter().take_while(&inside).collect());
    panel.path("stochastic", noisy).path("momentum", averaged).path("gradient descent", plain)
}

fn main() {
    let bowl = three_paths(Landscape::Bowl, (-4.0, 1.6), 60, [0.18, 0.2, 0.05], 1.0);
    let distances = bowl.each_ref().map(|path| distance(path, (0.0, 0.0)));
    println!("bowl        distance from the minimum after 60 steps:   {distances:.4?}");
    assert!(distances.iter().all(|distance| *distance < 0.6), "on a bowl every method arrives");
    let panel = Panel::new("A bowl, x²/2 + 5y²", linear("x", -4.5..2.5), linear("y", -2.0..3.0));
    let levels: Vec<f64> = (1..16).map(|k| 0.08 * f64::from(k * k)).collect();
    let panel = panel.contours(&levels, |x, y| Landscape::Bowl.height(x, y));
    let first = with_paths(panel, bowl, |_| true);

    let saddle = three_paths(Landscape::Saddle, (-1.5, 0.0), 60, [0.1, 0.1, 0.1], 0.3);
    let distances = saddle.each_ref().map(|path| distance(path, (0.0, 0.0)));
    println!("saddle      distance from the saddle after 60 steps:    {distances:.4?}");
    assert!(distances[0] < 0.1 && distances[1] < 0.1, "exact gradients lead to the saddle and stop there");
    assert!(distances[2] > 100.0, "noise leads away from it");
    let panel = Panel::new("A saddle, x² - y²", linear("x", -2.0..2.0), linear("y", -1.6..2.4));
    let levels: Vec<f64> = (-8_i32..=8).map(|k| 0.1 * f64::from(k * k.abs())).collect();
    let panel = panel.contours(&levels, |x, y| Landscape::Saddle.height(x, y));
    let second = with_paths(panel, saddle, |(x, y)| x.abs() < 2.0 && (-1.6..2.4).contains(y));

    let valley = three_paths(Landscape::Rosenbrock, (-1.2, 1.0), 1000, [0.001, 0.01, 0.001], 10.0);
    let distances = valley.each_ref().map(|path| distance(path, (1.0, 1.0)));
    println!("Rosenbrock  distance from the minimum after 1000 steps: {distances:.4?}");
    assert!(distances[1] < 0.1 * distances[0], "momentum is well ahead in the valley");
    let panel = Panel::new("Rosenbrock's valley", linear("x", -1.6..1.6), linear("y", -0.6..2.2));
    let levels: Vec<f64> = (-2..11).map(|k| 2.0_f64.powi(k)).collect();
    let panel = panel.contours(&levels, |x, y| Landscape::Rosenbrock.height(x, y));
    let third = with_paths(panel, valley, |_| true);

    save("06_descent_paths", &[first, second, third]);
}
