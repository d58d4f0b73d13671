//! Timing: contestants take turns, so that a disturbance of the machine meets all of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::contestants::{Contestant, Form, contestants, disagreement};
use crate::workloads::Workload;

/// How closely all gradients must agree before anything is timed.
const TOLERANCE: f64 = 1e-9;
/// A repetition calls a contestant until about this much time has passed, so that the clock is fine enough.
const REPETITION: Duration = Duration::from_millis(10);
/// A contestant whose call takes longer has few repetitions.
const SLOW: Duration = Duration::from_secs(1);
/// Repetitions of a slow contestant.
const SLOW_ROUNDS: usize = 3;

/// What was measured of one contestant.
pub(crate) struct Entry {
    /// The crate.
    pub(crate) library: &'static str,
    /// What a call does.
    pub(crate) form: Form,
    /// How.
    pub(crate) method: String,
    /// The median time for the whole gradient, in seconds.
    pub(crate) seconds: f64,
    /// Half the distance between the quartiles, relative to the median.
    pub(crate) spread: f64,
    /// The number of repetitions.
    pub(crate) rounds: usize,
    /// The number of inputs measured, if the time was extrapolated from fewer than all.
    pub(crate) extrapolated_from: Option<usize>,
    /// The relative disagreement with Glassgrad's gradient.
    pub(crate) disagreement: f64,
}

/// The outcome of one workload.
pub(crate) struct Race {
    /// The name of the workload.
    pub(crate) workload: String,
    /// The number of its inputs.
    pub(crate) inputs: usize,
    /// The contestants; the plain function comes first.
    pub(crate) entries: Vec<Entry>,
}

impl Race {
    /// The median of Glassgrad in a form.
    pub(crate) fn glassgrad(&self, form: Form) -> f64 {
        let own = |entry: &&Entry| entry.library == "glassgrad" && entry.form == form;
        self.entries.iter().find(own).map_or(f64::NAN, |entry| entry.seconds)
    }

    /// The median of Glassgrad in its fastest form.
    pub(crate) fn fastest_glassgrad(&self) -> f64 {
        [Form::Record, Form::Replay, Form::Forward]
            .map(|form| self.glassgrad(form))
            .into_iter()
            .fold(f64::NAN, f64::min)
    }

    /// The median of the plain function.
    pub(crate) fn plain(&self) -> f64 {
        self.entries[0].seconds
    }
}

/// Checks that all gradients of a workload agree, then times them in turns.
pub(crate) fn race<W: Workload>(workload: &W, rounds: usize) -> Result<Race, String> {
    let mut contestants = contestants(workload);
    let disagreements = check(&workload.name(), &mut contestants)?;
    let calls: Vec<(usize, usize)> = contestants.iter_mut().map(|contestant| calibrate(contestant, rounds)).collect();

    let mut times = vec![Vec::with_capacity(rounds); contestants.len()];
    for round in 0..rounds {
        for turn in 0..contestants.len() {
            // Each round starts with another contestant, so that nobody always follows the same one.
            let place = (round + turn) % contestants.len();
            let (calls, rounds) = calls[place];
            if round < rounds {
                times[place].push(time(&mut contestants[place], calls));
            }
        }
    }

    let inputs = workload.point().len();
    let entries = contestants
        .into_iter()
        .zip(times)
        .zip(disagreements)
        .map(|((contestant, times), disagreement)| summarise(contestant, times, disagreement, inputs))
        .collect();
    Ok(Race { workload: workload.name(), inputs, entries })
}

/// Compares every gradient with the one that Glassgrad records.
fn check(workload: &str, contestants: &mut [Contestant<'_>]) -> Result<Vec<f64>, String> {
    let gradients: Vec<Vec<f64>> = contestants
        .iter_mut()
        .map(|contestant| {
            let mut gradient = Vec::new();
            (contestant.gradient)(&mut gradient);
            gradient
        })
        .collect();
    let reference = &gradients[1];
    let mut disagreements = Vec::new();
    for (contestant, gradient) in contestants.iter().zip(&gradients) {
        let Contestant { library, form, inputs, .. } = contestant;
        if gradient.len() != inputs.len() {
            let (given, expected) = (gradient.len(), inputs.len());
            return Err(format!("{workload}: {library} ({form:?}) gave {given} of {expected} derivatives"));
        }
        let expected: Vec<f64> = inputs.iter().map(|input| reference[*input]).collect();
        let worst = disagreement(gradient, &expected);
        if worst.is_nan() || worst > TOLERANCE {
            return Err(format!(
                "{workload}: the gradient of {library} ({form:?}) differs from Glassgrad's by {worst:.1e}, \
                 relatively; at most {TOLERANCE:.0e} is allowed, so nothing was timed"
            ));
        }
        disagreements.push(worst);
    }
    Ok(disagreements)
}

/// How often a repetition calls a contestant, and how many repetitions it has.
fn calibrate(contestant: &mut Contestant<'_>, rounds: usize) -> (usize, usize) {
    let once = time(contestant, 1).min(time(contestant, 1));
    let calls = (REPETITION.as_secs_f64() / once).ceil().max(1.0) as usize;
    (calls, if once > SLOW.as_secs_f64() { rounds.min(SLOW_ROUNDS) } else { rounds })
}

/// Seconds for a call, averaged over one repetition.
fn time(contestant: &mut Contestant<'_>, calls: usize) -> f64 {
    let mut gradient = Vec::new();
    let start = Instant::now();
    for _ in 0..calls {
        (contestant.gradient)(&mut gradient);
        black_box(&gradient);
    }
    start.elapsed().as_secs_f64() / calls as f64
}

fn summarise(contestant: Contestant<'_>, mut times: Vec<f64>, disagreement: f64, inputs: usize) -> Entry {
    let Contestant { library, form, method, inputs: measured, .. } = contestant;
    let partial = form == Form::Forward && measured.len() < inputs;
    let scale = if partial { inputs as f64 / measured.len() as f64 } else { 1.0 };
    times.sort_by(f64::total_cmp);
    let middle = quantile(&times, 0.5);
    Entry {
        library,
        form,
        method,
        seconds: middle * scale,
        spread: 0.5 * (quantile(&times, 0.75) - quantile(&times, 0.25)) / middle,
        rounds: times.len(),
        extrapolated_from: partial.then_some(measured.len()),
        disagreement,
    }
}

/// A quantile of sorted numbers, interpolated.
pub(crate) fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}
