//! Small pictures of the examples of the gallery, as numbers: a curve, values over a plane, a formula, points of a data set, or an image.
//!
//! ```text
//! { "kind": "curve", "at": [x, …], "value": [y, …] }          { "kind": "math", "math": MathML }
//! { "kind": "field", "places": 24, "levels": bytes }           { "kind": "image", "width", "height", "pixels": bytes }
//! { "kind": "points", "at": [[x, y], …], "class": [number, …] }
//! ```

use glassgrad::data::Dataset as _;
use glassgrad::dtype::DType;
use glassgrad::formula::mathml;
use glassgrad::lang::parse;
use serde_json::{Value, json};

use crate::encode::{levels, list};
use crate::experiment::datasets;
use crate::experiment::plane::Plane;
use crate::experiment::sources::Embedded;
use crate::experiment::task::{Kind, View};

/// Points of a curve, grid points along a side of a plane, and examples of a data set.
const POINTS: usize = 61;
const PLACES: usize = 24;
const EXAMPLES: usize = 90;
/// The half-width of the range around a point.
const RANGE: f64 = 4.0;

/// An expression around a point, given as in `x:2,y:5`.
pub(crate) fn of_expression(expression: &str, at: &str) -> Option<Value> {
    let read = parse(expression).ok()?;
    let value_of = |name: &str| at.split(',').find_map(|pair| pair.split_once(':').filter(|(own, _)| *own == name));
    let point: Vec<f64> =
        read.variables().iter().map(|name| value_of(name)?.1.parse().ok()).collect::<Option<Vec<f64>>>()?;
    // The first result without a name of its own is what is shown.
    let value = |point: &[f64]| read.evaluate(point)[0];
    let around = |x: f64| (x - RANGE, x + RANGE);
    match point[..] {
        [] => None,
        [x, y] => {
            let plane = Plane { across: around(x), up: around(y), places: PLACES };
            let values: Vec<f64> = plane.points().chunks_exact(2).map(value).collect();
            let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let at = |part: f64| sorted.get((part * sorted.len().saturating_sub(1) as f64) as usize).copied();
            let range = (at(0.03)?, at(0.97)?);
            Some(json!({ "kind": "field", "places": PLACES, "levels": levels(&values, range) }))
        }
        [x, ..] => {
            let (low, high) = around(x);
            let at: Vec<f64> = (0..POINTS).map(|k| low + (high - low) * k as f64 / (POINTS - 1) as f64).collect();
            let along = |x: &f64| {
                let mut moved = point.clone();
                moved[0] = *x;
                value(&moved)
            };
            Some(json!({ "kind": "curve", "at": list(&at), "value": list(&at.iter().map(along).collect::<Vec<_>>()) }))
        }
    }
}

/// A matrix expression, typeset.
pub(crate) fn of_matrix(expression: &str) -> Value {
    json!({ "kind": "math", "math": mathml(expression) })
}

/// Examples of a data set: points, or the first image.
pub(crate) fn of_data(data: &str) -> Option<Value> {
    let settings = datasets::suited(data, None).ok()?;
    let task = datasets::load(&settings, &Embedded).ok()?;
    let count = task.training.len().min(EXAMPLES);
    let (x, y) = task.training.batch(&(0..count).collect::<Vec<_>>()).ok()?;
    let x = x.cast(DType::F64).to_vec::<f64>().ok()?;
    let y = y.cast(DType::F64).to_vec::<f64>().ok()?;
    let width = x.len() / count;
    match (&task.about.view, &task.about.kind) {
        (View::Image { height, width }, _) => {
            let pixels = &x[..height * width];
            let ends = pixels.iter().fold((f64::MAX, f64::MIN), |(low, high), own| (low.min(*own), high.max(*own)));
            Some(json!({ "kind": "image", "width": width, "height": height, "pixels": levels(pixels, ends) }))
        }
        (View::Row { .. }, Kind::Classes { .. }) if width >= 2 => {
            let at: Vec<Value> = x.chunks_exact(width).map(|row| list(&row[..2])).collect();
            Some(json!({ "kind": "points", "at": at, "class": y }))
        }
        (View::Row { .. }, Kind::Numbers { .. }) => {
            let at: Vec<Value> = x.chunks_exact(width).zip(&y).map(|(row, y)| list(&[row[0], *y])).collect();
            Some(json!({ "kind": "points", "at": at, "class": vec![0; count] }))
        }
        (View::Row { .. } | View::Text { .. }, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_example_has_a_picture() {
        let kind = |picture: Option<Value>| picture.expect("a picture")["kind"].clone();
        assert_eq!(kind(of_expression("x^2", "x:1")), "curve");
        assert_eq!(kind(of_expression("x*y", "x:1,y:2")), "field");
        assert_eq!(kind(of_expression("a*b + c", "a:1,b:2,c:3")), "curve");
        assert_eq!(kind(of_data("moons")), "points");
        assert_eq!(kind(of_data("function")), "points");
        assert_eq!(kind(of_data("digits")), "image");
        assert!(of_matrix("A*x")["math"].as_str().is_some_and(|math| math.starts_with("<math>")));
        assert!(of_expression("1 + 1", "").is_none() && of_data("nothing").is_none());
    }
}
