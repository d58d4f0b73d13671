//! The studio as its users meet it: what it answers, whom it refuses, and its page in a real Chromium.

mod comparison;
#[path = "../browser/devtools.rs"]
mod devtools;
mod hostile;
mod learning;
mod load;
mod page;
mod pictures;
mod server;
mod socket;
mod training;

use std::process::Command;

use serde_json::{Value, json};
use server::Studio;

/// What a command of the program says about the same question.
fn command(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_glassgrad")).args(arguments).arg("--json").output();
    serde_json::from_slice(&output.expect("the program starts").stdout).expect("one JSON object")
}

#[test]
fn answers_are_those_of_the_commands() {
    let studio = Studio::start(&[]);
    let text = "v4 = ln(x1) + x1*x2; v4 - sin(x2); v4*x1";
    for output in ["1", "2"] {
        let number: usize = output.parse().expect("a number");
        let asked =
            json!({ "expression": text, "at": { "x1": 2, "x2": "10/2" }, "output": number, "wrt": "x2", "order": 3 });
        let got = studio.ask("/api/explore", &asked);
        let printed = command(&["grad", text, "--at", "x1=2,x2=5", "--output", output, "--hessian", "--table"]);
        assert_eq!(got["value"], printed["value"]);
        for gradient in got["gradient"].as_array().expect("a list") {
            assert_eq!(gradient["value"], printed["gradient"][gradient["variable"].as_str().expect("a name")]);
        }
        assert_eq!(got["hessian"]["dense"], printed["hessian"]["dense"]);
        let [rows, own] =
            [&got["forward"]["rows"], &printed["forward"]["x2"]].map(|rows| rows.as_array().expect("rows"));
        assert_eq!(rows.len(), own.len());
        assert!(rows.iter().zip(own).all(|(row, own)| row["tangent"] == own["tangent"]));
        let [steps, own] = [&got["reverse"]["steps"], &printed["reverse"]].map(|rows| rows.as_array().expect("steps"));
        assert_eq!(steps.len(), own.len());
        assert!(steps.iter().zip(own).all(|(step, own)| step["adjoint"] == own["adjoint"]));
        let series = command(&["grad", text, "--at", "x1=2,x2=5", "--output", output, "--wrt", "x2", "--order", "3"]);
        let orders: Vec<&Value> =
            got["derivatives"].as_array().expect("a list").iter().map(|row| &row["value"]).collect();
        assert_eq!(json!(orders), series["derivatives"]);
        assert_eq!(got["plan"]["nodes"].as_array().map(Vec::len), got["nodes"].as_array().map(Vec::len));
    }
}

#[test]
fn comparisons_and_matrices_are_those_of_the_commands() {
    let studio = Studio::start(&[]);
    let mut compared = studio.ask("/api/compare", &json!({ "expression": "x*sin(y)", "at": { "x": 2, "y": 0.5 } }));
    for way in compared["derivatives"].as_array_mut().expect("a list") {
        let way = way.as_object_mut().expect("an object");
        assert!(way.remove("math").is_some_and(|math| math.as_str().is_some_and(|math| math.starts_with("<math>"))));
        way.remove("name");
    }
    assert_eq!(compared, command(&["check", "x*sin(y)", "--at", "x=2,y=0.5"]));
    // Another result than the first is compared as if it stood alone.
    let second = studio.ask("/api/compare", &json!({ "expression": "x + 1; x^2", "at": { "x": 3 }, "output": 2 }));
    assert_eq!(second["derivatives"][0]["automatic"], 6.0);

    let sizes = "T: n n, U: n k, V: n k, n=1000, k=10";
    let asked = json!({ "expression": "norm2(T - U*V')^2", "wrt": "U", "order": 2, "sizes": sizes });
    let got = studio.ask("/api/derive", &asked);
    let printed = command(&["derive", "norm2(T - U*V')^2", "--wrt", "U", "--order", "2", "--sizes", sizes]);
    for field in ["einstein", "matrix", "held_bytes", "dense_bytes", "structure"] {
        assert_eq!(got[field], printed[field], "{field}");
    }
    assert_eq!(got["held_bytes"], 800);
    assert!(got["math"]["einstein"].as_str().is_some_and(|math| math.contains("<msub>")), "{got}");
}

#[test]
fn errors_are_reported_with_their_span() {
    let studio = Studio::start(&[]);
    let error = |question: Value| studio.ask("/api/explore", &question)["error"].clone();
    let unknown = error(json!({ "expression": "ln(x) + tahn(y)" }));
    assert_eq!((&unknown["start"], &unknown["end"]), (&json!(8), &json!(12)));
    assert_eq!(unknown["help"], "did you mean 'tan' or 'tanh'?");
    // Places are counted as browsers count: this letter takes two units of UTF-16, and four bytes.
    assert_eq!(error(json!({ "expression": "𝑥 + $" }))["start"], 5);
    assert!(
        error(json!({ "expression": "x", "output": 2 }))["message"]
            .as_str()
            .is_some_and(|text| text.contains("no result 2"))
    );
    assert!(
        error(json!({ "expression": "x", "at": { "x": "0/0" } }))["message"]
            .as_str()
            .is_some_and(|text| text.contains("NaN"))
    );
    let warned = studio.ask("/api/explore", &json!({ "expression": "ln(x)", "at": { "x": -1 } }));
    assert_eq!(warned["value"], "NaN");
    assert!(warned["warning"].as_str().is_some_and(|text| text.contains("not finite")));
    let matrix = studio.ask("/api/derive", &json!({ "expression": "A*x + y", "wrt": "x", "sizes": "A: m n, x: n" }));
    assert!(matrix["error"]["message"].as_str().is_some_and(|text| text.contains("'y' is not declared")), "{matrix}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_well() {
    let mut studio = Studio::start(&[]);
    // Someone is still connected.
    let _held = std::net::TcpStream::connect(&studio.host).expect("it listens");
    let sent = Command::new("kill").args(["-INT", &studio.process.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let ended = studio.process.wait().expect("it ends");
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn a_port_in_use_is_reported() {
    let studio = Studio::start(&[]);
    let port = studio.host.rsplit(':').next().expect("a port");
    let output = Command::new(env!("CARGO_BIN_EXE_glassgrad")).args(["studio", "--no-open", "--port", port]).output();
    let output = output.expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--port 0"));
}
