//! Decision boundary of two features: the predicted class at every point of a grid, with its confidence.
//!
//! ```text
//! fixed: { "features": [name, name], "names": [class, …],
//!          "across": [low, high], "up": [low, high], "places": 60,
//!          "training": { "x": [number, …], "y": [number, …], "class": [index, …],
//!                        "index": [place in the part, …], "all": count }, "test": the same }
//! live:  { "class": bytes, "certainty": bytes }
//! ```
//!
//! Bytes are row by row from the top left; a class is its index, a certainty goes from 0 (all classes alike) to 255 (sure).
//! Points are at most 500 of each part, in the units of the data.

use glassgrad::error::Error;
use serde_json::{Value, json};

use super::{Forward, LiveView, forward};
use crate::chart::Axis;
use crate::encode::{bytes, list};
use crate::experiment::network::Network;
use crate::experiment::plane::Plane;
use crate::experiment::predictions::{features, inputs_of, lead, spread};
use crate::experiment::study::Study;
use crate::experiment::task::{Kind, Part, View};

/// Grid points along each side.
const PLACES: usize = 60;
const MOST_POINTS: usize = 500;
/// A class is written as one byte.
const MOST_CLASSES: usize = 256;

struct Boundary<'s> {
    study: &'s Study,
    names: &'s [String],
    plane: Plane,
    forward: Forward,
}

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    let task = &study.task;
    let (View::Row { numbers: 2 }, Kind::Classes { names }) = (task.about.view, &task.about.kind) else {
        return Ok(None);
    };
    if names.len() > MOST_CLASSES {
        return Ok(None);
    }
    let all = [features(&task.about, &task.training)?, features(&task.about, &task.test)?].concat();
    let ends = |column: usize| Axis::linear("", all.iter().skip(column).step_by(2).copied()).ends();
    let plane = Plane { across: ends(0), up: ends(1), places: PLACES };
    let forward = forward(inputs_of(study, &plane.points())?);
    Ok(Some(Box::new(Boundary { study, names, plane, forward })))
}

impl Boundary<'_> {
    fn points(&self, part: &Part) -> Result<Value, Error> {
        let numbers = features(&self.study.task.about, part)?;
        let classes = part.tensors().1.to_vec::<i64>()?;
        let pairs: Vec<(usize, (&[f64], i64))> = numbers.chunks_exact(2).zip(classes).enumerate().collect();
        let shown = spread(&pairs, MOST_POINTS);
        let coordinate = |place: usize| list(&shown.iter().map(|(_, (pair, _))| pair[place]).collect::<Vec<f64>>());
        let classes: Vec<i64> = shown.iter().map(|(_, (_, class))| *class).collect();
        let places: Vec<usize> = shown.iter().map(|(index, _)| *index).collect();
        Ok(json!({ "x": coordinate(0), "y": coordinate(1), "class": classes, "index": places, "all": pairs.len() }))
    }
}

impl LiveView for Boundary<'_> {
    fn fixed(&self) -> Result<Value, Error> {
        let task = &self.study.task;
        Ok(json!({
            "features": task.about.features,
            "names": self.names,
            "across": list(&[self.plane.across.0, self.plane.across.1]),
            "up": list(&[self.plane.up.0, self.plane.up.1]),
            "places": PLACES,
            "training": self.points(&task.training)?,
            "test": self.points(&task.test)?,
        }))
    }

    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        let outputs = (self.forward)(network)?.to_f64_vec()?;
        let loss = self.study.settings.loss;
        let predictions: Vec<(usize, f64)> =
            outputs.chunks(self.names.len().max(1)).map(|outputs| lead(loss, outputs)).collect();
        Ok(json!({
            "class": bytes(predictions.iter().map(|(class, _)| *class as u8)),
            "certainty": bytes(predictions.iter().map(|(_, lead)| (255.0 * lead).round() as u8)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use glassgrad::expr::Tensor;
    use glassgrad::nn::Layer as _;

    use crate::encode::tests::read;
    use crate::experiment::settings::Number;
    use crate::views::tests::{live_and_fixed, spoiled, suited};

    #[test]
    fn every_point_of_the_grid_has_the_prediction_of_the_network() {
        for dtype in [Number::F32, Number::F64] {
            let study = suited("moons", |settings| settings.dtype = dtype);
            let (fixed, live) = live_and_fixed("boundary", &study, &study.start);
            let (classes, certainties) = (read(&live["class"]), read(&live["certainty"]));
            assert_eq!((classes.len(), certainties.len()), (3600, 3600));
            let end = |side: &str, place: usize| fixed[side][place].as_f64().expect("an end");
            for (row, column) in [(0, 0), (0, 59), (59, 0), (17, 31)] {
                let part = |place: usize| (place as f64 + 0.5) / 60.0;
                let x = end("across", 0) + part(column) * (end("across", 1) - end("across", 0));
                let y = end("up", 1) - part(row) * (end("up", 1) - end("up", 0));
                let point = Tensor::from([[x, y]]).cast(dtype.dtype());
                let predictions = study.start.apply(&point).softmax(-1).to_f64_vec().expect("two probabilities");
                let class = usize::from(predictions[1] > predictions[0]);
                assert_eq!(usize::from(classes[60 * row + column]), class);
                let certainty = 255.0 * (2.0 * predictions[class] - 1.0);
                assert!((f64::from(certainties[60 * row + column]) - certainty).abs() < 0.6, "{certainty}");
            }
        }
    }

    #[test]
    fn points_are_those_of_the_parts() {
        let study = suited("blobs", |settings| (settings.points, settings.test) = (1400, 0.1));
        let (fixed, _) = live_and_fixed("boundary", &study, &study.start);
        let count = |part: &str, of: &str| fixed[part][of].as_array().expect("a list").len();
        assert_eq!((count("training", "x"), count("training", "class")), (420, 420));
        assert_eq!((count("test", "y"), fixed["training"]["all"].as_u64()), (140, Some(1260)));
        assert_eq!(fixed["names"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn weights_that_are_no_numbers_are_unsure() {
        let study = suited("moons", |_| {});
        let (_, live) = live_and_fixed("boundary", &study, &spoiled(&study.start));
        assert!(read(&live["certainty"]).iter().all(|certainty| *certainty == 0));
    }
}
