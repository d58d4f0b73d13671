//! Marks over two axes.

use std::fmt::Write as _;

use super::{Axis, escaped};

/// A drawing over two axes, and what its colours mean.
///
/// It is as wide as a telephone shows without shrinking its letters much; a page may show it larger.
pub struct Plot {
    pub(super) label: String,
    across: Axis,
    up: Axis,
    pub(super) field: Field,
    pub(super) size: (f64, f64),
    marks: String,
    pub(super) keys: Vec<Key>,
}

/// The style of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dot {
    /// A small one, through which others are seen.
    Faint,
    /// One that counts.
    Plain,
    /// A cross over what is wrong.
    Cross,
}

/// A colour and what it means.
pub(super) struct Key {
    sign: &'static str,
    pub(super) colour: String,
    pub(super) name: String,
}

/// The plotting area.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) left: f64,
    pub(super) top: f64,
    width: f64,
    height: f64,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 270.0;
pub(super) const FONT: f64 = 13.0;
/// About the width of a letter beside an axis.
pub(super) const LETTER: f64 = 7.2;
/// Curves with fewer points show each of them.
const FEW: usize = 3;

impl Plot {
    /// An empty drawing; the label is read to those who cannot see it.
    pub fn new(label: &str, across: Axis, up: Axis) -> Plot {
        Plot::shaped(label, across, up, (WIDTH, HEIGHT))
    }

    /// One whose two axes are about equally long, as for points of a plane.
    pub fn square(label: &str, across: Axis, up: Axis) -> Plot {
        Plot::shaped(label, across, up, (WIDTH, 0.98 * WIDTH))
    }

    /// A small one, as there are of histograms.
    pub fn flat(label: &str, across: Axis, up: Axis) -> Plot {
        Plot::shaped(label, across, up, (0.75 * WIDTH, 0.4 * WIDTH))
    }

    /// One of a width and a height.
    pub fn shaped(label: &str, across: Axis, up: Axis, size: (f64, f64)) -> Plot {
        let longest = up.ticks().iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * LETTER + 14.0).max(30.0);
        let (top, below) =
            (if up.name.is_empty() { 10.0 } else { 26.0 }, if across.name.is_empty() { 26.0 } else { 44.0 });
        let field = Field { left, top, width: size.0 - left - 14.0, height: size.1 - top - below };
        Plot { label: label.to_owned(), across, up, field, size, marks: String::new(), keys: Vec::new() }
    }

    /// The pixel coordinates of a point, if they are finite.
    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let Field { left, top, width, height } = self.field;
        let (across, up) = (self.across.place(x)?, self.up.place(y)?);
        // Coordinates far outside would overflow in SVG viewers.
        let near = |part: f64| part.clamp(-2.0, 3.0);
        Some((left + width * near(across), top + height * (1.0 - near(up))))
    }

    fn key(&mut self, sign: &'static str, colour: &str, name: &str) {
        if !name.is_empty() && !self.keys.iter().any(|key| key.name == name) {
            self.keys.push(Key { sign, colour: colour.to_owned(), name: name.to_owned() });
        }
    }

    /// A curve, with gaps where it is not finite; points that stand alone are dots.
    pub fn line(&mut self, name: &str, colour: &str, points: &[(f64, f64)]) {
        self.curve("curve", FEW, name, colour, points);
    }

    /// A curve that is only there to compare with.
    pub fn dashed(&mut self, name: &str, colour: &str, points: &[(f64, f64)]) {
        self.curve("curve dashed", 0, name, colour, points);
    }

    /// A continuous curve through its points.
    pub fn function(&mut self, name: &str, colour: &str, points: &[(f64, f64)]) {
        self.curve("curve", 0, name, colour, points);
    }

    /// Pieces of at most `few` points show each of them.
    fn curve(&mut self, class: &str, few: usize, name: &str, colour: &str, points: &[(f64, f64)]) {
        self.key(if class == "curve" { "stroke" } else { "stroke dashed" }, colour, name);
        let places: Vec<Option<(f64, f64)>> = points.iter().map(|point| self.at(*point)).collect();
        for piece in places.split(Option::is_none) {
            let piece: Vec<(f64, f64)> = piece.iter().flatten().copied().collect();
            if piece.len() >= 2 {
                let text: Vec<String> = piece.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                let _ = writeln!(
                    self.marks,
                    "<polyline class=\"{class}\" data-name=\"{}\" style=\"stroke:{colour}\" points=\"{}\"/>",
                    escaped(name),
                    text.join(" ")
                );
            }
            if piece.len() <= few {
                for (x, y) in &piece {
                    let _ = writeln!(
                        self.marks,
                        "<circle class=\"point\" data-name=\"{}\" style=\"fill:{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>",
                        escaped(name)
                    );
                }
            }
        }
    }

    /// The space between two curves: points with a lower and an upper end.
    pub fn band(&mut self, name: &str, colour: &str, ends: &[(f64, f64, f64)]) {
        self.key("area", colour, name);
        let upper = ends.iter().map(|(x, _, high)| (*x, *high));
        let lower = ends.iter().rev().map(|(x, low, _)| (*x, *low));
        let places: Vec<String> =
            upper.chain(lower).filter_map(|point| self.at(point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ =
            writeln!(self.marks, "<polygon class=\"band\" style=\"fill:{colour}\" points=\"{}\"/>", places.join(" "));
    }

    /// Points, in one path: a stroke of no length with round ends is a dot, and thousands of them stay small.
    pub fn dots(&mut self, name: &str, colour: &str, dot: Dot, points: &[(f64, f64)]) {
        if points.is_empty() {
            return;
        }
        let (class, stroke) = match dot {
            Dot::Faint => ("dots faint", "h0"),
            Dot::Plain => ("dots", "h0"),
            Dot::Cross => ("cross", "m-4-4l8 8m0-8l-8 8"),
        };
        self.key(if dot == Dot::Cross { "times" } else { class }, colour, name);
        let places = points.iter().filter_map(|point| self.at(*point));
        let path: String = places.map(|(x, y)| format!("M{x:.1} {y:.1}{stroke}")).collect();
        let _ = writeln!(
            self.marks,
            "<path class=\"{class}\" data-name=\"{}\" data-count=\"{}\" style=\"stroke:{colour}\" d=\"{path}\"/>",
            escaped(name),
            points.len()
        );
    }

    /// A picture over the whole field.
    pub fn picture(&mut self, address: &str) {
        let Field { left, top, width, height } = self.field;
        let _ = writeln!(
            self.marks,
            "<image class=\"heat\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             preserveAspectRatio=\"none\" href=\"{}\"/>",
            escaped(address)
        );
    }

    /// Bars that stand on the axis, between edges of which there is one more.
    pub fn bars(&mut self, colour: &str, edges: &[f64], heights: &[f64]) {
        let bottom = self.field.top + self.field.height;
        for (pair, height) in edges.windows(2).zip(heights) {
            let (Some((left, top)), Some((right, _))) = (self.at((pair[0], *height)), self.at((pair[1], 0.0))) else {
                continue;
            };
            let width = (right - left - 0.6).max(0.4);
            let _ = writeln!(
                self.marks,
                "<rect class=\"bar\" style=\"fill:{colour}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{:.1}\"><title>{} to {}: {}</title></rect>",
                (bottom - top).max(0.0),
                super::number(pair[0]),
                super::number(pair[1]),
                super::number(*height),
            );
        }
    }

    /// The legend, as a list; empty for a single curve.
    pub fn legend(&self) -> String {
        if self.keys.len() < 2 {
            return String::new();
        }
        let item = |key: &Key| {
            let Key { sign, colour, name } = key;
            format!("<li><i class=\"sign {sign}\" style=\"color:{colour}\"></i>{}</li>", escaped(name))
        };
        format!("<ul class=\"legend\">{}</ul>", self.keys.iter().map(item).collect::<String>())
    }

    /// The drawing, for a page that has a style for its parts.
    pub fn svg(&self) -> String {
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" font-size=\"{FONT}\">\n{}</svg>",
            self.size.0,
            self.size.1,
            escaped(&self.label),
            self.drawn()
        )
    }

    /// Axes and marks.
    pub(super) fn drawn(&self) -> String {
        let Field { left, top, width, height } = self.field;
        let (right, bottom) = (left + width, top + height);
        let mut svg = String::new();
        for (tick, label) in self.up.ticks() {
            let Some(part) = self.up.place(*tick) else { continue };
            let y = top + height * (1.0 - part);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.5,
                escaped(label)
            );
        }
        for (tick, label) in self.across.ticks() {
            let Some(part) = self.across.place(*tick) else { continue };
            let x = left + width * part;
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                escaped(label)
            );
        }
        // Marks do not leave the field: it is a picture inside of the picture, and cuts what overflows.
        let _ = writeln!(
            svg,
            "<svg x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" viewBox=\"{left:.1} {top:.1} {width:.1} {height:.1}\" preserveAspectRatio=\"none\">\n{}</svg>",
            self.marks
        );
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\"/>");
        if !self.across.name.is_empty() {
            let name = escaped(&shortened(&self.across.name, 44));
            let _ = writeln!(
                svg,
                "<text class=\"axis-name\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                self.size.1 - 7.0
            );
        }
        if !self.up.name.is_empty() {
            let _ = writeln!(
                svg,
                "<text class=\"axis-name\" x=\"2\" y=\"14\">{}</text>",
                escaped(&shortened(&self.up.name, 44))
            );
        }
        svg
    }
}

/// A text of at most this many characters, truncated with an ellipsis.
pub fn shortened(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)]) -> String {
        let across = Axis::counted("epoch", points.iter().map(|point| point.0));
        let up = Axis::fitting("loss", points.iter().map(|point| point.1));
        let mut plot = Plot::new("a chart", across, up);
        plot.line("training", "var(--c0)", points);
        plot.svg()
    }

    #[test]
    fn a_curve_has_a_point_for_each_number() {
        let points: Vec<(f64, f64)> = (1..=30).map(|k| (f64::from(k), 1.0 / f64::from(k))).collect();
        let svg = plot(&points);
        let list = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a polyline");
        assert_eq!(list.split(' ').count(), 30);
    }

    #[test]
    fn what_is_not_finite_is_a_gap_and_never_text() {
        let svg = plot(&[(1.0, 3.0), (2.0, 2.0), (3.0, f64::NAN), (4.0, f64::INFINITY), (5.0, 1.0)]);
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 3);
        for nothing in [
            &[] as &[(f64, f64)],
            &[(1.0, f64::NAN)],
            &[(f64::NAN, 1.0)],
            &[(1.0, 1.0)],
            &[(1.0, f64::MAX), (2.0, f64::MIN)],
        ] {
            let svg = plot(nothing);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{nothing:?}: {svg}");
        }
    }

    #[test]
    fn names_of_others_stay_names() {
        let mut plot = Plot::new("<b>", Axis::between("</svg><script>", 0.0, 1.0), Axis::between("\"'>", 0.0, 1.0));
        plot.line("<i>", "red", &[(0.0, 0.0), (1.0, 1.0)]);
        plot.dots("<u>", "red", Dot::Cross, &[(0.0, 0.0)]);
        let all = plot.svg() + &plot.legend();
        for tag in ["<b>", "<script", "</svg><script", "<i>", "<u>"] {
            assert!(!all.contains(tag), "{tag} in {all}");
        }
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
