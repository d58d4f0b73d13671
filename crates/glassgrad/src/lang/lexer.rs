//! From text to tokens, and the error that every later stage reports.

use std::fmt;

use super::Span;

/// The longest text that is read.
pub const MAXIMUM_LENGTH: usize = 65_536;

/// How many characters of a long line are shown to each side of an error.
const WINDOW: usize = 50;

/// A syntax error: message, span and help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The message.
    pub message: String,
    /// The span.
    pub span: Span,
    /// The remedy, where one is known.
    pub help: Option<String>,
    /// The text.
    pub source: String,
}

impl SyntaxError {
    pub(crate) fn new(source: &str, span: Span, message: impl Into<String>) -> Self {
        SyntaxError { message: message.into(), span, help: None, source: source.to_owned() }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The message, the line of the text, and a caret under the place.
impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n{}", self.message, underline(&self.source, self.span))?;
        if let Some(help) = &self.help {
            write!(formatter, "\n  = help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SyntaxError {}

/// The line that holds the start of a span, cut to a window, and carets under the span.
pub fn underline(source: &str, span: Span) -> String {
    let start = span.start.min(source.len());
    let line_start = source[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = source[start..].find('\n').map_or(source.len(), |newline| start + newline);
    let before = source[line_start..start].chars().count();
    let width = source[start..span.end.clamp(start, line_end)].chars().count().max(1);
    let skipped = before.saturating_sub(WINDOW);
    let shown_width = width.min(2 * WINDOW);
    let visible = |character: char| if character.is_control() { ' ' } else { character };
    let line = &source[line_start..line_end];
    let shown: String = line.chars().skip(skipped).take(before - skipped + shown_width + WINDOW).map(visible).collect();
    let (left, right) = (
        if skipped > 0 { "…" } else { "" },
        if line.chars().count() > skipped + shown.chars().count() { "…" } else { "" },
    );
    let indent = " ".repeat(before - skipped + left.chars().count());
    format!("  | {left}{shown}{right}\n  | {indent}{}", "^".repeat(shown_width))
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Name(String),
    Symbol(&'static str),
    /// Text in quotes, without them.
    Quoted(String),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number(number) => write!(formatter, "the number {number}"),
            Token::Name(name) => write!(formatter, "'{name}'"),
            Token::Symbol(symbol) => write!(formatter, "'{symbol}'"),
            Token::Quoted(text) => write!(formatter, "the text {text:?}"),
            Token::End => formatter.write_str("the end of the expression"),
        }
    }
}

/// Longer symbols first, so that `<=` is not read as `<` and `=`.
const SYMBOLS: [&str; 21] =
    ["<=", ">=", "==", "!=", "**", "<", ">", "=", "+", "-", "*", "/", "%", "^", "(", ")", ",", ";", "|", "·", "−"];

/// The symbols that matrix expressions have besides.
const MATRIX_SYMBOLS: [&str; 5] = [".*", "./", ".^", "'", ":"];

/// Which symbols are read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Dialect {
    Scalar,
    /// With operations element by element, transposes and quoted text.
    Matrix,
}

pub(super) fn tokenize(source: &str, dialect: Dialect) -> Result<Vec<(Token, Span)>, SyntaxError> {
    if source.len() > MAXIMUM_LENGTH {
        // The text itself is not repeated in the message: it is too long by far.
        let message =
            format!("the expression has {} bytes, more than the {MAXIMUM_LENGTH} that are read", source.len());
        let head: String = source.chars().take(WINDOW).collect();
        return Err(SyntaxError::new(&format!("{head}…"), Span { start: 0, end: 1 }, message));
    }
    let mut tokens = Vec::new();
    let mut position = 0;
    while let Some(character) = source[position..].chars().next() {
        let rest = &source[position..];
        let matrix = if dialect == Dialect::Matrix { &MATRIX_SYMBOLS[..] } else { &[] };
        let (token, length) = if character.is_whitespace() {
            position += character.len_utf8();
            continue;
        } else if let Some(symbol) = matrix.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else if dialect == Dialect::Matrix && character == '"' {
            match rest[1..].find('"') {
                Some(length) => (Token::Quoted(rest[1..=length].to_owned()), length + 2),
                None => {
                    let span = Span { start: position, end: position + 1 };
                    return Err(SyntaxError::new(source, span, "this quotation mark is never closed"));
                }
            }
        } else if character.is_ascii_digit() || character == '.' {
            read_number(source, position, dialect)?
        } else if character.is_alphabetic() || character == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Name(rest[..length].to_owned()), length)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            let meaning = match *symbol {
                "**" => "^",
                "·" => "*",
                "−" => "-",
                symbol => symbol,
            };
            (Token::Symbol(meaning), symbol.len())
        } else {
            let span = Span { start: position, end: position + character.len_utf8() };
            return Err(SyntaxError::new(source, span, format!("unexpected character {character:?}")));
        };
        tokens.push((token, Span { start: position, end: position + length }));
        position += length;
    }
    tokens.push((Token::End, Span { start: source.len(), end: source.len() }));
    Ok(tokens)
}

fn read_number(source: &str, start: usize, dialect: Dialect) -> Result<(Token, usize), SyntaxError> {
    let bytes = source.as_bytes();
    let digits = |mut position: usize| {
        while bytes.get(position).is_some_and(u8::is_ascii_digit) {
            position += 1;
        }
        position
    };
    let mut end = digits(start);
    // In 2.*A the dot belongs to the operator.
    let operator = dialect == Dialect::Matrix && matches!(bytes.get(end + 1), Some(b'*' | b'/' | b'^'));
    if bytes.get(end) == Some(&b'.') && !operator {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent_end = digits(end + 1 + sign);
        // Without digits the e is a name of its own, and the parser complains about that.
        if exponent_end > end + 1 + sign {
            end = exponent_end;
        }
    }
    let span = Span { start, end };
    match source[start..end].parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((Token::Number(number), end - start)),
        Ok(_) => Err(SyntaxError::new(source, span, "this number is too large for 64 bits")),
        Err(_) => Err(SyntaxError::new(source, span, format!("'{}' is not a number", &source[start..end]))),
    }
}
