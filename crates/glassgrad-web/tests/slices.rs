//! The studio of a browser, on this machine: the worker answers as the server does, and a run in slices of time computes what a
//! run without interruption computes.

use std::cell::RefCell;
use std::time::Duration;

use glassgrad_experiment::datasets;
use glassgrad_experiment::sources::Embedded;
use glassgrad_experiment::study::{RunOptions, Study};
use glassgrad_studio::Answer;
use glassgrad_web::{Page, Worker};
use serde_json::{Value, json};

/// A page that remembers what it was sent.
#[derive(Default)]
struct Remembered {
    answers: Vec<(u32, u16, Value)>,
    updates: Vec<(u32, Value)>,
}

impl Page for Remembered {
    fn respond(&mut self, request: u32, answer: &Answer) {
        let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        self.answers.push((request, answer.status, body));
    }

    fn publish(&mut self, watcher: u32, message: &str) {
        self.updates.push((watcher, serde_json::from_str(message).expect("JSON")));
    }
}

/// A worker with its page.
#[derive(Default)]
struct Visit {
    worker: Worker,
    page: Remembered,
    number: u32,
}

impl Visit {
    /// Sends a request, and advances runs until it is answered.
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.number += 1;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.worker.request(self.number, method, path, body.as_bytes(), &mut self.page);
        for _ in 0..1000 {
            if let Some(place) = self.page.answers.iter().position(|(number, ..)| *number == self.number) {
                let (_, status, value) = self.page.answers.remove(place);
                return (status, value);
            }
            self.worker.advance(Duration::from_millis(1), &mut self.page);
        }
        panic!("{method} {path}: no answer");
    }

    fn state(&mut self, run: &Value) -> Value {
        self.ask("GET", &format!("/api/runs/{run}"), &Value::Null).1["state"].clone()
    }

    /// Advances in slices until a run is at its end.
    fn finish(&mut self, run: &Value, slice: Duration) -> Value {
        for _ in 0..100_000 {
            self.worker.advance(slice, &mut self.page);
            let state = self.state(run);
            if state["phase"] != "running" {
                return state;
            }
        }
        panic!("the run does not end");
    }
}

#[test]
fn a_run_in_slices_computes_what_an_uninterrupted_one_computes() {
    let mut settings = datasets::suited("moons", None).unwrap_or_else(|failure| panic!("{failure}"));
    (settings.epochs, settings.points) = (12, 300);
    let task = datasets::load(&settings, &Embedded).unwrap_or_else(|failure| panic!("{failure}"));
    let study = Study::new(settings, task).unwrap_or_else(|failure| panic!("{failure}"));
    let Ok(outcome) = study.run(RunOptions::default(), &RefCell::default(), &mut ()) else { panic!("it trains") };
    let expected = (outcome.test.loss, outcome.test.measure.number(), outcome.steps);

    // Several runs in turns, with slices that end within an epoch.
    let mut visit = Visit::default();
    let asked = json!({ "data": "moons", "options": { "epochs": 12, "points": 300 } });
    let runs: Vec<Value> = (0..3).map(|_| visit.ask("POST", "/api/runs", &asked).1["id"].clone()).collect();
    for run in &runs {
        let state = visit.finish(run, Duration::from_micros(200));
        assert_eq!(state["phase"], "finished", "{state}");
        let found = (&state["test"]["loss"], &state["test"]["number"], &state["step"]);
        assert_eq!(found, (&json!(expected.0), &json!(expected.1), &json!(expected.2)));
    }
}

#[test]
fn commands_queries_and_updates_reach_a_run_between_two_steps() {
    let mut visit = Visit::default();
    let asked = json!({ "data": "moons", "options": { "epochs": 1000 }, "paused": true });
    let run = visit.ask("POST", "/api/runs", &asked).1["id"].clone();
    let number = run.as_u64().expect("a number");
    assert!(visit.worker.watch(9, number, &mut visit.page));
    assert!(!visit.worker.watch(9, number + 1, &mut visit.page), "there is no other run");
    // Nothing is due while it is paused.
    assert_eq!(visit.worker.advance(Duration::from_millis(1), &mut visit.page), None);
    let command = |visit: &mut Visit, order: Value| visit.ask("POST", &format!("/api/runs/{run}/command"), &order);
    assert_eq!(command(&mut visit, json!({ "do": "go", "steps": 3 })).0, 200);
    assert_eq!(visit.finish(&run, Duration::from_millis(1))["step"], 3);
    let weight = json!({ "at": "weight", "path": "layers.0.weight", "place": [0, 3] });
    let (status, looked) = visit.ask("POST", &format!("/api/runs/{run}/inspect"), &weight);
    assert!(status == 200 && looked["error"].is_null(), "{looked}");
    let kinds: Vec<&Value> = visit.page.updates.iter().map(|(_, message)| &message["kind"]).collect();
    for kind in ["about", "state", "curves", "boundary", "weights"] {
        assert!(kinds.contains(&&json!(kind)), "{kind} is not among {kinds:?}");
    }
    // At a limited speed a run is due later.
    command(&mut visit, json!({ "do": "pace", "pace": 2 }));
    command(&mut visit, json!({ "do": "go" }));
    let mut due = Some(Duration::ZERO);
    for _ in 0..20 {
        due = visit.worker.advance(Duration::from_millis(1), &mut visit.page);
    }
    assert!(due.is_some_and(|due| due > Duration::from_millis(50) && due <= Duration::from_millis(500)), "{due:?}");
    // A deleted run says so, and takes no more commands.
    assert_eq!(visit.ask("DELETE", &format!("/api/runs/{run}"), &Value::Null).0, 200);
    assert_eq!(visit.page.updates.last().map(|(_, message)| message["kind"].clone()), Some(json!("freed")));
    assert_eq!(command(&mut visit, json!({ "do": "go" })).0, 404);
    assert_eq!(visit.ask("POST", &format!("/api/runs/{run}/inspect"), &json!({ "at": "audit" })).0, 404);
    assert_eq!(visit.worker.advance(Duration::from_millis(1), &mut visit.page), None);
}

#[test]
fn requests_that_are_wrong_get_an_error() {
    let mut visit = Visit::default();
    assert_eq!(visit.ask("GET", "/api/nothing", &Value::Null).0, 404);
    assert_eq!(visit.ask("GET", "/api/explore", &Value::Null).0, 405);
    assert_eq!(visit.ask("POST", "/api/explore", &json!([])).0, 422);
    let (status, answer) = visit.ask("POST", "/api/explore", &json!({ "expression": "ln(x) + $" }));
    assert_eq!((status, &answer["error"]["start"]), (200, &json!(8)));
    let (_, answer) = visit.ask("POST", "/api/runs", &json!({ "data": "mnist" }));
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("not available here")), "{answer}");
}
