//! Small pictures for the examples: panels with axes, curves, points, regions and contours, as SVG.
//!
//! An example describes its panels and calls [`save`]; only this file knows the plotting library.

#![allow(dead_code, reason = "every example includes this file and uses a part of it")]

use std::ops::Range;
use std::path::PathBuf;

pub(crate) use plotters::chart::SeriesLabelPosition as Corner;
use plotters::coord::Shift;
use plotters::prelude::*;

pub(crate) type Point = (f64, f64);

/// Colours that stay apart for the colour-blind (Okabe and Ito).
const COLOURS: [RGBColor; 5] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 140, 100), RGBColor(180, 80, 150), RGBColor(60, 60, 60)];
/// Pale companions of the first two, for the regions of two classes.
const PALE: [RGBColor; 2] = [RGBColor(214, 232, 245), RGBColor(252, 227, 205)];
const GREY: RGBColor = RGBColor(150, 150, 150);
const LIGHT: RGBColor = RGBColor(200, 200, 200);
/// The plotting library places everything on whole units; four units to a pixel keep curves smooth.
const UNITS: u32 = 4;
/// How finely functions of two variables are sampled for regions and contours.
const GRID: usize = 120;

/// One axis: what it shows, from where to where, and on which scale.
pub(crate) struct Axis {
    label: &'static str,
    range: Range<f64>,
    logarithmic: bool,
}

/// An axis with even steps.
pub(crate) fn linear(label: &'static str, range: Range<f64>) -> Axis {
    Axis { label, range, logarithmic: false }
}

/// An axis in powers of ten; the range is that of the numbers, not of their logarithms.
pub(crate) fn logarithmic(label: &'static str, range: Range<f64>) -> Axis {
    Axis { label, range: range.start.log10()..range.end.log10(), logarithmic: true }
}

impl Axis {
    fn place(&self, number: f64) -> f64 {
        if self.logarithmic { number.log10() } else { number }
    }

    fn text(&self, place: f64) -> String {
        if !self.logarithmic {
            // Adding zero turns -0 into 0.
            return format!("{}", (place * 1e6).round() / 1e6 + 0.0);
        }
        if (place - place.round()).abs() > 1e-6 {
            return String::new();
        }
        let raised = |digit: char| digit.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize));
        let exponent = format!("{:.0}", place.round() + 0.0);
        format!("10{}", exponent.chars().map(|sign| raised(sign).unwrap_or('⁻')).collect::<String>())
    }

    fn ticks(&self) -> usize {
        // A power of ten deserves a tick; more than nine of them would crowd.
        if self.logarithmic { ((self.range.end - self.range.start).round() as usize + 1).min(9) } else { 6 }
    }
}

struct Layer {
    label: String,
    points: Vec<Point>,
    colour: RGBColor,
    line: bool,
    dots: u32,
}

/// A diagram that is described step by step and drawn by [`save`].
pub(crate) struct Panel {
    title: String,
    horizontal: Axis,
    vertical: Axis,
    legend: Corner,
    /// Where the score of [`Panel::regions`] is positive; none if it was not called.
    shades: Option<Vec<[Point; 2]>>,
    contours: Vec<[Point; 2]>,
    layers: Vec<Layer>,
}

impl Panel {
    pub(crate) fn new(title: impl Into<String>, horizontal: Axis, vertical: Axis) -> Self {
        let legend = Corner::UpperRight;
        let (shades, contours, layers) = (None, Vec::new(), Vec::new());
        Panel { title: title.into(), horizontal, vertical, legend, shades, contours, layers }
    }

    /// Puts the legend where it hides nothing.
    pub(crate) fn legend_at(self, legend: Corner) -> Self {
        Panel { legend, ..self }
    }

    /// A curve through points. Every layer takes the next colour; an empty label keeps it out of the legend.
    pub(crate) fn line(self, label: &str, points: Vec<Point>) -> Self {
        self.layer(label, points, true, 0)
    }

    /// A curve on which every point is marked, unless they would crowd.
    pub(crate) fn path(self, label: &str, points: Vec<Point>) -> Self {
        let dots = if points.len() > 100 { 0 } else { 2 };
        self.layer(label, points, true, dots)
    }

    /// Points alone.
    pub(crate) fn dots(self, label: &str, points: Vec<Point>) -> Self {
        self.layer(label, points, false, 4)
    }

    fn layer(mut self, label: &str, points: Vec<Point>, line: bool, dots: u32) -> Self {
        let colour = COLOURS[self.layers.len() % COLOURS.len()];
        self.layers.push(Layer { label: label.into(), points, colour, line, dots });
        self
    }

    /// Tints the plane by the sign of a score, and draws the boundary between the two classes.
    pub(crate) fn regions(mut self, score: impl Fn(f64, f64) -> f64) -> Self {
        let (width, height) = self.cell();
        let mut shades = Vec::new();
        for row in 0..GRID {
            let positive = |column: usize| {
                let (x, y) = self.corner(column, row);
                score(x + 0.5 * width, y + 0.5 * height) > 0.0
            };
            // Neighbours of one class share a rectangle, which keeps the file small.
            let mut column = 0;
            while column < GRID {
                let start = column;
                while column < GRID && positive(column) {
                    column += 1;
                }
                if column > start {
                    shades.push([self.corner(start, row), self.corner(column, row + 1)]);
                }
                column += 1;
            }
        }
        self.shades = Some(shades);
        self.contours(&[0.0], score)
    }

    /// Draws the lines on which a function has the given levels, by marching squares.
    pub(crate) fn contours(mut self, levels: &[f64], function: impl Fn(f64, f64) -> f64) -> Self {
        for (row, column) in (0..GRID).flat_map(|row| (0..GRID).map(move |column| (row, column))) {
            let corners = [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(dx, dy)| self.corner(column + dx, row + dy));
            let heights = corners.map(|(x, y)| function(x, y));
            for level in levels {
                let mut crossings = Vec::new();
                for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
                    let (low, high) = (heights[from] - level, heights[to] - level);
                    if (low > 0.0) != (high > 0.0) {
                        let (a, b, share) = (corners[from], corners[to], low / (low - high));
                        crossings.push((a.0 + share * (b.0 - a.0), a.1 + share * (b.1 - a.1)));
                    }
                }
                self.contours.extend(crossings.chunks_exact(2).map(|ends| [ends[0], ends[1]]));
            }
        }
        self
    }

    fn cell(&self) -> (f64, f64) {
        let length = |axis: &Axis| (axis.range.end - axis.range.start) / GRID as f64;
        (length(&self.horizontal), length(&self.vertical))
    }

    fn corner(&self, column: usize, row: usize) -> Point {
        let (width, height) = self.cell();
        (self.horizontal.range.start + column as f64 * width, self.vertical.range.start + row as f64 * height)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn std::error::Error>> {
        let (horizontal, vertical) = (&self.horizontal, &self.vertical);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18 * UNITS))
            .margin(12 * UNITS)
            .x_label_area_size(42 * UNITS)
            .y_label_area_size(62 * UNITS)
            .build_cartesian_2d(horizontal.range.clone(), vertical.range.clone())?;
        if let Some(shades) = &self.shades {
            chart.plotting_area().fill(&PALE[0])?;
            chart.draw_series(shades.iter().map(|shade| Rectangle::new(*shade, PALE[1].filled())))?;
        }
        let mut mesh = chart.configure_mesh();
        if self.shades.is_some() || !self.contours.is_empty() {
            mesh.disable_mesh();
        }
        mesh.x_desc(horizontal.label)
            .y_desc(vertical.label)
            .x_labels(horizontal.ticks())
            .y_labels(vertical.ticks())
            .x_label_formatter(&|place| horizontal.text(*place))
            .y_label_formatter(&|place| vertical.text(*place))
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(228, 228, 228).stroke_width(UNITS))
            .axis_style(BLACK.stroke_width(UNITS))
            .set_all_tick_mark_size(4 * UNITS)
            .axis_desc_style(("sans-serif", 15 * UNITS))
            .label_style(("sans-serif", 13 * UNITS))
            .draw()?;
        // The boundary of two regions is drawn darker than the lines of a landscape.
        let colour = if self.shades.is_none() { LIGHT } else { COLOURS[4] };
        chart.draw_series(
            self.contours.iter().map(|ends| PathElement::new(ends.to_vec(), colour.stroke_width(UNITS))),
        )?;
        for layer in &self.layers {
            let points: Vec<Point> =
                layer.points.iter().map(|(x, y)| (horizontal.place(*x), vertical.place(*y))).collect();
            let (colour, line, dots) = (layer.colour, layer.line, layer.dots * UNITS);
            let stroke = colour.stroke_width(if line { 2 * UNITS } else { 0 });
            let series = if line {
                chart.draw_series(LineSeries::new(points.clone(), stroke))?
            } else {
                chart.draw_series(std::iter::empty::<Circle<Point, u32>>())?
            };
            if !layer.label.is_empty() {
                series.label(&layer.label).legend(move |(x, y)| {
                    let width = 18 * UNITS as i32;
                    let sample = PathElement::new([(x, y), (x + width, y)], stroke);
                    EmptyElement::at((0, 0)) + sample + Circle::new((x + width / 2, y), dots, colour.filled())
                });
            }
            if dots > 0 {
                chart.draw_series(points.iter().map(|point| Circle::new(*point, dots, colour.filled())))?;
            }
        }
        if self.layers.iter().any(|layer| !layer.label.is_empty()) {
            chart
                .configure_series_labels()
                .position(self.legend.clone())
                .background_style(WHITE.mix(0.85))
                .border_style(GREY.stroke_width(UNITS))
                .margin(10 * UNITS)
                .legend_area_size(24 * UNITS)
                .label_font(("sans-serif", 14 * UNITS))
                .draw()?;
        }
        Ok(())
    }
}

/// Writes the panels side by side, four of them in a square, into the folder that the first argument
/// of the program names, or `target/pictures`.
pub(crate) fn save(name: &str, panels: &[Panel]) {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target/pictures".into()));
    std::fs::create_dir_all(&folder).expect("the folder for pictures can be created");
    let path = folder.join(format!("{name}.svg"));
    let columns = if panels.len() == 4 { 2 } else { panels.len() };
    let rows = panels.len().div_ceil(columns);
    let (width, height) = if panels.len() == 1 { (680, 460) } else { (480, 420) };
    let (width, height) = (width * columns as u32, height * rows as u32);
    let mut text = String::new();
    {
        let sheet = SVGBackend::with_string(&mut text, (width * UNITS, height * UNITS)).into_drawing_area();
        sheet.fill(&WHITE).expect("the sheet is empty");
        for (panel, area) in panels.iter().zip(sheet.split_evenly((rows, columns))) {
            panel.draw(&area).expect("a panel can be drawn");
        }
        sheet.present().expect("the picture can be finished");
    }
    let in_units = format!("width=\"{}\" height=\"{}\"", width * UNITS, height * UNITS);
    let text = text.replacen(&in_units, &format!("width=\"{width}\" height=\"{height}\""), 1);
    std::fs::write(&path, text).expect("the picture can be written");
    println!("\nThe picture is in {}.", path.display());
}
