//! The graph of the loss of a few examples, with values and gradients, collapsed to the requested level.
//!
//! ```text
//! { "level": index, "levels": [{ "about": text, "boxes": count }, …], "nodes": count, "examples": count,
//!   "plan": a plan or null, "details": [{ "name", "operation", "expression", "type", "file", "line", "value", "gradient",
//!                                         "inputs": [name, …], "nodes": count or null }, …] or null }
//! ```
//!
//! Level 0 shows every operation, higher ones fold more. Without a level, the finest is taken that can be read. A graph of
//! more than 150 boxes has no plan; `details` are in the order of the boxes, and values and gradients there are numbers or summaries.

use glassgrad::error::Error;
use serde_json::{Value, json};

use crate::experiment::graph::{FOLDS, READABLE, of_loss};
use crate::experiment::network::Network;
use crate::experiment::study::Study;

/// Examples in the loss.
const EXAMPLES: usize = 8;
/// A graph with more boxes is not drawn.
const DRAWABLE: usize = 150;

pub(crate) fn graph(study: &Study, network: &Network, level: Option<usize>) -> Result<Value, Error> {
    let whole = of_loss(study, network, EXAMPLES)?;
    let folded: Vec<_> = FOLDS.iter().map(|(about, fold)| (*about, fold(whole.clone()))).collect();
    let boxes: Vec<usize> = folded.iter().map(|(_, graph)| graph.labels().len()).collect();
    let fewest = || (0..boxes.len()).min_by_key(|level| boxes[*level]).unwrap_or(0);
    let level = match level {
        Some(level) if level >= folded.len() => {
            let message = format!("there is no level {level}; the levels are 0 to {}", folded.len() - 1);
            return Err(Error::new("graph", message));
        }
        Some(level) => level,
        None => boxes.iter().position(|boxes| *boxes <= READABLE).unwrap_or_else(fewest),
    };
    let levels: Vec<Value> =
        folded.iter().zip(&boxes).map(|((about, _), boxes)| json!({ "about": about, "boxes": boxes })).collect();
    let shown = Some(&folded[level].1).filter(|_| boxes[level] <= DRAWABLE);
    let details = |mut json: Value| {
        for node in json["nodes"].as_array_mut().into_iter().flatten() {
            if let Some(node) = node.as_object_mut() {
                // The bodies of loops are in the plan; where a file lies is of no use to a page.
                node.remove("body");
                node.remove("column");
            }
        }
        json["nodes"].take()
    };
    Ok(json!({
        "level": level,
        "levels": levels,
        "nodes": boxes[0],
        "examples": glassgrad::data::Dataset::len(&*study.task.training).min(EXAMPLES),
        "plan": shown.and_then(|graph| graph.plan().ok()),
        "details": shown.map(|graph| details(graph.to_json())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::settings::{Model, Number};
    use crate::views::tests::{of_text, spoiled, suited};

    #[test]
    fn every_level_is_drawn_with_the_names_of_the_network() {
        for dtype in [Number::F32, Number::F64] {
            let study = suited("moons", |settings| settings.dtype = dtype);
            let whole = graph(&study, &study.start, Some(0)).expect("a graph");
            let names: Vec<&str> =
                whole["details"].as_array().expect("details").iter().filter_map(|node| node["name"].as_str()).collect();
            for name in ["inputs", "targets", "layers.0.weight", "layers.2.bias", "loss"] {
                assert!(names.contains(&name), "{name} is not in {names:?}");
            }
            for level in 0..FOLDS.len() {
                let answer = graph(&study, &study.start, Some(level)).expect("a graph");
                let boxes = answer["levels"][level]["boxes"].as_u64().expect("a count") as usize;
                assert_eq!(answer["plan"]["nodes"].as_array().map(Vec::len), Some(boxes));
                assert_eq!(answer["details"].as_array().map(Vec::len), Some(boxes));
            }
            // The loss on the picture is the loss.
            let loss = whole["details"].as_array().and_then(|nodes| nodes.last()?["value"].as_f64()).expect("a loss");
            let places: Vec<usize> = (0..8).collect();
            let batch = glassgrad::data::Dataset::batch(&*study.task.training, &places).expect("examples");
            let expected = study.objective.of_batch_plainly(&study.start, &batch).item().expect("a loss");
            assert!((loss - expected).abs() <= 1e-6 * expected, "{loss} and {expected}");
        }
    }

    #[test]
    fn without_a_level_it_can_be_read_and_unknown_levels_are_refused() {
        for model in [Model::Mlp, Model::Cnn, Model::Gru, Model::Transformer] {
            let study = suited("digits", |settings| {
                settings.model = model;
                settings.layers = if model == Model::Cnn { vec![3, 4] } else { vec![8] };
            });
            let answer = graph(&study, &study.start, None).expect("a graph");
            let level = answer["level"].as_u64().expect("a level") as usize;
            assert!(answer["levels"][level]["boxes"].as_u64() <= Some(40), "{model:?}: {}", answer["levels"]);
            assert!(answer.to_string().len() < 200_000);
        }
        let study = of_text(|_| {});
        assert!(graph(&study, &study.start, None).is_ok());
        assert!(graph(&study, &spoiled(&study.start), Some(1)).is_ok());
        assert!(graph(&study, &study.start, Some(99)).unwrap_err().to_string().contains("no level 99"));
    }
}
