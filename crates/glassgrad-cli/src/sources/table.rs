//! A table of the user's.

use std::path::Path;

use glassgrad::data::Source;
use glassgrad::data::files::{Reading, Table};
use glassgrad::error::Error;

/// What becomes of rows in which something is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are refused, with the line.
    #[default]
    Refused,
    /// They are left out.
    Dropped,
    /// Numbers are replaced by the mean of their column.
    Filled,
}

impl Missing {
    /// The table with what is missing dropped or filled.
    pub(crate) fn treated(self, table: Table) -> Result<Table, Error> {
        match self {
            Missing::Refused => Ok(table),
            Missing::Dropped => table.without_missing(),
            Missing::Filled => table.with_means(),
        }
    }
}

/// A CSV file as data, named after the file: one column is the target, the last if none is named. Words and few whole numbers are
/// classes, unless `classes` decides otherwise.
pub(crate) fn table(
    path: &Path,
    reading: Reading,
    missing: Missing,
    target: Option<&str>,
    classes: Option<bool>,
) -> Result<Source, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    missing.treated(reading.read(path)?)?.source(name.strip_suffix(".csv").unwrap_or(name), target, classes)
}
