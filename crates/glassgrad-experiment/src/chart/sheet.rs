//! Drawings as a file of their own, which brings its style along.

use std::fmt::Write as _;

use super::plot::{FONT, Field, LETTER};
use super::{Plot, escaped};

/// The height of a title, and of a line of a legend.
pub const TITLE: f64 = 26.0;
const LINE: f64 = 19.0;

/// The style sheet of a standalone drawing. Not every SVG viewer supports CSS variables.
const STYLE: &str = ".grid{stroke:#e2e8f0;fill:none}.axis{stroke:#475569;fill:none}.tick{fill:#475569}\
    .axis-name,.title,.name{fill:#0f172a}.title{font-size:16px}.curve{fill:none;stroke-width:2;stroke-linejoin:round}\
    .dots{fill:none;stroke-width:6.5;stroke-linecap:round}.legend{fill:#fff;fill-opacity:0.85;stroke:#94a3b8}";

/// Drawings of one size, each under its title, in a grid with this many columns; the legends are in their upper left.
pub fn sheet(plots: &[(&str, Plot)], columns: usize) -> String {
    let columns = columns.clamp(1, plots.len().max(1));
    let (wide, high) = plots
        .iter()
        .fold((0.0_f64, 0.0_f64), |(wide, high), (_, plot)| (wide.max(plot.size.0), high.max(plot.size.1 + TITLE)));
    let (width, height) = (wide * columns as f64, high * plots.len().div_ceil(columns) as f64);
    let labels: Vec<String> = plots.iter().map(|(_, plot)| escaped(&plot.label)).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"{FONT}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        labels.join("; ")
    );
    for (number, (title, plot)) in plots.iter().enumerate() {
        let (x, y) = (wide * (number % columns) as f64, high * (number / columns) as f64);
        let _ = writeln!(
            svg,
            "<text class=\"title\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <g transform=\"translate({x} {})\">\n{}{}</g>",
            x + wide / 2.0,
            y + 19.0,
            escaped(title),
            y + TITLE,
            plot.drawn(),
            legend(plot)
        );
    }
    svg + "</svg>\n"
}

/// The legend.
fn legend(plot: &Plot) -> String {
    let Some(longest) = plot.keys.iter().map(|key| key.name.chars().count()).max() else { return String::new() };
    let Field { left, top, .. } = plot.field;
    let mut svg = format!(
        "<rect class=\"legend\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\n",
        left + 8.0,
        top + 8.0,
        longest as f64 * LETTER + 42.0,
        plot.keys.len() as f64 * LINE + 8.0
    );
    for (number, key) in plot.keys.iter().enumerate() {
        let middle = top + 12.0 + LINE * (number as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<path class=\"curve\" style=\"stroke:{}\" d=\"M{:.1} {middle:.1}h18\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            key.colour,
            left + 16.0,
            left + 42.0,
            middle + 4.5,
            escaped(&key.name)
        );
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;

    #[test]
    fn a_file_has_every_drawing_its_title_and_its_names() {
        let plot = |name: &str| {
            let mut plot = Plot::new("<label>", Axis::between("n", 0.0, 1.0), Axis::between("time", 0.0, 1.0));
            plot.line(name, "#0072b2", &[(0.0, 0.0), (0.5, 0.25), (1.0, 1.0)]);
            plot
        };
        let svg = sheet(&[("<one>", plot("A & B")), ("two", plot("")), ("three", plot("C"))], 2);
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert_eq!(svg.matches("class=\"legend\"").count(), 2);
        assert!(["&lt;one&gt;", ">two<", "A &amp; B"].iter().all(|text| svg.contains(text)), "{svg}");
        // Two columns of 420, two rows of 270 with their titles; nothing asks for what only a page has.
        assert!(svg.contains("viewBox=\"0 0 840 592\"") && !svg.contains("var("), "{svg}");
    }
}
