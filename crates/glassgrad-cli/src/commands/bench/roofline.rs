//! Roofline report: the steps of each workload's program against the limits of this machine.
//!
//! A step is measured against the longer of two times: that of its arithmetic at the best rate for its kind, and that of
//! its memory at the rate of copying. Where it reaches less than 60 % of that, a reason stands beside it.

use glassgrad::Tensor;
use glassgrad::explain::{ExplainedStep, Explanation, Limits};
use serde_json::{Value, json};

use super::readable;
use super::workload::Make;
use crate::failure::Failure;
use crate::table::Table;

/// The report on some workloads, as text or as a JSON object.
pub(super) fn report(workloads: &[(&'static str, Make)], as_json: bool) -> Result<String, Failure> {
    let mut all = Vec::new();
    for (name, make) in workloads {
        let explained = explained(*make).map_err(|error| Failure::Result(format!("workload {name}: {error}")))?;
        all.push((*name, explained));
    }
    Ok(if as_json { object(&all) } else { text(&all) })
}

/// The program of one run, after a run before it; none if there are no tensors.
fn explained(make: Make) -> Result<Option<Explanation>, glassgrad::error::Error> {
    let mut workload = make();
    workload.run()?;
    let results = workload.results();
    if results.is_empty() {
        return Ok(None);
    }
    Tensor::explain_all(&results.iter().collect::<Vec<_>>()).map(Some)
}

/// Calls a function for each step and for those inside of it, with its number and how often it runs.
fn every_step(steps: &[ExplainedStep], prefix: &str, times: f64, visit: &mut impl FnMut(String, f64, &ExplainedStep)) {
    for (place, step) in steps.iter().enumerate() {
        let number = format!("{prefix}{place}");
        visit(number.clone(), times, step);
        for (program, inside) in step.inside.iter().enumerate() {
            // A sweep has two programs inside.
            let letter = if step.inside.len() > 1 { ["a", "b"][program.min(1)] } else { "" };
            every_step(&inside.steps, &format!("{number}{letter}."), times * inside.runs as f64, visit);
        }
    }
}

/// Operations and bytes a second, in billions.
fn rates(step: &ExplainedStep) -> [f64; 2] {
    [step.flops, step.bytes].map(|amount| if step.measured > 0.0 { amount / step.measured / 1e9 } else { 0.0 })
}

fn text(all: &[(&'static str, Option<Explanation>)]) -> String {
    let mut text = Limits::measured().to_string();
    for (name, explanation) in all {
        let Some(explanation) = explanation else {
            text += &format!("\n{name}: every number is a node of a tape, and there is no program\n");
            continue;
        };
        let total = explanation.measured();
        let mut table = Table::new(["step", "what", "time", "share", "GFLOP/s", "GB/s", "limit", "reached", "because"]);
        every_step(&explanation.steps, "", 1.0, &mut |number, times, step| {
            let [flops, bytes] = rates(step);
            let share = if total > 0.0 { 100.0 * times * step.measured / total } else { 0.0 };
            table.row([
                number,
                step.what.clone(),
                readable(step.measured),
                format!("{share:.1} %"),
                format!("{flops:.2}"),
                format!("{bytes:.2}"),
                step.bound.word().to_owned(),
                format!("{:.0} %", 100.0 * step.reached()),
                step.reason(&explanation.limits).map(|reason| reason.to_string()).unwrap_or_default(),
            ]);
        });
        let least = explanation.steps.iter().map(|step| step.least).sum::<f64>();
        let (reached, steps) = (100.0 * least / total.max(f64::MIN_POSITIVE), explanation.steps.len());
        text += &format!("\n{name}: {steps} steps, {}, {reached:.0} % of the limits\n\n", readable(total));
        text += &table.render();
    }
    text
}

fn object(all: &[(&'static str, Option<Explanation>)]) -> String {
    let workload = |(name, explanation): &(&'static str, Option<Explanation>)| {
        let mut steps: Vec<Value> = Vec::new();
        if let Some(explanation) = explanation {
            every_step(&explanation.steps, "", 1.0, &mut |number, times, step| {
                let [flops, bytes] = rates(step);
                steps.push(json!({
                    "step": number, "what": step.what, "runs": times, "seconds": step.measured, "gflops": flops,
                    "gigabytes": bytes, "limit": step.bound.word(), "reached": step.reached(),
                    "because": step.reason(&explanation.limits).map(|reason| reason.to_string()),
                }));
            });
        }
        json!({ "name": name, "steps": steps })
    };
    let workloads: Vec<Value> = all.iter().map(workload).collect();
    format!("{}\n", json!({ "limits": Limits::measured().to_json(), "workloads": workloads }))
}
