//! Networks that learn in the studio, as a script meets them.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::Studio;
use crate::socket::Socket;

fn begin(studio: &Studio, question: &Value) -> u64 {
    let answer = studio.ask("/api/runs", question);
    answer["id"].as_u64().unwrap_or_else(|| panic!("no run: {answer}"))
}

fn state(studio: &Studio, id: u64) -> Value {
    studio.request("GET", &format!("/api/runs/{id}"), &[], "").json()["state"].clone()
}

/// Waits until something about the state is so.
fn until_it(studio: &Studio, id: u64, is_so: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let state = state(studio, id);
        if is_so(&state) {
            return state;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it never came to be: {state}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn until(studio: &Studio, id: u64, phase: &str) -> Value {
    until_it(studio, id, |state| state["phase"] == phase)
}

fn command(studio: &Studio, id: u64, order: &Value) -> Value {
    studio.ask(&format!("/api/runs/{id}/command"), order)
}

fn look(studio: &Studio, id: u64, question: &Value) -> Value {
    studio.ask(&format!("/api/runs/{id}/inspect"), question)
}

/// What `glassgrad train` makes of the same settings.
fn trained(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_glassgrad")).arg("train").args(arguments).arg("--json").output();
    serde_json::from_slice(&output.expect("the program starts").stdout).expect("one JSON object")
}

#[test]
fn a_run_learns_what_the_command_learns() {
    let studio = Studio::start(&[]);
    let id = begin(&studio, &json!({ "data": "moons", "options": { "epochs": 30, "seed": 3 } }));
    let end = until(&studio, id, "finished");
    let printed = trained(&["moons", "--epochs", "30", "--seed", "3"]);
    assert_eq!(end["step"], printed["steps"]);
    assert_eq!(end["test"]["loss"], printed["test_loss"], "bit for bit");
    assert!(end["test"]["number"].as_f64() >= Some(0.99), "{end}");
    let all = studio.request("GET", &format!("/api/runs/{id}"), &[], "").json();
    assert_eq!(all["about"]["command"], "glassgrad train moons --epochs 30 --seed 3");
    for view in ["boundary", "confusion", "weights", "histograms"] {
        assert_eq!(all[view]["step"], end["step"], "{view} is the one at the end");
    }
    let right: u64 = all["confusion"]["data"]["right"].as_u64().expect("a count");
    assert_eq!(right as f64 / 500.0, end["test"]["number"].as_f64().expect("a number"));
}

#[test]
fn a_run_is_paused_stepped_slowed_and_stopped() {
    let studio = Studio::start(&[]);
    let id = begin(&studio, &json!({ "data": "circles", "options": { "epochs": 1000, "lr": 0.02 }, "paused": true }));
    assert_eq!(until(&studio, id, "paused")["step"], 0);
    // A weight has no last step yet.
    let early = look(&studio, id, &json!({ "at": "weight", "path": "layers.0.weight", "place": [0, 0] }));
    assert!(early["error"]["message"].as_str().is_some_and(|message| message.contains("no step")), "{early}");
    command(&studio, id, &json!({ "do": "go", "steps": 5 }));
    until_it(&studio, id, |state| state["step"] == 5 && state["phase"] == "paused");
    // Another rate counts from the next step on, and its decomposition says so.
    command(&studio, id, &json!({ "do": "rate", "rate": 0.5 }));
    until_it(&studio, id, |state| state["rate"] == 0.5);
    let before = look(&studio, id, &json!({ "at": "weight", "path": "layers.1.weight", "place": [2, 3] }));
    assert_eq!((&before["step"], &before["rate"]), (&json!(5), &json!(0.02)));
    command(&studio, id, &json!({ "do": "go", "steps": 1 }));
    until_it(&studio, id, |state| state["step"] == 6 && state["phase"] == "paused");
    let after = look(&studio, id, &json!({ "at": "weight", "path": "layers.1.weight", "place": [2, 3] }));
    assert_eq!((&after["step"], &after["rate"]), (&json!(6), &json!(0.5)));
    assert_eq!(after["before"], before["after"], "one step begins where the other ended");
    // At a limited pace it takes as many steps as requested.
    command(&studio, id, &json!({ "do": "pace", "pace": 20 }));
    command(&studio, id, &json!({ "do": "go" }));
    std::thread::sleep(Duration::from_millis(1000));
    let steps = state(&studio, id)["step"].as_u64().expect("a count");
    assert!((10..=30).contains(&steps), "{steps} steps after a second of twenty");
    command(&studio, id, &json!({ "do": "stop" }));
    let end = until(&studio, id, "stopped");
    command(&studio, id, &json!({ "do": "go" }));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(state(&studio, id), end, "what was stopped stays so");
    for wrong in [json!({ "do": "rate", "rate": -1 }), json!({ "do": "rate", "rate": "x" }), json!({ "do": "dance" })] {
        let answer = studio.request("POST", &format!("/api/runs/{id}/command"), &[], &wrong.to_string());
        assert!(answer.json()["error"]["message"].is_string(), "{wrong}: {}", answer.body);
    }
    assert_eq!(studio.request("GET", "/api/runs/77", &[], "").status, 404);
    assert_eq!(studio.request("DELETE", &format!("/api/runs/{id}"), &[], "").status, 200);
    assert_eq!(studio.request("GET", &format!("/api/runs/{id}"), &[], "").status, 404);
}

#[test]
fn a_loss_that_is_not_finite_is_explained() {
    let studio = Studio::start(&[]);
    let options = json!({ "epochs": 50, "optimizer": "sgd", "lr": 1e30, "loss": "mse" });
    let id = begin(&studio, &json!({ "data": "function", "options": options }));
    let end = until(&studio, id, "failed");
    let message = end["trouble"]["message"].as_str().expect("a message");
    assert!(message.contains("the loss is") && message.contains("in step"), "{message}");
    assert!(end["trouble"]["step"].as_u64() > Some(0));
    // The last good network can still be asked.
    let audit = look(&studio, id, &json!({ "at": "audit" }));
    assert!(audit["parameters"].as_array().is_some_and(|list| list.len() == 6), "{audit}");
}

#[test]
fn every_question_about_the_inside_is_answered() {
    let studio = Studio::start(&[]);
    let id = begin(&studio, &json!({ "data": "digits", "options": { "epochs": 2, "layers": [32], "dropout": 0.2 } }));
    until(&studio, id, "finished");
    let graph = look(&studio, id, &json!({ "at": "graph" }));
    assert!(graph["plan"]["nodes"].as_array().is_some_and(|nodes| nodes.len() > 3), "{graph}");
    let sample = look(&studio, id, &json!({ "at": "sample", "part": "test", "index": 3 }));
    assert_eq!(sample["predicted"]["names"].as_array().map(Vec::len), Some(10));
    assert!(sample["layers"].as_array().is_some_and(|layers| layers.len() >= 2), "{sample}");
    let passes = look(&studio, id, &json!({ "at": "passes" }));
    assert!(passes["passes"].as_array().is_some_and(|passes| passes.len() > 3), "{passes}");
    let surface = look(&studio, id, &json!({ "at": "surface" }));
    assert_eq!(surface["losses"].as_array().map(Vec::len), Some(25));
    let mut ink = vec![0_u8; 64 * 64];
    for row in 8..56 {
        for column in 28..36 {
            ink[64 * row + column] = 255;
        }
    }
    let drawn = look(&studio, id, &json!({ "at": "drawn", "ink": ink, "from": [64, 64] }));
    let shares: f64 = drawn["shares"].as_array().expect("shares").iter().filter_map(Value::as_f64).sum();
    assert!((shares - 1.0).abs() < 1e-4, "{drawn}");
    for wrong in [
        json!({ "at": "weight", "path": "layers.9.weight", "place": [0] }),
        json!({ "at": "weight", "path": "layers.0.weight", "place": [64, 0] }),
        json!({ "at": "sample", "part": "test", "index": 100_000 }),
        json!({ "at": "sample", "part": "other", "index": 0 }),
        json!({ "at": "drawn", "ink": [1, 2, 3], "from": [64, 64] }),
        json!({ "at": "drawn", "ink": [], "from": [0, 0] }),
    ] {
        let answer = look(&studio, id, &wrong);
        assert!(answer["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{wrong}: {answer}");
    }
}

#[test]
fn models_leave_and_come_back() {
    let studio = Studio::start(&[]);
    let id = begin(&studio, &json!({ "data": "moons", "options": { "epochs": 20 } }));
    let end = until(&studio, id, "finished");
    let bytes = studio.bytes(&format!("/api/runs/{id}/model"));
    // The command line reads it.
    let path =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("studio-{}.safetensors", std::process::id()));
    std::fs::write(&path, &bytes).expect("a file");
    let table = path.with_extension("csv");
    std::fs::write(&table, "x,y\n0.5,1.0\n0.5,-0.5\n").expect("a file");
    let output =
        Command::new(env!("CARGO_BIN_EXE_glassgrad")).arg("predict").arg(&path).arg(&table).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The studio goes on with it.
    let answer = studio.send_bytes("/api/models", &bytes);
    let loaded = answer["id"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(until(&studio, loaded, "paused")["step"], 0);
    let of = |id: u64| studio.request("GET", &format!("/api/runs/{id}"), &[], "").json()["boundary"]["data"].clone();
    assert_eq!(of(loaded), of(id), "it tells the same");
    let report = studio.request("GET", &format!("/api/runs/{id}/report"), &[], "");
    assert!(report.body.contains("<html") && report.head.contains("attachment"), "{}", report.head);
    let table = studio.request("GET", &format!("/api/runs/{id}/history"), &[], "").body;
    assert_eq!(table.lines().count(), 21);
    assert!(end["test"]["number"].as_f64() > Some(0.9));
    for wrong in [&bytes[..bytes.len() / 2], b"", &[0xff; 64]] {
        assert!(studio.send_bytes("/api/models", wrong)["error"]["message"].is_string());
    }
}

#[test]
fn what_is_too_much_is_refused() {
    let studio = Studio::start(&[]);
    let refused = |question: Value| {
        let answer = studio.request("POST", "/api/runs", &[], &question.to_string());
        let message = answer.json()["error"]["message"].clone();
        message.as_str().unwrap_or_else(|| panic!("{question} was not refused: {}", answer.body)).to_owned()
    };
    assert!(refused(json!({ "data": "moons", "options": { "layers": [100_000] } })).contains("at most 4096 wide"));
    assert!(refused(json!({ "data": "moons", "options": { "layers": [4096, 4096] } })).contains("weights"));
    assert!(refused(json!({ "data": "moons", "options": { "layers": vec![2; 40] } })).contains("at most 12"));
    assert!(
        refused(json!({ "data": "moons", "options": { "points": 1_000_000_000_u64 } }))
            .contains("Examples 1000000000: from 2 to 20000")
    );
    assert!(refused(json!({ "data": "moons", "options": { "epochs": 0 } })).contains("Epochs 0: from 1"));
    assert!(refused(json!({ "data": "moons", "options": { "lr": -1 } })).contains("Learning rate -1:"));
    assert!(refused(json!({ "data": "moons", "options": { "model": "cow" } })).contains("Model: expected one of mlp,"));
    assert!(refused(json!({ "data": "moons", "options": { "cow": 1 } })).contains("cow"));
    assert!(refused(json!({ "data": "cows" })).contains("there is no data set"));
    // Files of this machine are none of a request's business.
    assert!(refused(json!({ "data": "/etc/passwd.txt" })).contains("named data sets"));
    assert!(refused(json!({ "data": "secret.csv" })).contains("send the text"));
    // Not even whether there is such a file.
    assert!(refused(json!({ "data": "/etc/passwd" })).contains("there is no data set"));
    // What is wrong with a setting is said with its title in the form.
    let layers = refused(json!({ "data": "moons", "options": { "layers": "abc" } }));
    assert_eq!(layers, "Layers: expected whole numbers with commas between them, as in 16, 16, not \"abc\"");
    let broken = refused(json!({ "data": "own.csv", "csv": "a,b\n1,2\n3\n" }));
    assert!(broken.contains("line 3"), "{broken}");
    // There is room for a dozen.
    let small = json!({ "data": "moons", "options": { "points": 20, "epochs": 1 }, "paused": true });
    for _ in 0..12 {
        begin(&studio, &small);
    }
    assert!(refused(small).contains("12 runs already"));
    // A table of one's own is learnt.
    let studio = Studio::start(&[]);
    let rows: String =
        (0..60).map(|k| format!("{},{},{}\n", k % 7, k % 5, if k % 7 > 3 { "high" } else { "low" })).collect();
    let id =
        begin(&studio, &json!({ "data": "own.csv", "csv": format!("a,b,c\n{rows}"), "options": { "epochs": 60 } }));
    assert!(until(&studio, id, "finished")["test"]["number"].as_f64() > Some(0.9));
}

#[test]
fn a_table_has_the_options_of_the_command_line() {
    let studio = Studio::start(&[]);
    let rows: String = (0..30).map(|k| format!("n{k};{k},5;{}\n", 2 * k)).collect();
    let csv = format!("id;size;price\nfirst;;3,25\n{rows}");
    let suited = |options: serde_json::Value| {
        let answer = studio.ask("/api/train/settings", &json!({ "data": "own.csv", "csv": csv, "options": options }));
        (answer["settings"].clone(), answer["problem"].clone())
    };
    // What is wrong with the table is said before a run is started, in the words of the form.
    let (_, problem) = suited(json!({ "drop": "colour" }));
    assert!(problem.as_str().is_some_and(|text| text.starts_with("Dropped columns colour: ")), "{problem}");
    // The form shows the settings that the run will have: a numeric target changes defaults.
    let (settings, problem) = suited(json!({ "drop": "id", "missing": "drop" }));
    assert_eq!((problem, &settings["loss"], &settings["weight_decay"]), (json!(null), &json!("mse"), &json!(0.3)));
    let asked = json!({ "data": "own.csv", "csv": csv, "options": { "drop": "id" }, "paused": true });
    let refused = studio.request("POST", "/api/runs", &[], &asked.to_string()).json()["error"]["message"].clone();
    let refused = refused.as_str().expect("a message");
    assert!(refused.contains("line 2, column \"size\": the value is missing"), "{refused}");
    assert!(refused.contains("see Missing values: ") && !refused.contains("--"), "{refused}");
    let options = json!({ "drop": "id", "missing": "mean", "delimiter": "semicolon", "decimal": "comma", "epochs": 1 });
    let id = begin(&studio, &json!({ "data": "own.csv", "csv": csv, "options": options, "paused": true }));
    until(&studio, id, "paused");
    let about = studio.request("GET", &format!("/api/runs/{id}"), &[], "").json()["about"].clone();
    assert_eq!(about["settings"]["weight_decay"], 0.3);
    assert_eq!(about["examples"]["training"].as_u64().zip(about["examples"]["test"].as_u64()), Some((25, 6)));
    let command = about["command"].as_str().expect("a command");
    assert!(command.contains("--drop id --missing mean --delimiter semicolon --decimal comma"), "{command}");
}

#[test]
fn those_who_watch_see_it_happen_and_those_who_leave_free_it() {
    let studio = Studio::start(&["--linger", "1"]);
    let id = begin(&studio, &json!({ "data": "moons", "options": { "epochs": 100_000 }, "pace": 200 }));
    let path = format!("/api/runs/{id}/stream");
    assert_eq!(Socket::open(&studio, &path, Some("http://evil.example")).err(), Some(403));
    assert_eq!(Socket::open(&studio, "/api/runs/99/stream", None).err(), Some(404));
    // Ten pages at once, and each sees all of it.
    let mut sockets: Vec<Socket> = (0..10).map(|_| Socket::open(&studio, &path, None).expect("a stream")).collect();
    for socket in &mut sockets {
        socket.until("about", |about| about["numbers"] == 354);
        let first = socket.until("state", |_| true)["step"].as_u64();
        socket.until("state", |state| state["step"].as_u64() > first);
        socket.until("boundary", |seen| seen["data"]["class"].is_string());
        socket.until("curves", |curves| curves["training"]["at"].as_array().is_some_and(|list| !list.is_empty()));
    }
    std::thread::sleep(Duration::from_secs(2));
    let runs = || studio.request("GET", "/api/runs", &[], "").json()["runs"].clone();
    assert_eq!(runs()[0]["watched"], true, "it is watched, and so it stays");
    drop(sockets);
    let begin_waiting = Instant::now();
    while runs().as_array().is_some_and(|runs| !runs.is_empty()) {
        assert!(begin_waiting.elapsed() < Duration::from_secs(10), "nobody frees it");
        std::thread::sleep(Duration::from_millis(100));
    }
    // What is kept stays, and who frees it tells everyone.
    let id = begin(&studio, &json!({ "data": "moons", "options": { "epochs": 2 } }));
    command(&studio, id, &json!({ "do": "pin", "pinned": true }));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(state(&studio, id)["phase"], "finished");
    let mut socket = Socket::open(&studio, &format!("/api/runs/{id}/stream"), None).expect("a stream");
    socket.until("about", |_| true);
    studio.request("DELETE", &format!("/api/runs/{id}"), &[], "");
    socket.until("freed", |_| true);
    assert!(socket.next().is_none());
}
