//! Scaling plots: time over size, on logarithmic axes.
//!
//! `bench/run hessians` measures, writes down what it found as JSON, and has it drawn here.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::chart::{Axis, Dot, Plot, number, sheet};
use crate::failure::{Failure, print};

/// Colours that stay apart for the colour-blind (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#008c64", "#b45096", "#3c3c3c", "#56b4e9"];
/// The width and the height of one diagram, in pixels.
const SIZE: (f64, f64) = (560.0, 404.0);

/// A diagram: one curve for each engine.
struct Panel {
    title: String,
    horizontal: String,
    curves: Vec<Curve>,
}

struct Curve {
    /// Whose times these are, which decides the colour.
    engine: String,
    label: String,
    /// Sizes and seconds.
    points: Vec<(f64, f64)>,
}

/// Plots the measurements in a file, into a file of the same name with the extension `.svg`.
pub(super) fn draw(path: &Path) -> Result<(), Failure> {
    let wrong = |what: String| Failure::Input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let measurements: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    let panels = panels(&measurements)
        .filter(|panels| !panels.is_empty())
        .ok_or_else(|| wrong("has no \"panels\" with a title, a horizontal axis and curves of points".to_owned()))?;
    let file: PathBuf = path.with_extension("svg");
    std::fs::write(&file, picture(&panels))
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}", file.display())))?;
    print(&format!("{}\n", file.display()))
}

fn panels(measurements: &Value) -> Option<Vec<Panel>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let point = |point: &Value| -> Option<(f64, f64)> {
        let (size, seconds) = (point[0].as_f64()?, point[1].as_f64()?);
        (size > 0.0 && seconds > 0.0).then_some((size, seconds))
    };
    let curve = |curve: &Value| -> Option<Curve> {
        let points = curve["points"].as_array()?.iter().map(point).collect::<Option<_>>()?;
        Some(Curve { engine: text(&curve["engine"])?, label: text(&curve["label"])?, points })
    };
    let panel = |panel: &Value| -> Option<Panel> {
        let curves = panel["curves"].as_array()?.iter().map(curve).collect::<Option<_>>()?;
        Some(Panel { title: text(&panel["title"])?, horizontal: text(&panel["horizontal"])?, curves })
    };
    measurements["panels"].as_array()?.iter().map(panel).collect()
}

fn picture(panels: &[Panel]) -> String {
    let mut engines: Vec<&str> = Vec::new();
    for curve in panels.iter().flat_map(|panel| &panel.curves) {
        if !engines.contains(&&*curve.engine) {
            engines.push(&curve.engine);
        }
    }
    let plots: Vec<(&str, Plot)> = panels.iter().map(|panel| (&*panel.title, panel.plot(&engines))).collect();
    sheet(&plots, 2)
}

impl Panel {
    fn plot(&self, engines: &[&str]) -> Plot {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let times = || points().map(|(_, seconds)| seconds);
        // Above the curves there is room for their names: a share of the decades.
        let ends = times().reduce(f64::min).zip(times().reduce(f64::max));
        let room = ends.map(|(low, high)| high * (high / low).max(3.0).powf(0.1 * self.curves.len() as f64));
        let across = Axis::logarithmic(&self.horizontal, points().map(|(size, _)| size));
        let up = Axis::logarithmic("time", times().chain(room)).labelled(time);
        let mut plot = Plot::shaped(&self.title, across, up, SIZE);
        for curve in &self.curves {
            let place = engines.iter().position(|engine| *engine == curve.engine).unwrap_or_default();
            let colour = COLOURS[place % COLOURS.len()];
            plot.line(&curve.label, colour, &curve.points);
            plot.dots(&curve.label, colour, Dot::Plain, &curve.points);
        }
        plot
    }
}

/// Seconds with the unit that fits.
fn time(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        s if s < 0.99e-6 => (1e9 * s, "ns"),
        s if s < 0.99e-3 => (1e6 * s, "µs"),
        s if s < 0.99 => (1e3 * s, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", number(scaled))
}
