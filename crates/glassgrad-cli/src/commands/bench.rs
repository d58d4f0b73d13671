//! `glassgrad bench`: how long reference workloads take.
//!
//! Each workload is a file in `bench/`. Its result is checked before it is timed, so that nothing wrong is fast.
//! `bench/run all` runs the same workloads in other engines, by turns with this program as a server.

mod cnn;
mod data;
mod elementwise;
mod experiments;
mod factorization;
mod gradient;
mod growth;
mod hessian;
mod iris;
mod lenet;
mod logistic;
mod lstm;
mod mnist;
mod moons;
mod networks;
mod roofline;
mod serve;
mod training;
mod transformer;
mod workload;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::device::DeviceChoice;
use crate::failure::{Failure, print};
use crate::table::Table;
use workload::{Prepared, WORKLOADS};

/// After this time no further repetition of a workload begins, if there are some already.
const PATIENCE: Duration = Duration::from_secs(10);
/// The minimum number of repetitions, for the slowest workloads too.
const LEAST_REPETITIONS: usize = 3;

/// Time reference workloads, from the gradient of a short formula to training steps of networks
#[derive(Args)]
pub(crate) struct Bench {
    /// A workload, instead of all; can be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// How often each workload is repeated; slow ones at least three times, and for ten seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,

    /// Answer the lines "prepare NAME", "run" and "quit" on standard input with a line of JSON each
    #[arg(long, conflicts_with_all = ["only", "repetitions", "json", "roofline"])]
    serve: bool,

    /// Roofline analysis: the time of each step beside the limits of this machine, and what bounds it
    #[arg(long)]
    roofline: bool,

    /// Draw the times of growing sizes that `bench/run hessians` wrote to this file, into an SVG file beside it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "repetitions", "json", "roofline", "serve"])]
    draw: Option<PathBuf>,

    #[command(flatten)]
    device: DeviceChoice,
}

/// The measurements of one workload.
struct Measured {
    name: &'static str,
    /// Of all repetitions, in ascending order.
    seconds: Vec<f64>,
    forward_seconds: Vec<f64>,
    first_seconds: f64,
}

impl Bench {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.device.clone().run(|| self.run_there())
    }

    fn run_there(self) -> Result<(), Failure> {
        if self.serve {
            return serve::serve();
        }
        if let Some(path) = &self.draw {
            return growth::draw(path);
        }
        let chosen: Vec<&str> = match self.only.is_empty() {
            true => WORKLOADS.iter().map(|(name, _)| *name).collect(),
            false => self.only.iter().map(String::as_str).collect(),
        };
        // All names are understood before anything is measured.
        let chosen = chosen.into_iter().map(workload::find).collect::<Result<Vec<_>, _>>()?;
        if self.roofline {
            return print(&roofline::report(&chosen, self.json)?);
        }
        let mut all = Vec::new();
        for (name, make) in chosen {
            let failed = |reason: String| Failure::Result(format!("workload {name}: {reason}"));
            all.push(self.measure(name, Prepared::new(make()).map_err(failed)?).map_err(failed)?);
        }
        print(&if self.json { as_json(&all) } else { as_text(&all) })
    }

    fn measure(&self, name: &'static str, mut prepared: Prepared) -> Result<Measured, String> {
        let (mut seconds, mut forward_seconds) = (Vec::new(), Vec::new());
        let started = Instant::now();
        for repetition in 0..self.repetitions as usize {
            if repetition >= LEAST_REPETITIONS && started.elapsed() > PATIENCE {
                break;
            }
            seconds.push(prepared.turn()?);
            forward_seconds.push(prepared.forward_turn()?);
        }
        seconds.sort_by(f64::total_cmp);
        forward_seconds.sort_by(f64::total_cmp);
        Ok(Measured { name, seconds, forward_seconds, first_seconds: prepared.first_seconds })
    }
}

fn as_json(all: &[Measured]) -> String {
    let workload = |measured: &Measured| {
        json!({
            "name": measured.name,
            "seconds": quantile(&measured.seconds, 0.5),
            "quartiles": [quantile(&measured.seconds, 0.25), quantile(&measured.seconds, 0.75)],
            "forward_seconds": quantile(&measured.forward_seconds, 0.5),
            "first_seconds": measured.first_seconds,
            "repetitions": measured.seconds.len(),
        })
    };
    format!("{}\n", json!({ "workloads": all.iter().map(workload).collect::<Vec<_>>() }))
}

fn as_text(all: &[Measured]) -> String {
    let mut table =
        Table::new(["workload", "time", "quartiles", "forward alone", "× forward", "first time", "repetitions"]);
    for measured in all {
        let time = |share: f64| readable(quantile(&measured.seconds, share));
        let forward = quantile(&measured.forward_seconds, 0.5);
        table.row([
            measured.name.to_owned(),
            time(0.5),
            format!("{} – {}", time(0.25), time(0.75)),
            readable(forward),
            format!("{:.2}", quantile(&measured.seconds, 0.5) / forward),
            readable(measured.first_seconds),
            measured.seconds.len().to_string(),
        ]);
    }
    format!("medians; every result was checked before it was timed\n\n{}", table.render())
}

/// A quantile of ascending numbers, linear between neighbours.
fn quantile(ascending: &[f64], share: f64) -> f64 {
    let place = share * (ascending.len() - 1) as f64;
    let (below, above) = (ascending[place.floor() as usize], ascending[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// A time with three digits and the unit that fits.
pub(super) fn readable(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        s if s < 1e-3 => (1e6 * s, "µs"),
        s if s < 1.0 => (1e3 * s, "ms"),
        s => (s, "s"),
    };
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$} {unit}")
}
