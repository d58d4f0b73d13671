//! How times grow with sizes, as a picture on logarithmic axes.
//!
//! `bench/run hessians` measures, writes down what it found as JSON, and has it drawn here.

use std::ops::Range;
use std::path::{Path, PathBuf};

use plotters::chart::SeriesLabelPosition;
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

use crate::failure::{Failure, print};

/// Colours that stay apart for the colour-blind (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 140, 100),
    RGBColor(180, 80, 150),
    RGBColor(60, 60, 60),
    RGBColor(86, 180, 233),
];
/// The plotting library places everything on whole units; four units to a pixel keep lines smooth.
const UNITS: u32 = 4;
/// The width and the height of one diagram, in pixels.
const SIZE: (u32, u32) = (560, 430);

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

/// Draws what a file tells, into a file of the same name that ends in `.svg`.
pub(super) fn draw(path: &Path) -> Result<(), Failure> {
    let wrong = |what: String| Failure::Input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let told: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    let panels = panels(&told)
        .filter(|panels| !panels.is_empty())
        .ok_or_else(|| wrong("has no \"panels\" with a title, a horizontal axis and curves of points".to_owned()))?;
    let picture = picture(&panels).map_err(|error| wrong(format!("cannot be drawn: {error}")))?;
    let file: PathBuf = path.with_extension("svg");
    std::fs::write(&file, picture)
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}", file.display())))?;
    print(&format!("{}\n", file.display()))
}

fn panels(told: &Value) -> Option<Vec<Panel>> {
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
    told["panels"].as_array()?.iter().map(panel).collect()
}

fn picture(panels: &[Panel]) -> Result<String, Box<dyn std::error::Error>> {
    let mut engines: Vec<&str> = Vec::new();
    for curve in panels.iter().flat_map(|panel| &panel.curves) {
        if !engines.contains(&&*curve.engine) {
            engines.push(&curve.engine);
        }
    }
    let columns = panels.len().min(2);
    let rows = panels.len().div_ceil(columns);
    let (width, height) = (SIZE.0 * columns as u32, SIZE.1 * rows as u32);
    let mut text = String::new();
    {
        let sheet = SVGBackend::with_string(&mut text, (width * UNITS, height * UNITS)).into_drawing_area();
        sheet.fill(&WHITE)?;
        for (panel, area) in panels.iter().zip(sheet.split_evenly((rows, columns))) {
            panel.draw(&area, &engines)?;
        }
        sheet.present()?;
    }
    let in_units = format!("width=\"{}\" height=\"{}\"", width * UNITS, height * UNITS);
    Ok(text.replacen(&in_units, &format!("width=\"{width}\" height=\"{height}\""), 1))
}

impl Panel {
    /// The range of one coordinate with a margin, and room above for the legend: a share of its decades.
    fn range(&self, coordinate: impl Fn(&(f64, f64)) -> f64, room: f64) -> Range<f64> {
        let all = || self.curves.iter().flat_map(|curve| &curve.points).map(|point| coordinate(point).log10());
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        if low > high {
            return 1.0..10.0;
        }
        let decades = (high - low).max(0.5);
        10_f64.powf(low - 0.06 * decades)..10_f64.powf(high + (0.06 + room) * decades)
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        engines: &[&str],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let across = self.range(|point| point.0, 0.0);
        let up = self.range(|point| point.1, 0.1 * self.curves.len() as f64);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 16 * UNITS))
            .margin(12 * UNITS)
            .x_label_area_size(42 * UNITS)
            .y_label_area_size(66 * UNITS)
            .build_cartesian_2d(across.log_scale(), up.log_scale())?;
        chart
            .configure_mesh()
            .x_desc(self.horizontal.as_str())
            .y_desc("time")
            .x_label_formatter(&|size| size_label(*size))
            .y_label_formatter(&|seconds| time_label(*seconds))
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(228, 228, 228).stroke_width(UNITS))
            .axis_style(BLACK.stroke_width(UNITS))
            .set_all_tick_mark_size(4 * UNITS)
            .axis_desc_style(("sans-serif", 14 * UNITS))
            .label_style(("sans-serif", 12 * UNITS))
            .draw()?;
        for curve in &self.curves {
            let place = engines.iter().position(|engine| *engine == curve.engine).unwrap_or_default();
            let colour = COLOURS[place % COLOURS.len()];
            let stroke = colour.stroke_width(2 * UNITS);
            chart
                .draw_series(LineSeries::new(curve.points.clone(), stroke))?
                .label(&curve.label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18 * UNITS as i32, y)], stroke));
            chart.draw_series(curve.points.iter().map(|point| Circle::new(*point, 3 * UNITS, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(150, 150, 150).stroke_width(UNITS))
            .margin(8 * UNITS)
            .legend_area_size(24 * UNITS)
            .label_font(("sans-serif", 12 * UNITS))
            .draw()?;
        Ok(())
    }
}

/// A size, if it is 1, 2 or 5 times a power of ten: the labels of all others would crowd.
fn size_label(size: f64) -> String {
    let digit = size / 10_f64.powf((size.log10() + 1e-9).floor());
    let shown = [1.0, 2.0, 5.0].iter().any(|shown| (digit - shown).abs() < 1e-6);
    if shown { format!("{size:.0}") } else { String::new() }
}

/// A power of ten of seconds with the unit that fits.
fn time_label(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        s if s < 0.99e-6 => (1e9 * s, "ns"),
        s if s < 0.99e-3 => (1e6 * s, "µs"),
        s if s < 0.99 => (1e3 * s, "ms"),
        s => (s, "s"),
    };
    format!("{scaled:.0} {unit}")
}
