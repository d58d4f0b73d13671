//! Plots of an expression around a point: a curve with its tangent and its Taylor polynomial, and of two variables the values over
//! the plane with the gradient field.
//!
//! ```text
//! { "curve": { "variable": name, "at": [x, …], "value": [y, …], "tangent": [y, …], "taylor": [y, …], "order": n,
//!              "point": [x, y], "slope": number } or null,
//!   "field": { "variables": [name, name], "across": [low, high], "up": [low, high], "places": 64, "levels": bytes,
//!              "range": [low, high], "marks": [number; 5], "point": [x, y], "gradient": [number, number],
//!              "arrows": [{ "at": [x, y], "gradient": [number, number] }, …] } or null }
//! ```
//!
//! Levels are row by row from the top left, 1 and 255 for the ends of `range` and 0 where there is no finite value. The range leaves out
//! the outermost hundredth of the values on either side, so that a pole does not flatten everything else.

use glassgrad::scalar::gradient;
use glassgrad::trace::json_number;
use serde_json::{Value, json};

use super::explore::ExploreRequest;
use crate::answer::Refusal;
use crate::encode::{bytes, list, rounded};
use crate::experiment::plane::Plane;
use crate::problem::Problem;

/// Points of a curve.
const POINTS: usize = 241;
/// Grid points along each side of the plane, of values and of arrows.
const PLACES: usize = 64;
const ARROWS: usize = 11;
/// The share of values beyond the range at either end.
const OUTSIDE: f64 = 0.01;

pub(crate) fn answer(asked: &ExploreRequest) -> Result<Value, Refusal> {
    let problem = asked.problem()?;
    let index = asked.index(&problem)?;
    let order = asked.order()?;
    let curve = match asked.variable(&problem)? {
        Some(variable) => Some(curve(&problem, index, variable, order, asked.range(&problem, variable)?)),
        None => None,
    };
    let field = match problem.point.len() {
        2 => Some(field(&problem, index, asked.range(&problem, 0)?, asked.range(&problem, 1)?, Levels::Linear)),
        _ => None,
    };
    Ok(json!({ "curve": curve, "field": field }))
}

/// The value of a result where one variable has another value.
fn value_at(problem: &Problem, index: usize, variable: usize, x: f64) -> f64 {
    let mut point = problem.point.clone();
    point[variable] = x;
    problem.expression.evaluate(&point)[index]
}

fn curve(problem: &Problem, index: usize, variable: usize, order: usize, (low, high): (f64, f64)) -> Value {
    let x0 = problem.point[variable];
    let derivatives = problem.derivatives(index, variable, order);
    // The coefficients of the Taylor polynomial: derivatives over factorials.
    let mut factorial = 1.0;
    let coefficients: Vec<f64> = derivatives
        .iter()
        .enumerate()
        .map(|(k, derivative)| {
            factorial *= k.max(1) as f64;
            derivative / factorial
        })
        .collect();
    let polynomial =
        |terms: &[f64], x: f64| terms.iter().rev().fold(0.0, |sum, coefficient| sum * (x - x0) + coefficient);
    let at: Vec<f64> = (0..POINTS).map(|k| low + (high - low) * k as f64 / (POINTS - 1) as f64).collect();
    let along = |value: &dyn Fn(f64) -> f64| list(&at.iter().map(|x| value(*x)).collect::<Vec<f64>>());
    json!({
        "variable": problem.name(variable), "order": order,
        "at": list(&at),
        "value": along(&|x| value_at(problem, index, variable, x)),
        "tangent": along(&|x| polynomial(&coefficients[..coefficients.len().min(2)], x)),
        "taylor": along(&|x| polynomial(&coefficients, x)),
        "point": [rounded(x0), rounded(derivatives[0])],
        "slope": json_number(derivatives.get(1).copied().unwrap_or(0.0)),
    })
}

/// How values become levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Levels {
    /// In proportion, between the ends of the range.
    Linear,
    /// By rank, so that each band of levels covers the same area: valleys and ridges of very different heights are visible together.
    Ranks,
}

/// The values and the gradient field of a function of two variables over a part of the plane.
pub(super) fn field(problem: &Problem, index: usize, across: (f64, f64), up: (f64, f64), scale: Levels) -> Value {
    let value = |pair: &[f64]| problem.expression.evaluate(pair)[index];
    let slopes = |pair: &[f64]| gradient(|x| problem.expression.evaluate(x)[index], pair);
    let values: Vec<f64> = Plane { across, up, places: PLACES }.points().chunks_exact(2).map(value).collect();
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let quantile = |part: f64| sorted.get((part * sorted.len().saturating_sub(1) as f64).round() as usize).copied();
    let range = (quantile(OUTSIDE).unwrap_or(0.0), quantile(1.0 - OUTSIDE).unwrap_or(1.0));
    let level = |value: &f64| match range.1 > range.0 {
        _ if !value.is_finite() => 0,
        true if scale == Levels::Ranks => {
            let below = sorted.partition_point(|other| other < value);
            (1.0 + 254.0 * below as f64 / (sorted.len() - 1).max(1) as f64).round() as u8
        }
        true => (1.0 + 254.0 * ((value - range.0) / (range.1 - range.0)).clamp(0.0, 1.0)).round() as u8,
        false => 128,
    };
    // What levels from the lowest to the highest stand for.
    let marks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| match scale {
        Levels::Linear => range.0 + part * (range.1 - range.0),
        Levels::Ranks => quantile(part).unwrap_or(0.0),
    });
    let arrows: Vec<Value> = Plane { across, up, places: ARROWS }
        .points()
        .chunks_exact(2)
        .filter(|pair| value(pair).is_finite())
        .map(|pair| json!({ "at": list(pair), "gradient": list(&slopes(pair)) }))
        .collect();
    json!({
        "variables": problem.expression.variables(), "across": list(&[across.0, across.1]), "up": list(&[up.0, up.1]),
        "places": PLACES, "levels": bytes(values.iter().map(level)), "range": list(&[range.0, range.1]), "marks": list(&marks),
        "point": list(&problem.point), "gradient": list(&slopes(&problem.point)), "arrows": arrows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::read;

    fn plotted(question: Value) -> Value {
        let asked: ExploreRequest = serde_json::from_value(question).expect("a question");
        answer(&asked).expect("a plot")
    }

    #[test]
    fn the_taylor_polynomial_touches_the_curve_to_its_order() {
        let got = plotted(json!({ "expression": "exp(x)", "at": { "x": 1 }, "order": 3, "ranges": { "x": [-1, 3] } }));
        let curve = &got["curve"];
        let number = |list: &str, place: usize| curve[list][place].as_f64().expect("a number");
        assert_eq!((number("at", 0), number("at", 240), number("at", 120)), (-1.0, 3.0, 1.0));
        for place in [0, 60, 120, 180, 240] {
            let (x, e) = (number("at", place) - 1.0, std::f64::consts::E);
            for (list, expected) in [
                ("value", (x + 1.0).exp()),
                ("tangent", e * (1.0 + x)),
                ("taylor", e * (1.0 + x + x * x / 2.0 + x * x * x / 6.0)),
            ] {
                assert!((number(list, place) - expected).abs() < 1e-4, "{list} at {x}: {expected}");
            }
        }
        assert!(got["field"].is_null());
    }

    #[test]
    fn the_field_of_two_variables_has_values_and_exact_gradients() {
        let ranges = json!({ "x": [-2, 2], "y": [-1, 1] });
        let got = plotted(json!({ "expression": "x^2 + 3*y", "at": { "x": 1, "y": 0.5 }, "ranges": ranges }));
        let field = &got["field"];
        assert_eq!(field["gradient"], json!([2.0, 3.0]));
        let arrow = &field["arrows"][0];
        let at = |place: usize| arrow["at"][place].as_f64().expect("a number");
        assert!(at(0) < -1.8 && at(1) > 0.9, "the first is at the top left: {arrow}");
        assert_eq!(arrow["gradient"][0].as_f64(), Some(2.0 * at(0)));
        let cells = read(&field["levels"]);
        assert_eq!((cells.len(), cells[0]), (4096, 255));
        assert_eq!(field["marks"][0], field["range"][0]);
        // Of three variables there is a curve along one.
        let three = plotted(json!({ "expression": "x*y*z", "wrt": "y" }));
        assert!(three["field"].is_null() && three["curve"]["variable"] == "y");
        assert!(plotted(json!({ "expression": "1 + 2" }))["curve"].is_null());
        // What has no value is left out.
        let pole = plotted(json!({ "expression": "ln(x) / y", "at": { "x": 1, "y": 1 } }));
        assert_eq!(pole["curve"]["value"][0], "NaN");
        assert!(pole["field"]["range"][0].as_f64().is_some_and(f64::is_finite));
        let cells = read(&pole["field"]["levels"]);
        assert_eq!((cells[0], cells[40] > 0), (0, true));
        let arrows = pole["field"]["arrows"].as_array().expect("arrows");
        assert!(!arrows.is_empty() && arrows.iter().all(|arrow| arrow["at"][0].as_f64() > Some(0.0)));
    }

    #[test]
    fn levels_by_rank_cover_equal_areas() {
        let asked = json!({ "expression": "exp(4*x) + 0*y", "at": { "x": 0, "y": 0 } });
        let asked: ExploreRequest = serde_json::from_value(asked).expect("a question");
        let problem = asked.problem().expect("a problem");
        let cells = read(&field(&problem, 0, (-1.0, 1.0), (-1.0, 1.0), Levels::Ranks)["levels"]);
        let half = cells.iter().filter(|level| **level < 128).count();
        assert!((2000..=2112).contains(&half), "{half}");
        assert!(cells[..64].is_sorted() && cells[0] == 1);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for range in [json!([1, 1]), json!([2, -2])] {
            let asked = json!({ "expression": "x", "ranges": { "x": range } });
            let asked: ExploreRequest = serde_json::from_value(asked).expect("a question");
            assert!(answer(&asked).is_err());
        }
    }
}
