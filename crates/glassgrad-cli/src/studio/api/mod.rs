//! Answers to questions about expressions, as JSON.
//!
//! An expression that cannot be read is a question with an answer: what is wrong, where, and what to do. It comes with the
//! status 200 and the field `error`. Other statuses are for requests that are no questions: not JSON, too large, unknown.

mod compare;
mod explore;
mod matrix;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use glassgrad::lang::SyntaxError;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{gallery, glossary};
use crate::failure::Failure;

/// The longest expression, in bytes.
const LONGEST_EXPRESSION: usize = 4096;
/// The time limit of a request.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Permits for blocking work.
pub(super) type Workers = Arc<Semaphore>;
pub(super) type Body<T> = Result<Json<T>, JsonRejection>;

/// Cancellation flag of blocking work, set when its request ends: by a response, a timeout, or because
/// the connection was closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Returns an error once the request has ended.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Refusal::new("the request was cancelled")),
            false => Ok(()),
        }
    }
}

/// Cancels on drop; a request drops it when it ends.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Why there is no answer: what is wrong, where in the expression, and what to do.
#[derive(Debug)]
pub(super) struct Refusal {
    message: String,
    place: Option<(usize, usize)>,
    help: Option<String>,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), place: None, help: None }
    }

    pub(super) fn message(self) -> String {
        self.message
    }

    pub(super) fn as_json(&self) -> Value {
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
fn units(source: &str, start: usize, end: usize) -> (usize, usize) {
    let before = |byte: usize| source.get(..byte.min(source.len())).unwrap_or(source).encode_utf16().count();
    (before(start), before(end))
}

/// Refuses an expression that is too long.
fn short_enough(expression: &str) -> Result<(), Refusal> {
    match expression.len() {
        0..=LONGEST_EXPRESSION => Ok(()),
        length => Err(Refusal::new(format!(
            "the expression has {length} bytes, and the studio reads {LONGEST_EXPRESSION}; the command line reads longer ones"
        ))),
    }
}

pub(super) async fn explore(State(workers): State<Workers>, asked: Body<explore::ExploreRequest>) -> Response {
    answered(workers, asked, |asked, _| explore::answer(asked)).await
}

pub(super) async fn compare(State(workers): State<Workers>, asked: Body<explore::ExploreRequest>) -> Response {
    answered(workers, asked, |asked, _| compare::answer(asked)).await
}

pub(super) async fn derive(State(workers): State<Workers>, asked: Body<matrix::MatrixRequest>) -> Response {
    answered(workers, asked, |asked, _| matrix::answer(asked)).await
}

pub(super) async fn gallery() -> Json<Value> {
    Json(gallery::as_json())
}

pub(super) async fn glossary() -> Json<Value> {
    Json(glossary::as_json())
}

/// The answer to a request that is no question.
pub(super) fn refused(status: StatusCode, message: impl Into<String>) -> Response {
    (status, Json(Refusal::new(message).as_json())).into_response()
}

/// The question of a request, or the answer to one that has none.
pub(super) fn question_of<T>(asked: Body<T>) -> Result<T, Box<Response>> {
    let refuse = |rejection: JsonRejection| refused(rejection.status(), readable(&rejection.body_text())).into();
    asked.map(|Json(question)| question).map_err(refuse)
}

/// A message about a request without the words of the parser around it.
fn readable(message: &str) -> String {
    let message = message.strip_prefix("Failed to deserialize the JSON body into the target type: ").unwrap_or(message);
    let message = message.strip_prefix("options: ").unwrap_or(message);
    match message.rsplit_once(" at line ") {
        Some((before, place)) if place.starts_with(|first: char| first.is_ascii_digit()) => before.to_owned(),
        _ => message.to_owned(),
    }
}

/// Works on a question beside the server, with a permit, for a limited time.
pub(super) async fn answered<T: Send + 'static>(
    workers: Workers,
    asked: Body<T>,
    answer: impl FnOnce(&T, &Cancel) -> Result<Value, Refusal> + Send + 'static,
) -> Response {
    let question = match question_of(asked) {
        Ok(question) => question,
        Err(response) => return *response,
    };
    let busy = "the studio is busy with other questions; ask again";
    let Ok(Ok(permit)) = tokio::time::timeout(TIMEOUT, workers.acquire_owned()).await else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, busy);
    };
    let cancel = Cancel::default();
    let _cancel_on_drop = CancelOnDrop(cancel.clone());
    let work = tokio::task::spawn_blocking(move || {
        // The permit is held until the work is done, even after the request has ended.
        let _permit = permit;
        cancel.check()?;
        answer(&question, &cancel)
    });
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(Ok(Ok(value))) => Json(value).into_response(),
        Ok(Ok(Err(refusal))) => Json(refusal.as_json()).into_response(),
        Ok(Err(_)) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this request failed inside the studio; other requests are not affected",
        ),
        Err(_) => {
            refused(StatusCode::SERVICE_UNAVAILABLE, "the question takes too long; ask about a smaller expression")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_whose_request_has_ended_is_cancelled() {
        let workers: Workers = Arc::new(Semaphore::new(1));
        let (send, receive) = std::sync::mpsc::channel();
        let request = answered(Arc::clone(&workers), Ok(Json(())), move |(), cancel: &Cancel| {
            while cancel.check().is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = send.send(());
            cancel.check().map(|()| Value::Null)
        });
        // The connection is closed: the request is dropped while its work continues.
        assert!(tokio::time::timeout(Duration::from_millis(50), request).await.is_err());
        receive.recv_timeout(Duration::from_secs(10)).expect("the work ends");
        let permit = tokio::time::timeout(Duration::from_secs(10), workers.acquire()).await;
        assert!(permit.is_ok(), "the permit is released");
    }
}
