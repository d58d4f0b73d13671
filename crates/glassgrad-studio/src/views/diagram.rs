//! The diagram of a multilayer perceptron: units with their activations, and edges with their weights.
//!
//! ```text
//! fixed: { "inputs": [name, …], "all": [units of each layer, …], "shown": [[index, …], …], "places": 18 or null,
//!          "examples": count or null }
//! live:  { "layers": [{ "units": [{ "cells": signed bytes, "scale": number }, …] , "sizes": [number, …],
//!                       "weights": signed bytes, "scale": number }, …] }
//! ```
//!
//! Layers are the hidden ones and the outputs; `all` and `shown` begin with the inputs. Of two features, the cells of a unit are its
//! activation over the plane of the decision boundary, row by row from the top left. Otherwise there are no cells, and the size of a unit is the
//! root mean square of its activation over examples of the test set. Weights are row by row, a row for each shown unit of
//! the layer before.

use glassgrad::compile;
use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use serde_json::{Value, json};

use super::LiveView;
use crate::chart::Axis;
use crate::encode::{rounded, signed};
use crate::experiment::network::Network;
use crate::experiment::plane::Plane;
use crate::experiment::predictions::{column, features, inputs_of};
use crate::experiment::study::Study;
use crate::experiment::task::View;

/// Grid points along each side of the picture of a unit.
const PLACES: usize = 18;
/// The most units of a layer that are shown, and the most layers.
const MOST_UNITS: usize = 8;
const MOST_LAYERS: usize = 6;
const MOST_EXAMPLES: usize = 64;

/// From a network to the values of its units, a tensor for each layer.
type Activations = Box<dyn Fn(&Network) -> Result<Vec<Tensor>, Error>>;

struct Diagram<'s> {
    study: &'s Study,
    /// The number of units of each layer, from the inputs on.
    widths: Vec<usize>,
    is_plane: bool,
    examples: usize,
    activations: Activations,
}

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    let (Network::Dense(dense), View::Row { numbers }) = (&study.start, study.task.about.view) else {
        return Ok(None);
    };
    if dense.layers.len() > MOST_LAYERS {
        return Ok(None);
    }
    let is_plane = numbers == 2;
    let inputs = if is_plane {
        let all = [features(&study.task.about, &study.task.training)?, features(&study.task.about, &study.task.test)?];
        let all = all.concat();
        let ends = |place: usize| Axis::linear("", all.iter().skip(place).step_by(2).copied()).ends();
        inputs_of(study, &Plane { across: ends(0), up: ends(1), places: PLACES }.points())?
    } else {
        let part = if study.task.test.is_empty() { &study.task.training } else { &study.task.test };
        part.batch(&(0..part.len().min(MOST_EXAMPLES)).collect::<Vec<usize>>())?.0
    };
    let examples = inputs.shape()[0];
    let widths: Vec<usize> =
        std::iter::once(numbers).chain(dense.layers.iter().map(|layer| layer.weight.shape()[1])).collect();
    let program = compile(|(network, inputs): &(Network, Tensor)| match network {
        Network::Dense(dense) => dense.activations(inputs),
        _ => unreachable!("a run keeps the family of its network"),
    });
    let activations: Activations = Box::new(move |network| program.call(&(network.clone(), inputs.clone())));
    Ok(Some(Box::new(Diagram { study, widths, is_plane, examples, activations })))
}

/// The units that are shown: all of them, or some at equal distances.
fn shown(width: usize) -> Vec<usize> {
    let count = width.min(MOST_UNITS);
    (0..count).map(|place| place * width / count).collect()
}

impl LiveView for Diagram<'_> {
    fn fixed(&self) -> Result<Value, Error> {
        let shown: Vec<Vec<usize>> = self.widths.iter().map(|width| shown(*width)).collect();
        let names: Vec<Option<&String>> =
            shown[0].iter().map(|place| self.study.task.about.features.get(*place)).collect();
        Ok(json!({
            "inputs": names, "all": self.widths, "shown": shown, "places": self.is_plane.then_some(PLACES),
            "examples": (!self.is_plane).then_some(self.examples),
        }))
    }

    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        let Network::Dense(dense) = network else { unreachable!("a run keeps the family of its network") };
        let values = (self.activations)(network)?;
        let mut layers = Vec::new();
        for (place, (layer, values)) in dense.layers.iter().zip(&values).enumerate() {
            let (rows, width) = (shown(self.widths[place]), self.widths[place + 1]);
            let columns = shown(width);
            let (weights, values) = (layer.weight.to_f64_vec()?, values.to_f64_vec()?);
            let row = |row: &usize| columns.iter().map(|column| weights[row * width + column]).collect::<Vec<f64>>();
            let edges: Vec<f64> = rows.iter().flat_map(row).collect();
            let of_unit = |unit: &usize| column(&values, *unit, width);
            let units: Vec<Value> = match self.is_plane {
                true => columns.iter().map(of_unit).map(|cells| picture(&cells)).collect(),
                false => Vec::new(),
            };
            let sizes: Vec<Value> = columns.iter().map(of_unit).map(|values| root_mean_square(&values)).collect();
            let (weights, scale) = signed(&edges);
            layers.push(json!({ "units": units, "sizes": sizes, "weights": weights, "scale": scale }));
        }
        Ok(json!({ "layers": layers }))
    }
}

fn picture(cells: &[f64]) -> Value {
    let (cells, scale) = signed(cells);
    json!({ "cells": cells, "scale": scale })
}

fn root_mean_square(values: &[f64]) -> Value {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    rounded((squares / values.len().max(1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use glassgrad::expr::Tensor;
    use glassgrad::nn::Layer as _;

    use crate::encode::tests::read;
    use crate::experiment::network::Network;
    use crate::experiment::settings::Number;
    use crate::views::tests::{live_and_fixed, suited};

    #[test]
    fn the_last_units_are_the_outputs_and_edges_are_weights() {
        let study = suited("moons", |settings| (settings.dtype, settings.layers) = (Number::F64, vec![5, 12]));
        let (fixed, live) = live_and_fixed("diagram", &study, &study.start);
        assert_eq!(fixed["all"], serde_json::json!([2, 5, 12, 2]));
        assert_eq!(fixed["shown"][2], serde_json::json!([0, 1, 3, 4, 6, 7, 9, 10]));
        let plane = &crate::views::tests::live_and_fixed("boundary", &study, &study.start).0;
        let end = |side: &str, place: usize| plane[side][place].as_f64().expect("an end");
        // The picture of an output at one place is the output of the network there.
        let (row, col) = (3, 11);
        let part = |place: usize| (place as f64 + 0.5) / 18.0;
        let x = end("across", 0) + part(col) * (end("across", 1) - end("across", 0));
        let y = end("up", 1) - part(row) * (end("up", 1) - end("up", 0));
        let outputs = study.start.apply(&Tensor::from([[x, y]])).to_f64_vec().expect("outputs");
        for (unit, output) in outputs.iter().enumerate() {
            let drawn = &live["layers"][2]["units"][unit];
            let (cells, scale) = (read(&drawn["cells"]), drawn["scale"].as_f64().expect("a scale"));
            let shown = (f64::from(cells[18 * row + col]) - 128.0) / 127.0 * scale;
            assert!((shown - output).abs() < 0.02 * scale, "{shown} and {output}");
        }
        let Network::Dense(dense) = &study.start else { panic!("an mlp") };
        let weights = dense.layers[1].weight.to_f64_vec().expect("weights");
        let (cells, scale) =
            (read(&live["layers"][1]["weights"]), live["layers"][1]["scale"].as_f64().expect("a scale"));
        // From unit 4 of five to unit 9 of twelve: row 4, column 6 of eight.
        let shown = (f64::from(cells[4 * 8 + 6]) - 128.0) / 127.0 * scale;
        assert!((shown - weights[4 * 12 + 9]).abs() <= 0.51 / 127.0 * scale, "{shown}");
    }

    #[test]
    fn other_tasks_have_sizes_and_other_networks_no_diagram() {
        let study = suited("iris", |_| {});
        let (fixed, live) = live_and_fixed("diagram", &study, &study.start);
        assert!(fixed["places"].is_null() && fixed["inputs"][0].as_str() == Some("sepal length"), "{fixed}");
        assert_eq!(live["layers"][0]["sizes"].as_array().map(Vec::len), Some(8));
        assert!(live["layers"][0]["sizes"][0].as_f64().is_some_and(|size| size > 0.0 && size < 1.0), "tanh");
        let images = suited("digits", |_| {});
        let made = super::make(&images).expect("no error");
        assert!(made.is_none());
    }
}
