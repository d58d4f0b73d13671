//! The studio: requests in, answers out.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Cancel, Refusal, Reply, parsed};
use crate::api;
use crate::experiment::datasets;
use crate::experiment::settings;
use crate::experiment::sources::ImageSets;
use crate::failure::Failure;
use crate::route::Route;
use crate::train::curves;
use crate::train::inspect::{self, InspectRequest};
use crate::train::registry::Registry;
use crate::train::request::{self, TrainRequest};
use crate::train::{Command, Snapshot, Spawn, Watcher, files};
use crate::{gallery, glossary, tour, views};

/// The limits of a host.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The memory of all runs, about, in bytes.
    pub bytes: usize,
    /// The lifetime of a run without watchers or requests, unless it is pinned; longer than a page takes to reload.
    pub linger: Duration,
}

/// A studio: its runs, and what it needs of its host.
pub struct Studio {
    registry: Registry,
}

impl Studio {
    /// A studio whose host provides image sets and drives runs.
    pub fn new(images: Box<dyn ImageSets>, spawn: Spawn, limits: Limits) -> Arc<Studio> {
        Arc::new(Studio { registry: Registry::new(images, spawn, limits) })
    }

    /// Answers a request: at once, or, where a run has to be queried, after its next step.
    pub fn answer(&self, route: Route, body: &[u8], cancel: &Cancel, reply: Reply) {
        let answer = match route {
            Route::Explore => on(body, |asked| api::explore::answer(&asked)),
            Route::Compare => on(body, |asked| api::compare::answer(&asked)),
            Route::Plot => on(body, |asked| api::plot::answer(&asked)),
            Route::Paths => on(body, |asked| api::paths::answer(&asked)),
            Route::Curves => on(body, |asked| curves::answer(&asked, &self.registry)),
            Route::Derive => on(body, |asked| api::matrix::answer(&asked)),
            Route::Tour => Answer::json(&tour::as_json()),
            Route::Check => on(body, |attempt| tour::check(&attempt)),
            Route::Gallery => Answer::json(&gallery::as_json()),
            Route::Glossary => Answer::json(&glossary::as_json()),
            Route::Catalogue => Answer::json(&self.catalogue()),
            Route::Settings => on(body, |asked: TrainRequest| {
                let (settings, problem) = asked.fitted(&self.registry, cancel)?;
                Ok(json!({ "settings": settings, "problem": problem }))
            }),
            Route::Preview => on(body, |asked: TrainRequest| {
                let (study, _reserved) = asked.study(&self.registry, cancel)?;
                Ok(views::preview(&study).map_err(Failure::result)?)
            }),
            Route::Begin => on(body, |asked: TrainRequest| {
                let (study, reserved) = asked.study(&self.registry, cancel)?;
                cancel.check()?;
                let id = self.registry.begin(study, reserved, asked.pace, asked.paused).map_err(Refusal::new)?;
                Ok(json!({ "id": id }))
            }),
            Route::Load => self.load(body, cancel).into(),
            Route::Runs => Answer::json(&self.registry.list()),
            Route::Latest(id) => match self.registry.broadcast(id) {
                Some(broadcast) => Answer::json(&broadcast.all()),
                None => Answer::gone(id),
            },
            Route::Delete(id) if self.registry.free(id) => Answer::json(&json!({ "freed": id })),
            Route::Delete(id) => Answer::gone(id),
            Route::Command(id) => match parsed(body) {
                Ok(instruction) => self.command(id, instruction),
                Err(answer) => answer,
            },
            Route::Inspect(id) => match parsed::<InspectRequest>(body) {
                Ok(asked) => {
                    return self.query(id, cancel, reply, move |snapshot| {
                        inspect::answer(snapshot, &asked).map_err(|error| Refusal::new(error.to_string())).into()
                    });
                }
                Err(answer) => answer,
            },
            Route::Model(id) => return self.query(id, cancel, reply, files::model),
            Route::Report(id) => return self.query(id, cancel, reply, files::report),
            Route::History(id) => return self.query(id, cancel, reply, files::history),
            Route::Watch(_) => Answer::error(400, "updates are a stream: open it as one"),
        };
        reply.send(answer);
    }

    /// A subscription to the updates of a run.
    pub fn watch(&self, run: u64) -> Option<Watcher> {
        self.registry.broadcast(run).map(Watcher::new)
    }

    /// Deletes runs without watchers whose lifetime is over; hosts call it now and then.
    pub fn collect_garbage(&self) {
        self.registry.collect_garbage();
    }

    fn catalogue(&self) -> Value {
        let is_there = |row: &datasets::Row| (row.is_there)(self.registry.images.as_ref());
        let task = |row: &datasets::Row| json!({ "name": row.name, "about": row.about, "is_there": is_there(row) });
        let tasks: Vec<Value> = datasets::ROWS.iter().map(task).collect();
        json!({ "tasks": tasks, "fields": settings::form() })
    }

    fn load(&self, bytes: &[u8], cancel: &Cancel) -> Result<Value, Refusal> {
        let (study, reserved, warnings) = request::loaded(bytes, &self.registry)?;
        cancel.check()?;
        let id = self.registry.begin(study, reserved, None, true).map_err(Refusal::new)?;
        Ok(json!({ "id": id, "warnings": warnings }))
    }

    fn command(&self, id: u64, instruction: Instruction) -> Answer {
        let refused = |refusal: Refusal| Answer::from(Err(refusal));
        let command = match instruction {
            Instruction::Go { steps } => {
                let is_idle = self.registry.broadcast(id).is_some_and(|broadcast| !broadcast.is_running());
                if is_idle && !self.registry.has_room() {
                    return refused(Refusal::new("other networks are learning; pause one of them"));
                }
                Command::Go { steps }
            }
            Instruction::Pause => Command::Pause,
            Instruction::Stop => Command::Stop,
            Instruction::Rate { rate } => match request::check_rate(rate) {
                Ok(()) => Command::Rate(rate),
                Err(failure) => return refused(failure.into()),
            },
            Instruction::Pace { pace } => match request::check_pace(pace) {
                Ok(()) => Command::Pace(pace),
                Err(failure) => return refused(failure.into()),
            },
            Instruction::Pin { pinned } if self.registry.pin(id, pinned) => {
                return Answer::json(&json!({ "pinned": pinned }));
            }
            Instruction::Pin { .. } => return Answer::gone(id),
        };
        match self.registry.send(id, command) {
            Ok(()) => Answer::json(&json!({ "id": id })),
            Err(_) => Answer::gone(id),
        }
    }

    /// Executes a query between two steps of a run, which then replies.
    fn query(
        &self,
        id: u64,
        cancel: &Cancel,
        reply: Reply,
        query: impl FnOnce(&Snapshot<'_>) -> Answer + Send + 'static,
    ) {
        let cancel = cancel.clone();
        let query = move |snapshot: Option<&Snapshot<'_>>| match snapshot {
            // The client may have disconnected.
            Some(_) if cancel.is_cancelled() => {}
            Some(snapshot) => reply.send(query(snapshot)),
            None => reply.send(Answer::gone(id)),
        };
        if let Err(Command::Query(query)) = self.registry.send(id, Command::Query(Box::new(query))) {
            query(None);
        }
    }
}

/// The answer to the JSON of a request.
fn on<T: serde::de::DeserializeOwned>(body: &[u8], answer: impl FnOnce(T) -> Result<Value, Refusal>) -> Answer {
    match parsed(body) {
        Ok(asked) => answer(asked).into(),
        Err(answer) => answer,
    }
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
