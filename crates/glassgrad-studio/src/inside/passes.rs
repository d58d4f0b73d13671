//! The graph of a training step after each optimisation pass, and the lowered program.
//!
//! ```text
//! { "graph": text, "passes": [{ "name": text, "nodes": [before, after], "flops": [before, after], "bytes": [before, after],
//!                               "changed": bool, "after": text or null }, …],
//!   "steps": [what `glassgrad train --explain --json` says of each step, …], "arena": its memory, "limits": those of the machine,
//!   "flops": number, "bytes": number, "predicted": seconds, "measured": seconds }
//! ```
//!
//! Texts of graphs have a line for each node and at most 400 lines; `after` is there if a pass has changed the graph.

use glassgrad::compile;
use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::expr::{Keys, Tensor};
use glassgrad::opt::graph::Graph;
use glassgrad::opt::passes::{PASSES, unfused};
use glassgrad::rng::Key;
use glassgrad::runtime::Context;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use crate::experiment::network::Network;
use crate::experiment::recipe;
use crate::experiment::study::Study;
use crate::experiment::update::{Given, Moment, step};

const MOST_LINES: usize = 400;

pub(crate) fn passes(study: &Study, network: &Network) -> Result<Value, Error> {
    let failed = |failure: crate::failure::Failure| Error::new("passes", failure.to_string());
    let optimizer = recipe::optimizer(&study.settings, study.batches()).map_err(failed)?;
    let batch = study.task.training.batch(&(0..study.batch()).collect::<Vec<usize>>())?.realise()?;
    let moment: Moment = (network.clone(), optimizer.init(network).realise()?);
    let given: Given = (batch, Keys::from(Key::new(study.settings.seed)));
    let (after, loss) = step(study, &optimizer, None, &moment, &given);
    let results: Vec<Tensor> = after.flatten().into_iter().chain([loss]).collect();
    // Regions for which the device has no kernel are opened before the first pass.
    let (graph, _) = Graph::of(&results.iter().collect::<Vec<&Tensor>>())?;
    let mut graph = unfused(graph, Context::current().capabilities());
    let first = text(&graph);
    let mut passes = Vec::new();
    for pass in PASSES {
        let before = graph.clone();
        graph = pass.applied(graph);
        let changed = graph != before;
        let pair = |of: fn(&Graph) -> f64| [of(&before), of(&graph)];
        passes.push(json!({
            "name": pass.name,
            "nodes": [before.nodes.len(), graph.nodes.len()],
            "flops": pair(Graph::flops),
            "bytes": pair(Graph::bytes),
            "changed": changed,
            "after": changed.then(|| text(&graph)),
        }));
    }
    let stepped = compile(|(moment, given): &(Moment, Given)| step(study, &optimizer, None, moment, given));
    let explanation = stepped.explain(&(moment, given))?;
    let mut answer = explanation.to_json();
    (answer["graph"], answer["passes"]) = (first.into(), passes.into());
    (answer["flops"], answer["bytes"]) = (explanation.flops().into(), explanation.bytes().into());
    (answer["predicted"], answer["measured"]) = (explanation.predicted().into(), explanation.measured().into());
    Ok(answer)
}

/// A graph with a line for each node, as long as anyone reads.
fn text(graph: &Graph) -> String {
    let whole = graph.to_string();
    match whole.lines().count() {
        lines if lines <= MOST_LINES => whole,
        lines => {
            let begin: Vec<&str> = whole.lines().take(MOST_LINES).collect();
            format!("{}\n… and {} more\n", begin.join("\n"), lines - MOST_LINES)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::settings::Number;
    use crate::views::tests::{of_text, suited};

    #[test]
    fn passes_follow_each_other_as_in_the_explanation() {
        for dtype in [Number::F32, Number::F64] {
            let study = suited("moons", |settings| settings.dtype = dtype);
            let answer = passes(&study, &study.start).expect("passes");
            let passes = answer["passes"].as_array().expect("passes");
            assert_eq!(passes.len(), PASSES.len());
            for pair in passes.windows(2) {
                assert_eq!(pair[0]["nodes"][1], pair[1]["nodes"][0]);
                assert_eq!(pair[0]["flops"][1], pair[1]["flops"][0]);
            }
            let lines = answer["graph"].as_str().expect("a text").lines().count();
            assert_eq!(
                passes[0]["nodes"][0].as_u64().map(|nodes| nodes as usize).map(|nodes| nodes.min(401)),
                Some(lines)
            );
            assert!(passes.iter().any(|pass| pass["changed"] == true && pass["after"].is_string()));
            assert!(passes.iter().all(|pass| pass["changed"] == pass["after"].is_string()));
            assert!(answer["steps"].as_array().is_some_and(|steps| !steps.is_empty()));
            assert!(answer["measured"].as_f64() > Some(0.0));
        }
    }

    #[test]
    fn loops_and_single_layers_have_passes() {
        for study in [of_text(|_| {}), suited("function", |settings| settings.layers = Vec::new())] {
            let answer = passes(&study, &study.start).expect("passes");
            assert!(answer.to_string().len() < 1_000_000, "{} bytes", answer.to_string().len());
        }
    }
}
