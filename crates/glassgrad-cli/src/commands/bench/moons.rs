//! The demonstration of micrograd: a network of scalars, 2-16-16-1 with rectified neurons, on two moons of 50 points
//! each; a step of descent with hinge loss and weight decay. Every number is a node of a tape recorded anew.

use glassgrad::error::Error;
use glassgrad::scalar::Workspace;
use glassgrad::{Real, Tensor, c};

use super::data::{direction, unit};
use super::workload::{Workload, agree};

const MOONS: &str = include_str!("../../../../glassgrad/examples/data/moons_micrograd_seed1337_n100_noise0.1.csv");
const WIDTH: usize = 16;
const RATE: f64 = 0.1;
const DECAY: f64 = 1e-4;

/// A point, and the side that it belongs to: -1 or 1.
type Labelled = ([f64; 2], f64);

pub(super) struct Moons {
    points: Vec<Labelled>,
    parameters: Vec<f64>,
    workspace: Workspace,
    last: f64,
}

pub(super) fn workload() -> Moons {
    let number = |text: &str| text.trim().parse().unwrap_or(f64::NAN);
    let point = |line: &str| {
        let numbers: Vec<f64> = line.split(',').map(number).collect();
        ([numbers[0], numbers[1]], 2.0 * numbers[2] - 1.0)
    };
    // Neuron after neuron: its weights, between -1 and 1, and its bias, 0 as micrograd makes it.
    let mut weights = (0..).map(|k| 2.0 * unit(1, k) - 1.0);
    let mut parameters = Vec::new();
    for inputs in [[2; WIDTH].as_slice(), &[WIDTH; WIDTH], &[WIDTH]].concat() {
        parameters.extend(weights.by_ref().take(inputs));
        parameters.push(0.0);
    }
    let points = MOONS.lines().skip(1).map(point).collect();
    Moons { points, parameters, workspace: Workspace::new(), last: f64::NAN }
}

fn loss<T: Real>(parameters: &[T], points: &[Labelled]) -> T {
    let margins = points.iter().map(|(point, side)| (c::<T>(1.0) - c::<T>(*side) * score(parameters, *point)).relu());
    let data = margins.sum::<T>() * c(1.0 / points.len() as f64);
    data + c::<T>(DECAY) * parameters.iter().map(|p| *p * *p).sum::<T>()
}

fn score<T: Real>(parameters: &[T], point: [f64; 2]) -> T {
    let (first, rest) = parameters.split_at(WIDTH * 3);
    let (second, last) = rest.split_at(WIDTH * (WIDTH + 1));
    let hidden = layer::<T, 2, WIDTH>(first, &point.map(c)).map(T::relu);
    let hidden = layer::<T, WIDTH, WIDTH>(second, &hidden).map(T::relu);
    layer::<T, WIDTH, 1>(last, &hidden)[0]
}

fn layer<T: Real, const INPUTS: usize, const NEURONS: usize>(parameters: &[T], x: &[T; INPUTS]) -> [T; NEURONS] {
    std::array::from_fn(|neuron| {
        let (weights, bias) = parameters[neuron * (INPUTS + 1)..][..=INPUTS].split_at(INPUTS);
        weights.iter().zip(x).fold(bias[0], |sum, (weight, x)| sum + *weight * *x)
    })
}

impl Workload for Moons {
    fn run(&mut self) -> Result<(), Error> {
        let (value, gradient) = self.workspace.value_and_gradient(|p| loss(p, &self.points), &self.parameters);
        self.parameters.iter_mut().zip(gradient).for_each(|(parameter, partial)| *parameter -= RATE * partial);
        self.last = value;
        Ok(())
    }

    fn forward(&mut self) -> Result<(), Error> {
        std::hint::black_box(loss(std::hint::black_box(&self.parameters), &self.points));
        Ok(())
    }

    fn value(&self) -> f64 {
        self.last
    }

    fn results(&self) -> Vec<Tensor> {
        Vec::new()
    }

    fn check(&self) -> Result<(), String> {
        const STEP: f64 = 1e-6;
        const TOLERANCE: f64 = 1e-5;
        let steps: Vec<f64> = direction(self.parameters.len()).collect();
        let gradient = glassgrad::scalar::gradient(|p| loss(p, &self.points), &self.parameters);
        let along: f64 = gradient.iter().zip(&steps).map(|(partial, step)| partial * step).sum();
        let moved = |step: f64| -> Vec<f64> {
            self.parameters.iter().zip(&steps).map(|(parameter, direction)| parameter + step * direction).collect()
        };
        let difference = (loss(&moved(STEP), &self.points) - loss(&moved(-STEP), &self.points)) / (2.0 * STEP);
        let norm = gradient.iter().map(|partial| partial * partial).sum::<f64>().sqrt();
        agree("the gradient", along, difference, TOLERANCE * norm)
    }
}
