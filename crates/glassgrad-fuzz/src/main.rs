//! The command line of the fuzzer; `tools/fuzz` builds and starts it.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use glassgrad_fuzz::counters;
use glassgrad_fuzz::generator::{Selection, generators};
use glassgrad_fuzz::programs::corpus::Entry;
use glassgrad_fuzz::programs::export;
use glassgrad_fuzz::runner::{Plan, run};

const HELP: &str = "\
Puts random programs before oracles that must agree, and reduces those for which they do not.

usage: tools/fuzz [options]

  --seconds N         run for so long (60, or without limit if there is a --count)
  --count N           run at most N cases of each generator
  --seed S            the seed of the first case (0); case number k has the seed S + k
  --generator NAME    run this generator only; can be repeated
  --oracle NAME       call this oracle only; can be repeated
  --threads N         run cases on N threads (1)
  --failures N        stop after N failures (10)
  --journal FILE      write the seed of the current case into this file before it runs
  --list              list generators and oracles
  --export FILE       write programs with their results for other engines, one JSON object per line, instead of checking
  --replay FILE       put the program of a file, as failures are printed and corpus/ holds them, before its oracle

The exit status is 1 if a case failed. The folder fuzz/ is something else: cargo-fuzz targets for the parsers.
";

struct Options {
    plan: Plan,
    generators: Vec<String>,
    selection: Selection,
    journal: Option<String>,
    export: Option<String>,
    replay: Option<String>,
    list: bool,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut seconds, mut count, mut seed, mut threads, mut failures) = (None, None, 0, 1, 10);
    let (mut generators, mut oracles, mut journal, mut list) = (Vec::new(), Vec::new(), None, false);
    let (mut export, mut replay) = (None, None);
    while let Some(option) = arguments.next() {
        if option == "--list" {
            list = true;
            continue;
        }
        let value =
            arguments.next().ok_or_else(|| format!("{option}: a value is missing, or there is no such option"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{option}: '{value}' is not a whole number"));
        match option.as_str() {
            "--seconds" => seconds = Some(number()?),
            "--count" => count = Some(number()?),
            "--seed" => seed = number()?,
            "--threads" => threads = number()? as usize,
            "--failures" => failures = number()? as usize,
            "--generator" => generators.push(value),
            "--oracle" => oracles.push(value),
            "--journal" => journal = Some(value),
            "--export" => export = Some(value),
            "--replay" => replay = Some(value),
            _ => return Err(format!("there is no option '{option}'; see --help")),
        }
    }
    let seconds = seconds.unwrap_or(if count.is_some() { u64::from(u32::MAX) } else { 60 });
    let time = Duration::from_secs(seconds);
    let plan = Plan { seed, count: count.unwrap_or(u64::MAX), time, threads, failures: failures.max(1) };
    Ok(Options { plan, generators, selection: Selection::new(oracles), journal, export, replay, list })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match parse(arguments.into_iter()).and_then(fuzz) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

/// Writes programs with their results.
fn export_cases(path: &str, plan: &Plan) -> Result<(), String> {
    let mut text = String::new();
    for seed in plan.seed..plan.seed.saturating_add(plan.count.min(1_000_000)) {
        if let Some(case) = export::case(seed) {
            text.push_str(&format!("{case}\n"));
        }
    }
    std::fs::write(path, text).map_err(|error| format!("{path} cannot be written: {error}"))
}

/// Whether no case failed.
fn fuzz(options: Options) -> Result<bool, String> {
    if let Some(path) = &options.export {
        return export_cases(path, &options.plan).map(|()| true);
    }
    if let Some(path) = &options.replay {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let outcome = text.parse::<Entry>().map_err(|error| format!("{path}: {error}"))?.check();
        println!("{}", outcome.as_ref().err().map_or("all agree", |message| message));
        return Ok(outcome.is_ok());
    }
    let mut all = generators(&options.selection);
    let names: Vec<_> = all.iter().map(|generator| generator.name()).collect();
    if options.list {
        for generator in &all {
            println!("{}: {}", generator.name(), generator.oracles().join(", "));
        }
        return Ok(true);
    }
    if let Some(unknown) = options.generators.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no generator '{unknown}'; there are: {}", names.join(", ")));
    }
    if !options.generators.is_empty() {
        all.retain(|generator| options.generators.iter().any(|name| name == generator.name()));
    }
    let known: Vec<_> = all.iter().flat_map(|generator| generator.oracles()).collect();
    if let Some(unknown) = options.selection.names().find(|name| !known.iter().any(|known| known == &name)) {
        return Err(format!("there is no oracle '{unknown}'; see --list"));
    }
    let journal = options.journal.as_deref().map(File::create).transpose();
    let journal = journal.map_err(|error| format!("the journal cannot be written: {error}"))?.map(Mutex::new);
    let begin = |generator: &'static str, seed: u64| {
        if let Some(mut file) = journal.as_ref().and_then(|journal| journal.lock().ok()) {
            let _ = file.seek(SeekFrom::Start(0));
            let _ = write!(file, "--generator {generator} --seed {seed:<20}");
        }
    };
    // Panics are caught and reported with their case; the default hook would print each of them once more.
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = run(&all, &options.plan, &begin);
    println!("{}", counters::table());
    let rate = outcome.cases as f64 / outcome.seconds.max(1e-9);
    println!("{} cases in {:.1} s, {rate:.1} cases per second", outcome.cases, outcome.seconds);
    for (generator, failure) in &outcome.failures {
        let oracle = match known.iter().any(|known| **known == failure.oracle) {
            true => format!(" --oracle {}", failure.oracle),
            false => String::new(),
        };
        println!("\nFAILED: {failure}");
        println!("reproduce: tools/fuzz --generator {generator}{oracle} --seed {} --count 1", failure.seed);
    }
    println!("{} failures", outcome.failures.len());
    Ok(outcome.failures.is_empty())
}
