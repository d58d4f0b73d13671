//! Which symbols there are, of which shapes, and the numbers that sizes stand for.

use std::fmt;

use crate::lang::{Span, SyntaxError};

/// The numbers that sizes stand for where none is given, in the order in which they are named: as in data, there are more
/// rows than columns.
const DEFAULT_SIZES: [usize; 12] = [5, 4, 3, 2, 6, 7, 8, 9, 10, 11, 12, 13];
/// The largest number of elements along one axis.
const LARGEST: u64 = 1 << 40;
/// The most axes of one symbol.
const AXES: usize = 6;

/// The size of an axis: a name, or a number.
///
/// ```
/// use glassgrad::lang::matrix::Size;
/// assert_eq!(Size::Name("n".into()).to_string(), "n");
/// assert_eq!(Size::Number(3).to_string(), "3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// A symbolic size.
    Name(String),
    /// A number.
    Number(usize),
    /// A size that follows from where it is used.
    Unknown(usize),
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Name(name) => formatter.write_str(name),
            Size::Number(number) => write!(formatter, "{number}"),
            Size::Unknown(_) => formatter.write_str("?"),
        }
    }
}

/// The declared symbols with their shapes, and the numbers of sizes.
///
/// ```
/// use glassgrad::lang::matrix::Declarations;
/// let declared = Declarations::read("A: m n, x: n, t:, m=5, n=3").unwrap();
/// assert_eq!(declared.number("m"), Some(5));
/// let error = Declarations::read("A: m n, A: n").unwrap_err();
/// assert!(error.to_string().starts_with("'A' is declared twice"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    symbols: Vec<(String, Vec<Size>)>,
    numbers: Vec<(String, usize)>,
}

impl Declarations {
    /// Reads declarations that are separated by commas: `A: m n` is a matrix, `x: n` a vector, `t:` a number, and `m=5`
    /// says what a size stands for.
    ///
    /// ```
    /// use glassgrad::lang::matrix::Declarations;
    /// assert!(Declarations::read("A: m n, x: n, t:, m=5").is_ok());
    /// assert!(Declarations::read("A of m and n").is_err());
    /// ```
    pub fn read(text: &str) -> Result<Declarations, SyntaxError> {
        let mut declared = Declarations::default();
        declared.extend(text)?;
        Ok(declared)
    }

    /// Adds what another text declares.
    ///
    /// ```
    /// use glassgrad::lang::matrix::Declarations;
    /// let mut declared = Declarations::read("A: m n").unwrap();
    /// declared.extend("m=5").unwrap();
    /// assert_eq!(declared.number("m"), Some(5));
    /// ```
    pub fn extend(&mut self, text: &str) -> Result<(), SyntaxError> {
        for item in items(text, [',', ';']) {
            let words = &text[item.start..item.end];
            if let Some(colon) = words.find(':') {
                let name = trimmed(text, Span { start: item.start, end: item.start + colon });
                let sizes = Span { start: item.start + colon + 1, end: item.end };
                let sizes = items(&text[sizes.start..sizes.end], [' ', '\t'])
                    .map(|size| Span { start: sizes.start + size.start, end: sizes.start + size.end });
                self.declare(text, name, sizes.collect())?;
            } else if let Some(equals) = words.find('=') {
                let name = trimmed(text, Span { start: item.start, end: item.start + equals });
                let number = trimmed(text, Span { start: item.start + equals + 1, end: item.end });
                self.assign(text, name, number)?;
            } else {
                let error = SyntaxError::new(text, item, "a declaration or the number of a size was expected");
                return Err(error.help("write A: m n for a matrix, x: n for a vector, t: for a number, or n=3"));
            }
        }
        Ok(())
    }

    /// Adds one symbol whose sizes follow an equals sign, separated by commas: `T=n,k`.
    ///
    /// ```
    /// use glassgrad::lang::matrix::Declarations;
    /// let mut declared = Declarations::default();
    /// declared.extend_shape("T=n,k").unwrap();
    /// assert!(declared.extend_shape("T").is_err());
    /// ```
    pub fn extend_shape(&mut self, text: &str) -> Result<(), SyntaxError> {
        let whole = Span { start: 0, end: text.len() };
        let Some(equals) = text.find('=') else {
            let error = SyntaxError::new(text, whole, "a symbol and its sizes were expected");
            return Err(error.help("write for example A=m,n"));
        };
        let name = trimmed(text, Span { start: 0, end: equals });
        let sizes = items(&text[equals + 1..], [',', ' '])
            .map(|size| Span { start: equals + 1 + size.start, end: equals + 1 + size.end });
        let sizes = sizes.collect();
        self.declare(text, name, sizes)
    }

    fn declare(&mut self, text: &str, name: Span, sizes: Vec<Span>) -> Result<(), SyntaxError> {
        let word = &text[name.start..name.end];
        let error = |span: Span, message: String| Err(SyntaxError::new(text, span, message));
        if !is_name(word) {
            return error(name, format!("'{word}' is no name"));
        }
        if super::parser::is_reserved(word) {
            return error(name, format!("'{word}' cannot be declared: it has a meaning of its own"));
        }
        if self.symbols.iter().any(|(known, _)| known == word) {
            return error(name, format!("'{word}' is declared twice"));
        }
        if self.is_size(word) {
            return error(name, format!("'{word}' is a size already, and cannot be a symbol too"));
        }
        if sizes.len() > AXES {
            return error(name, format!("'{word}' has {} axes, more than the {AXES} that are allowed", sizes.len()));
        }
        let mut shape = Vec::new();
        for span in sizes {
            let Some(size) = Declarations::size(&text[span.start..span.end]) else {
                let message = format!("'{}' is no size", &text[span.start..span.end]);
                return Err(
                    SyntaxError::new(text, span, message).help("a size is a name such as n, or a number from 1")
                );
            };
            let is_symbol = |symbol: &str| symbol == word || self.symbols.iter().any(|(known, _)| known == symbol);
            if matches!(&size, Size::Name(name) if is_symbol(name)) {
                return error(span, format!("'{size}' is a symbol, and cannot be a size too"));
            }
            shape.push(size);
        }
        self.symbols.push((word.to_owned(), shape));
        Ok(())
    }

    fn assign(&mut self, text: &str, name: Span, number: Span) -> Result<(), SyntaxError> {
        let (word, digits) = (&text[name.start..name.end], &text[number.start..number.end]);
        if !is_name(word) {
            return Err(SyntaxError::new(text, name, format!("'{word}' is no name")));
        }
        let Some(Size::Number(value)) = Declarations::size(digits) else {
            let error = SyntaxError::new(text, number, format!("the size of {word} must be a whole number from 1"));
            return Err(error.help(format!("at most {LARGEST}; to declare a symbol write {word}: n")));
        };
        if self.symbols.iter().any(|(known, _)| known == word) {
            return Err(SyntaxError::new(text, name, format!("'{word}' is a symbol, and cannot be a size too")));
        }
        if let Some((_, known)) = self.numbers.iter().find(|(known, _)| known == word)
            && *known != value
        {
            return Err(SyntaxError::new(text, name, format!("the size {word} is {known} already")));
        }
        self.numbers.push((word.to_owned(), value));
        Ok(())
    }

    /// Adds a symbol whose shape is known to be one.
    pub(super) fn add(&mut self, name: &str, shape: Vec<Size>) {
        self.symbols.push((name.to_owned(), shape));
    }

    /// A size as it is written, if it is one.
    pub(crate) fn size(word: &str) -> Option<Size> {
        match word.parse::<usize>() {
            Ok(number) => (1..=LARGEST).contains(&(number as u64)).then_some(Size::Number(number)),
            Err(_) => is_name(word).then(|| Size::Name(word.to_owned())),
        }
    }

    /// The shape of a symbol.
    pub(crate) fn shape(&self, name: &str) -> Option<&[Size]> {
        self.symbols.iter().find(|(known, _)| known == name).map(|(_, shape)| &shape[..])
    }

    /// Whether a name is that of a size.
    pub(crate) fn is_size(&self, name: &str) -> bool {
        let named = |size: &Size| matches!(size, Size::Name(known) if known == name);
        self.number(name).is_some() || self.symbols.iter().any(|(_, shape)| shape.iter().any(named))
    }

    /// The names of all declared symbols.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols.iter().map(|(name, _)| name.as_str())
    }

    /// The number that was given to a size.
    ///
    /// ```
    /// use glassgrad::lang::matrix::Declarations;
    /// assert_eq!(Declarations::read("x: n").unwrap().number("n"), None);
    /// ```
    pub fn number(&self, size: &str) -> Option<usize> {
        self.numbers.iter().find(|(name, _)| name == size).map(|(_, number)| *number)
    }

    /// Every named size that a symbol has, with its number: the one that was given, or else a small one that no other
    /// size has.
    ///
    /// ```
    /// use glassgrad::lang::matrix::Declarations;
    /// let sizes = Declarations::read("A: m n, x: n, n=8").unwrap().sizes();
    /// assert_eq!(sizes, [("m".to_owned(), 5), ("n".to_owned(), 8)]);
    /// ```
    pub fn sizes(&self) -> Vec<(String, usize)> {
        let mut found: Vec<(String, usize)> = Vec::new();
        let taken = |found: &[(String, usize)], number: usize| {
            found
                .iter()
                .map(|(_, known)| known)
                .chain(self.numbers.iter().map(|(_, known)| known))
                .any(|k| *k == number)
        };
        let named = self.symbols.iter().flat_map(|(_, shape)| shape).filter_map(|size| match size {
            Size::Name(name) => Some(name.clone()),
            _ => None,
        });
        for name in named.chain(self.numbers.iter().map(|(name, _)| name.clone())) {
            if found.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let fallback = || DEFAULT_SIZES.into_iter().chain(14..).find(|number| !taken(&found, *number)).unwrap_or(5);
            let number = self.number(&name).unwrap_or_else(fallback);
            found.push((name, number));
        }
        found
    }
}

impl fmt::Display for Declarations {
    /// As they are read: `A: m n, x: n, m=5`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = |shape: &[Size]| shape.iter().map(|size| format!(" {size}")).collect::<String>();
        let symbols = self.symbols.iter().map(|(name, shape)| format!("{name}:{}", sizes(shape)));
        let numbers = self.numbers.iter().map(|(name, number)| format!("{name}={number}"));
        formatter.write_str(&symbols.chain(numbers).collect::<Vec<_>>().join(", "))
    }
}

pub(super) fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_') && word.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn trimmed(text: &str, span: Span) -> Span {
    let word = &text[span.start..span.end];
    let start = span.start + (word.len() - word.trim_start().len());
    Span { start, end: start + word.trim().len() }
}

/// The pieces of a text between separators, without white space around them, and none that is empty.
fn items(text: &str, separators: [char; 2]) -> impl Iterator<Item = Span> + '_ {
    text.split(separators)
        .map(move |piece| {
            let start = piece.as_ptr() as usize - text.as_ptr() as usize;
            trimmed(text, Span { start, end: start + piece.len() })
        })
        .filter(|span| span.start < span.end)
}
