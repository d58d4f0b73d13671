//! Predicted against actual values, on examples of the test set.
//!
//! ```text
//! fixed: { "names": [name, …], "true": [[number for each example] for each name], "all": count }
//! live:  { "predicted": [[number for each example] for each name], "deviation": the same or null }
//! ```
//!
//! All numbers are in the units of the data; there are at most 300 examples and four names.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::{Columns, Forward, LiveView, forward};
use crate::experiment::network::Network;
use crate::experiment::predictions::{spread, targets};
use crate::experiment::study::Study;
use crate::experiment::task::Kind;

const MOST_EXAMPLES: usize = 300;

struct Errors<'s> {
    study: &'s Study,
    columns: Columns<'s>,
    places: Vec<usize>,
    forward: Forward,
}

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    let Kind::Numbers { names, scale } = &study.task.about.kind else { return Ok(None) };
    let places = spread(&(0..study.task.test.len()).collect::<Vec<usize>>(), MOST_EXAMPLES);
    let forward = forward(study.task.test.batch(&places)?.0.realise()?);
    let columns = Columns { loss: study.settings.loss, names, scale };
    Ok(Some(Box::new(Errors { study, columns, places, forward })))
}

impl LiveView for Errors<'_> {
    fn fixed(&self) -> Result<Value, Error> {
        let (part, columns) = (&self.study.task.test, self.columns.names.len());
        let targets = targets(part, columns, self.columns.scale)?;
        let rows: Vec<f64> =
            self.places.iter().flat_map(|place| targets[place * columns..][..columns].iter().copied()).collect();
        Ok(json!({ "names": self.columns.names(), "true": self.columns.lists(&rows), "all": part.len() }))
    }

    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        self.columns.predicted(&(self.forward)(network)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::objective::{Evaluator, Measure};
    use crate::experiment::settings::{Loss, Number};
    use crate::views::tests::{live_and_fixed, suited};

    #[test]
    fn errors_are_those_of_the_evaluator() {
        for (dtype, loss) in [(Number::F32, Loss::Mse), (Number::F64, Loss::Normal)] {
            let study = suited("function", |settings| (settings.dtype, settings.loss) = (dtype, loss));
            let (fixed, live) = live_and_fixed("errors", &study, &study.start);
            let numbers = |list: &serde_json::Value| -> Vec<f64> {
                list[0].as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
            };
            let (actual, predicted) = (numbers(&fixed["true"]), numbers(&live["predicted"]));
            let squares: f64 =
                actual.iter().zip(&predicted).map(|(actual, predicted)| (actual - predicted).powi(2)).sum();
            let evaluated =
                Evaluator::new(&study.objective, &study.task.test).evaluate(&study.start).expect("a verdict");
            let Measure::Error { rmse, .. } = evaluated.score.measure else { panic!("an error") };
            assert_eq!((actual.len(), predicted.len()), (100, 100));
            assert!(((squares / 100.0).sqrt() - rmse).abs() < 1e-4 * rmse);
            assert_eq!(live["deviation"].is_array(), loss == Loss::Normal);
        }
    }
}
