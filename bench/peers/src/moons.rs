//! One training step of micrograd's demonstration: a network of 2, 16, 16 and 1 neurons on two moons.
//!
//! Rectified neurons, hinge loss over all 100 points, weight decay of 1e-4, plain gradient descent.
//! `bench/micrograd_moons.py` does the same in micrograd, from the same weights, and compares losses.

use std::time::Instant;

use glassgrad::scalar::{Recorded, Sweep, Workspace};
use glassgrad::{Real, c};

use crate::race::quantile;
use crate::workloads::Random;

const DATA: &str = include_str!("../../../crates/glassgrad/examples/data/moons_micrograd_seed1337_n100_noise0.1.csv");
const LEARNING_RATE: f64 = 0.1;
const WIDTH: usize = 16;
const PARAMETERS: usize = WIDTH * 3 + WIDTH * (WIDTH + 1) + WIDTH + 1;

/// A point and the side it belongs to, -1 or 1.
type Labelled = ([f64; 2], f64);

/// What a number of training steps took, and the losses on the way.
pub(crate) struct Training {
    /// The median time of a step, in seconds.
    pub(crate) seconds: f64,
    /// The loss before each step.
    pub(crate) losses: Vec<f64>,
}

/// Trains for some steps, recording the loss anew in each.
pub(crate) fn train_recording(steps: usize) -> Training {
    let (points, mut parameters) = (points(), parameters());
    let mut workspace = Workspace::new();
    train(steps, || {
        let (value, gradient) = workspace.value_and_gradient(|p| loss(p, &points), &parameters);
        descend(&mut parameters, gradient);
        value
    })
}

/// Trains for some steps, replaying one recording of the loss.
pub(crate) fn train_replaying(steps: usize) -> Training {
    let (points, mut parameters) = (points(), parameters());
    let mut sweep = Sweep::new();
    let mut recorded = Recorded::new(|p| loss(p, &points), &parameters);
    let output = recorded.output().expect("the loss depends on the parameters");
    train(steps, || {
        recorded.replay(&parameters).expect("the loss has no branches");
        recorded.tape().reverse_into(&[(output, 1.0)], &mut sweep);
        // The parameters are the first nodes of the tape.
        descend(&mut parameters, sweep.as_slice());
        recorded.value()
    })
}

fn train(steps: usize, mut step: impl FnMut() -> f64) -> Training {
    let mut losses = Vec::with_capacity(steps);
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        let start = Instant::now();
        losses.push(step());
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Training { seconds: quantile(&times, 0.5), losses }
}

fn descend(parameters: &mut [f64], gradient: &[f64]) {
    for (parameter, slope) in parameters.iter_mut().zip(gradient) {
        *parameter -= LEARNING_RATE * slope;
    }
}

fn loss<T: Real>(parameters: &[T], points: &[Labelled]) -> T {
    let margins = points.iter().map(|(point, side)| (c::<T>(1.0) + c::<T>(-side) * score(parameters, *point)).relu());
    let data = margins.sum::<T>() * c(1.0 / points.len() as f64);
    data + c::<T>(1e-4) * parameters.iter().map(|p| *p * *p).sum::<T>()
}

fn score<T: Real>(parameters: &[T], point: [f64; 2]) -> T {
    let (first, rest) = parameters.split_at(WIDTH * 3);
    let (second, last) = rest.split_at(WIDTH * (WIDTH + 1));
    let hidden: [T; WIDTH] = layer(first, &point.map(c)).map(T::relu);
    let hidden: [T; WIDTH] = layer(second, &hidden).map(T::relu);
    layer::<T, WIDTH, 1>(last, &hidden)[0]
}

/// Neurons in micrograd's order: the weights of one, then its bias.
fn layer<T: Real, const INPUTS: usize, const NEURONS: usize>(parameters: &[T], x: &[T; INPUTS]) -> [T; NEURONS] {
    std::array::from_fn(|neuron| {
        let own = &parameters[neuron * (INPUTS + 1)..][..INPUTS + 1];
        own.iter().zip(x).fold(own[INPUTS], |sum, (weight, x)| sum + *weight * *x)
    })
}

fn points() -> Vec<Labelled> {
    let number = |text: &str| -> f64 { text.trim().parse().expect("the moons are numbers") };
    let point = |line: &str| {
        let fields: Vec<f64> = line.split(',').map(number).collect();
        ([fields[0], fields[1]], 2.0 * fields[2] - 1.0)
    };
    DATA.lines().skip(1).map(point).collect()
}

/// Weights between -1 and 1, biases 0.
fn parameters() -> Vec<f64> {
    let mut random = Random(1337);
    let fans = [(WIDTH, 2), (WIDTH, WIDTH), (1, WIDTH)];
    let mut parameters = Vec::with_capacity(PARAMETERS);
    for (neurons, inputs) in fans {
        for _ in 0..neurons {
            parameters.extend((0..inputs).map(|_| random.centred()));
            parameters.push(0.0);
        }
    }
    parameters
}
