//! Tables of named columns, as CSV files hold them.

mod decimal;
mod features;
mod missing;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use features::Features;
pub use reading::Reading;

use crate::error::Error;

/// A column: numbers, or words that stand for categories.
///
/// ```
/// use glassgrad::data::files::{Column, Table};
/// let table = Table::parse("age,colour\n3,red\n,blue\n5,red\n").unwrap();
/// assert!(matches!(table.column("age").unwrap(), Column::Numbers(ages) if ages[0] == 3.0 && ages[1].is_nan()));
/// assert_eq!(table.column("colour").unwrap().words(), Some(&["blue".to_owned(), "red".to_owned()][..]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers; what is missing is not a number.
    Numbers(Vec<f64>),
    /// Words.
    Words {
        /// The places of the words among all that occur; what is missing has none.
        indices: Vec<Option<u32>>,
        /// The words that occur, sorted, or in the order that the file states.
        words: Vec<String>,
    },
}

impl Column {
    /// A column of words, each of which is one of the sorted distinct ones.
    ///
    /// ```
    /// use glassgrad::data::files::Column;
    /// let column = Column::of_words(["red", "blue", "red"]);
    /// assert_eq!(column.words().unwrap(), ["blue", "red"]);
    /// ```
    pub fn of_words(words: impl IntoIterator<Item = impl Into<String>>) -> Column {
        let mut known = Words::default();
        words.into_iter().for_each(|word| known.push(Some(&word.into())));
        known.column()
    }

    /// The words that occur, if it holds words.
    ///
    /// ```
    /// use glassgrad::data::files::Column;
    /// assert_eq!(Column::Numbers(vec![1.0]).words(), None);
    /// ```
    pub fn words(&self) -> Option<&[String]> {
        match self {
            Column::Numbers(_) => None,
            Column::Words { words, .. } => Some(words),
        }
    }

    /// The number of rows.
    ///
    /// ```
    /// use glassgrad::data::files::Column;
    /// assert_eq!(Column::Numbers(vec![1.0, f64::NAN]).len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        match self {
            Column::Numbers(numbers) => numbers.len(),
            Column::Words { indices, .. } => indices.len(),
        }
    }

    /// Whether there are no rows.
    ///
    /// ```
    /// use glassgrad::data::files::Column;
    /// assert!(Column::Numbers(Vec::new()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it reads as classes rather than as measurements: words, or few whole numbers that come again and again (at most
    /// 20, and each five times or more on average).
    ///
    /// ```
    /// use glassgrad::data::files::Column;
    /// assert!(Column::Numbers([0.0, 1.0].repeat(10)).is_categorical());
    /// assert!(!Column::Numbers((0..20).map(f64::from).collect()).is_categorical());
    /// ```
    pub fn is_categorical(&self) -> bool {
        let Column::Numbers(numbers) = self else { return true };
        let present: Vec<f64> = numbers.iter().copied().filter(|number| !number.is_nan()).collect();
        let distinct: BTreeSet<i64> = present.iter().filter_map(|number| whole_number(*number)).collect();
        let are_whole = present.iter().all(|number| whole_number(*number).is_some());
        are_whole && !present.is_empty() && distinct.len() <= 20 && distinct.len() * 5 <= present.len()
    }

    /// The text of a cell, and nothing for what is missing.
    fn cell(&self, row: usize) -> String {
        match self {
            Column::Numbers(numbers) if numbers[row].is_nan() => String::new(),
            Column::Numbers(numbers) => numbers[row].to_string(),
            Column::Words { indices, words } => {
                indices[row].map_or_else(String::new, |place| words[place as usize].clone())
            }
        }
    }

    fn is_missing(&self, row: usize) -> bool {
        match self {
            Column::Numbers(numbers) => numbers[row].is_nan(),
            Column::Words { indices, .. } => indices[row].is_none(),
        }
    }
}

/// The integer value of a number, if it is one that 64 bits represent exactly.
fn whole_number(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// Words as they come.
#[derive(Default)]
struct Words {
    numbers: BTreeMap<String, u32>,
    indices: Vec<Option<u32>>,
}

impl Words {
    fn push(&mut self, word: Option<&str>) {
        let next = self.numbers.len() as u32;
        let place = word.map(|word| match self.numbers.get(word) {
            Some(place) => *place,
            None => *self.numbers.entry(word.to_owned()).or_insert(next),
        });
        self.indices.push(place);
    }

    /// The number of distinct words.
    fn distinct(&self) -> usize {
        self.numbers.len()
    }

    /// With the words sorted, and numbered in that order.
    fn column(self) -> Column {
        let mut sorted = vec![0; self.numbers.len()];
        self.numbers.values().enumerate().for_each(|(place, number)| sorted[*number as usize] = place as u32);
        let indices = self.indices.into_iter().map(|number| number.map(|number| sorted[number as usize])).collect();
        Column::Words { indices, words: self.numbers.into_keys().collect() }
    }
}

/// Named columns of the same length.
///
/// A cell that is empty or reads `NA`, `nan`, `?` or `null` in any case is missing. A column is one of numbers if all its other
/// cells are, with a decimal point or, where cells are not separated by commas, a decimal comma. The separator (comma, semicolon or tab) and whether the first line holds names are detected, or given by a
/// [`Reading`]. Text is UTF-8, may be quoted, and may be compressed by gzip. The tables of scikit-learn, whose first line declares
/// rows, features and classes (`150,4,setosa,versicolor,virginica`), are understood.
///
/// A table takes at most about a hundred times the bytes of its text (words that are all different), and ten times if it holds
/// numbers. A compressed one is expanded to at most 2³⁰ bytes.
///
/// ```
/// use glassgrad::data::files::Table;
/// let table = Table::parse("width;height\n1.5;2\n2.5;3\n").unwrap();
/// assert_eq!((table.names().to_vec(), table.rows()), (vec!["width".to_owned(), "height".to_owned()], 2));
/// assert_eq!(table.numbers("width").unwrap(), [1.5, 2.5]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file, for errors.
    origin: Option<String>,
    names: Vec<String>,
    columns: Vec<Column>,
    /// The line of each row in the file.
    lines: Vec<u32>,
}

impl Table {
    /// Columns with their names.
    ///
    /// ```
    /// use glassgrad::data::files::{Column, Table};
    /// let table = Table::new([("x", Column::Numbers(vec![1.0, 2.5])), ("answer", Column::of_words(["no", "yes"]))]).unwrap();
    /// assert_eq!(table.to_csv(), "x,answer\n1,no\n2.5,yes\n");
    /// ```
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, Column)>) -> Result<Table, Error> {
        let (names, columns): (Vec<String>, Vec<Column>) =
            columns.into_iter().map(|(name, column)| (name.into(), column)).unzip();
        let rows = columns.first().map_or(0, Column::len);
        if let Some(place) = columns.iter().position(|column| column.len() != rows) {
            let (first, other, length) = (&names[0], &names[place], columns[place].len());
            return Err(Error::new(
                "table",
                format!("the column {first:?} has {rows} rows and {other:?} has {length}"),
            ));
        }
        Ok(Table { origin: None, names, columns, lines: (2..).take(rows).collect() })
    }

    /// Reads a file, which may be compressed by gzip.
    ///
    /// ```
    /// let error = glassgrad::data::files::Table::read("no/such.csv").unwrap_err();
    /// assert!(error.to_string().starts_with("table: cannot read no/such.csv: "), "{error}");
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Table, Error> {
        Reading::default().read(path)
    }

    /// Reads text, or bytes that may be compressed by gzip.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let error = Table::parse("a,b\n1,2\n3\n").unwrap_err();
    /// assert_eq!(error.message(), "line 3 has 1 cell, and line 1 has 2");
    /// ```
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Table, Error> {
        Reading::default().parse(text)
    }

    /// The names of the columns: those of the file, or f0, f1 and so on.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// assert_eq!(Table::parse("1,2\n3,4\n").unwrap().names(), ["f0", "f1"]);
    /// ```
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The columns, in the order of the names.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// assert_eq!(Table::parse("1,2\n3,4\n").unwrap().columns().len(), 2);
    /// ```
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The number of rows, without the names.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// assert_eq!(Table::parse("a,b\n3,4\n").unwrap().rows(), 1);
    /// ```
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// The place of a column by its name, or by its number from 0; negative numbers count from the end.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("a,b\n3,4\n").unwrap();
    /// assert_eq!((table.place("b").unwrap(), table.place("0").unwrap(), table.place("-1").unwrap()), (1, 0, 1));
    /// assert!(table.place("c").unwrap_err().to_string().contains("help: there are \"a\", \"b\""));
    /// ```
    pub fn place(&self, column: &str) -> Result<usize, Error> {
        let mut named = (0..self.names.len()).filter(|place| self.names[*place] == column);
        match (named.next(), named.next()) {
            (Some(place), None) => return Ok(place),
            (Some(first), Some(second)) => {
                let error = self.error(format!("the columns {first} and {second} are both called {column:?}"));
                return Err(error.help("name the column by its number"));
            }
            (None, _) => {}
        }
        let count = self.names.len() as i64;
        let numbered = column.parse::<i64>().ok().map(|place| if place < 0 { place + count } else { place });
        if let Some(place) = numbered.filter(|place| (0..count).contains(place)) {
            return Ok(place as usize);
        }
        let mut known: Vec<String> = self.names.iter().take(12).map(|name| format!("{name:?}")).collect();
        if self.names.len() > known.len() {
            known.push(format!("and {} more", self.names.len() - known.len()));
        }
        let error = self.error(format!("there is no column {column:?}"));
        Err(error.help(format!("there are {}", known.join(", "))))
    }

    /// A column by its name or number, as [`Table::place`] finds it.
    ///
    /// ```
    /// use glassgrad::data::files::{Column, Table};
    /// let table = Table::parse("a,b\n3,4\n").unwrap();
    /// assert_eq!(table.column("b").unwrap(), &Column::Numbers(vec![4.0]));
    /// ```
    pub fn column(&self, column: &str) -> Result<&Column, Error> {
        Ok(&self.columns[self.place(column)?])
    }

    /// The numbers of a column; what is missing is not a number. A word is refused with its line.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("age\n3\nfour\n").unwrap();
    /// let error = table.numbers("age").unwrap_err();
    /// assert_eq!(error.message(), "line 3, column \"age\": \"four\" is not a number");
    /// ```
    pub fn numbers(&self, column: &str) -> Result<Vec<f64>, Error> {
        let place = self.place(column)?;
        match &self.columns[place] {
            Column::Numbers(numbers) => Ok(numbers.clone()),
            Column::Words { indices, words } => {
                let is_word =
                    |index: &Option<u32>| index.is_some_and(|index| reading::number(&words[index as usize]).is_none());
                let row = indices.iter().position(is_word).unwrap_or(0);
                let word = self.columns[place].cell(row);
                let error = self.error_at(row, place, format!("{word:?} is not a number"));
                Err(error.help("write numbers with a decimal point, and leave a cell empty where one is missing"))
            }
        }
    }

    /// The class of each row, and what the classes are called: sorted words, or sorted whole numbers.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("x,answer\n1,yes\n2,no\n3,yes\n").unwrap();
    /// assert_eq!(table.categories("answer").unwrap(), (vec![1, 0, 1], vec!["no".to_owned(), "yes".to_owned()]));
    /// ```
    pub fn categories(&self, column: &str) -> Result<(Vec<i64>, Vec<String>), Error> {
        let place = self.place(column)?;
        let missing = |row: usize| {
            let error = self.error_at(row, place, "the class is missing".to_owned());
            error.help("drop rows with missing values")
        };
        match &self.columns[place] {
            Column::Words { indices, words } => {
                let class = |(row, index): (usize, &Option<u32>)| index.map(i64::from).ok_or_else(|| missing(row));
                Ok((indices.iter().enumerate().map(class).collect::<Result<_, _>>()?, words.clone()))
            }
            Column::Numbers(numbers) => {
                let whole = |(row, number): (usize, &f64)| match whole_number(*number) {
                    Some(whole) => Ok(whole),
                    None if number.is_nan() => Err(missing(row)),
                    None => {
                        let error = self.error_at(row, place, format!("{number} is not a class"));
                        Err(error.help("classes are words or whole numbers; measurements are regression targets"))
                    }
                };
                let numbers: Vec<i64> = numbers.iter().enumerate().map(whole).collect::<Result<_, _>>()?;
                let distinct: BTreeSet<i64> = numbers.iter().copied().collect();
                let places: BTreeMap<i64, i64> = distinct.iter().copied().zip(0..).collect();
                let names = distinct.iter().map(i64::to_string).collect();
                Ok((numbers.iter().map(|number| places[number]).collect(), names))
            }
        }
    }

    /// The table as text: names, then rows, separated by commas, quoted where they must be.
    ///
    /// ```
    /// use glassgrad::data::files::Table;
    /// let table = Table::parse("a;b\n1;\"x, y\"\n?;z\n").unwrap();
    /// assert_eq!(table.to_csv(), "a,b\n1,\"x, y\"\n,z\n");
    /// assert_eq!(Table::parse(table.to_csv()).unwrap().to_csv(), table.to_csv());
    /// ```
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let rows = (0..self.rows()).map(|row| self.columns.iter().map(|column| column.cell(row)).collect());
        for record in std::iter::once(self.names.clone()).chain(rows) {
            // Nothing fails that is written to memory.
            let _ = writer.write_record(&record);
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// An error about the file.
    fn error(&self, message: String) -> Error {
        let error = Error::new("table", message);
        match &self.origin {
            Some(origin) => error.within(origin),
            None => error,
        }
    }

    /// An error about a cell.
    fn error_at(&self, row: usize, column: usize, message: String) -> Error {
        let line = self.lines.get(row).copied().unwrap_or(0);
        self.error(format!("line {line}, column {:?}: {message}", self.names[column]))
    }
}
