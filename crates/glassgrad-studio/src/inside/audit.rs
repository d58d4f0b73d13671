//! Which parameters the loss reaches, and what else is likely to hinder learning.
//!
//! ```text
//! { "healthy": bool, "reached": count, "floats": count,
//!   "parameters": [{ "name": text, "type": text, "verdict": text, "reached": bool, "gradient": number, summary or null,
//!                    "by": [{ "operation", "expression", "file", "line", "column", "zeros", "elements" }, …] }, …],
//!   "diagnostics": [{ "kind": "not reached" | "vanishing" | "exploding" | "dead units", "parameter": path or null, "text": text }, …] }
//! ```
//!
//! Unreached parameters come first. Both audit the loss of the first examples of the training set, without dropout.

use glassgrad::error::Error;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::rng::Key;
use glassgrad::train::{Diagnostic, inspect, inspect_precision};
use serde_json::{Value, json};

use crate::experiment::graph;
use crate::experiment::network::Network;
use crate::experiment::recipe;
use crate::experiment::settings::{in_flags, in_form};
use crate::experiment::study::Study;

const MOST_PARAMETERS: usize = 200;

pub(crate) fn audit(study: &Study, network: &Network) -> Result<Value, Error> {
    let mut answer = graph::audit(study, network)?.to_json();
    let is = |finding: &Value, verdict: &str| finding["verdict"] == verdict;
    let mut findings = answer["parameters"].as_array().cloned().unwrap_or_default();
    let reached = findings.iter().filter(|finding| is(finding, "reached")).count();
    let floats = findings.iter().filter(|finding| !is(finding, "not differentiable")).count();
    for finding in &mut findings {
        finding["reached"] = is(finding, "reached").into();
    }
    findings.sort_by_key(|finding| is(finding, "reached"));
    findings.truncate(MOST_PARAMETERS);
    (answer["reached"], answer["floats"], answer["parameters"]) = (reached.into(), floats.into(), findings.into());
    let loss = |network: &Network, batch: &(Tensor, Tensor), _: &Keys| study.objective.of_batch_plainly(network, batch);
    let (sample, key) = (study.sample()?, Key::new(study.settings.seed).into());
    let mut diagnostics = inspect(loss, network, &sample, &key)?;
    let optimizer = recipe::optimizer(&study.settings, study.batches());
    let optimizer = optimizer.map_err(|failure| Error::new("audit", failure.to_string()))?;
    let precision = study.settings.precision.of_training();
    diagnostics.extend(inspect_precision(loss, &optimizer, network, &sample, &key, precision)?);
    answer["diagnostics"] = diagnostics.iter().map(described).collect();
    Ok(answer)
}

fn described(diagnostic: &Diagnostic) -> Value {
    let (kind, parameter) = match diagnostic {
        Diagnostic::NotReached { parameter, .. } => ("not reached", Some(parameter)),
        Diagnostic::Vanishing { parameter, .. } => ("vanishing", Some(parameter)),
        Diagnostic::Exploding { parameter, .. } => ("exploding", Some(parameter)),
        Diagnostic::Overflow { parameter, .. } => ("overflow", Some(parameter)),
        Diagnostic::Underflow { parameter, .. } => ("underflow", Some(parameter)),
        Diagnostic::Imprecise { parameter, .. } => ("loss of precision", Some(parameter)),
        Diagnostic::DeadUnits { .. } => ("dead units", None),
    };
    json!({ "kind": kind, "parameter": parameter, "text": in_form(&in_flags(&diagnostic.to_string())) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::settings::{Activation, Init, Model, Number};
    use crate::views::tests::{of_text, spoiled, suited};

    #[test]
    fn healthy_networks_are_reached_throughout() {
        for dtype in [Number::F32, Number::F64] {
            let study = suited("moons", |settings| settings.dtype = dtype);
            let answer = audit(&study, &study.start).expect("an audit");
            assert_eq!(
                (&answer["healthy"], answer["reached"].as_u64(), answer["floats"].as_u64()),
                (&true.into(), Some(6), Some(6))
            );
            assert_eq!(answer["diagnostics"], json!([]));
        }
    }

    #[test]
    fn blocked_parameters_come_first() {
        // Weights of zero: every unit makes zero, and nothing arrives at the first layer.
        let study = suited("moons", |settings| settings.init = Init::Zero);
        let answer = audit(&study, &study.start).expect("an audit");
        assert_eq!((&answer["healthy"], &answer["parameters"][0]["reached"]), (&false.into(), &false.into()));
        assert!(
            answer["diagnostics"]
                .as_array()
                .expect("diagnostics")
                .iter()
                .any(|diagnostic| diagnostic["kind"] == "not reached")
        );
        // Many sigmoids: the gradients of the first layers vanish.
        let deep =
            suited("moons", |settings| (settings.layers, settings.activation) = (vec![4; 20], Activation::Sigmoid));
        let answer = audit(&deep, &deep.start).expect("an audit");
        let vanishes =
            |diagnostic: &Value| diagnostic["kind"] == "vanishing" && diagnostic["parameter"] == "layers.0.weight";
        assert!(
            answer["diagnostics"].as_array().expect("diagnostics").iter().any(vanishes),
            "{}",
            answer["diagnostics"]
        );
    }

    #[test]
    fn odd_networks_have_an_audit() {
        let sparse = suited("moons", |settings| (settings.model, settings.layers) = (Model::Sparse, vec![4]));
        let answer = audit(&sparse, &sparse.start).expect("an audit");
        assert!(answer["floats"].as_u64() < answer["parameters"].as_array().map(|all| all.len() as u64));
        for study in [of_text(|_| {}), suited("function", |settings| settings.layers = Vec::new())] {
            assert!(audit(&study, &study.start).is_ok() && audit(&study, &spoiled(&study.start)).is_ok());
        }
    }
}
