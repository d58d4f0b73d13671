//! Numbers with a decimal comma, as spreadsheets of many countries write them: `210,5;3,2`.
//!
//! A column whose cells are all numbers with a point or a comma is one of numbers. A comma can also group thousands
//! (`1,234`); where no number of a table shows which it is, the table is refused.

use crate::error::Error;

/// How a cell reads in which a comma stands between digits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Comma {
    /// The comma is a decimal one: `210,5`, `0,125`, `1,5e-3`.
    Decimal,
    /// It could group thousands: `1,234`.
    Ambiguous,
    /// Points or commas group digits: `1.234,50`, `1,234,567`.
    Grouped,
}

/// The number of a cell with a decimal comma.
pub(super) fn number(cell: &str) -> Option<f64> {
    match comma(cell)? {
        Comma::Decimal | Comma::Ambiguous => cell.replacen(',', ".", 1).parse().ok(),
        Comma::Grouped => None,
    }
}

/// How a cell with a comma reads; `None` for words and for cells without a comma.
fn comma(cell: &str) -> Option<Comma> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = cell.strip_prefix(['+', '-']).unwrap_or(cell);
    let (before, behind) = unsigned.rsplit_once(',')?;
    if before.contains([',', '.']) {
        let mut groups = before.split([',', '.']);
        let is_grouped = groups.next().is_some_and(|first| digits(first) && first.len() <= 3)
            && groups.all(|group| digits(group) && group.len() == 3)
            && digits(behind);
        return is_grouped.then_some(Comma::Grouped);
    }
    let (fraction, exponent) = match behind.split_once(['e', 'E']) {
        Some((fraction, exponent)) => (fraction, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (behind, None),
    };
    if !digits(before) || !digits(fraction) || exponent.is_some_and(|exponent| !digits(exponent)) {
        return None;
    }
    let could_group = before.len() <= 3 && !before.starts_with('0') && fraction.len() == 3 && exponent.is_none();
    Some(if could_group { Comma::Ambiguous } else { Comma::Decimal })
}

/// A cell and its line.
type CellLocation = (u32, String);

/// What the cells of a column show about their commas.
#[derive(Clone, Debug)]
pub(super) struct Commas {
    /// Whether every cell is a number, with a point, a comma or neither.
    are_numbers: bool,
    /// The first cell of each kind.
    decimal: Option<CellLocation>,
    ambiguous: Option<CellLocation>,
    grouped: Option<CellLocation>,
    /// The first number with a decimal point.
    point: Option<CellLocation>,
}

impl Default for Commas {
    fn default() -> Commas {
        Commas { are_numbers: true, decimal: None, ambiguous: None, grouped: None, point: None }
    }
}

impl Commas {
    /// Looks at a cell, which may be a number without a comma.
    pub(super) fn see(&mut self, cell: &str, is_plain: bool, line: u32) {
        if !self.are_numbers {
            return;
        }
        let first = match comma(cell) {
            _ if is_plain && !cell.contains('.') => return,
            _ if is_plain => &mut self.point,
            Some(Comma::Decimal) => &mut self.decimal,
            Some(Comma::Ambiguous) => &mut self.ambiguous,
            Some(Comma::Grouped) => &mut self.grouped,
            None => {
                self.are_numbers = false;
                return;
            }
        };
        first.get_or_insert_with(|| (line, cell.to_owned()));
    }

    fn has_some(&self) -> bool {
        self.are_numbers && (self.decimal.is_some() || self.ambiguous.is_some() || self.grouped.is_some())
    }
}

/// Which columns hold numbers with decimal commas. `are_sure` says that commas are decimal ones wherever they can be.
pub(super) fn decide(columns: &[Commas], names: &[&str], are_sure: bool) -> Result<Vec<bool>, Error> {
    let name = |place: usize| match names.get(place) {
        Some(name) if !name.is_empty() => format!("column {name:?}"),
        _ => format!("column {place}"),
    };
    let refuse = |place: usize, (line, cell): &CellLocation, rest: &str, help: &str| {
        Err(Error::new("table", format!("line {line}, {}: {cell:?} {rest}", name(place))).help(help))
    };
    let is_shown = are_sure || columns.iter().any(|column| column.has_some() && column.decimal.is_some());
    for (place, column) in columns.iter().enumerate().filter(|(_, column)| column.has_some()) {
        if let Some(cell) = &column.grouped {
            let help = "write numbers without separators of thousands, as 1234.5 or 1234,5";
            return refuse(place, cell, "is a number whose digits are grouped", help);
        }
        if let (Some((line, other)), Some(cell)) =
            (&column.point, column.decimal.as_ref().or(column.ambiguous.as_ref()))
        {
            let rest = format!("has a decimal comma, and {other:?} in line {line} a decimal point");
            return refuse(place, cell, &rest, "write all numbers of a column the same way");
        }
        if let (false, Some(cell)) = (is_shown, &column.ambiguous) {
            let help = "write it without the comma, as 1234 or 1.234, or state that commas are decimal (Reading::decimal_comma)";
            return refuse(place, cell, "may have a decimal comma or one that groups thousands", help);
        }
    }
    Ok(columns.iter().map(Commas::has_some).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas() {
        for (cell, expected) in [
            ("210,5", Some(Comma::Decimal)),
            ("-0,125", Some(Comma::Decimal)),
            ("1234,567", Some(Comma::Decimal)),
            ("1,5e-3", Some(Comma::Decimal)),
            ("1,234", Some(Comma::Ambiguous)),
            ("+12,345", Some(Comma::Ambiguous)),
            ("1.234,50", Some(Comma::Grouped)),
            ("1,234,567", Some(Comma::Grouped)),
            ("1,", None),
            (",5", None),
            ("a,5", None),
            ("1, 2", None),
            ("12.5", None),
            ("1,2,3", None),
        ] {
            assert_eq!(comma(cell), expected, "{cell}");
        }
        assert_eq!((number("-210,5"), number("1,5e-3"), number("1.234,5")), (Some(-210.5), Some(1.5e-3), None));
    }
}
