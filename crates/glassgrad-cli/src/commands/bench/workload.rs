//! Workloads and their timing.

use std::time::{Duration, Instant};

use glassgrad::Tensor;
use glassgrad::error::Error;
use serde_json::Value;

use super::networks::{NETWORKS, ON_A_GPU};
use super::training::Mode;
use super::{cnn, elementwise, factorization, iris, lenet, logistic, lstm, mnist, moons, transformer};
use glassgrad::runtime::Context;

use crate::failure::Failure;

/// Work that is done again and again.
pub(super) trait Workload {
    /// Does the work once: a step of training, a gradient, a Hessian.
    fn run(&mut self) -> Result<(), Error>;

    /// The function alone, without its derivative.
    fn forward(&mut self) -> Result<(), Error>;

    /// A checksum of the result of the last run. Other engines must compute the same.
    fn value(&self) -> f64;

    /// The unevaluated graph of one run; of several steps the first. Empty if it is not built
    /// of tensors.
    fn results(&self) -> Vec<Tensor>;

    /// The error of the derivative check, if it fails.
    fn check(&self) -> Result<(), String>;

    /// Further facts about the result: its size, its structure, the predicted cost.
    fn facts(&self) -> Value {
        Value::Null
    }
}

pub(super) type Make = fn() -> Box<dyn Workload>;

/// The workloads that run unless others are named.
pub(super) const WORKLOADS: [(&str, Make); 18] = [
    ("iris", || Box::new(iris::workload(Mode::Compiled))),
    ("iris_define_by_run", || Box::new(iris::workload(Mode::DefineByRun))),
    ("mnist_64", || Box::new(mnist::workload(64))),
    ("mnist_128", || Box::new(mnist::workload(128))),
    ("mnist_512", || Box::new(mnist::workload(512))),
    ("elementwise_1000", || Box::new(elementwise::workload(1_000))),
    ("elementwise_1000000", || Box::new(elementwise::workload(1_000_000))),
    ("lenet", || Box::new(lenet::workload())),
    ("cnn", || Box::new(cnn::workload())),
    ("lstm", || Box::new(lstm::workload(&[50]))),
    ("lstm_lengths", || Box::new(lstm::workload(&[30, 40, 50]))),
    ("transformer", || Box::new(transformer::workload())),
    ("logistic_hessian_100", || Box::new(logistic::workload(100))),
    ("logistic_hessian_500", || Box::new(logistic::workload(500))),
    ("logistic_hessian_1000", || Box::new(logistic::workload(1000))),
    ("factorization_hessian_50", || Box::new(factorization::workload(50, 5))),
    ("factorization_hessian_100", || Box::new(factorization::workload(100, 5))),
    ("moons", || Box::new(moons::workload())),
];

/// The workloads that run only when named: sizes for a GPU, and single steps of networks so small that launches dominate.
const NAMED_ONLY: [(&str, Make); 4] = [
    ("iris_step", || Box::new(iris::step())),
    ("mlp_4096", || Box::new(mnist::wide(4096, 4096))),
    ("elementwise_67108864", || Box::new(elementwise::workload(1 << 26))),
    ("logistic_hessian_4000", || Box::new(logistic::workload(4000))),
];

pub(super) fn find(name: &str) -> Result<(&'static str, Make), Failure> {
    let known = || WORKLOADS.into_iter().chain(NETWORKS).chain(ON_A_GPU).chain(NAMED_ONLY);
    known().find(|(known, _)| *known == name).ok_or_else(|| {
        let names: Vec<&str> = known().map(|(name, _)| name).collect();
        Failure::Input(format!("there is no workload '{name}'; there are {}", names.join(", ")))
    })
}

/// A turn repeats the work until about this much time has passed, so that the clock is fine enough.
const TURN: Duration = Duration::from_millis(20);
/// Work that takes longer is not done once more before each turn to warm caches: it does that by itself.
const LONG: f64 = 0.1;
/// So often the work is done before it is timed; other engines report as many values.
const WARM_RUNS: usize = 3;

/// A workload whose result is right.
pub(super) struct Prepared {
    workload: Box<dyn Workload>,
    /// The duration of the first run, planning included.
    pub(super) first_seconds: f64,
    /// The duration of a later run.
    expected: f64,
    /// The checksum of each of the first runs.
    pub(super) values: Vec<f64>,
}

impl Prepared {
    pub(super) fn new(mut workload: Box<dyn Workload>) -> Result<Prepared, String> {
        let text = |error: Error| error.to_string();
        let mut values = Vec::new();
        let start = Instant::now();
        workload.run().map_err(text)?;
        let first_seconds = start.elapsed().as_secs_f64();
        values.push(workload.value());
        let mut expected = 0.0;
        for _ in 1..WARM_RUNS {
            let start = Instant::now();
            workload.run().and_then(|()| Context::current().synchronise()).map_err(text)?;
            expected += start.elapsed().as_secs_f64() / (WARM_RUNS - 1) as f64;
            values.push(workload.value());
        }
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(format!("the result is {value}"));
        }
        workload.check()?;
        Ok(Prepared { workload, first_seconds, expected, values })
    }

    /// The time that the work takes once, in seconds.
    pub(super) fn turn(&mut self) -> Result<f64, String> {
        let seconds = turn(self.expected, || self.workload.run())?;
        match self.workload.value() {
            value if value.is_finite() => Ok(seconds),
            value => Err(format!("after many runs the result is {value}")),
        }
    }

    /// Further facts about the result.
    pub(super) fn facts(&self) -> Value {
        self.workload.facts()
    }

    /// The time that the function alone takes.
    pub(super) fn forward_turn(&mut self) -> Result<f64, String> {
        turn(self.expected, || self.workload.forward())
    }
}

fn turn(expected: f64, mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, String> {
    let mut timed = || -> Result<f64, Error> {
        if expected < LONG {
            work()?;
        }
        let context = Context::current();
        context.synchronise()?;
        let (start, mut runs) = (Instant::now(), 0);
        while runs == 0 || start.elapsed() < TURN {
            work()?;
            runs += 1;
            // A GPU computes asynchronously: the clock alone would let thousands of runs queue up.
            if f64::from(runs) * expected > 2.0 * TURN.as_secs_f64() {
                break;
            }
        }
        context.synchronise()?;
        Ok(start.elapsed().as_secs_f64() / f64::from(runs))
    };
    timed().map_err(|error| error.to_string())
}

/// The error of a directional derivative that disagrees with finite differences. NaN is an error too.
pub(super) fn agree(what: &str, derivative: f64, difference: f64, tolerance: f64) -> Result<(), String> {
    if (derivative - difference).abs() <= tolerance {
        return Ok(());
    }
    Err(format!("{what} is {derivative} along a direction, but finite differences give {difference}"))
}
