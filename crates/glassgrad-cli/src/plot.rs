//! Curves in the terminal: braille dots in colours, or a letter for each curve where there are no colours.

use std::fmt::Write as _;
use std::io::IsTerminal;

/// Whether a stream is a terminal with colours, and `NO_COLOR` is not set.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A curve with a name.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The size of the field of dots, in characters.
const WIDTH: usize = 64;
const HEIGHT: usize = 14;

/// The colours of curves, as they follow each other.
const COLOURS: [u8; 6] = [36, 33, 35, 32, 34, 31];
/// The marker of a curve where there are no colours.
const MARKS: [char; 6] = ['o', 'x', '+', '*', '#', '@'];

/// Ends further apart than this are shown on a logarithmic axis.
const DECADES: f64 = 30.0;

/// The curves as text, with a legend, or nothing where there is nothing to see.
pub(crate) fn plot(title: &str, curves: &[Curve], colour: bool) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(|(x, y)| x.is_finite() && y.is_finite());
    if points().count() < 2 {
        return String::new();
    }
    let ends = |of: fn(&(f64, f64)) -> f64| {
        points()
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let ((left, right), (low, high)) = (ends(|point| point.0), ends(|point| point.1));
    let is_logarithmic = low > 0.0 && high / low > DECADES;
    let scaled = |y: f64| if is_logarithmic { y.ln() } else { y };
    let (bottom, top) = (scaled(low), scaled(high));
    let part = |value: f64, from: f64, to: f64| if to > from { (value - from) / (to - from) } else { 0.5 };
    let mut field = Field::new(colour);
    for (number, curve) in curves.iter().enumerate() {
        let place = |(x, y): &(f64, f64)| (part(*x, left, right), part(scaled(*y), bottom, top));
        let points: Vec<(f64, f64)> =
            curve.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).map(place).collect();
        field.line(number, &points);
    }
    let label = |y: f64| format!("{:>9}", short(y));
    let middle = if is_logarithmic { (0.5 * (bottom + top)).exp() } else { 0.5 * (low + high) };
    let legend: Vec<String> = curves
        .iter()
        .enumerate()
        .map(|(number, curve)| match colour {
            true => format!("\u{1b}[{}m━\u{1b}[0m {}", COLOURS[number % COLOURS.len()], curve.name),
            false => format!("{} {}", MARKS[number % MARKS.len()], curve.name),
        })
        .collect();
    let mut text = format!("{:>9}  {title}: {}\n", "", legend.join("   "));
    for (row, line) in field.lines().into_iter().enumerate() {
        let label = match row {
            0 => label(high),
            row if row == HEIGHT / 2 => label(middle),
            row if row == HEIGHT - 1 => label(low),
            _ => " ".repeat(9),
        };
        let _ = writeln!(text, "{label} ┤{}", line.trim_end());
    }
    let (left, right) = (short(left), short(right));
    let gap = WIDTH.saturating_sub(left.chars().count() + right.chars().count());
    let _ = writeln!(text, "{:>9} └{}\n{:>9}  {left}{}{right}", "", "─".repeat(WIDTH), "", " ".repeat(gap));
    text
}

/// A number in few characters.
fn short(number: f64) -> String {
    let size = number.abs();
    match size {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e5).contains(&size) => format!("{number:.1e}"),
        size if size >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        size if size >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

/// Characters of two times four dots each.
struct Field {
    dots: Vec<u8>,
    /// The curve that was drawn last at each character.
    curves: Vec<Option<usize>>,
    colour: bool,
}

impl Field {
    fn new(colour: bool) -> Field {
        Field { dots: vec![0; WIDTH * HEIGHT], curves: vec![None; WIDTH * HEIGHT], colour }
    }

    /// Draws a line through points whose coordinates are parts of the field.
    fn line(&mut self, curve: usize, points: &[(f64, f64)]) {
        let (columns, rows) = ((2 * WIDTH - 1) as f64, (4 * HEIGHT - 1) as f64);
        let dot = |(x, y): &(f64, f64)| (x * columns, (1.0 - y) * rows);
        if let [only] = points {
            let (x, y) = dot(only);
            self.set(curve, x, y);
        }
        for pair in points.windows(2) {
            let (from, to) = (dot(&pair[0]), dot(&pair[1]));
            let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).ceil().max(1.0);
            for step in 0..=steps as usize {
                let part = step as f64 / steps;
                self.set(curve, from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1));
            }
        }
    }

    fn set(&mut self, curve: usize, x: f64, y: f64) {
        let (x, y) = (x.round() as usize, y.round() as usize);
        let place = (y / 4) * WIDTH + x / 2;
        // Braille dots are numbered down the left side, then down the right one, and the lowest two last.
        let bit = match (x % 2, y % 4) {
            (0, 3) => 6,
            (1, 3) => 7,
            (0, row) => row,
            (_, row) => 3 + row,
        };
        self.dots[place] |= 1 << bit;
        self.curves[place] = Some(curve);
    }

    fn lines(&self) -> Vec<String> {
        let character = |place: usize| match self.curves[place] {
            None => " ".to_owned(),
            Some(curve) if self.colour => {
                let dots = char::from_u32(0x2800 + u32::from(self.dots[place])).unwrap_or(' ');
                format!("\u{1b}[{}m{dots}\u{1b}[0m", COLOURS[curve % COLOURS.len()])
            }
            Some(curve) => MARKS[curve % MARKS.len()].to_string(),
        };
        (0..HEIGHT).map(|row| (0..WIDTH).map(|column| character(row * WIDTH + column)).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_curve_falls_from_the_left_to_the_right() {
        let points = (1..=100).map(|x| (f64::from(x), 1.0 / f64::from(x))).collect();
        let text = plot("loss", &[Curve { name: "training".to_owned(), points }], false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].trim(), "loss: o training");
        assert!(lines[1].trim_start().starts_with("1 ┤o"), "{text}");
        assert!(lines[HEIGHT].starts_with("   0.0100 ┤") && lines[HEIGHT].ends_with('o'), "{text}");
    }

    #[test]
    fn nothing_finite_draws_nothing() {
        let points = vec![(1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, 1.0)];
        assert_eq!(plot("loss", &[Curve { name: "training".to_owned(), points }], true), "");
    }
}
