//! What is missing from a table, and what can be done about it.

use super::{Column, Table};
use crate::error::Error;

impl Table {
    /// How many cells of each column are missing.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("a,b\n1,?\n,NA\n3,x\n").unwrap();
    /// assert_eq!(table.missing(), [("a", 1), ("b", 2)]);
    /// ```
    pub fn missing(&self) -> Vec<(&str, usize)> {
        let count = |column: &Column| (0..column.len()).filter(|row| column.is_missing(*row)).count();
        self.names.iter().zip(&self.columns).map(|(name, column)| (name.as_str(), count(column))).collect()
    }

    /// The rows in which nothing is missing. There must be one.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("a,b\n1,?\n,y\n3,x\n").unwrap();
    /// assert_eq!(table.without_missing().unwrap().to_csv(), "a,b\n3,x\n");
    /// ```
    pub fn without_missing(&self) -> Result<Table, Error> {
        let is_whole = |row: &usize| !self.columns.iter().any(|column| column.is_missing(*row));
        let rows: Vec<usize> = (0..self.rows()).filter(is_whole).collect();
        if rows.is_empty() {
            let error = self.error(format!("something is missing in every one of the {} rows", self.rows()));
            return Err(error.help("fill what is missing with the means of the columns, or leave out a column"));
        }
        Ok(self.picked(&rows))
    }

    /// Some rows, in their order.
    fn picked(&self, rows: &[usize]) -> Table {
        let picked = |column: &Column| match column {
            Column::Numbers(numbers) => Column::Numbers(rows.iter().map(|row| numbers[*row]).collect()),
            Column::Words { indices, words } => {
                Column::Words { indices: rows.iter().map(|row| indices[*row]).collect(), words: words.clone() }
            }
        };
        Table {
            columns: self.columns.iter().map(picked).collect(),
            lines: rows.iter().map(|row| self.lines[*row]).collect(),
            ..self.clone()
        }
    }

    /// The table with the mean of its column in place of every number that is missing. Words have no mean: a column in which some
    /// are missing is refused, and so is one without any number.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("a,b\n1,x\n,y\n3,x\n").unwrap();
    /// assert_eq!(table.with_means().unwrap().numbers("a").unwrap(), [1.0, 2.0, 3.0]);
    /// ```
    pub fn with_means(&self) -> Result<Table, Error> {
        let filled = |(place, column): (usize, &Column)| {
            let Some(row) = (0..column.len()).find(|row| column.is_missing(*row)) else { return Ok(column.clone()) };
            let refuse = |message: &str| {
                let error = self.error_at(row, place, message.to_owned());
                Err(error.help("drop the rows in which something is missing, or leave out the column"))
            };
            let Column::Numbers(numbers) = column else { return refuse("a word is missing, and words have no mean") };
            let there: Vec<f64> = numbers.iter().copied().filter(|number| !number.is_nan()).collect();
            if there.is_empty() {
                return refuse("the column has no number at all");
            }
            let mean = there.iter().sum::<f64>() / there.len() as f64;
            let fill = |number: &f64| if number.is_nan() { mean } else { *number };
            Ok(Column::Numbers(numbers.iter().map(fill).collect()))
        };
        let columns = self.columns.iter().enumerate().map(filled).collect::<Result<_, _>>()?;
        Ok(Table { columns, ..self.clone() })
    }
}
