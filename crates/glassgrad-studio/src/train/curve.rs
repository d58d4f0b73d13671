//! A curve of any length in a few hundred points.

use serde_json::{Value, json};

use glassgrad::trace::json_number;

/// The maximum number of points of a curve.
const POINTS: usize = 400;

/// Means of numbers that come one after another: of one each, then of two each, of four.
///
/// When there are too many points, neighbours are merged, so that memory is bounded for any length of run.
pub(super) struct Curve {
    /// The number of values in a point.
    width: u64,
    /// The number of the last in each point, and their mean.
    points: Vec<(u64, f64)>,
    sum: f64,
    count: u64,
    last: u64,
}

impl Curve {
    pub(super) fn new() -> Curve {
        Curve { width: 1, points: Vec::new(), sum: 0.0, count: 0, last: 0 }
    }

    pub(super) fn push(&mut self, place: u64, number: f64) {
        self.sum += number;
        self.count += 1;
        self.last = place;
        if self.count == self.width {
            self.points.push((place, self.sum / self.count as f64));
            (self.sum, self.count) = (0.0, 0);
        }
        if self.points.len() >= POINTS {
            let mean = |pair: &[(u64, f64)]| {
                (pair[pair.len() - 1].0, pair.iter().map(|point| point.1).sum::<f64>() / pair.len() as f64)
            };
            self.points = self.points.chunks(2).map(mean).collect();
            self.width *= 2;
        }
    }

    /// Places, and means.
    pub(super) fn as_json(&self) -> Value {
        let begun = (self.count > 0).then(|| (self.last, self.sum / self.count as f64));
        let all = || self.points.iter().copied().chain(begun);
        json!({ "at": all().map(|point| point.0).collect::<Vec<_>>(), "value": all().map(|point| json_number(point.1)).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_mean_and_its_end() {
        let mut curve = Curve::new();
        for step in 1..=100_000_u64 {
            curve.push(step, step as f64);
        }
        assert!(curve.points.len() < POINTS && curve.points.len() >= POINTS / 2);
        let json = curve.as_json();
        let [at, value] = ["at", "value"].map(|name| json[name].as_array().expect("a list").clone());
        assert_eq!((at.len(), at.last()), (value.len(), Some(&json!(100_000))));
        // A point is the mean of the numbers before its place.
        let (place, mean) = curve.points[10];
        assert_eq!(mean, place as f64 - (curve.width as f64 - 1.0) / 2.0);
    }

    #[test]
    fn a_short_curve_is_as_it_came() {
        let mut curve = Curve::new();
        assert_eq!(curve.as_json(), json!({ "at": [], "value": [] }));
        curve.push(1, 0.5);
        curve.push(2, f64::NAN);
        assert_eq!(curve.as_json(), json!({ "at": [1, 2], "value": [0.5, "NaN"] }));
    }
}
