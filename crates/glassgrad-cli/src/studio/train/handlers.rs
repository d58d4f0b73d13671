//! Requests about runs.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use super::inspect;
use super::registry::Registry;
use super::request::{self, TrainRequest};
use super::runner::{Command, Snapshot};
use super::stream;
use crate::experiment::objective::Evaluator;
use crate::experiment::study::{Kept, Outcome};
use crate::experiment::{baseline, datasets, model, settings};
use crate::report;
use crate::studio::api::{self, Refusal, TIMEOUT, Workers};

/// The largest table and the largest model that are taken, in bytes.
const LARGEST_UPLOAD: usize = 32 << 20;
/// The maximum number of large request bodies that are read at the same time; others wait.
const UPLOADS_AT_ONCE: usize = 4;
const SMALL_BODY: usize = 64 << 10;

/// The shared state of requests.
#[derive(Clone)]
struct AppState {
    registry: Arc<Registry>,
    workers: Workers,
}

/// The requests about runs.
pub(in crate::studio) fn routes(registry: Arc<Registry>, workers: Workers) -> Router {
    Router::new()
        .route("/api/train", get(catalogue))
        .route("/api/train/settings", post(suited))
        .route("/api/runs", get(list).post(begin))
        .route("/api/models", post(load))
        .route("/api/runs/{id}", get(seen).delete(free))
        .route("/api/runs/{id}/command", post(command))
        .route("/api/runs/{id}/stream", get(watch))
        .route("/api/runs/{id}/inspect", post(inspected))
        .route("/api/runs/{id}/model", get(export))
        .route("/api/runs/{id}/report", get(reported))
        .route("/api/runs/{id}/history", get(history))
        .layer(DefaultBodyLimit::max(LARGEST_UPLOAD))
        .layer(from_fn_with_state(Arc::new(Semaphore::new(UPLOADS_AT_ONCE)), in_turn))
        .with_state(AppState { registry, workers })
}

/// A semaphore over large request bodies, so that they do not exhaust memory before they are validated.
async fn in_turn(State(uploads): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let is_small = match length {
        Some(length) => length <= SMALL_BODY,
        // A chunked body has no length.
        None => !request.headers().contains_key(header::TRANSFER_ENCODING),
    };
    if is_small {
        return next.run(request).await;
    }
    let Ok(_turn) = uploads.acquire().await else {
        return api::refused(StatusCode::SERVICE_UNAVAILABLE, "the studio ends");
    };
    next.run(request).await
}

async fn catalogue(State(app): State<AppState>) -> Json<Value> {
    let task = |row: &datasets::Row| json!({ "name": row.name, "about": row.about, "is_there": (row.is_there)(&app.registry.places) });
    let tasks: Vec<Value> = datasets::ROWS.iter().map(task).collect();
    Json(json!({
        "tasks": tasks,
        "fields": settings::form(),
    }))
}

async fn suited(State(app): State<AppState>, asked: api::Body<TrainRequest>) -> Response {
    let registry = Arc::clone(&app.registry);
    api::answered(app.workers, asked, move |asked: &TrainRequest, cancel| {
        let (settings, problem) = asked.fitted(&registry, cancel)?;
        Ok(json!({ "settings": settings, "problem": problem }))
    })
    .await
}

async fn begin(State(app): State<AppState>, asked: api::Body<TrainRequest>) -> Response {
    let registry = Arc::clone(&app.registry);
    api::answered(app.workers, asked, move |asked: &TrainRequest, cancel| {
        let (study, reserved) = asked.study(&registry, cancel)?;
        cancel.check()?;
        let id = registry.begin(study, reserved, asked.pace, asked.paused).map_err(Refusal::new)?;
        Ok(json!({ "id": id }))
    })
    .await
}

async fn load(State(app): State<AppState>, bytes: Bytes) -> Response {
    let registry = Arc::clone(&app.registry);
    api::answered(app.workers, Ok(Json(bytes)), move |bytes: &Bytes, cancel| {
        let (study, reserved, warnings) = request::loaded(bytes, &registry)?;
        cancel.check()?;
        let id = registry.begin(study, reserved, None, true).map_err(Refusal::new)?;
        Ok(json!({ "id": id, "warnings": warnings }))
    })
    .await
}

async fn list(State(app): State<AppState>) -> Json<Value> {
    Json(app.registry.list())
}

async fn seen(State(app): State<AppState>, Path(id): Path<u64>) -> Response {
    match app.registry.broadcast(id) {
        Some(broadcast) => Json(broadcast.all()).into_response(),
        None => gone(id),
    }
}

async fn free(State(app): State<AppState>, Path(id): Path<u64>) -> Response {
    if app.registry.free(id) { Json(json!({ "freed": id })).into_response() } else { gone(id) }
}

fn gone(id: u64) -> Response {
    api::refused(StatusCode::NOT_FOUND, format!("there is no run {id}; it was deleted, or the studio was restarted"))
}

/// A command to a run, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "do", rename_all = "kebab-case")]
enum Instruction {
    Go { steps: Option<u64> },
    Pause,
    Stop,
    Rate { rate: f64 },
    Pace { pace: Option<f64> },
    Pin { pinned: bool },
}

async fn command(State(app): State<AppState>, Path(id): Path<u64>, instruction: api::Body<Instruction>) -> Response {
    let instruction = match api::question_of(instruction) {
        Ok(instruction) => instruction,
        Err(response) => return *response,
    };
    let command = match instruction {
        Instruction::Go { steps } => {
            if !app.registry.has_room() && app.registry.broadcast(id).is_some_and(|broadcast| !broadcast.is_running()) {
                return Json(Refusal::new("other networks are learning; pause one of them").as_json()).into_response();
            }
            Command::Go { steps }
        }
        Instruction::Pause => Command::Pause,
        Instruction::Stop => Command::Stop,
        Instruction::Rate { rate } => match request::check_rate(rate) {
            Ok(()) => Command::Rate(rate),
            Err(failure) => return Json(Refusal::from(failure).as_json()).into_response(),
        },
        Instruction::Pace { pace } => match request::check_pace(pace) {
            Ok(()) => Command::Pace(pace),
            Err(failure) => return Json(Refusal::from(failure).as_json()).into_response(),
        },
        Instruction::Pin { pinned } => {
            return if app.registry.pin(id, pinned) {
                Json(json!({ "pinned": pinned })).into_response()
            } else {
                gone(id)
            };
        }
    };
    if app.registry.send(id, command) { Json(json!({ "id": id })).into_response() } else { gone(id) }
}

async fn watch(State(app): State<AppState>, Path(id): Path<u64>, upgrade: WebSocketUpgrade) -> Response {
    let Some(broadcast) = app.registry.broadcast(id) else { return gone(id) };
    // The page sends nothing but the close frame.
    upgrade.max_message_size(1024).on_upgrade(move |socket| stream::serve(socket, broadcast.watcher()))
}

async fn inspected(
    State(app): State<AppState>,
    Path(id): Path<u64>,
    asked: api::Body<inspect::InspectRequest>,
) -> Response {
    let asked = match api::question_of(asked) {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    match ask(&app, id, move |snapshot| inspect::answer(snapshot, &asked)).await {
        Ok(Ok(value)) => Json(value).into_response(),
        Ok(Err(error)) => Json(Refusal::new(error.to_string()).as_json()).into_response(),
        Err(response) => response,
    }
}

/// Executes a query between two steps of a run, and awaits the result.
async fn ask<T: Send + 'static>(
    app: &AppState,
    id: u64,
    query: impl FnOnce(&Snapshot<'_>) -> T + Send + 'static,
) -> Result<T, Response> {
    let (send, receive) = oneshot::channel();
    let query = move |snapshot: &Snapshot<'_>| {
        // The client may have disconnected.
        if !send.is_closed() {
            let _ = send.send(query(snapshot));
        }
    };
    if !app.registry.send(id, Command::Query(Box::new(query))) {
        return Err(gone(id));
    }
    let busy = |message: &str| api::refused(StatusCode::SERVICE_UNAVAILABLE, message);
    match tokio::time::timeout(TIMEOUT, receive).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(busy("the run has ended, or failed on this request")),
        Err(_) => Err(busy("the question takes too long")),
    }
}

async fn export(State(app): State<AppState>, Path(id): Path<u64>) -> Response {
    let bytes =
        ask(&app, id, |snapshot| (file_name(snapshot), model::to_bytes(snapshot.study, snapshot.network))).await;
    saved(bytes, "safetensors", "application/octet-stream")
}

async fn reported(State(app): State<AppState>, Path(id): Path<u64>) -> Response {
    let page = ask(&app, id, |snapshot| {
        let rendered = || -> Result<Vec<u8>, crate::failure::Failure> {
            let failed = |error: glassgrad::error::Error| crate::failure::Failure::Result(error.to_string());
            let study = snapshot.study;
            let evaluated =
                |part| Ok(Evaluator::new(&study.objective, part).evaluate(snapshot.network).map_err(failed)?.score);
            let outcome = Outcome {
                network: snapshot.network.clone(),
                history: snapshot.history.clone(),
                training: evaluated(&study.task.training)?,
                test: evaluated(&study.task.test)?,
                linear: baseline::fit(study).unwrap_or_default(),
                steps: snapshot.session.steps(),
                stopped: !snapshot.session.is_over(),
                warnings: Vec::new(),
                kept: Kept::default(),
            };
            Ok(report::page(study, &outcome)?.into_bytes())
        };
        (file_name(snapshot), rendered())
    })
    .await;
    saved(page, "html", "application/octet-stream")
}

async fn history(State(app): State<AppState>, Path(id): Path<u64>) -> Response {
    let table = ask(&app, id, |snapshot| (file_name(snapshot), Ok(snapshot.history.csv().into_bytes()))).await;
    saved(table, "csv", "text/csv; charset=utf-8")
}

fn file_name(snapshot: &Snapshot<'_>) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = snapshot.study.task.about.name.chars().take(40).map(plain).collect();
    format!("{name}-{}", settings::name_of(snapshot.study.settings.model))
}

/// A file that the browser saves.
fn saved(
    file: Result<(String, Result<Vec<u8>, crate::failure::Failure>), Response>,
    ending: &str,
    kind: &str,
) -> Response {
    match file {
        Ok((name, Ok(bytes))) => {
            let disposition = format!("attachment; filename=\"{name}.{ending}\"");
            ([(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)], bytes)
                .into_response()
        }
        Ok((_, Err(failure))) => api::refused(StatusCode::INTERNAL_SERVER_ERROR, failure.to_string()),
        Err(response) => response,
    }
}
