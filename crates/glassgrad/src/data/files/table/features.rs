//! From columns to tensors: numbers as they are, words as unit vectors.

use std::collections::{BTreeMap, BTreeSet};

use super::{Column, Table};
use crate::data::{Labelled, Source};
use crate::error::Error;
use crate::expr::Tensor;

/// The encoding of columns as features: the same for the training table and for tables of predictions.
///
/// ```
/// use glassgrad::data::files::{Features, Table};
/// let table = Table::parse("size,colour,price\n1,red,5\n2,blue,7\n").unwrap();
/// let features = Features::of(&table, "price").unwrap();
/// assert_eq!(features.names(), ["size", "colour=blue", "colour=red"]);
/// // Columns are found by name, and a column of the same words is coded the same way.
/// let later = Table::parse("colour,size\nblue,9\n").unwrap();
/// assert_eq!(features.apply(&later).unwrap().to_string(), "[[9, 1, 0]]");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// The columns, with all words that they may hold.
    pub columns: Vec<(String, Option<Vec<String>>)>,
}

impl Features {
    /// Those of all columns but the target.
    ///
    /// ```
    /// use glassgrad::data::files::{Features, Table};
    /// let table = Table::parse("a,b,c\n1,2,3\n").unwrap();
    /// assert_eq!(Features::of(&table, "1").unwrap().names(), ["a", "c"]);
    /// ```
    pub fn of(table: &Table, target: &str) -> Result<Features, Error> {
        let target = table.place(target)?;
        let columns = table.names.iter().zip(&table.columns).enumerate().filter(|(place, _)| *place != target);
        let columns: Vec<_> =
            columns.map(|(_, (name, column))| (name.clone(), column.words().map(<[String]>::to_vec))).collect();
        match columns.is_empty() {
            true => Err(table.error("there is no column beside the target to learn from".to_owned())),
            false => Ok(Features { columns }),
        }
    }

    /// The names of the features: those of columns of numbers, and `column=word` for each word of the others.
    ///
    /// ```
    /// use glassgrad::data::files::Features;
    /// let features = Features { columns: vec![("age".into(), None), ("sex".into(), Some(vec!["f".into(), "m".into()]))] };
    /// assert_eq!(features.names(), ["age", "sex=f", "sex=m"]);
    /// ```
    pub fn names(&self) -> Vec<String> {
        let names = |(name, words): &(String, Option<Vec<String>>)| match words {
            None => vec![name.clone()],
            Some(words) => words.iter().map(|word| format!("{name}={word}")).collect(),
        };
        self.columns.iter().flat_map(names).collect()
    }

    /// The number of features, without making their names.
    ///
    /// ```
    /// use glassgrad::data::files::Features;
    /// let features = Features { columns: vec![("age".into(), None), ("sex".into(), Some(vec!["f".into(), "m".into()]))] };
    /// assert_eq!(features.width(), 3);
    /// ```
    pub fn width(&self) -> usize {
        self.columns.iter().map(|(_, words)| words.as_ref().map_or(1, Vec::len)).fold(0, usize::saturating_add)
    }

    /// The features of a table, `f64[rows, features]`. What is missing, what is not finite, and a word that was not known, is refused with its line.
    ///
    /// ```
    /// use glassgrad::data::files::{Features, Table};
    /// let features = Features { columns: vec![("sex".into(), Some(vec!["f".into(), "m".into()]))] };
    /// let error = features.apply(&Table::parse("age,sex\n5,x\n").unwrap()).unwrap_err();
    /// assert!(error.message().starts_with("line 2, column \"sex\": the word \"x\" is not known"), "{error}");
    /// ```
    pub fn apply(&self, table: &Table) -> Result<Tensor, Error> {
        let (rows, width) = (table.rows(), self.width());
        let of_words = width - self.columns.iter().filter(|(_, words)| words.is_none()).count();
        let bytes = |width: usize| width.checked_mul(rows).and_then(|count| count.checked_mul(size_of::<f64>()));
        // Columns of numbers take about as much memory as their text; unit vectors can take any multiple of it.
        if bytes(of_words).is_none_or(|bytes| bytes > LARGEST_OF_WORDS) || bytes(width).is_none() {
            let widest = self.columns.iter().filter_map(|(name, words)| Some((words.as_ref()?.len(), name))).max();
            let (words, name) = widest.unwrap_or((width, &self.columns[0].0));
            let message = format!(
                "{rows} rows of {width} features take {} bytes, and unit vectors may take {LARGEST_OF_WORDS}; the column \
                 {name:?} alone has {words} distinct words",
                rows as u128 * width as u128 * 8
            );
            let help = "leave out columns of words that are nearly all different, such as names";
            return Err(table.error(message).help(help));
        }
        let mut elements: Vec<f64> = Vec::new();
        if elements.try_reserve_exact(width * rows).is_err() {
            let message =
                format!("there is no memory for the {} bytes of {rows} rows of {width} features", 8 * width * rows);
            return Err(table.error(message).help("use fewer rows or columns"));
        }
        elements.resize(width * rows, 0.0);
        let mut first = 0;
        for (index, (name, words)) in self.columns.iter().enumerate() {
            // Of several columns of a name each is taken at its own place.
            let place = table.place(name).or_else(|error| match table.names.get(index) == Some(name) {
                true => Ok(index),
                false => Err(error),
            })?;
            let known = words.as_ref().map(|words| words.iter().map(String::as_str).zip(0..).collect());
            for row in 0..table.rows() {
                let (feature, value) = encoded(table, place, row, known.as_ref())?;
                elements[row * width + first + feature] = value;
            }
            first += words.as_ref().map_or(1, Vec::len);
        }
        Ok(Tensor::new(&elements, [table.rows(), width]))
    }
}

/// Unit vectors take more memory than the words they stand for, but not more bytes than this.
const LARGEST_OF_WORDS: usize = 1 << 30;

/// Which feature of a column a cell sets, and to what.
fn encoded(
    table: &Table,
    place: usize,
    row: usize,
    known: Option<&BTreeMap<&str, usize>>,
) -> Result<(usize, f64), Error> {
    let column = &table.columns[place];
    let refuse = |message: String, help: &str| Err(table.error_at(row, place, message).help(help));
    if column.is_missing(row) {
        return refuse(
            "the value is missing".to_owned(),
            "drop rows with missing values, or fill them with the means of the columns",
        );
    }
    match (column, known) {
        (Column::Numbers(numbers), None) if numbers[row].is_infinite() => refuse(
            "the value is not finite".to_owned(),
            "remove the row, or leave the cell empty and treat it as missing",
        ),
        (Column::Numbers(numbers), None) => Ok((0, numbers[row])),
        (Column::Words { .. }, None) => {
            refuse(format!("{:?} is not a number", column.cell(row)), "the column held numbers before")
        }
        // A column of words may hold only such as read as numbers in another table.
        (_, Some(known)) => match known.get(column.cell(row).as_str()) {
            Some(feature) => Ok((*feature, 1.0)),
            None => {
                let words: Vec<&str> = known.keys().copied().take(12).collect();
                let help = format!("it was one of {}{}", words.join(", "), if known.len() > 12 { ", …" } else { "" });
                refuse(format!("the word {:?} is not known", column.cell(row)), &help)
            }
        },
    }
}

impl Table {
    /// The table as data to learn from: one column is the target, the last if none is named, and all others are features. Words and
    /// few whole numbers are classes, other numbers are numbers; `classes` decides otherwise.
    ///
    /// ```
    /// use glassgrad::data::{Targets, files::Table};
    /// let table = Table::parse("size,price\n1,5.5\n2,7.25\n").unwrap();
    /// let flats = table.source("flats", None, None).unwrap();
    /// assert_eq!((flats.feature_names.clone(), flats.examples.targets.names()), (vec!["size".to_owned()], &["price".to_owned()][..]));
    /// assert!(matches!(flats.examples.targets, Targets::Numbers { .. }));
    /// ```
    pub fn source(&self, name: &str, target: Option<&str>, classes: Option<bool>) -> Result<Source, Error> {
        let target = target.unwrap_or("-1");
        let place = self.place(target)?;
        let features = Features::of(self, target)?;
        let is_classes = classes.unwrap_or_else(|| self.columns[place].is_categorical());
        if is_classes {
            self.check_classes(place)?;
        }
        let inputs = features.apply(self)?;
        let examples = if is_classes {
            let (indices, names) = self.categories(target)?;
            Labelled::classes(inputs, Tensor::from(indices), names)?
        } else {
            let numbers = self.numbers(target)?;
            if let Some(row) = numbers.iter().position(|number| !number.is_finite()) {
                let what = if numbers[row].is_nan() { "missing" } else { "not finite" };
                let error = self.error_at(row, place, format!("the target is {what}"));
                return Err(error.help("drop such rows"));
            }
            let values = Tensor::new(&numbers, [self.rows(), 1]);
            Labelled::numbers(inputs, values, vec![self.names[place].clone()])?
        };
        let (rows, width) = (self.rows(), features.width());
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let title = format!("{rows} row{}, {} from {width} feature{}", plural(rows), self.names[place], plural(width));
        Ok(Source { name: name.to_owned(), title, feature_names: features.names(), examples, test: None })
    }

    /// Refuses a column of classes that are nearly all different: nothing about them can be learnt from one example each.
    fn check_classes(&self, place: usize) -> Result<(), Error> {
        let rows = self.rows();
        let classes = match &self.columns[place] {
            Column::Words { words, .. } => words.len(),
            Column::Numbers(numbers) => numbers.iter().map(|number| number.to_bits()).collect::<BTreeSet<u64>>().len(),
        };
        if classes <= FEW_CLASSES || classes.saturating_mul(2) <= rows {
            return Ok(());
        }
        let name = &self.names[place];
        let message =
            format!("the column {name:?} has {classes} classes in {rows} rows, fewer than two examples of each");
        Err(self.error(message).help(
            "choose another target; if it holds measurements, write them all as numbers, with a decimal point, so that they \
             are learnt as numbers",
        ))
    }
}

/// The number of classes up to which they may be nearly all different: a table of few rows is an example or a test.
const FEW_CLASSES: usize = 10;
