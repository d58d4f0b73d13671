//! From text to a table: what the separator is, whether there are names, which columns hold numbers.

use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};

use super::super::gz::{expand, is_compressed};
use super::super::whole::whole;
use super::decimal::{self, Commas};
use super::{Column, Table, Words};
use crate::error::Error;

/// A compressed table is expanded up to this many bytes.
const LARGEST_EXPANDED: usize = 1 << 30;
/// The byte order mark of UTF-8.
const MARK: char = '\u{feff}';
/// How many lines are sampled to detect the separator.
const LOOKED_AT: usize = 50;

/// Options of reading a table, which override detection.
///
/// ```
/// use glassgrad::data::files::Reading;
/// let table = Reading::default().separator(';').header(false).parse("1,5;2\n2,5;3\n").unwrap();
/// assert_eq!(table.numbers("f0").unwrap(), [1.5, 2.5]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    separator: Option<char>,
    header: Option<bool>,
    decimal_comma: Option<bool>,
    most_words: Option<usize>,
}

impl Reading {
    /// The delimiter: any ASCII character. Otherwise it is a tab, a semicolon or a comma, whichever is as often in each
    /// of the first lines.
    ///
    /// ```
    /// use glassgrad::data::files::Reading;
    /// assert_eq!(Reading::default().separator('|').parse("1|2\n3|4").unwrap().columns().len(), 2);
    /// ```
    pub fn separator(self, separator: char) -> Reading {
        Reading { separator: Some(separator), ..self }
    }

    /// Whether the first line holds names. Otherwise it does if it has a word above a column of numbers, or if no column holds
    /// numbers.
    ///
    /// ```
    /// use glassgrad::data::files::Reading;
    /// assert_eq!(Reading::default().header(true).parse("2024,2025\n3,4\n").unwrap().names(), ["2024", "2025"]);
    /// ```
    pub fn header(self, header: bool) -> Reading {
        Reading { header: Some(header), ..self }
    }

    /// Whether `1,5` is a number. Otherwise it is where cells are not separated by commas; a table whose commas may also
    /// group thousands (`1,234` throughout) is refused then.
    ///
    /// ```
    /// use glassgrad::data::files::Reading;
    /// let text = "price;count\n1,234;5\n2,345;6\n";
    /// let error = Reading::default().parse(text).unwrap_err();
    /// assert!(error.message().starts_with("line 2, column \"price\": \"1,234\" may have a decimal comma"), "{error}");
    /// let table = Reading::default().decimal_comma(true).parse(text).unwrap();
    /// assert_eq!(table.numbers("price").unwrap(), [1.234, 2.345]);
    /// ```
    pub fn decimal_comma(self, is_decimal: bool) -> Reading {
        Reading { decimal_comma: Some(is_decimal), ..self }
    }

    /// Refuses a table with more distinct words than this, all columns together, before they take memory.
    ///
    /// ```
    /// use glassgrad::data::files::Reading;
    /// let error = Reading::default().most_words(2).parse("name,age\nAda,36\nBert,4\nClara,81\n").unwrap_err();
    /// assert_eq!(error.message(), "line 4: there are more than 2 distinct words, and \"name\" has 3 of them");
    /// ```
    pub fn most_words(self, most: usize) -> Reading {
        Reading { most_words: Some(most), ..self }
    }

    /// Reads a file, which may be compressed by gzip.
    ///
    /// ```
    /// assert!(glassgrad::data::files::Reading::default().read("no/such.csv").is_err());
    /// ```
    pub fn read(self, path: impl AsRef<Path>) -> Result<Table, Error> {
        let path = path.as_ref();
        let table = self.parse(whole("table", path)?).map_err(|error| error.within(path.display()))?;
        Ok(Table { origin: Some(path.display().to_string()), ..table })
    }

    /// Reads text, or bytes that may be compressed by gzip.
    ///
    /// ```
    /// use glassgrad::data::files::Reading;
    /// let error = Reading::default().parse("").unwrap_err();
    /// assert_eq!(error.to_string(), "table: there is nothing in it");
    /// ```
    pub fn parse(self, text: impl AsRef<[u8]>) -> Result<Table, Error> {
        let bytes = text.as_ref();
        let expanded = match is_compressed(bytes) {
            true => Some(expand(bytes, LARGEST_EXPANDED).map_err(|error| Error::new("table", error.message()))?),
            false => None,
        };
        let text = text_of(expanded.as_deref().unwrap_or(bytes))?;
        let separator = match self.separator {
            Some(separator) if separator.is_ascii() && !"\"\r\n".contains(separator) => separator as u8,
            Some(separator) => return Err(Error::new("table", format!("{separator:?} cannot separate cells"))),
            None => likely_separator(text),
        };
        let decimal_comma = self.decimal_comma.unwrap_or(separator != b',');
        let are_sure = self.decimal_comma == Some(true);
        Rows { text, separator, decimal_comma, are_sure, most_words: self.most_words.unwrap_or(usize::MAX) }
            .table(self.header)
    }
}

/// Text from bytes, without the mark of its encoding.
fn text_of(bytes: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let error = Error::new("table", format!("line {line} is not UTF-8, at byte {} of the text", before.len()));
        error.help("save the table as UTF-8")
    })?;
    Ok(text.trim_start_matches(MARK))
}

/// The separator that is as often in each of the first lines; a comma may also be a decimal one, so it comes last.
fn likely_separator(text: &str) -> u8 {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(LOOKED_AT).collect();
    // The first line of a table of scikit-learn is unlike the others.
    let lines = if lines.len() > 1 { &lines[1..] } else { &lines[..] };
    let counts = |separator: u8| -> Vec<usize> {
        lines
            .iter()
            .map(|line| {
                line.bytes()
                    .scan(false, |quoted, byte| {
                        *quoted ^= byte == b'"';
                        Some(byte == separator && !*quoted)
                    })
                    .filter(|is_one| *is_one)
                    .count()
            })
            .collect()
    };
    let is_steady = |separator: &u8| {
        let counts = counts(*separator);
        counts.first().is_some_and(|first| *first > 0 && counts.iter().all(|count| count == first))
    };
    let often = |separator: &u8| counts(*separator).iter().sum::<usize>();
    const KNOWN: [u8; 3] = *b"\t;,";
    // Of those that are equally often the last is taken: the comma.
    KNOWN.into_iter().find(is_steady).or_else(|| KNOWN.into_iter().max_by_key(often)).unwrap_or(b',')
}

/// The number that a cell holds; what is missing is not a number. `None` for a word.
pub(super) fn number(cell: &str) -> Option<f64> {
    if is_missing(cell) { Some(f64::NAN) } else { cell.parse().ok() }
}

/// The same in a column whose numbers may have decimal commas.
fn number_in(cell: &str, has_commas: bool) -> Option<f64> {
    number(cell).or_else(|| if has_commas { decimal::number(cell) } else { None })
}

fn is_missing(cell: &str) -> bool {
    cell.is_empty() || ["na", "nan", "?", "null"].iter().any(|word| cell.eq_ignore_ascii_case(word))
}

/// Text whose separator is known. It is read twice: once to find out what it holds, once to take it.
struct Rows<'a> {
    text: &'a str,
    separator: u8,
    /// Whether a number may have a decimal comma, and whether that is certain.
    decimal_comma: bool,
    are_sure: bool,
    /// The maximum number of distinct words.
    most_words: usize,
}

/// The result of the first pass.
struct Found {
    first: StringRecord,
    /// For each column whether all cells below the first line are numbers.
    are_numbers: Vec<bool>,
    /// For each column what its cells below the first line show about commas, and whether they are decimal ones.
    commas: Vec<Commas>,
    has_commas: Vec<bool>,
    /// For each column whether any cell below the first line is there.
    are_there: Vec<bool>,
    /// The number of lines with cells.
    count: usize,
    /// The line with the first cells, as people count.
    line: u32,
    /// The line whose number of cells all have.
    measure: u32,
}

impl Rows<'_> {
    /// Calls a function with each record and its line, until it fails.
    fn each(&self, mut see: impl FnMut(&StringRecord, u32) -> Result<(), Error>) -> Result<(), Error> {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(self.separator).has_headers(false).flexible(true).trim(Trim::All);
        let bytes = self.text.as_bytes();
        let mut reader = builder.from_reader(bytes);
        let (mut record, mut place, mut line) = (StringRecord::new(), 0, 1_u32);
        loop {
            // The reader stands behind the last record, which may be before the end of its line and before empty lines.
            let mut start = reader.position().byte() as usize;
            start += bytes[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            line += bytes[place..start].iter().filter(|byte| **byte == b'\n').count() as u32;
            place = start;
            let more = reader.read_record(&mut record);
            if !more.map_err(|error| Error::new("table", format!("line {line}: {error}")))? {
                return Ok(());
            }
            let end = reader.position().byte() as usize;
            let quotes = || bytes[start..end].iter().filter(|byte| **byte == b'"').count();
            if end == bytes.len() && record.iter().any(|cell| cell.contains('\n')) && quotes() % 2 == 1 {
                let error = Error::new("table", format!("a quote in line {line} is never closed"));
                return Err(error.help("close it, or write it twice if it belongs to the text"));
            }
            // A line of spaces alone is as empty as one without them.
            let is_empty = record.len() == 1 && self.text[start..end].trim().is_empty();
            if !is_empty {
                see(&record, line)?;
            }
        }
    }

    fn table(&self, header: Option<bool>) -> Result<Table, Error> {
        let found = self.look()?;
        if header != Some(true)
            && let Some(classes) = class_names(&found)
        {
            return self.with_classes(&found, classes);
        }
        let has_names = header.unwrap_or_else(|| found.has_names());
        if found.count == usize::from(has_names) {
            let error = Error::new("table", format!("there are no rows below the names in line {}", found.line));
            return Err(error.help("if the first line holds values, say that there is no header"));
        }
        let width = found.first.len();
        let name = |(place, cell): (usize, &str)| match cell.trim_start_matches(MARK) {
            cell if has_names && !cell.is_empty() => cell.to_owned(),
            _ => format!("f{place}"),
        };
        let names = found.first.iter().enumerate().map(name).collect();
        let is_number = |place: usize| {
            let first = found.first.get(place).and_then(|cell| number_in(cell, found.has_commas[place]));
            found.are_numbers[place] && (has_names || first.is_some())
        };
        let kinds: Vec<bool> = (0..width).map(is_number).collect();
        let names: Vec<String> = names;
        let (columns, lines) = self.take(&kinds, &found.has_commas, &names, usize::from(has_names))?;
        Ok(Table { origin: None, names, columns, lines })
    }

    /// The first reading.
    fn look(&self) -> Result<Found, Error> {
        let mut found: Option<Found> = None;
        self.each(|record, line| {
            let Some(found) = &mut found else {
                found = Some(Found::from_first(record, line));
                return Ok(());
            };
            found.see(record, line)
        })?;
        let mut found = found.ok_or_else(|| Error::new("table", "there is nothing in it"))?;
        if self.decimal_comma {
            let names: Vec<&str> = found.first.iter().collect();
            found.has_commas = decimal::decide(&found.commas, &names, self.are_sure)?;
            for (is_number, has_commas) in found.are_numbers.iter_mut().zip(&found.has_commas) {
                *is_number |= has_commas;
            }
        }
        Ok(found)
    }

    /// The second reading: cells below the first lines as columns of numbers or of words.
    fn take(
        &self,
        kinds: &[bool],
        has_commas: &[bool],
        names: &[String],
        skipped: usize,
    ) -> Result<(Vec<Column>, Vec<u32>), Error> {
        enum Taken {
            Numbers(Vec<f64>),
            Words(Words),
        }
        let start =
            |is_number: &bool| if *is_number { Taken::Numbers(Vec::new()) } else { Taken::Words(Words::default()) };
        let mut columns: Vec<Taken> = kinds.iter().map(start).collect();
        let (mut lines, mut seen, mut distinct) = (Vec::new(), 0, 0);
        self.each(|record, line| {
            seen += 1;
            if seen <= skipped {
                return Ok(());
            }
            lines.push(line);
            for (place, (column, cell)) in columns.iter_mut().zip(record).enumerate() {
                match column {
                    Taken::Numbers(numbers) => numbers.push(number_in(cell, has_commas[place]).unwrap_or(f64::NAN)),
                    Taken::Words(words) => {
                        distinct -= words.distinct();
                        words.push((!is_missing(cell)).then_some(cell));
                        distinct += words.distinct();
                        if distinct > self.most_words {
                            let (most, own) = (self.most_words, words.distinct());
                            let message = format!(
                                "line {line}: there are more than {most} distinct words, and {:?} has {own} of them",
                                names[place]
                            );
                            let help = "leave out columns of words that are nearly all different, such as names";
                            return Err(Error::new("table", message).help(help));
                        }
                    }
                }
            }
            Ok(())
        })?;
        let finish = |column: Taken| match column {
            Taken::Numbers(numbers) => Column::Numbers(numbers),
            Taken::Words(words) => words.column(),
        };
        Ok((columns.into_iter().map(finish).collect(), lines))
    }

    /// A table of scikit-learn: the first line declares rows, features and the names of the classes, whose numbers are in the last
    /// column.
    fn with_classes(&self, found: &Found, words: Vec<String>) -> Result<Table, Error> {
        let (declared, rows) = (&found.first[0], found.count - 1);
        if declared.parse() != Ok(rows) {
            return Err(Error::new(
                "table",
                format!("line {} declares {declared} rows, and there are {rows}", found.line),
            ));
        }
        let width = found.are_numbers.len();
        let mut names: Vec<String> = (0..width - 1).map(|place| format!("f{place}")).collect();
        names.push("class".to_owned());
        let (mut columns, lines) = self.take(&found.are_numbers, &found.has_commas, &names, 1)?;
        let mut table = Table { origin: None, names, columns: Vec::new(), lines };
        if let Some(Column::Numbers(numbers)) = columns.pop() {
            let class = |(row, number): (usize, f64)| match number {
                number if number.is_nan() => Ok(None),
                number if number.fract() == 0.0 && number >= 0.0 && number < words.len() as f64 => {
                    Ok(Some(number as u32))
                }
                number => {
                    let message = format!("{number} is not the number of one of the {} classes", words.len());
                    Err(table.error_at(row, width - 1, message))
                }
            };
            let indices = numbers.into_iter().enumerate().map(class).collect::<Result<_, _>>()?;
            columns.push(Column::Words { indices, words });
        }
        table.columns = columns;
        Ok(table)
    }
}

impl Found {
    fn from_first(record: &StringRecord, line: u32) -> Found {
        let mut found = Found {
            first: record.clone(),
            are_numbers: Vec::new(),
            commas: Vec::new(),
            has_commas: Vec::new(),
            are_there: Vec::new(),
            count: 1,
            line,
            measure: line,
        };
        found.set_width(record.len());
        found
    }

    /// Resets the statistics to this number of columns.
    fn set_width(&mut self, width: usize) {
        (self.are_numbers, self.are_there) = (vec![true; width], vec![false; width]);
        (self.commas, self.has_commas) = (vec![Commas::default(); width], vec![false; width]);
    }

    fn see(&mut self, record: &StringRecord, line: u32) -> Result<(), Error> {
        let width = self.are_numbers.len();
        if record.len() != width {
            // The second line determines the width where the first may declare classes.
            if self.count == 1 && class_count(&self.first).is_some_and(|features| features + 1 == record.len()) {
                self.set_width(record.len());
                self.measure = line;
            } else {
                return Err(self.wrong_width(record, line));
            }
        }
        for (place, cell) in record.iter().enumerate() {
            let number = number(cell);
            self.are_numbers[place] &= number.is_some();
            self.commas[place].see(cell, number.is_some(), line);
            self.are_there[place] |= !number.is_some_and(f64::is_nan);
        }
        self.count += 1;
        Ok(())
    }

    fn wrong_width(&self, record: &StringRecord, line: u32) -> Error {
        let (cells, width) = (record.len(), self.are_numbers.len());
        let plural = if cells == 1 { "" } else { "s" };
        let error =
            Error::new("table", format!("line {line} has {cells} cell{plural}, and line {} has {width}", self.measure));
        match record.iter().any(|cell| cell.contains('\n')) {
            true => error.help("a quote in this line is not closed before its end"),
            false => error.help("give every row as many cells, and quote text that holds the separator"),
        }
    }

    /// Whether the first line holds names: a word above numbers, or no numbers anywhere.
    fn has_names(&self) -> bool {
        let is_word =
            |place: usize| self.first.get(place).is_some_and(|cell| number_in(cell, self.has_commas[place]).is_none());
        let mut places = 0..self.are_numbers.len();
        let holds_numbers = |place: usize| self.are_numbers[place] && self.are_there[place];
        match places.clone().any(holds_numbers) {
            true => places.any(|place| holds_numbers(place) && is_word(place)),
            false => places.any(is_word),
        }
    }
}

/// The number of features that a first line of scikit-learn declares: two counts, then words.
fn class_count(first: &StringRecord) -> Option<usize> {
    let mut cells = first.iter();
    let (rows, features) = (cells.next()?.parse::<usize>().ok()?, cells.next()?.parse::<usize>().ok()?);
    let names: Vec<&str> = cells.collect();
    (rows > 0 && !names.is_empty() && names.iter().all(|name| number(name).is_none())).then_some(features)
}

/// The names of the classes, if the table is one of scikit-learn.
fn class_names(found: &Found) -> Option<Vec<String>> {
    let width = found.are_numbers.len();
    let fits = class_count(&found.first)?.checked_add(1)? == width && found.count > 1 && found.are_numbers[width - 1];
    fits.then(|| found.first.iter().skip(2).map(str::to_owned).collect())
}
