//! Paths of several optimizers on a function of two variables, side by side.
//!
//! ```text
//! { "field": as of a plot, "steps": count,
//!   "paths": [{ "optimizer": name, "about": text, "rate": number or null, "rated": text,
//!               "points": [[x, y], …], "values": [number, …], "least": number, "ended": text or null }, …] }
//! ```
//!
//! Gradients and Hessians are exact, and steps are those of the optimizers of the library. A path ends where it leaves the plane by more than its
//! size, or where its value is not finite.

use std::collections::BTreeMap;

use glassgrad::Tensor;
use glassgrad::optim::OPTIMIZERS;
use glassgrad::scalar::gradient;
use glassgrad::trace::{json_number, short};
use serde::Deserialize;
use serde_json::{Value, json};

use super::explore::ExploreRequest;
use super::plot::{self, Levels};
use crate::answer::Refusal;
use crate::encode::{list, rounded};
use crate::problem::Problem;

/// The most steps of a path.
const MOST_STEPS: usize = 1000;
/// The method with second derivatives, which is no row of the table of optimizers.
const NEWTON: &str = "newton";

/// A question about paths.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathsRequest {
    /// The function, the start and the ranges of the plane.
    of: ExploreRequest,
    /// The learning rates by optimizer; those without one have the rate of the table.
    #[serde(default)]
    rates: BTreeMap<String, f64>,
    /// The optimizers to show; all if none is named.
    #[serde(default)]
    optimizers: Vec<String>,
    #[serde(default = "usual_steps")]
    steps: usize,
}

fn usual_steps() -> usize {
    200
}

impl PathsRequest {
    /// The range of a variable: as given, or around the origin with the start inside.
    fn range(&self, problem: &Problem, variable: usize) -> Result<(f64, f64), Refusal> {
        let start = problem.point[variable].abs();
        match self.of.ranges.contains_key(problem.name(variable)) || !start.is_finite() {
            true => self.of.range(problem, variable),
            false => Ok((-(1.6 * start).max(2.0), (1.6 * start).max(2.0))),
        }
    }
}

pub(crate) fn answer(asked: &PathsRequest) -> Result<Value, Refusal> {
    let problem = asked.of.problem()?;
    let index = asked.of.index(&problem)?;
    if problem.point.len() != 2 {
        let count = problem.point.len();
        return Err(Refusal::new(format!("paths need a function of two variables, and this one has {count}")));
    }
    if !(1..=MOST_STEPS).contains(&asked.steps) {
        return Err(Refusal::new(format!("a path has 1 to {MOST_STEPS} steps, not {}", asked.steps)));
    }
    let known = |name: &str| name == NEWTON || OPTIMIZERS.iter().any(|row| row.name == name);
    if let Some(unknown) = asked.optimizers.iter().chain(asked.rates.keys()).find(|name| !known(name)) {
        let names: Vec<&str> = OPTIMIZERS.iter().map(|row| row.name).chain([NEWTON]).collect();
        return Err(Refusal::new(format!("there is no optimizer {unknown}; there are {}", names.join(", "))));
    }
    if let Some((name, rate)) = asked.rates.iter().find(|(_, rate)| !(rate.is_finite() && **rate > 0.0)) {
        return Err(Refusal::new(format!("the learning rate of {name} must be a positive number, not {rate}")));
    }
    let (across, up) = (asked.range(&problem, 0)?, asked.range(&problem, 1)?);
    let is_shown = |name: &str| asked.optimizers.is_empty() || asked.optimizers.iter().any(|own| own == name);
    let bounds = [outer(across), outer(up)];
    let mut paths: Vec<Value> = Vec::new();
    for row in OPTIMIZERS.iter().filter(|row| is_shown(row.name)) {
        let rate = asked.rates.get(row.name).copied().unwrap_or(row.rate);
        let optimizer = (row.build)(rate, None).weight_decay(row.weight_decay);
        let mut state = optimizer.init(&Tensor::from(problem.point.clone()));
        let walked = walk(&problem, index, asked.steps, bounds, |at, slope| {
            let (next, following) = optimizer.update(&Tensor::from(at.to_vec()), &Tensor::from(slope), &state);
            state = following;
            next.to_vec::<f64>().map_err(|error| error.to_string())
        });
        paths.push(walked.as_json(row.name, row.about, Some(rate)));
    }
    if is_shown(NEWTON) {
        let walked = walk(&problem, index, asked.steps, bounds, |at, slope| newton(&problem, index, at, &slope));
        paths.push(walked.as_json(NEWTON, "Newton's method: the inverse Hessian in place of a learning rate", None));
    }
    Ok(
        json!({ "field": plot::field(&problem, index, across, up, Levels::Ranks), "steps": asked.steps, "paths": paths }),
    )
}

/// A range with as much again on either side.
fn outer((low, high): (f64, f64)) -> (f64, f64) {
    (low - (high - low), high + (high - low))
}

/// The next point of Newton's method.
fn newton(problem: &Problem, index: usize, at: &[f64], slope: &[f64]) -> Result<Vec<f64>, String> {
    let here = Problem { expression: problem.expression.clone(), point: at.to_vec() };
    let hessian = here.hessian(index);
    let [a, b, c, d] = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|place| hessian[place]);
    let determinant = a * d - b * c;
    if determinant == 0.0 {
        return Err("the Hessian is singular".to_owned());
    }
    Ok(vec![at[0] - (d * slope[0] - b * slope[1]) / determinant, at[1] - (a * slope[1] - c * slope[0]) / determinant])
}

/// A path, and why it ended early.
struct Walked {
    points: Vec<Vec<f64>>,
    values: Vec<f64>,
    ended: Option<String>,
}

fn walk(
    problem: &Problem,
    index: usize,
    steps: usize,
    bounds: [(f64, f64); 2],
    mut step: impl FnMut(&[f64], Vec<f64>) -> Result<Vec<f64>, String>,
) -> Walked {
    let value = |point: &[f64]| problem.expression.evaluate(point)[index];
    let mut walked = Walked { points: vec![problem.point.clone()], values: vec![value(&problem.point)], ended: None };
    for _ in 0..steps {
        let at = walked.points[walked.points.len() - 1].clone();
        let slope = gradient(|x| problem.expression.evaluate(x)[index], &at);
        let next = match step(&at, slope) {
            Ok(next) => next,
            Err(reason) => {
                walked.ended = Some(reason);
                break;
            }
        };
        let is_inside = next.iter().zip(bounds).all(|(x, (low, high))| (low..=high).contains(x));
        let reached = value(&next);
        if !is_inside || !reached.is_finite() {
            walked.ended =
                Some(if next.iter().all(|x| x.is_finite()) { "leaves the plane" } else { "diverges" }.to_owned());
            break;
        }
        walked.values.push(reached);
        walked.points.push(next);
        // A minimum that is reached to the last bit.
        if walked.points[walked.points.len() - 2] == walked.points[walked.points.len() - 1] {
            break;
        }
    }
    walked
}

impl Walked {
    fn as_json(&self, name: &str, about: &str, rate: Option<f64>) -> Value {
        let last = self.values[self.values.len() - 1];
        json!({
            "optimizer": name, "about": about, "rate": rate.map(json_number), "ended": self.ended,
            "points": self.points.iter().map(|point| list(point)).collect::<Vec<_>>(), "values": list(&self.values),
            "last": rounded(last), "shown": short(last),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: Value) -> Result<Value, Refusal> {
        answer(&serde_json::from_value(question).expect("a question"))
    }

    fn end(path: &Value) -> [f64; 2] {
        let last = path["points"].as_array().and_then(|points| points.last()).expect("a point").clone();
        [0, 1].map(|place| last[place].as_f64().expect("a number"))
    }

    #[test]
    fn every_optimizer_goes_downhill_and_newton_arrives() {
        let of = json!({ "expression": "x^2 + 5*y^2", "at": { "x": -4, "y": 1.5 } });
        let got = asked(json!({ "of": of, "steps": 300, "rates": { "sgd": 0.05 } })).expect("paths");
        let paths = got["paths"].as_array().expect("a list");
        assert_eq!(paths.len(), OPTIMIZERS.len() + 1);
        for path in paths {
            let values = path["values"].as_array().expect("values");
            assert!(values[values.len() - 1].as_f64() < values[0].as_f64(), "{}", path["optimizer"]);
        }
        // Of a parabola one step of Newton's method is enough; gradient descent is known in closed form.
        assert_eq!(end(&paths[paths.len() - 1]), [0.0, 0.0]);
        assert_eq!(paths[0]["rate"], 0.05);
        let second = &paths[0]["points"][1];
        assert!(
            (second[0].as_f64().expect("x") + 3.6).abs() < 1e-12
                && (second[1].as_f64().expect("y") - 0.75).abs() < 1e-12
        );
        assert_eq!(got["field"]["places"], 64);
    }

    #[test]
    fn divergence_and_wrong_questions_are_told() {
        let of = json!({ "expression": "x^2 + 5*y^2", "at": { "x": -4, "y": 1.5 } });
        let got = asked(json!({ "of": of, "optimizers": ["sgd"], "rates": { "sgd": 3 } })).expect("a path");
        assert_eq!(got["paths"][0]["ended"], "leaves the plane");
        for wrong in [
            json!({ "of": { "expression": "x^2" } }),
            json!({ "of": of, "optimizers": ["sdg"] }),
            json!({ "of": of, "rates": { "sgd": -1 } }),
            json!({ "of": of, "steps": 0 }),
            json!({ "of": of, "steps": 100_000 }),
        ] {
            assert!(asked(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
