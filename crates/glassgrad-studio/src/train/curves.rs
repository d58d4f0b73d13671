//! Curves of several runs beside each other: smoothed, and as one table.
//!
//! ```text
//! { "runs": [{ "id", "name", "phase", "settings": { … }, "differs": { setting: value, … }, "metric": name or null, "shown": text,
//!              "training": { "at", "value", "smooth" }, "test": { "at", "value", "smooth" }, "measure": { "at", "value", "smooth" } }, …],
//!   "differing": [setting, …], "csv": text }
//! ```
//!
//! `differs` holds the settings in which the runs are not all the same, which is what a comparison is about.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::registry::Registry;
use crate::answer::Refusal;
use crate::encode::rounded;

/// The most runs that are compared.
const MOST: usize = 12;

/// A question about runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurvesRequest {
    /// The runs; all if none is named.
    #[serde(default)]
    runs: Vec<u64>,
    /// The weight of what came before in the exponential moving average: 0 for none, below 1.
    #[serde(default)]
    smoothing: f64,
}

/// Points of a curve.
struct Points {
    at: Vec<f64>,
    value: Vec<f64>,
}

/// A number of JSON, where others are texts.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN))
}

impl Points {
    fn read(at: &Value, value: &Value) -> Points {
        let numbers = |list: &Value| list.as_array().into_iter().flatten().map(number).collect();
        Points { at: numbers(at), value: numbers(value) }
    }

    /// The exponential moving average, divided by the sum of its weights, so that it begins at the first value rather than at zero. What is not
    /// finite is left out.
    fn smooth(&self, weight: f64) -> Vec<f64> {
        let (mut average, mut weights) = (0.0, 0.0);
        self.value
            .iter()
            .map(|value| {
                if value.is_finite() {
                    average = weight * average + (1.0 - weight) * value;
                    weights = weight * weights + (1.0 - weight);
                }
                if weights > 0.0 { average / weights } else { f64::NAN }
            })
            .collect()
    }

    fn as_json(&self, weight: f64) -> Value {
        let numbers = |list: &[f64]| list.iter().copied().map(rounded).collect::<Vec<_>>();
        json!({ "at": numbers(&self.at), "value": numbers(&self.value), "smooth": numbers(&self.smooth(weight)) })
    }
}

pub(crate) fn answer(asked: &CurvesRequest, registry: &Registry) -> Result<Value, Refusal> {
    if !(0.0..1.0).contains(&asked.smoothing) {
        return Err(Refusal::new(format!("smoothing is from 0 to below 1, not {}", asked.smoothing)));
    }
    if asked.runs.len() > MOST {
        return Err(Refusal::new(format!("at most {MOST} runs are compared")));
    }
    let listed = registry.list();
    let all = listed["runs"].as_array().cloned().unwrap_or_default();
    let is_chosen =
        |run: &Value| asked.runs.is_empty() || run["id"].as_u64().is_some_and(|id| asked.runs.contains(&id));
    let chosen: Vec<Value> = all.into_iter().filter(is_chosen).collect();
    if let Some(gone) = asked.runs.iter().find(|id| !chosen.iter().any(|run| run["id"].as_u64() == Some(**id))) {
        return Err(Refusal::new(format!("there is no run {gone}; it was deleted")));
    }
    let settings: Vec<&Value> = chosen.iter().map(|run| &run["settings"]).collect();
    let differing = differing(&settings);
    let mut csv = String::from("run,name,curve,step,value,smoothed\n");
    let mut runs = Vec::new();
    for run in &chosen {
        let id = run["id"].as_u64().unwrap_or_default();
        let Some(broadcast) = registry.broadcast(id) else { continue };
        let latest = broadcast.all();
        let (training, test) = (&latest["curves"]["training"], &latest["curves"]["test"]);
        let curves = [
            ("training", Points::read(&training["at"], &training["value"])),
            ("test", Points::read(&test["at"], &test["loss"])),
            ("measure", Points::read(&test["at"], &test["measure"])),
        ];
        let name = name(id, &run["settings"], &differing);
        for (curve, points) in &curves {
            let smooth = points.smooth(asked.smoothing);
            let curve = if *curve == "measure" { test["name"].as_str().unwrap_or("metric") } else { *curve };
            for ((at, value), smooth) in points.at.iter().zip(&points.value).zip(smooth) {
                let _ = writeln!(csv, "{id},\"{}\",{curve},{at},{value},{smooth}", name.replace('"', "'"));
            }
        }
        let differs: serde_json::Map<String, Value> =
            differing.iter().map(|setting| (setting.clone(), run["settings"][setting].clone())).collect();
        let mut own = json!({
            "id": id, "name": name, "phase": latest["state"]["phase"], "settings": run["settings"], "differs": differs,
            "metric": test["name"], "shown": latest["state"]["test"]["shown"], "loss": latest["state"]["loss"],
            "step": latest["state"]["step"], "pinned": run["pinned"],
        });
        for (curve, points) in &curves {
            own[*curve] = points.as_json(asked.smoothing);
        }
        runs.push(own);
    }
    Ok(json!({ "runs": runs, "differing": differing, "csv": csv }))
}

/// The settings in which runs are not all the same, in their order.
fn differing(settings: &[&Value]) -> Vec<String> {
    let Some(first) = settings.first().and_then(|first| first.as_object()) else { return Vec::new() };
    first.keys().filter(|key| settings.iter().any(|own| own[key.as_str()] != first[key.as_str()])).cloned().collect()
}

/// The name of a run in a legend: its number, and what distinguishes it.
fn name(id: u64, settings: &Value, differing: &[String]) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join("-"),
        other => other.to_string(),
    };
    let parts: Vec<String> = match differing {
        [] => vec![text(&settings["data"]), text(&settings["optimizer"])],
        several => several
            .iter()
            .take(3)
            .map(|setting| match setting.as_str() {
                "optimizer" | "data" | "model" | "activation" => text(&settings[setting]),
                _ => format!("{setting} {}", text(&settings[setting])),
            })
            .collect(),
    };
    format!("{id}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_begins_at_the_first_value_and_skips_what_is_not_finite() {
        let points = Points { at: vec![1.0, 2.0, 3.0, 4.0], value: vec![2.0, f64::NAN, 4.0, 4.0] };
        let plain = points.smooth(0.0);
        assert_eq!((plain[0], plain[2], plain[3]), (2.0, 4.0, 4.0));
        let smooth = points.smooth(0.5);
        // Weights ½ and 1 for 2 and 4, over their sum; and so on.
        assert_eq!((smooth[0], smooth[1]), (2.0, 2.0));
        assert!((smooth[2] - (0.5 * 2.0 + 4.0) / 1.5).abs() < 1e-12);
        assert!((smooth[3] - (0.25 * 2.0 + 0.5 * 4.0 + 4.0) / 1.75).abs() < 1e-12);
        let constant = Points { at: vec![1.0; 50], value: vec![3.0; 50] };
        assert!(constant.smooth(0.9).iter().all(|value| (value - 3.0).abs() < 1e-12));
    }

    #[test]
    fn runs_are_named_by_what_distinguishes_them() {
        let [one, other] =
            ["sgd", "adam"].map(|name| json!({ "data": "moons", "optimizer": name, "lr": 0.1, "layers": [8, 8] }));
        assert_eq!(differing(&[&one, &other]), ["optimizer"]);
        assert_eq!(name(3, &other, &differing(&[&one, &other])), "3: adam");
        assert_eq!(name(1, &one, &[]), "1: moons, sgd");
        let wider = json!({ "data": "moons", "optimizer": "sgd", "lr": 0.1, "layers": [16, 16] });
        assert_eq!(name(2, &wider, &differing(&[&one, &wider])), "2: layers 16-16");
    }
}
