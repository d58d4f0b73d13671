//! Numbers and tables as explanations write them.

use crate::picture::visible_width;

/// A time with three digits and the unit that fits.
pub(super) fn seconds(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        s if s < 1e-6 => (1e9 * s, "ns"),
        s if s < 1e-3 => (1e6 * s, "µs"),
        s if s < 1.0 => (1e3 * s, "ms"),
        s => (s, "s"),
    };
    let decimals = if unit == "ns" { 0 } else { usize::from(scaled < 100.0) + usize::from(scaled < 10.0) };
    format!("{scaled:.decimals$} {unit}")
}

/// Which edge of its column a cell stands at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Edge {
    Left,
    Right,
}

/// Rows of cells in columns, each as wide as its widest cell.
pub(super) fn table<const N: usize>(edges: [Edge; N], rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| visible_width(&row[column])).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let space = " ".repeat(widths[column] - visible_width(cell));
            line += "  ";
            line += &if edges[column] == Edge::Left { format!("{cell}{space}") } else { format!("{space}{cell}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The beginning of a text that is too long.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if visible_width(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
