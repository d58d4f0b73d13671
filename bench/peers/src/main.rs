//! Gradients in Glassgrad and in other Rust libraries, timed side by side in one run.
//!
//! The same four functions are differentiated by every library, each in its best mode and through
//! its fastest sensible interface; all gradients are compared before anything is timed.

mod contestants;
mod moons;
mod number;
mod race;
mod report;
mod workloads;

use std::process::ExitCode;

use serde_json::json;

use race::race;
use workloads::{GaussianMixture, LogSumExp, Rosenbrock};

const HELP: &str = "\
Gradients in Glassgrad and in other Rust libraries, timed side by side.

    cargo run --profile bench --package peers [-- OPTIONS]
    cargo run --profile bench --package peers -- moons [OPTIONS]

`moons` times a training step of micrograd's demonstration in Glassgrad alone.

    --json         one JSON object instead of Markdown
    --rounds N     repetitions of every contestant (default 21)
    --steps N      training steps of `moons` (default 50)
    --help         this text";

struct Options {
    moons: bool,
    json: bool,
    rounds: usize,
    steps: usize,
}

fn main() -> ExitCode {
    let outcome = match options(std::env::args().skip(1)) {
        Ok(None) => {
            println!("{HELP}");
            Ok(())
        }
        Ok(Some(options)) if options.moons => train(&options),
        Ok(Some(options)) => compare(&options),
        Err(message) => Err(format!("{message}\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { moons: false, json: false, rounds: 21, steps: 50 };
    while let Some(argument) = arguments.next() {
        let mut count = || match arguments.next().map(|text| text.parse()) {
            Some(Ok(number)) if number > 0 => Ok(number),
            _ => Err(format!("{argument} needs a number above 0")),
        };
        match argument.as_str() {
            "moons" => options.moons = true,
            "--json" => options.json = true,
            "--rounds" => options.rounds = count()?,
            "--steps" => options.steps = count()?,
            "--help" => return Ok(None),
            unknown => return Err(format!("unknown argument {unknown}")),
        }
    }
    Ok(Some(options))
}

fn compare(options: &Options) -> Result<(), String> {
    let mixture = GaussianMixture::new(1_000, 10, 10);
    let races = [
        race(&Rosenbrock { n: 100 }, options.rounds)?,
        race(&Rosenbrock { n: 10_000 }, options.rounds)?,
        race(&LogSumExp { n: 10_000 }, options.rounds)?,
        race(&mixture, options.rounds)?,
    ];
    if options.json {
        println!("{:#}", report::json(&races));
    } else {
        print!("{}", report::markdown(&races));
    }
    Ok(())
}

fn train(options: &Options) -> Result<(), String> {
    let recorded = moons::train_recording(options.steps);
    let replayed = moons::train_replaying(options.steps);
    let worst = recorded.losses.iter().zip(&replayed.losses).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    if worst > 1e-12 {
        return Err(format!("recording and replaying disagree about the loss by {worst:e}"));
    }
    if options.json {
        let summary = json!({
            "record_seconds": recorded.seconds,
            "replay_seconds": replayed.seconds,
            "steps": options.steps,
            "losses": recorded.losses,
        });
        println!("{summary}");
    } else {
        println!("moons, a training step: {} recording,", report::duration(recorded.seconds));
        println!("                        {} replaying", report::duration(replayed.seconds));
        println!("loss {:.4} at first, {:.4} at last", recorded.losses[0], recorded.losses[options.steps - 1]);
    }
    Ok(())
}
