//! Regression on one feature: the fitted curve, and the examples.
//!
//! ```text
//! fixed: { "feature": name, "names": [name, …], "x": [number, …],
//!          "training": { "x": [number, …], "y": [[number, …] for each name], "all": count }, "test": the same }
//! live:  { "predicted": [[number for each x] for each name], "deviation": [[number, …], …] or null }
//! ```
//!
//! All numbers are in the units of the data; there are at most four names and 500 points of each part.

use glassgrad::error::Error;
use serde_json::{Value, json};

use super::{Columns, Forward, LiveView, forward};
use crate::chart::Axis;
use crate::encode::list;
use crate::experiment::network::Network;
use crate::experiment::predictions::{features, inputs_of, spread, targets};
use crate::experiment::study::Study;
use crate::experiment::task::{Kind, Part, View};

/// Points of the curve.
const PLACES: usize = 200;
const MOST_POINTS: usize = 500;

struct Fitted<'s> {
    study: &'s Study,
    columns: Columns<'s>,
    x: Vec<f64>,
    forward: Forward,
}

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    let task = &study.task;
    let (View::Row { numbers: 1 }, Kind::Numbers { names, scale }) = (task.about.view, &task.about.kind) else {
        return Ok(None);
    };
    let all = [features(&task.about, &task.training)?, features(&task.about, &task.test)?].concat();
    let (low, high) = Axis::linear("", all.into_iter()).ends();
    let x: Vec<f64> = (0..PLACES).map(|k| low + (high - low) * k as f64 / (PLACES - 1) as f64).collect();
    let forward = forward(inputs_of(study, &x)?);
    let columns = Columns { loss: study.settings.loss, names, scale };
    Ok(Some(Box::new(Fitted { study, columns, x, forward })))
}

impl Fitted<'_> {
    fn points(&self, part: &Part) -> Result<Value, Error> {
        let x = features(&self.study.task.about, part)?;
        let columns = self.columns.names.len();
        let y = targets(part, columns, self.columns.scale)?;
        let rows: Vec<&[f64]> = y.chunks(columns.max(1)).collect();
        let y = spread(&rows, MOST_POINTS).concat();
        Ok(json!({ "x": list(&spread(&x, MOST_POINTS)), "y": self.columns.lists(&y), "all": x.len() }))
    }
}

impl LiveView for Fitted<'_> {
    fn fixed(&self) -> Result<Value, Error> {
        let task = &self.study.task;
        Ok(json!({
            "feature": task.about.features.first(),
            "names": self.columns.names(),
            "x": list(&self.x),
            "training": self.points(&task.training)?,
            "test": self.points(&task.test)?,
        }))
    }

    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        self.columns.predicted(&(self.forward)(network)?)
    }
}

#[cfg(test)]
mod tests {
    use glassgrad::expr::Tensor;
    use glassgrad::nn::Layer as _;

    use crate::experiment::settings::{Loss, Number};
    use crate::experiment::task::Kind;
    use crate::views::tests::{live_and_fixed, spoiled, suited};

    #[test]
    fn the_curve_is_the_prediction_in_units_of_the_data() {
        for (dtype, loss) in [(Number::F32, Loss::Mse), (Number::F64, Loss::Normal)] {
            let study = suited("function", |settings| (settings.dtype, settings.loss) = (dtype, loss));
            let (fixed, live) = live_and_fixed("fitted", &study, &study.start);
            let Kind::Numbers { scale, .. } = &study.task.about.kind else { panic!("numbers") };
            let inputs = &study.task.about.scale;
            for place in [0, 77, 199] {
                let x = fixed["x"][place].as_f64().expect("a place");
                let point = Tensor::from([[(x - inputs.mean[0]) / inputs.deviation[0]]]).cast(dtype.dtype());
                let predicted = study.start.apply(&point).to_f64_vec().expect("outputs");
                let close = |shown: &serde_json::Value, expected: f64| {
                    let shown = shown.as_f64().expect("a number");
                    assert!((shown - expected).abs() <= 1e-4 * (1.0 + expected.abs()), "{shown} and {expected}");
                };
                close(&live["predicted"][0][place], predicted[0] * scale.deviation[0] + scale.mean[0]);
                match loss {
                    Loss::Normal => close(&live["deviation"][0][place], predicted[1].exp() * scale.deviation[0]),
                    _ => assert!(live["deviation"].is_null()),
                }
            }
            assert_eq!(fixed["training"]["x"].as_array().map(Vec::len), Some(300));
            assert_eq!(fixed["test"]["y"][0].as_array().map(Vec::len), Some(100));
        }
    }

    #[test]
    fn what_is_no_number_is_a_word() {
        let study = suited("function", |_| {});
        let (_, live) = live_and_fixed("fitted", &study, &spoiled(&study.start));
        assert_eq!(live["predicted"][0][0], "NaN");
    }
}
