//! Tables of text with aligned columns.

use glassgrad::picture::visible_width;

/// A table: a header and rows, each column as wide as its widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Table { rows: vec![header.map(str::to_owned).to_vec()] }
    }

    /// A table of as many columns as its header has.
    pub(crate) fn of(header: Vec<String>) -> Self {
        Table { rows: vec![header] }
    }

    /// A row of as many cells as the header has; what is missing is empty.
    pub(crate) fn push(&mut self, mut cells: Vec<String>) {
        cells.resize(self.rows[0].len(), String::new());
        self.rows.push(cells);
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// The table as text, indented by two, with a rule under the header.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| visible_width(&row[column])).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - visible_width(cell))));
            let line = format!("  {}", cells.collect::<Vec<_>>().join("  "));
            text += line.trim_end();
            text.push('\n');
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                text += &format!("  {}\n", rules.join("  "));
            }
        }
        text
    }
}
