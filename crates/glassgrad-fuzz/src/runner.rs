//! Runs generators over seeds: on several threads, for a time or a count, and under a watchdog.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::counters;
use crate::generator::{Failure, Generator};

/// A case that runs longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// The case that a thread runs: since when, the generator and the seed.
type Current = Mutex<Option<(Instant, &'static str, u64)>>;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first seed; case number k has the seed `seed + k`.
    pub seed: u64,
    /// How many cases of each generator to run at most.
    pub count: u64,
    /// For how long to run.
    pub time: Duration,
    /// On how many threads to run cases.
    pub threads: usize,
    /// How many failures end the run.
    pub failures: usize,
}

/// What a run found.
#[derive(Debug)]
pub struct Outcome {
    /// How many cases were run.
    pub cases: u64,
    /// The seconds they took.
    pub seconds: f64,
    /// The cases that failed, by generator.
    pub failures: Vec<(&'static str, Failure)>,
}

/// Runs one case; a panic is a failure too.
pub fn run_case(generator: &dyn Generator, seed: u64) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(|| generator.run(seed))).unwrap_or_else(|payload| {
        let message = panic_message(&*payload);
        Err(Failure { seed, oracle: "panic".to_owned(), message, program: String::new() })
    })
}

/// The text of a panic.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a message"))
}

/// Runs generators in turns. `begin` receives the generator and the seed of each case before it runs, so that a case that
/// ends the whole process can be named afterwards.
pub fn run(generators: &[Box<dyn Generator>], plan: &Plan, begin: &(dyn Fn(&'static str, u64) + Sync)) -> Outcome {
    let start = Instant::now();
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let failures = Mutex::new(Vec::new());
    let total = plan.count.saturating_mul(generators.len() as u64);
    let worker = |current: &Current| {
        while !is_over.load(Ordering::Relaxed) && start.elapsed() < plan.time {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                break;
            }
            let generator = &*generators[(number % generators.len() as u64) as usize];
            let seed = plan.seed.wrapping_add(number / generators.len() as u64);
            begin(generator.name(), seed);
            *current.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), generator.name(), seed));
            counters::add("generator", generator.name(), 1);
            if let Err(failure) = run_case(generator, seed) {
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push((generator.name(), failure));
                is_over.store(failures.len() >= plan.failures, Ordering::Relaxed);
            }
            *current.lock().unwrap_or_else(PoisonError::into_inner) = None;
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let currents: Vec<Current> = (0..plan.threads.max(1)).map(|_| Mutex::new(None)).collect();
        let currents: &'static [Current] = currents.leak();
        let ended = &*Box::leak(Box::new(AtomicBool::new(false)));
        // A deadlock would hang the run for ever: the process ends, and names the case.
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                for current in currents {
                    let current = *current.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some((since, generator, seed)) = current
                        && since.elapsed() > PATIENCE
                    {
                        eprintln!("generator {generator}, seed {seed}: no result after {PATIENCE:?}");
                        std::process::abort();
                    }
                }
            }
        });
        let workers: Vec<_> = currents.iter().map(|current| scope.spawn(|| worker(current))).collect();
        for worker in workers {
            let _ = worker.join();
        }
        ended.store(true, Ordering::Relaxed);
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome { cases: done.into_inner(), seconds: start.elapsed().as_secs_f64(), failures }
}
