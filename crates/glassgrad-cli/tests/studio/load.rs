//! What it costs a run to be watched for ten minutes. It is measured, so it is run by hand, in release and alone:
//!
//! ```sh
//! cargo test --release -p glassgrad-cli --test studio -- --ignored --nocapture watched
//! ```

use std::time::{Duration, Instant};

use serde_json::json;

use crate::server::Studio;
use crate::socket::Socket;

/// So long a client watches, and so long nobody does, by turns.
const WATCHED: Duration = Duration::from_secs(60);
const UNWATCHED: Duration = Duration::from_secs(10);

fn steps(studio: &Studio, run: u64) -> u64 {
    // A pause, so that the published state is current, and not half a second old.
    studio.ask(&format!("/api/runs/{run}/command"), &json!({ "do": "pause" }));
    loop {
        let state = studio.request("GET", &format!("/api/runs/{run}"), &[], "").json()["state"].clone();
        if state["phase"] == "paused" {
            return state["step"].as_u64().expect("a count");
        }
    }
}

/// The memory that the server holds, in kilobytes.
fn memory(studio: &Studio) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", studio.process.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[test]
#[ignore = "it measures for ten minutes: run it by hand, in release and alone"]
fn a_run_that_is_watched_for_ten_minutes() {
    let seconds = std::env::var("GLASSGRAD_LOAD_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600_u64);
    let rounds = (seconds / WATCHED.as_secs()).max(1);
    let studio = Studio::start(&[]);
    let question = json!({ "data": "moons", "options": { "epochs": 100_000, "points": 20_000 }, "paused": true });
    let run = studio.ask("/api/runs", &question)["id"].as_u64().expect("a run");
    let (mut alone, mut seen, mut messages, mut held) = (Vec::new(), Vec::new(), 0_u64, Vec::new());
    for _ in 0..rounds {
        for is_watched in [false, true] {
            let mut socket =
                is_watched.then(|| Socket::open(&studio, &format!("/api/runs/{run}/stream"), None).expect("a stream"));
            let before = steps(&studio, run);
            let begin = Instant::now();
            studio.ask(&format!("/api/runs/{run}/command"), &json!({ "do": "go" }));
            match &mut socket {
                Some(socket) => {
                    while begin.elapsed() < WATCHED {
                        messages += u64::from(socket.next().expect("a message")["kind"] == "state");
                    }
                }
                None => std::thread::sleep(UNWATCHED),
            }
            let passed = begin.elapsed().as_secs_f64();
            let made = (steps(&studio, run) - before) as f64 / passed;
            if is_watched {
                seen.push(made)
            } else {
                alone.push(made)
            }
            held.push(memory(&studio));
        }
    }
    let watched = (rounds * WATCHED.as_secs()) as f64;
    let [alone, seen] = [alone, seen].map(median);
    println!(
        "{watched} s watched: {:.1} updates a second; {alone:.0} steps a second alone, {seen:.0} watched: {:.2} % slower; \
         memory {} kB after the first round, {} kB at the end",
        messages as f64 / watched,
        100.0 * (1.0 - seen / alone),
        held[1],
        held[held.len() - 1]
    );
    // Measurements are printed and not asserted; what does not depend on the machine is.
    assert!(held[held.len() - 1] < held[1] + held[1] / 4, "memory grows: {held:?}");
}
