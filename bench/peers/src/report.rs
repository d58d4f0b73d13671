//! What the races came to, as Markdown for people and as JSON for programs.

use std::process::Command;

use serde_json::{Value, json};

use crate::contestants::Form;
use crate::race::{Entry, Race};

/// How this was measured; printed with the results.
pub(crate) const COMMAND: &str = "cargo run --profile bench --package peers";
/// The crates whose versions are printed.
const LIBRARIES: [&str; 5] = ["glassgrad", "echidna", "ad_trait", "num-dual", "autodiff"];

/// The machine and the versions.
fn circumstances() -> Vec<(&'static str, String)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let versions = LIBRARIES.map(|name| format!("{name} {}", locked_version(name))).join(", ");
    vec![
        ("CPU", format!("{}, {threads} threads available, 1 used", processor())),
        ("compiler", output("rustc", &["--version"]).unwrap_or_else(|| "rustc of unknown version".into())),
        ("profile", "bench: optimised, thin LTO, one codegen unit, no target features beyond the default".into()),
        ("versions", versions),
        ("command", COMMAND.into()),
    ]
}

/// A table for each workload.
pub(crate) fn markdown(races: &[Race]) -> String {
    let mut text = String::from("# Gradients, Glassgrad and its peers\n\n");
    for (what, value) in circumstances() {
        let value = if what == "command" { format!("`{value}`") } else { value };
        text += &format!("- {what}: {value}\n");
    }
    text += "\nA time is the median of the repetitions for the whole gradient, ± half the distance of the quartiles. \
             All gradients agree with Glassgrad's to the relative error in the last column.\n";
    for race in races {
        text += &format!("\n## {}\n\n", race.workload);
        text += "| library | form | method | time | × f64 | × Glassgrad, same form | × Glassgrad, best form | repetitions | error |\n";
        text += "|---|---|---|--:|--:|--:|--:|--:|--:|\n";
        for entry in &race.entries {
            text += &row(race, entry);
        }
    }
    text
}

fn row(race: &Race, entry: &Entry) -> String {
    let ratio = |reference: f64| format!("{:.2}", entry.seconds / reference);
    let method = match entry.extrapolated_from {
        Some(measured) => format!("{}; extrapolated from {measured} of {} inputs", entry.method, race.inputs),
        None => entry.method.clone(),
    };
    let error = if entry.form == Form::Plain { String::new() } else { format!("{:.0e}", entry.disagreement) };
    format!(
        "| {} | {} | {method} | {} ± {:.0} % | {} | {} | {} | {} | {error} |\n",
        entry.library,
        form(entry.form),
        duration(entry.seconds),
        100.0 * entry.spread,
        ratio(race.plain()),
        if entry.form == Form::Plain { String::new() } else { ratio(race.glassgrad(entry.form)) },
        ratio(race.fastest_glassgrad()),
        entry.rounds,
    )
}

/// The same as one object.
pub(crate) fn json(races: &[Race]) -> Value {
    let entry = |race: &Race, entry: &Entry| {
        json!({
            "library": entry.library,
            "form": form(entry.form),
            "method": entry.method,
            "seconds": entry.seconds,
            "spread": entry.spread,
            "repetitions": entry.rounds,
            "extrapolated_from_inputs": entry.extrapolated_from,
            "disagreement": entry.disagreement,
            "ratio_to_f64": entry.seconds / race.plain(),
            "ratio_to_glassgrad_same_form": (entry.form != Form::Plain).then(|| entry.seconds / race.glassgrad(entry.form)),
            "ratio_to_glassgrad_best_form": entry.seconds / race.fastest_glassgrad(),
        })
    };
    let workload = |race: &Race| {
        let entries: Vec<Value> = race.entries.iter().map(|one| entry(race, one)).collect();
        json!({ "name": race.workload, "inputs": race.inputs, "entries": entries })
    };
    let about: serde_json::Map<String, Value> =
        circumstances().into_iter().map(|(what, value)| (what.to_string(), Value::from(value))).collect();
    json!({ "about": about, "workloads": races.iter().map(workload).collect::<Vec<_>>() })
}

fn form(form: Form) -> &'static str {
    match form {
        Form::Plain => "function",
        Form::Record => "record",
        Form::Replay => "replay",
        Form::Forward => "forward",
    }
}

/// A time with three digits and a unit.
pub(crate) fn duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let decimals = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    format!("{number:.decimals$} {unit}")
}

/// The version in the lock file that this was built from.
fn locked_version(name: &str) -> &'static str {
    let package = format!("name = \"{name}\"");
    let mut lines = include_str!("../../../Cargo.lock").lines();
    lines.find(|line| *line == package);
    lines.next().and_then(|line| line.strip_prefix("version = \"")).map_or("?", |line| line.trim_end_matches('"'))
}

fn processor() -> String {
    let linux = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    linux
        .or_else(|| output("sysctl", &["-n", "machdep.cpu.brand_string"]))
        .unwrap_or_else(|| "unknown processor".into())
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
