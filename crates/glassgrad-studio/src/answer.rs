//! Answers to requests, and why there is none.
//!
//! An expression with a syntax error is a request with an answer: what is wrong, where, and what to do. It comes with the status 200
//! and the field `error`. Other statuses are for malformed requests: not JSON, too large, unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glassgrad::lang::SyntaxError;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::{Value, json};

use crate::failure::Failure;

/// The longest expression, in bytes.
const LONGEST_EXPRESSION: usize = 4096;

/// An answer, as hosts send it: with a status of HTTP and a media type.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    /// The name under which a browser saves it, if it is a file.
    pub file: Option<String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(value: &Value) -> Answer {
        Answer::with_status(200, value)
    }

    /// The answer to a request that cannot be processed.
    pub fn error(status: u16, message: impl Into<String>) -> Answer {
        Answer::with_status(status, &Refusal::new(message).as_json())
    }

    /// The answer to a request about a run that does not exist.
    pub(crate) fn gone(run: u64) -> Answer {
        Answer::error(404, format!("there is no run {run}; it was deleted, or the studio was restarted"))
    }

    fn with_status(status: u16, value: &Value) -> Answer {
        Answer { status, kind: "application/json", file: None, body: value.to_string().into_bytes() }
    }
}

impl From<Result<Value, Refusal>> for Answer {
    fn from(answered: Result<Value, Refusal>) -> Answer {
        Answer::json(&answered.unwrap_or_else(|refusal| refusal.as_json()))
    }
}

/// The receiver of an answer, which is sent once: at once, or after the next step of a run. Dropped without an answer, as the
/// query of a run that ends, it sends an error.
pub struct Reply(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Reply {
    pub fn new(receive: impl FnOnce(Answer) + Send + 'static) -> Reply {
        Reply(Some(Box::new(receive)))
    }

    pub fn send(mut self, answer: Answer) {
        if let Some(receive) = self.0.take() {
            receive(answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(receive) = self.0.take() {
            receive(Answer::error(503, "the run has ended, or failed on this request"));
        }
    }
}

/// Cancellation flag of the work for a request, which a host sets when the request has ended early.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error once the request has ended.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.is_cancelled() { Err(Refusal::new("the request was cancelled")) } else { Ok(()) }
    }
}

/// Why there is no answer: what is wrong, where in the expression, and what to do.
#[derive(Debug)]
pub(crate) struct Refusal {
    message: String,
    place: Option<(usize, usize)>,
    help: Option<String>,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), place: None, help: None }
    }

    pub(crate) fn message(self) -> String {
        self.message
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({ "error": { "message": self.message, "start": self.place.map(|(start, _)| start),
                           "end": self.place.map(|(_, end)| end), "help": self.help } })
    }
}

impl From<SyntaxError> for Refusal {
    fn from(error: SyntaxError) -> Refusal {
        let place = units(&error.source, error.span.start, error.span.end);
        Refusal { place: Some(place), message: error.message, help: error.help }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal::new(crate::experiment::settings::in_form(&failure.to_string()))
    }
}

/// A range of bytes of a text in the units in which a browser counts: code units of UTF-16.
pub(crate) fn units(source: &str, start: usize, end: usize) -> (usize, usize) {
    let before = |byte: usize| source.get(..byte.min(source.len())).unwrap_or(source).encode_utf16().count();
    (before(start), before(end))
}

/// Refuses an expression that is too long.
pub(crate) fn short_enough(expression: &str) -> Result<(), Refusal> {
    match expression.len() {
        0..=LONGEST_EXPRESSION => Ok(()),
        length => Err(Refusal::new(format!(
            "the expression has {length} bytes, and the studio reads {LONGEST_EXPRESSION}; the command line reads longer ones"
        ))),
    }
}

/// The JSON of a request, or the answer to one that is malformed.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Answer> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let status = match error.inner().classify() {
            Category::Data => 422,
            Category::Syntax | Category::Eof | Category::Io => 400,
        };
        Answer::error(status, readable(&error.to_string()))
    })?;
    reader.end().map_err(|error| Answer::error(400, readable(&error.to_string())))?;
    Ok(read)
}

/// The message of a parser without the place that it counts in lines.
fn readable(message: &str) -> String {
    let message = message.strip_prefix("options: ").unwrap_or(message);
    match message.rsplit_once(" at line ") {
        Some((before, place)) if place.starts_with(|first: char| first.is_ascii_digit()) => before.to_owned(),
        _ => message.to_owned(),
    }
}
