//! Which classes of the test set are taken for which.
//!
//! ```text
//! fixed: { "names": [class, …], "examples": count, "all": count }
//! live:  { "counts": [[class, predicted, count], …], "right": count }
//! ```
//!
//! Pairs that do not occur are left out. At most 2,000 examples are evaluated, evenly spaced over the `all` of the test set.

use glassgrad::data::Dataset as _;
use glassgrad::error::Error;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::{Forward, LiveView, forward};
use crate::experiment::network::Network;
use crate::experiment::predictions::{confusions, spread};
use crate::experiment::study::Study;
use crate::experiment::task::Kind;

const MOST_EXAMPLES: usize = 2000;

struct Confusion<'s> {
    names: &'s [String],
    /// The actual classes of the evaluated examples.
    classes: Vec<i64>,
    all: usize,
    forward: Forward,
}

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    let Kind::Classes { names } = &study.task.about.kind else { return Ok(None) };
    let all = study.task.test.len();
    let places = spread(&(0..all).collect::<Vec<usize>>(), MOST_EXAMPLES);
    let (inputs, classes) = study.task.test.batch(&places)?;
    let forward = forward(inputs.realise()?);
    Ok(Some(Box::new(Confusion { names, classes: classes.to_vec::<i64>()?, all, forward })))
}

impl LiveView for Confusion<'_> {
    fn fixed(&self) -> Result<Value, Error> {
        Ok(json!({ "names": self.names, "examples": self.classes.len(), "all": self.all }))
    }

    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        let outputs = (self.forward)(network)?.to_f64_vec()?;
        let counts = confusions(&self.classes, &outputs, self.names.len());
        let right: usize =
            counts.iter().filter(|((class, predicted), _)| class == predicted).map(|(_, count)| count).sum();
        let triples: Vec<[usize; 3]> =
            counts.iter().map(|((class, predicted), count)| [*class, *predicted, *count]).collect();
        Ok(json!({ "counts": triples, "right": right }))
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::objective::{Evaluator, Measure};
    use crate::experiment::settings::Number;
    use crate::views::tests::{live_and_fixed, spoiled, suited};

    #[test]
    fn correct_predictions_are_the_accuracy_of_the_evaluator() {
        for (data, dtype) in [("iris", Number::F64), ("digits", Number::F32)] {
            let study = suited(data, |settings| settings.dtype = dtype);
            let (fixed, live) = live_and_fixed("confusion", &study, &study.start);
            let evaluated =
                Evaluator::new(&study.objective, &study.task.test).evaluate(&study.start).expect("a verdict");
            let Measure::Accuracy(part) = evaluated.score.measure else { panic!("an accuracy") };
            let examples = fixed["examples"].as_f64().expect("a count");
            assert_eq!(live["right"].as_f64().expect("a count"), (part * examples).round());
            let triples = live["counts"].as_array().expect("counts");
            let sum: u64 = triples.iter().filter_map(|triple| triple[2].as_u64()).sum();
            assert_eq!(sum as f64, examples);
        }
    }

    #[test]
    fn large_test_sets_are_sampled_and_non_finite_weights_predict_the_first_class() {
        let study = suited("moons", |settings| settings.points = 9000);
        let (fixed, live) = live_and_fixed("confusion", &study, &spoiled(&study.start));
        assert_eq!((fixed["examples"].as_u64(), fixed["all"].as_u64()), (Some(1500), Some(4500)));
        assert!(live["counts"].as_array().expect("counts").iter().all(|triple| triple[1] == 0));
    }
}
