//! The arena as an SVG picture: a rectangle for each value, as long as it lives and as tall as it is large.

use std::fmt::Write as _;

use super::arena::{Arena, LISTED};
use super::steps::Kind;
use super::text::shortened;
use crate::opt::contract::metric;
use crate::picture::{escaped, visible_width};

const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 76.0;
const TOP: f64 = 62.0;
const MARGIN: f64 = 24.0;
const LINE: f64 = 18.0;
const CHARACTER: f64 = 6.7;
/// The text of a label inside a rectangle needs this much height for one line.
const LABEL: f64 = 14.0;
/// Labels shorter than this are omitted.
const SHORTEST: usize = 6;
/// From this many values on, rectangles have no borders, which would hide them.
const MANY: usize = 400;

impl Arena {
    /// The arena as an SVG picture: steps from left to right, places from the bottom to the top, a rectangle for each
    /// value with what wrote it and the user's line where there is room for them, and always when one points at it. The
    /// largest values are listed below.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// let x = Tensor::new(&[0.5_f32; 100], [10, 10]);
    /// let svg = x.matmul(&x).matmul(&x.tanh()).explain().unwrap().arena.svg("two products");
    /// assert!(svg.starts_with("<svg") && svg.contains("product 10×10×10"));
    /// assert_eq!(svg.matches("class=\"value").count(), 2);
    /// ```
    pub fn svg(&self, title: &str) -> String {
        let listed = self.values.len().min(LISTED);
        let height = TOP + HEIGHT + 74.0 + LINE * listed as f64;
        let width = LEFT + WIDTH + MARGIN;
        let mut svg = header(width, height, title);
        let summary = match self.values.is_empty() {
            true => "nothing is kept between steps".to_owned(),
            false => format!(
                "{} in {} steps; {} without sharing; at most {} in use at once, in step {}",
                metric(self.bytes as u128, "B"),
                self.steps,
                metric(self.unshared as u128, "B"),
                metric(self.highest as u128, "B"),
                self.highest_at
            ),
        };
        let _ = writeln!(svg, "<text class=\"note\" x=\"{LEFT}\" y=\"46\">{}</text>", escaped(&summary));
        let _ = writeln!(
            svg,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{WIDTH:.1}\" height=\"{HEIGHT:.1}\"/>"
        );
        if !self.values.is_empty() {
            self.draw_values(&mut svg);
            self.draw_axes(&mut svg);
        }
        let mut y = TOP + HEIGHT + 52.0;
        draw_kinds(&mut svg, y);
        for number in self.largest().into_iter().take(LISTED) {
            y += LINE;
            let value = &self.values[number];
            let words = escaped(&shortened(&value.words(), (WIDTH / CHARACTER) as usize));
            draw_key(&mut svg, value.kind, (LEFT, y), "listed", &words);
        }
        svg + "</svg>\n"
    }

    fn across(&self, step: f64) -> f64 {
        LEFT + WIDTH * step / self.steps.max(1) as f64
    }

    fn up(&self, place: f64) -> f64 {
        TOP + HEIGHT * (1.0 - place / self.bytes.max(1) as f64)
    }

    fn draw_values(&self, svg: &mut String) {
        let plain = if self.values.len() > MANY { " plain" } else { "" };
        for value in &self.values {
            let steps = value.held.steps();
            let (left, right) = (self.across(steps.start as f64), self.across(steps.end as f64));
            let place = value.held.place as f64;
            let (top, bottom) = (self.up(place + value.held.bytes as f64), self.up(place));
            let (width, height) = (right - left, bottom - top);
            let _ = write!(
                svg,
                "<rect class=\"value {}{plain}\" x=\"{left:.2}\" y=\"{top:.2}\" width=\"{width:.2}\" height=\"{height:.2}\">",
                class(value.kind)
            );
            let _ = writeln!(svg, "<title>{}</title></rect>", escaped(&value.words()));
            let room = ((width - 8.0) / CHARACTER).max(0.0) as usize;
            let lines = [Some(&value.what), value.line.as_ref()];
            let fitting = lines.into_iter().flatten().filter(|line| room >= visible_width(line).min(SHORTEST));
            for (number, line) in fitting.enumerate().take_while(|(number, _)| height >= LABEL * (number + 1) as f64) {
                let class = if number == 0 { "label" } else { "label note" };
                let y = top + LABEL * (number as f64 + 0.8);
                let line = escaped(&shortened(line, room));
                let _ = writeln!(svg, "<text class=\"{class}\" x=\"{:.1}\" y=\"{y:.1}\">{line}</text>", left + 4.0);
            }
        }
    }

    fn draw_axes(&self, svg: &mut String) {
        let bottom = TOP + HEIGHT;
        for step in ticks(self.steps as f64, 20.0) {
            // A step takes a column, and its number stands under the middle of it.
            let x = self.across(step + 0.5);
            let _ = writeln!(svg, "<text class=\"tick middle\" x=\"{x:.1}\" y=\"{:.1}\">{step}</text>", bottom + 15.0);
        }
        let _ = writeln!(
            svg,
            "<text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">step</text>",
            LEFT + WIDTH / 2.0,
            bottom + 30.0
        );
        for place in ticks(self.bytes as f64, 8.0) {
            let y = self.up(place);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{:.1}\" x2=\"{LEFT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                LEFT - 4.0
            );
            let text = metric(place as u128, "B");
            let _ =
                writeln!(svg, "<text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>", LEFT - 8.0, y + 4.0);
        }
        let x = self.across(self.highest_at as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<line class=\"highest\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
            TOP - 8.0
        );
    }
}

/// Round numbers from 0 up to an end, at most `most`.
fn ticks(end: f64, most: f64) -> impl Iterator<Item = f64> {
    let mut step = 1.0;
    while end / step > most {
        // 1, 2, 5, 10, 20, …
        let leading = step / 10_f64.powf(step.log10().floor());
        step *= if (leading - 2.0).abs() < 0.5 { 2.5 } else { 2.0 };
    }
    (0..).map(move |k| f64::from(k) * step).take_while(move |tick| *tick < end)
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Loop => "loop",
        Kind::Product => "product",
        Kind::Call => "call",
        Kind::Scan | Kind::Sweep => "time",
    }
}

/// The legend.
fn draw_kinds(svg: &mut String, y: f64) {
    let kinds = [
        (Kind::Loop, "written by a loop"),
        (Kind::Product, "by a product"),
        (Kind::Call, "whole arrays"),
        (Kind::Scan, "by a loop over time, or its room"),
    ];
    let mut x = LEFT;
    for (kind, words) in kinds {
        draw_key(svg, kind, (x, y), "note", words);
        x += 34.0 + CHARACTER * words.len() as f64;
    }
}

/// A small square in the colour of a kind, and words beside it.
fn draw_key(svg: &mut String, kind: Kind, (x, y): (f64, f64), ink: &str, words: &str) {
    let class = class(kind);
    let _ = writeln!(svg, "<rect class=\"key {class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/>", y - 9.0);
    let _ =
        writeln!(svg, "<text class=\"{ink}\" xml:space=\"preserve\" x=\"{:.1}\" y=\"{y:.1}\">{words}</text>", x + 16.0);
}

fn header(width: f64, height: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"11\" role=\"img\" aria-label=\"{title}\">\n\
         <style>\n\
         .frame {{ fill: #f8fafc; stroke: #94a3b8; }}\n\
         .value, .key {{ stroke: #ffffff; stroke-width: 0.8; }}\n\
         .plain {{ stroke: none; }}\n\
         .loop {{ fill: #7dd3fc; }}\n\
         .product {{ fill: #86efac; }}\n\
         .call {{ fill: #fca5a5; }}\n\
         .time {{ fill: #fcd34d; }}\n\
         .title {{ fill: #0f172a; font-weight: 600; font-size: 14px; }}\n\
         .label, .listed {{ fill: #0f172a; pointer-events: none; }}\n\
         .note, .tick {{ fill: #475569; }}\n\
         .grid {{ stroke: #94a3b8; }}\n\
         .highest {{ stroke: #b91c1c; stroke-dasharray: 4 3; }}\n\
         .middle {{ text-anchor: middle; }}\n\
         .end {{ text-anchor: end; }}\n\
         </style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"26\">{title}</text>\n"
    )
}
