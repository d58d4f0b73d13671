//! Requests over HTTP: their bodies are read within limits, and the studio answers, beside the server and for a limited time.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body as HttpBody, Bytes, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use glassgrad_studio::{Answer, Body, Cancel, Reply, Route, Studio, Unrouted, assets};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::stream;

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of requests that are processed at the same time.
const AT_ONCE: usize = 4;
/// The maximum number of large request bodies that are read at the same time; others wait.
const UPLOADS_AT_ONCE: usize = 4;
const SMALL_BODY: usize = 64 << 10;

/// The shared state of requests.
#[derive(Clone)]
struct AppState {
    studio: Arc<Studio>,
    /// Permits for blocking work.
    workers: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
}

/// All requests: those of the studio, and the files of its page.
pub(super) fn routes(studio: Arc<Studio>) -> Router {
    let state = AppState {
        studio,
        workers: Arc::new(Semaphore::new(AT_ONCE)),
        uploads: Arc::new(Semaphore::new(UPLOADS_AT_ONCE)),
    };
    Router::new().fallback(handle).with_state(state)
}

async fn handle(State(app): State<AppState>, request: Request) -> Response {
    let path = request.uri().path();
    match Route::find(request.method().as_str(), path) {
        Ok(Route::Watch(run)) => watch(&app, run, request).await,
        Ok(route) => answered(app, route, request).await,
        Err(Unrouted::Method) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Err(Unrouted::Path) if !["GET", "HEAD"].contains(&request.method().as_str()) => {
            StatusCode::METHOD_NOT_ALLOWED.into_response()
        }
        Err(Unrouted::Path) => match assets::find(path) {
            Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
            None => (StatusCode::NOT_FOUND, "there is nothing here; the page is at /\n").into_response(),
        },
    }
}

/// Reads the body and works on a request, for a limited time.
async fn answered(app: AppState, route: Route, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = match body_of(&app, route, &head.headers, body).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let cancel = Cancel::default();
    let _cancel_on_drop = CancelOnDrop(cancel.clone());
    let (send, receive) = oneshot::channel();
    // The request may have ended.
    let reply = Reply::new(move |answer| drop(send.send(answer)));
    if !route.is_work() {
        app.studio.answer(route, &body, &cancel, reply);
        return match tokio::time::timeout(TIMEOUT, receive).await {
            Ok(Ok(answer)) => sent(answer),
            _ => error(StatusCode::SERVICE_UNAVAILABLE, "the question takes too long"),
        };
    }
    let Ok(Ok(permit)) = tokio::time::timeout(TIMEOUT, app.workers.acquire_owned()).await else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "the studio is busy with other questions; ask again");
    };
    let work = beside(permit, move || {
        if !cancel.is_cancelled() {
            app.studio.answer(route, &body, &cancel, reply);
        }
    });
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(Ok(())) => match receive.await {
            Ok(answer) => sent(answer),
            Err(_) => unreachable!("a reply sends an answer, at the latest when it is dropped"),
        },
        Ok(Err(_)) => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this request failed inside the studio; other requests are not affected",
        ),
        Err(_) => error(StatusCode::SERVICE_UNAVAILABLE, "the question takes too long; ask about a smaller expression"),
    }
}

/// Works on a thread beside the server. The permit is held until the work is done, even after its request has ended.
fn beside(permit: OwnedSemaphorePermit, work: impl FnOnce() + Send + 'static) -> tokio::task::JoinHandle<()> {
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work();
    })
}

/// Cancels on drop; a request drops it when it ends: by a response, a timeout, or because the connection was closed.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The body of a request, within the limit of its route.
async fn body_of(app: &AppState, route: Route, headers: &HeaderMap, body: HttpBody) -> Result<Bytes, Response> {
    let most = match route.body() {
        Body::None => return Ok(Bytes::new()),
        Body::Json(_) if !is_json(headers) => {
            let message = "expected a request with Content-Type: application/json";
            return Err(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        Body::Json(most) | Body::Bytes(most) => most,
    };
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    // A chunked body has no length. Large ones are read in turns, so that they do not exhaust memory before they are validated.
    let _turn = match length.unwrap_or(most) <= SMALL_BODY {
        true => None,
        false => Some(app.uploads.acquire().await),
    };
    let too_large =
        || error(StatusCode::PAYLOAD_TOO_LARGE, &format!("a request of this kind has at most {most} bytes"));
    if length.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    to_bytes(body, most).await.map_err(|failed| match is_length_limit(&failed) {
        true => too_large(),
        false => error(StatusCode::BAD_REQUEST, "the body of the request cannot be read"),
    })
}

fn is_length_limit(failed: &axum::Error) -> bool {
    let mut source = std::error::Error::source(failed);
    while let Some(error) = source {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        source = error.source();
    }
    false
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The stream of updates of a run.
async fn watch(app: &AppState, run: u64, request: Request) -> Response {
    let Some(watcher) = app.studio.watch(run) else {
        return error(
            StatusCode::NOT_FOUND,
            &format!("there is no run {run}; it was deleted, or the studio was restarted"),
        );
    };
    let (mut head, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut head, &()).await {
        // The page sends nothing but the close frame.
        Ok(upgrade) => upgrade.max_message_size(1024).on_upgrade(move |socket| stream::serve(socket, watcher)),
        Err(rejection) => rejection.into_response(),
    }
}

fn error(status: StatusCode, message: &str) -> Response {
    sent(Answer::error(status.as_u16(), message))
}

/// An answer over HTTP; a browser saves a file.
fn sent(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [(header::CONTENT_TYPE, answer.kind)], answer.body).into_response();
    if let Some(name) = answer.file {
        // Names are letters, digits and dashes.
        if let Ok(disposition) = format!("attachment; filename=\"{name}\"").parse() {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_whose_request_has_ended_is_cancelled() {
        let workers = Arc::new(Semaphore::new(1));
        let cancel = Cancel::default();
        let guard = CancelOnDrop(cancel.clone());
        let (send, receive) = std::sync::mpsc::channel();
        let permit = Arc::clone(&workers).acquire_owned().await.expect("a permit");
        let work = beside(permit, move || {
            while !cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = send.send(());
        });
        let request = async move {
            let _guard = guard;
            work.await
        };
        // The connection is closed: the request is dropped while its work continues.
        assert!(tokio::time::timeout(Duration::from_millis(50), request).await.is_err());
        receive.recv_timeout(Duration::from_secs(10)).expect("the work ends");
        let permit = tokio::time::timeout(Duration::from_secs(10), workers.acquire()).await;
        assert!(permit.is_ok(), "the permit is released");
    }
}
