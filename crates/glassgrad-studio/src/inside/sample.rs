//! One example on its way through the layers, and the gradient of its loss on its way back.
//!
//! ```text
//! { "part": "training" or "test", "index": number, "all": count, "loss": number,
//!   "row": { "names": [text, …], "values": [number, …], "inputs": [number, …], "gradients": [number, …], "all": count } or null,
//!   "image": { "height": count, "width": count, "pixels": bytes, "gradients": signed bytes, "scale": number } or null,
//!   "text": { "given": text, "target": text, "predicted": text } or null,
//!   "truth": { "class": index, "name": text } or { "numbers": [number, …], "names": [text, …] } or null,
//!   "predicted": { "class": index, "name": text, "shares": [number, …], "names": [text, …], "probabilities": bool }
//!           or { "numbers": [number, …], "deviations": [number, …] or null } or null,
//!   "layers": [{ "name": text, "shape": [extent, …], "all": count, "values": [number, …], "gradients": [number, …],
//!                "cells": signed bytes, "scale": number, "gradient_cells": signed bytes, "gradient_scale": number,
//!                "size": number, "gradient_size": number }, …] }
//! ```
//!
//! One of `row`, `image` and `text` is there. Values of a row are in the units of the data, `inputs` are what the network sees,
//! and gradients are those of the loss with respect to what the network sees. Layers stand in the order in which they work; a
//! layer's values are what it hands on, after its activation, and the last one's are the outputs. There are at most 64 numbers
//! in a list and 4,096 cells of a layer; sizes are roots of mean squares. Where no derivative arrives, gradients are empty.

use std::collections::BTreeSet;

use glassgrad::array::Array;
use glassgrad::data::Dataset as _;
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::glass::{Graph, Shown};
use glassgrad::nn::Layer as _;
use glassgrad::trace::json_number;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::drawn::ink;
use crate::encode::{levels, list, rounded, signed};
use crate::experiment::network::Network;
use crate::experiment::objective::predicted_classes;
use crate::experiment::predictions::{Numbers, are_probabilities, shares, unscaled};
use crate::experiment::study::Study;
use crate::experiment::task::{Kind, View};

const MOST_NUMBERS: usize = 64;
const MOST_CELLS: usize = 4096;

/// The labels of the input and the output in the graph.
const INPUT: &str = "the example";
const OUTPUTS: &str = "the outputs";

/// An example of a part, seen by a network.
pub(crate) fn sample(study: &Study, network: &Network, part: &str, index: usize) -> Result<Value, Error> {
    let examples = match part {
        "training" => &study.task.training,
        "test" => &study.task.test,
        _ => return Err(Error::new("sample", format!("there is no part {part:?}; there are training and test"))),
    };
    if index >= examples.len() {
        let message = format!("there is no example {index}; the {part} part has {}, counted from 0", examples.len());
        return Err(Error::new("sample", message));
    }
    let (inputs, targets) = examples.batch(&[index])?.realise()?;
    let seen = if inputs.is_float() { inputs.variable().named(INPUT) } else { inputs.clone() };
    let loss = |network: &Network| {
        let outputs = network.apply(&seen).named(OUTPUTS);
        study.objective.losses(&outputs, &targets).sum().named("loss")
    };
    let graph = Graph::trace(loss, network).with_gradients()?.collapse_to_depth(2);
    let shown = graph.shown();
    let find = |name: &str| shown.iter().find(|item| item.name == name);
    let outputs = find(OUTPUTS).and_then(|item| item.value.as_ref()).map(numbers).unwrap_or_default();
    let gradients = find(INPUT).and_then(|item| item.gradient.as_ref()).map(numbers).unwrap_or_default();
    let loss = find("loss").and_then(|item| item.value.as_ref()).map_or(f64::NAN, |value| value.buffer().get(0));
    let mut answer = json!({
        "part": part, "index": index, "all": examples.len(), "loss": json_number(loss),
        "row": null, "image": null, "text": null,
        "layers": layers(network, &shown),
    });
    example(study, &inputs, &gradients, &mut answer)?;
    actual_and_predicted(study, &targets, &outputs, &mut answer)?;
    if let Kind::Text { alphabet } = &study.task.about.kind {
        let written = |symbols: &mut dyn Iterator<Item = i64>| -> String {
            symbols
                .map(|symbol| {
                    usize::try_from(symbol).ok().and_then(|symbol| alphabet.get(symbol)).copied().unwrap_or('·')
                })
                .collect()
        };
        answer["text"] = json!({
            "given": written(&mut inputs.to_vec::<i64>()?.into_iter()),
            "target": written(&mut targets.to_vec::<i64>()?.into_iter()),
            "predicted": written(&mut predicted_classes(&outputs, alphabet.len())),
        });
    }
    Ok(answer)
}

fn numbers(array: &Array) -> Vec<f64> {
    (0..array.buffer().len()).map(|place| array.buffer().get(place)).collect()
}

/// The first numbers of a list.
fn first(numbers: &[f64]) -> Value {
    list(&numbers[..numbers.len().min(MOST_NUMBERS)])
}

/// The example itself, as people know it.
fn example(study: &Study, inputs: &Tensor, gradients: &[f64], answer: &mut Value) -> Result<(), Error> {
    let about = &study.task.about;
    match about.view {
        View::Row { numbers } => {
            let names = &about.features[..about.features.len().min(MOST_NUMBERS)];
            answer["row"] = json!({ "names": names, "values": first(&unscaled(about, inputs, 1)?),
                                    "inputs": first(&inputs.to_f64_vec()?), "gradients": first(gradients), "all": numbers });
        }
        View::Image { height, width } => {
            let (cells, scale) = signed(gradients);
            answer["image"] = json!({ "height": height, "width": width, "gradients": cells, "scale": scale,
                                      "pixels": levels(&unscaled(about, inputs, 1)?, ink(study)?) });
        }
        View::Text { .. } => {}
    }
    Ok(())
}

/// The actual and the predicted class or values of the example.
fn actual_and_predicted(study: &Study, targets: &Tensor, outputs: &[f64], answer: &mut Value) -> Result<(), Error> {
    let loss = study.settings.loss;
    match &study.task.about.kind {
        Kind::Classes { names } => {
            let class = targets.to_f64_vec()?.first().map_or(0, |class| *class as usize);
            let predicted = predicted_classes(outputs, names.len()).next().unwrap_or(0) as usize;
            answer["truth"] = json!({ "class": class, "name": names.get(class) });
            answer["predicted"] = json!({ "class": predicted, "name": names.get(predicted), "shares": first(&shares(loss, outputs)),
                                     "names": &names[..names.len().min(MOST_NUMBERS)], "probabilities": are_probabilities(loss) });
        }
        Kind::Numbers { names, scale } => {
            let actual = scale.invert(&targets.reshape([1, names.len()]).cast(DType::F64)).to_f64_vec()?;
            let predicted = Numbers::of(loss, scale, &Tensor::new(outputs, [1, outputs.len()]))?;
            answer["truth"] = json!({ "numbers": first(&actual), "names": &names[..names.len().min(MOST_NUMBERS)] });
            answer["predicted"] = json!({ "numbers": first(&predicted.means), "deviations": predicted.deviations.map(|all| first(&all)) });
        }
        Kind::Text { .. } => (answer["truth"], answer["predicted"]) = (Value::Null, Value::Null),
    }
    Ok(())
}

/// The activations of each layer. The outputs have a name of their own, by which the last layer ends before the loss begins.
fn layers(network: &Network, shown: &[Shown]) -> Vec<Value> {
    let module = |path: String| {
        let parts: Vec<&str> = path.rsplit_once('.')?.0.split('.').take(2).collect();
        Some(parts.join("."))
    };
    let modules: BTreeSet<String> = network.leaves().iter().filter_map(|(path, _)| module(path.to_string())).collect();
    let mut layers: Vec<(&str, &Shown)> = Vec::new();
    for item in shown.iter().filter(|item| !item.is_input) {
        if item.name == OUTPUTS {
            // What stands there of the last layer is but a part of it: its outputs are these.
            let last = layers.pop().map_or("outputs", |(name, _)| name);
            layers.push((last, item));
            break;
        }
        if modules.contains(&item.name) {
            // A layer that works in several places hands on what it makes at last.
            layers.retain(|(name, _)| *name != item.name);
            layers.push((&item.name, item));
        }
    }
    layers.into_iter().map(|(name, item)| layer(name, item)).collect()
}

fn layer(name: &str, item: &Shown) -> Value {
    let of = |array: &Option<Array>| array.as_ref().map(numbers).unwrap_or_default();
    let (values, gradients) = (of(&item.value), of(&item.gradient));
    let size = |numbers: &[f64]| {
        let squares: f64 = numbers.iter().map(|number| number * number).sum();
        rounded(if numbers.is_empty() { 0.0 } else { (squares / numbers.len() as f64).sqrt() })
    };
    let cells = |numbers: &[f64]| signed(&numbers[..numbers.len().min(MOST_CELLS)]);
    let ((cells, scale), (gradient_cells, gradient_scale)) = (cells(&values), cells(&gradients));
    json!({
        "name": name, "shape": item.value.as_ref().map(|value| value.shape().to_vec()), "all": values.len(),
        "values": first(&values), "gradients": first(&gradients),
        "cells": cells, "scale": scale, "gradient_cells": gradient_cells, "gradient_scale": gradient_scale,
        "size": size(&values), "gradient_size": size(&gradients),
    })
}

#[cfg(test)]
mod tests {
    use glassgrad::nn::{Activation, Layer as _};

    use super::*;
    use crate::encode::tests::read;
    use crate::experiment::settings::{Loss, Model, Number};
    use crate::experiment::units::parameter;
    use crate::views::tests::{of_text, spoiled, suited};

    fn number(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
    }

    fn close(shown: &Value, expected: f64, tolerance: f64) {
        let shown = number(shown);
        assert!((shown - expected).abs() <= tolerance * (1.0 + expected.abs()), "{shown} and {expected}");
    }

    #[test]
    fn layers_hand_on_what_they_compute() {
        for (dtype, tolerance) in [(Number::F64, 1e-5), (Number::F32, 1e-4)] {
            let study = suited("iris", |settings| settings.dtype = dtype);
            let answer = sample(&study, &study.start, "test", 3).expect("an example");
            let (inputs, _) = study.task.test.batch(&[3]).expect("an example");
            let leaf = |path: &str| parameter(&study.start, path).expect("a parameter");
            let hidden = Activation::Tanh.apply(&(inputs.matmul(&leaf("layers.0.weight")) + leaf("layers.0.bias")));
            let outputs = hidden.matmul(&leaf("layers.1.weight")) + leaf("layers.1.bias");
            let names: Vec<&str> = answer["layers"]
                .as_array()
                .expect("layers")
                .iter()
                .filter_map(|layer| layer["name"].as_str())
                .collect();
            assert_eq!(names, ["layers.0", "layers.1"]);
            for (layer, expected) in [hidden.clone(), outputs.clone()].iter().enumerate() {
                for (place, expected) in expected.to_f64_vec().expect("numbers").iter().enumerate() {
                    close(&answer["layers"][layer]["values"][place], *expected, tolerance);
                }
            }
            // The gradient of the cross-entropy with respect to the outputs is the probability less the truth.
            let class = number(&answer["truth"]["class"]) as usize;
            let shares = outputs.softmax(-1).to_f64_vec().expect("probabilities");
            for (place, share) in shares.iter().enumerate() {
                close(&answer["predicted"]["shares"][place], *share, tolerance);
                close(&answer["layers"][1]["gradients"][place], share - f64::from(u8::from(place == class)), tolerance);
            }
            close(&answer["loss"], -shares[class].ln(), tolerance);
        }
    }

    #[test]
    fn gradients_of_the_example_are_difference_quotients() {
        for (data, count) in [("iris", 4), ("function", 1), ("digits", 64)] {
            let study = suited(data, |settings| settings.dtype = Number::F64);
            let answer = sample(&study, &study.start, "training", 0).expect("an example");
            let (inputs, targets) = study.task.training.batch(&[0]).expect("an example");
            let all = inputs.to_f64_vec().expect("numbers");
            let loss = |place: usize, by: f64| {
                let mut moved = all.clone();
                moved[place] += by;
                let outputs = study.start.apply(&Tensor::new(&moved, inputs.shape().clone()));
                study.objective.losses(&outputs, &targets).sum().item().expect("a loss")
            };
            let scale = answer["image"]["scale"].as_f64().unwrap_or(1.0);
            for place in (0..count).step_by(7) {
                let quotient = (loss(place, 1e-5) - loss(place, -1e-5)) / 2e-5;
                match data {
                    "digits" => {
                        let byte = read(&answer["image"]["gradients"])[place];
                        assert!(((f64::from(byte) - 128.0) / 127.0 * scale - quotient).abs() <= 0.51 / 127.0 * scale);
                    }
                    _ => close(&answer["row"]["gradients"][place], quotient, 1e-5),
                }
            }
        }
    }

    #[test]
    fn every_family_shows_its_layers() {
        let cases: [(Model, &[usize], &[&str]); 6] = [
            (Model::Mlp, &[5], &["layers.0", "layers.1"]),
            (Model::Mlp, &[], &["layers.0"]),
            (Model::Sparse, &[6], &["layers.0", "output"]),
            (Model::Cnn, &[3, 4], &["convolutions.0", "hidden", "output"]),
            (Model::Lstm, &[5], &["layers.0", "output"]),
            (Model::Transformer, &[8], &["blocks.0", "output"]),
        ];
        for (model, widths, expected) in cases {
            let study = suited("digits", |settings| (settings.model, settings.layers) = (model, widths.to_vec()));
            let answer = sample(&study, &study.start, "test", 1).expect("an example");
            let layers = answer["layers"].as_array().expect("layers");
            let names: Vec<&str> = layers.iter().filter_map(|layer| layer["name"].as_str()).collect();
            for name in expected {
                assert!(names.contains(name), "{model:?}: {name} is not in {names:?}");
            }
            let last = &layers[layers.len() - 1];
            assert_eq!(
                (last["name"].as_str(), last["all"].as_u64()),
                (expected.last().copied(), Some(10)),
                "{model:?}"
            );
            assert!(layers.iter().all(|layer| number(&layer["size"]) > 0.0), "{model:?}");
            assert!(number(&last["gradient_size"]) > 0.0);
            if model == Model::Cnn {
                assert_eq!(layers[0]["shape"], json!([1, 3, 4, 4]));
            }
        }
    }

    #[test]
    fn regression_and_text_have_their_own_predictions() {
        let study = suited("function", |settings| settings.loss = Loss::Normal);
        let answer = sample(&study, &study.start, "test", 0).expect("an example");
        assert!(number(&answer["predicted"]["deviations"][0]) > 0.0 && answer["truth"]["numbers"][0].is_number());
        let study = of_text(|_| {});
        let answer = sample(&study, &study.start, "test", 0).expect("an example");
        let text = |of: &str| answer["text"][of].as_str().expect("a text").chars().count();
        assert_eq!((text("given"), text("target"), text("predicted")), (8, 8, 8));
        assert!(answer["row"].is_null() && answer["image"].is_null());
    }

    #[test]
    fn missing_examples_are_refused_and_non_finite_weights_are_reported() {
        let study = suited("moons", |_| {});
        let refused = |part: &str, index: usize| sample(&study, &study.start, part, index).unwrap_err().to_string();
        assert!(refused("test", 500).contains("no example 500"));
        assert!(refused("training", usize::MAX).contains("no example"));
        assert!(refused("other", 0).contains("no part"));
        let answer = sample(&study, &spoiled(&study.start), "test", 499).expect("an example");
        assert_eq!((&answer["loss"], &answer["layers"][0]["values"][0]), (&"NaN".into(), &"NaN".into()));
    }
}
