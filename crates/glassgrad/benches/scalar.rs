//! What the scalar engines cost: `cargo bench -p glassgrad-benches --bench scalar`.
//!
//! Tapes are measured for each recorded operation; gradients stand beside the plain `f64` evaluation
//! of the same generic function. Memory is used again from one iteration to the next, as in a loop
//! that runs often.

mod functions;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use functions::{log_sum_exp, rosenbrock};
use glassgrad::scalar::{Active, NodeId, Recorded, Sweep, Tape, Var, Workspace};
use glassgrad::{Real, c};

/// Operations on the long tapes.
const OPERATIONS: usize = 1_000_000;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    long_tapes(&mut criterion);
    gradients(&mut criterion);
    moons(&mut criterion);
    criterion.final_summary();
}

/// Recording and sweeping a million operations.
fn long_tapes(criterion: &mut Criterion) {
    let rounds = OPERATIONS / 2;
    long_tape(criterion, "chain", 2, |x| chain(x, rounds), |x| chain(x, rounds), |x| chain(x, rounds));
    let rounds = OPERATIONS / 5;
    long_tape(criterion, "mixed", 5, |x| mixed(x, rounds), |x| mixed(x, rounds), |x| mixed(x, rounds));
}

/// x ← x·a + b: two operations a round.
fn chain<T: Real>(x: &[T], rounds: usize) -> T {
    let mut y = x[0];
    for _ in 0..rounds {
        y = y * x[1] + x[2];
    }
    y
}

/// x ← x·a + b, sum ← sum + exp(sin x): five operations a round.
fn mixed<T: Real>(x: &[T], rounds: usize) -> T {
    let mut y = x[0];
    let mut sum = x[0];
    for _ in 0..rounds {
        y = y * x[1] + x[2];
        sum += y.sin().exp();
    }
    sum
}

fn long_tape(
    criterion: &mut Criterion,
    name: &str,
    round: usize,
    function: impl for<'t> Fn(&[Var<'t>]) -> Var<'t>,
    active: impl for<'t> Fn(&[Active<'t>]) -> Active<'t>,
    plain: impl Fn(&[f64]) -> f64,
) {
    // The factor is so close to 1 that neither values nor adjoints leave the normal numbers.
    let x = [1.0, 1.0 - 1e-6, 1e-6];
    let mut group = criterion.benchmark_group(format!("a million operations, {name}"));
    group.throughput(Throughput::Elements(OPERATIONS as u64));
    group.bench_function("f64", |bencher| bencher.iter(|| plain(black_box(&x))));

    let mut tape = Tape::new();
    let mut sweep = Sweep::new();
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            tape.clear();
            let inputs = tape.inputs(black_box(&x));
            NodeId::from(function(&inputs))
        })
    });
    group.bench_function("record and reverse", |bencher| {
        bencher.iter(|| {
            tape.clear();
            let inputs = tape.inputs(black_box(&x));
            let output = NodeId::from(function(&inputs));
            tape.reverse_into(&[(output, 1.0)], &mut sweep);
        })
    });

    let mut workspace = Workspace::new();
    group.bench_function("gradient by statements", |bencher| {
        bencher.iter(|| {
            black_box(workspace.value_and_gradient(&active, black_box(&x)));
        })
    });
    let statements = workspace.statements();
    println!("{statements} statements, {:.1} bytes each with adjoints", workspace.bytes() as f64 / statements as f64);

    let mut recorded = Recorded::on(tape, &function, &x);
    assert_eq!(recorded.tape().len(), x.len() + OPERATIONS / round * round, "the name of the group says a million");
    let output = recorded.output().expect("the result depends on the inputs");
    group.bench_function("reverse", |bencher| {
        bencher.iter(|| recorded.tape().reverse_into(&[(output, 1.0)], &mut sweep))
    });
    group.bench_function("replay", |bencher| bencher.iter(|| recorded.replay(black_box(&x))));
    group.finish();
}

/// Gradients of functions that others measure too, beside their plain evaluation.
fn gradients(criterion: &mut Criterion) {
    for n in [100, 10_000] {
        let x: Vec<f64> = (0..n).map(|k| 0.5 + 0.3 * f64::from(k).sin()).collect();
        gradient(criterion, &format!("Rosenbrock, n = {n}"), &x, |x| rosenbrock(x), |x| rosenbrock(x), rosenbrock);
    }

    let x: Vec<f64> = (0..10_000).map(|k| 3.0 * (0.7 * f64::from(k)).sin()).collect();
    gradient(criterion, "log-sum-exp, n = 10000", &x, |x| log_sum_exp(x), |x| log_sum_exp(x), log_sum_exp);

    let mixture = Mixture::new(1_000, 10, 10);
    let (name, x) = ("Gaussian mixture, 1000 points, d = 10, 10 components", mixture.parameters());
    let plain = |x: &[f64]| mixture.log_likelihood(x);
    gradient(criterion, name, &x, |x| mixture.log_likelihood(x), |x| mixture.log_likelihood(x), plain);
}

fn gradient(
    criterion: &mut Criterion,
    name: &str,
    x: &[f64],
    function: impl for<'t> Fn(&[Var<'t>]) -> Var<'t>,
    active: impl for<'t> Fn(&[Active<'t>]) -> Active<'t>,
    plain: impl Fn(&[f64]) -> f64,
) {
    let mut group = criterion.benchmark_group(format!("gradient of {name}"));
    group.bench_function("f64", |bencher| bencher.iter(|| plain(black_box(x))));

    let mut workspace = Workspace::new();
    group.bench_function("record and reverse", |bencher| {
        bencher.iter(|| {
            black_box(workspace.value_and_gradient(&active, black_box(x)));
        })
    });

    let mut sweep = Sweep::new();
    let mut recorded = Recorded::new(&function, x);
    let output = recorded.output().expect("the result depends on the inputs");
    group.bench_function("replay and reverse", |bencher| {
        bencher.iter(|| {
            recorded.replay(black_box(x)).expect("the function compares no variables");
            recorded.tape().reverse_into(&[(output, 1.0)], &mut sweep);
        })
    });
    group.finish();
}

/// Points, and a mixture of Gaussians with diagonal covariances that may have produced them.
struct Mixture {
    dimension: usize,
    components: usize,
    points: Vec<f64>,
}

impl Mixture {
    fn new(points: usize, dimension: usize, components: usize) -> Self {
        let mut random = Random(1);
        let centres: Vec<f64> = (0..components * dimension).map(|_| 4.0 * random.centred()).collect();
        let points = (0..points)
            .flat_map(|point| (0..dimension).map(move |axis| (point % components) * dimension + axis))
            .map(|place| centres[place] + random.centred() + random.centred() + random.centred())
            .collect();
        Mixture { dimension, components, points }
    }

    /// One log-weight for each component, all means, and the logarithms of all standard deviations.
    fn parameters(&self) -> Vec<f64> {
        let mut random = Random(2);
        let each = self.components * self.dimension;
        let weights = (0..self.components).map(|k| 0.1 * k as f64);
        let means: Vec<f64> = (0..each).map(|_| 4.0 * random.centred()).collect();
        let deviations: Vec<f64> = (0..each).map(|_| 0.5 * random.centred()).collect();
        weights.chain(means).chain(deviations).collect()
    }

    fn log_likelihood<T: Real>(&self, x: &[T]) -> T {
        let (log_weights, rest) = x.split_at(self.components);
        let (means, log_deviations) = rest.split_at(self.components * self.dimension);
        let precisions: Vec<T> = log_deviations.iter().map(|s| (*s * c(-1.0)).exp()).collect();
        let constants: Vec<T> = log_weights
            .iter()
            .zip(log_deviations.chunks_exact(self.dimension))
            .map(|(weight, deviations)| *weight - deviations.iter().copied().sum())
            .collect();
        let mut terms = constants.clone();
        let each_point = self.points.chunks_exact(self.dimension).map(|point| {
            for (k, term) in terms.iter_mut().enumerate() {
                let start = k * self.dimension;
                let squares = point.iter().enumerate().map(|(axis, coordinate)| {
                    let scaled = (c::<T>(*coordinate) - means[start + axis]) * precisions[start + axis];
                    scaled * scaled
                });
                *term = constants[k] - squares.sum::<T>() * c(0.5);
            }
            log_sum_exp(&terms)
        });
        let total: T = each_point.sum();
        let (count, scale) = (self.points.len() / self.dimension, -0.5 * std::f64::consts::TAU.ln());
        total - log_sum_exp(log_weights) * c(count as f64) + c(scale * self.points.len() as f64)
    }
}

/// A training step of micrograd's demonstration: 2, 16, 16 and 1 neurons, 100 points of two moons.
fn moons(criterion: &mut Criterion) {
    let points = points();
    let start = initial_parameters();
    let mut group = criterion.benchmark_group("moons");
    group.bench_function("f64 loss", |bencher| bencher.iter(|| loss(black_box(&start), &points)));

    let mut workspace = Workspace::new();
    group.bench_function("step, record and reverse", |bencher| {
        let step = |mut parameters: Vec<f64>| {
            let (_, gradient) = workspace.value_and_gradient(|p| loss(p, &points), &parameters);
            descend(&mut parameters, gradient);
            parameters
        };
        bencher.iter_batched(|| start.clone(), step, BatchSize::SmallInput);
    });

    let mut sweep = Sweep::new();
    let mut recorded = Recorded::new(|p| loss(p, &points), &start);
    let output = recorded.output().expect("the loss depends on the parameters");
    group.bench_function("step, replay and reverse", |bencher| {
        let step = |mut parameters: Vec<f64>| {
            recorded.replay(&parameters).expect("the loss compares no variables");
            recorded.tape().reverse_into(&[(output, 1.0)], &mut sweep);
            // The parameters are the first nodes of the tape.
            descend(&mut parameters, sweep.as_slice());
            parameters
        };
        bencher.iter_batched(|| start.clone(), step, BatchSize::SmallInput);
    });
    group.finish();
}

const MOONS: &str = include_str!("../examples/data/moons_micrograd_seed1337_n100_noise0.1.csv");
const WIDTH: usize = 16;

fn descend(parameters: &mut [f64], gradient: &[f64]) {
    for (parameter, slope) in parameters.iter_mut().zip(gradient) {
        *parameter -= 0.1 * slope;
    }
}

/// Hinge loss over all points, and weight decay.
fn loss<T: Real>(parameters: &[T], points: &[([f64; 2], f64)]) -> T {
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

/// Neurons one after the other: the weights of one, then its bias.
fn layer<T: Real, const INPUTS: usize, const NEURONS: usize>(parameters: &[T], x: &[T; INPUTS]) -> [T; NEURONS] {
    std::array::from_fn(|neuron| {
        let own = &parameters[neuron * (INPUTS + 1)..][..INPUTS + 1];
        own.iter().zip(x).fold(own[INPUTS], |sum, (weight, x)| sum + *weight * *x)
    })
}

/// Each point with its side, -1 or 1.
fn points() -> Vec<([f64; 2], f64)> {
    let number = |text: &str| -> f64 { text.trim().parse().expect("the moons are numbers") };
    let point = |line: &str| {
        let fields: Vec<f64> = line.split(',').map(number).collect();
        ([fields[0], fields[1]], 2.0 * fields[2] - 1.0)
    };
    MOONS.lines().skip(1).map(point).collect()
}

/// Weights between -1 and 1, biases 0.
fn initial_parameters() -> Vec<f64> {
    let mut random = Random(1337);
    let mut parameters = Vec::new();
    for (neurons, inputs) in [(WIDTH, 2), (WIDTH, WIDTH), (1, WIDTH)] {
        for _ in 0..neurons {
            parameters.extend((0..inputs).map(|_| random.centred()));
            parameters.push(0.0);
        }
    }
    parameters
}

/// Knuth's linear congruential generator: the same numbers on every machine.
struct Random(u64);

impl Random {
    /// A number between -1 and 1.
    fn centred(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}
