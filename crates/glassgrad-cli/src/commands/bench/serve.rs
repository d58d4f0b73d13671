//! The workloads as a server, so that rounds can alternate between engines that stay warm.

use std::io::BufRead as _;

use serde_json::{Value, json};

use super::experiments;
use super::workload::{Prepared, find};
use crate::failure::{Failure, print};

/// Answers each line with a line, until the input ends.
pub(super) fn serve() -> Result<(), Failure> {
    let mut prepared = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::Input(format!("cannot read standard input: {error}")))?;
        if line.trim() == "quit" {
            break;
        }
        let answer = answer(line.trim(), &mut prepared).unwrap_or_else(|reason| json!({ "error": reason }));
        print(&format!("{answer}\n"))?;
    }
    Ok(())
}

fn answer(line: &str, prepared: &mut Option<Prepared>) -> Result<Value, String> {
    if let Some(name) = line.strip_prefix("prepare ") {
        // The previous workload is dropped first: two may not fit into memory.
        *prepared = None;
        let workload = match experiments::find(name) {
            Some(experiment) => experiment?,
            None => find(name).map_err(|failure| failure.to_string())?.1(),
        };
        let ready = prepared.insert(Prepared::new(workload)?);
        let facts = ready.facts();
        return Ok(json!({ "first_seconds": ready.first_seconds, "values": ready.values, "facts": facts }));
    }
    match (line, prepared) {
        ("run", Some(prepared)) => Ok(json!({ "seconds": prepared.turn()? })),
        ("run", None) => Err("no workload is prepared".to_owned()),
        _ => Err(format!("'{line}' is not understood; there are 'prepare NAME', 'run' and 'quit'")),
    }
}
