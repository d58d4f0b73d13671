//! Missing values of a table, and columns to drop.

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
        let every: Vec<usize> = (0..self.columns.len()).collect();
        self.complete_in(&every)
    }

    /// The rows in which some columns have a value; other columns may have gaps. There must be one such row.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("a,b\n1,?\n,y\n3,x\n").unwrap();
    /// assert_eq!(table.without_missing_in(&["b"]).unwrap().to_csv(), "a,b\n,y\n3,x\n");
    /// ```
    pub fn without_missing_in(&self, columns: &[&str]) -> Result<Table, Error> {
        let places: Vec<usize> = columns.iter().map(|column| self.place(column)).collect::<Result<_, _>>()?;
        self.complete_in(&places)
    }

    fn complete_in(&self, places: &[usize]) -> Result<Table, Error> {
        let is_complete = |row: &usize| !places.iter().any(|place| self.columns[*place].is_missing(*row));
        let rows: Vec<usize> = (0..self.rows()).filter(is_complete).collect();
        if rows.is_empty() {
            let error = self.error(format!("a value is missing in every one of the {} rows", self.rows()));
            return Err(error.help("fill missing values with the means of the columns, or drop a column"));
        }
        Ok(self.picked(&rows))
    }

    /// The table without some columns, by name or number.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("id,size,price\n1,54,210\n2,71,265\n").unwrap();
    /// assert_eq!(table.without_columns(&["id"]).unwrap().names(), ["size", "price"]);
    /// assert!(table.without_columns(&["colour"]).unwrap_err().to_string().contains("there is no column \"colour\""));
    /// assert!(table.without_columns(&["0", "1", "2"]).unwrap_err().to_string().contains("no column would be left"));
    /// ```
    pub fn without_columns(&self, columns: &[&str]) -> Result<Table, Error> {
        let dropped: Vec<usize> = columns.iter().map(|column| self.place(column)).collect::<Result<_, _>>()?;
        let kept = || (0..self.columns.len()).filter(|place| !dropped.contains(place));
        if kept().next().is_none() && !dropped.is_empty() {
            return Err(self.error("no column would be left".to_owned()).help("drop fewer columns"));
        }
        Ok(Table {
            names: kept().map(|place| self.names[place].clone()).collect(),
            columns: kept().map(|place| self.columns[place].clone()).collect(),
            origin: self.origin.clone(),
            lines: self.lines.clone(),
        })
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
                Err(error.help("drop the rows with missing values, or drop the column"))
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

    /// The table with a number in place of every missing value of one column, such as the mean of the data that a network was
    /// trained on.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("a,b\n1,x\n,y\n3,x\n").unwrap();
    /// assert_eq!(table.filled("a", 5.0).unwrap().numbers("a").unwrap(), [1.0, 5.0, 3.0]);
    /// assert!(table.filled("b", 5.0).unwrap_err().to_string().contains("column \"b\": \"x\" is not a number"));
    /// ```
    pub fn filled(&self, column: &str, value: f64) -> Result<Table, Error> {
        let place = self.place(column)?;
        let numbers = self.numbers(column)?;
        let fill = |number: f64| if number.is_nan() { value } else { number };
        let mut table = self.clone();
        table.columns[place] = Column::Numbers(numbers.into_iter().map(fill).collect());
        Ok(table)
    }
}
