//! How many wires does a network need? The two moons again, with neurons that see few inputs.
//!
//! The network of example 07 connects every neuron with every one of the layer before. Here each
//! neuron sees only k of them, chosen at random from a seed. Nothing in the engine changes for that:
//! the tape records the products that were computed, and there are fewer of them. A missing wire is
//! not a zero weight but no weight at all.
//!
//! Sparse wiring can leave neurons to which nobody listens. The tape knows them: their parameters
//! are no ancestors of the output. The program counts those that are, and checks that all
//! others have no gradient.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 08_sparse_moons`; it writes the boundaries of the best
//! wirings into `target/pictures`, or into the folder given as an argument.

mod data;
mod picture;
mod random;

use glassgrad::scalar::{Recorded, Workspace};
use glassgrad::{Real, c};
use picture::{Panel, Point, linear, save};
use random::Random;

const SIZES: [usize; 4] = [2, 16, 16, 1];
const STEPS: usize = 100;
const SEEDS: u64 = 10;

/// For each layer and each of its neurons, the neurons of the layer before that it sees.
struct Wiring(Vec<Vec<Vec<usize>>>);

impl Wiring {
    fn random(wires: usize, random: &mut Random) -> Self {
        let mut neuron = |inputs: usize| random.permutation(inputs)[..wires.min(inputs)].to_vec();
        let layers = SIZES.windows(2).map(|sizes| (0..sizes[1]).map(|_| neuron(sizes[0])).collect());
        Wiring(layers.collect())
    }

    /// The output of the network, whose parameters are taken in the order of the wires.
    fn score<T: Real>(&self, parameters: &[T], point: [f64; 2]) -> T {
        let mut signals: Vec<T> = point.map(c).to_vec();
        let mut parameters = parameters.iter().copied();
        let mut next = || parameters.next().expect("a parameter for each wire and bias");
        for (layer, neurons) in self.0.iter().enumerate() {
            let sums = neurons.iter().map(|wires| wires.iter().map(|wire| signals[*wire] * next()).sum::<T>() + next());
            let last = layer + 1 == self.0.len();
            signals = sums.map(|sum| if last { sum } else { sum.relu() }).collect();
        }
        signals[0]
    }

    /// The loss of example 07: the mean hinge and a pull of all parameters towards zero.
    fn loss<T: Real>(&self, parameters: &[T], points: &[([f64; 2], f64)]) -> T {
        let hinge =
            |(point, side): &([f64; 2], f64)| (c::<T>(1.0) - c::<T>(*side) * self.score(parameters, *point)).relu();
        let squares: T = parameters.iter().map(|parameter| parameter.square()).sum();
        points.iter().map(hinge).sum::<T>() / c(points.len() as f64) + c::<T>(1e-4) * squares
    }

    fn accuracy(&self, parameters: &[f64], points: &[([f64; 2], f64)]) -> f64 {
        let right = points.iter().filter(|(point, side)| (self.score(parameters, *point) > 0.0) == (*side > 0.0));
        right.count() as f64 / points.len() as f64
    }

    /// How many parameters have a path to the output, read off the tape of one evaluation.
    fn connected(&self, parameters: &[f64]) -> usize {
        let recorded = Recorded::new(|parameters| self.score(parameters, [1.0, 0.5]), parameters);
        let ancestors = recorded.output().map_or(Vec::new(), |output| recorded.tape().ancestors(output));
        let connected: Vec<bool> = recorded.inputs().iter().map(|input| ancestors.contains(input)).collect();
        let gradient = recorded.gradient();
        assert!(connected.iter().zip(gradient).all(|(connected, g)| *connected || g == 0.0));
        connected.into_iter().filter(|connected| *connected).count()
    }

    fn train(&self, points: &[([f64; 2], f64)], random: &mut Random) -> Vec<f64> {
        let neuron =
            |wires: &Vec<usize>| -> Vec<f64> { wires.iter().map(|_| random.uniform(-1.0, 1.0)).chain([0.0]).collect() };
        let mut parameters: Vec<f64> = self.0.iter().flatten().flat_map(neuron).collect();
        let mut workspace = Workspace::new();
        for step in 0..STEPS {
            let (_, g) = workspace.value_and_gradient(|parameters| self.loss(parameters, points), &parameters);
            let rate = 1.0 - 0.9 * step as f64 / STEPS as f64;
            parameters.iter_mut().zip(g).for_each(|(parameter, g)| *parameter -= rate * g);
        }
        parameters
    }
}

fn main() {
    let points: Vec<_> =
        data::moons().into_iter().map(|(point, class)| (point, if class == 1 { 1.0 } else { -1.0 })).collect();
    let moon = |wanted: f64| -> Vec<Point> {
        points.iter().filter(|(_, side)| *side == wanted).map(|(point, _)| (point[0], point[1])).collect()
    };
    println!("wires  parameters  connected  accuracy of {SEEDS} wirings: mean, worst, best");
    let mut means = Vec::new();
    let mut panels = Vec::new();
    for wires in [2, 4, 8, 16] {
        let mut runs = Vec::new();
        for seed in 0..SEEDS {
            let mut random = Random::new(1337 + seed);
            let wiring = Wiring::random(wires, &mut random);
            let parameters = wiring.train(&points, &mut random);
            runs.push((wiring.accuracy(&parameters, &points), wiring, parameters));
        }
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mean = runs.iter().map(|run| run.0).sum::<f64>() / SEEDS as f64;
        let connected: usize = runs.iter().map(|(_, wiring, parameters)| wiring.connected(parameters)).sum();
        let (worst, (best, wiring, parameters)) = (runs[0].0, &runs[runs.len() - 1]);
        println!(
            "{wires:>5}  {:>10}  {:>9.1}  {:>5.1} %  {:>5.1} %  {:>5.1} %",
            parameters.len(),
            connected as f64 / SEEDS as f64,
            100.0 * mean,
            100.0 * worst,
            100.0 * best
        );
        assert_eq!(parameters.len(), 16 * 3 + 16 * (wires + 1) + (wires + 1));
        means.push(mean);
        let title = format!("{wires} wires, {} parameters: {:.0} % right", parameters.len(), 100.0 * best);
        let panel = Panel::new(title, linear("x", -1.6..2.6), linear("y", -1.2..2.0))
            .regions(|x, y| wiring.score(parameters, [x, y]))
            .dots("upper half-moon", moon(-1.0))
            .dots("lower half-moon", moon(1.0));
        panels.push(panel);
    }
    assert!(means.is_sorted(), "more wires, more right answers");
    assert_eq!(means[3], 1.0, "the full network learns every point from every seed");
    save("08_sparse_moons", &panels);
}
