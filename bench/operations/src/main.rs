//! Single operations of Glassgrad and their gradients, for `bench/run operations`.
//!
//! Answers lines on standard input with a line of JSON each: `operations` lists all rows, `prepare NAME` compiles one and
//! reports digests of its results, `run` times it once more, `quit` ends. `bench/peers_python/server.py` speaks the same
//! protocol. With a name and a number of seconds as arguments it runs that row so long, for a profiler.

mod data;
mod row;
mod table;

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use row::{Operation, Row};
use serde_json::{Value, json};

/// A turn repeats the work until about this much time has passed, so that the clock is fine enough.
const TURN: Duration = Duration::from_millis(20);
/// Work that takes longer is not done once more before each turn to warm caches: it does that by itself.
const LONG: f64 = 0.1;
/// The runs before anything is timed.
const WARM_RUNS: usize = 3;

/// A row that is ready, and the seconds that it took.
struct Prepared {
    operation: Operation,
    first_seconds: f64,
    expected: f64,
}

impl Prepared {
    fn new(name: &str) -> Result<Prepared, String> {
        let row = table::rows().into_iter().find(|row| row.name() == name);
        let mut operation =
            Operation::new(row.ok_or_else(|| format!("there is no row '{name}'; ask for 'operations'"))?);
        let mut seconds = Vec::new();
        for _ in 0..WARM_RUNS {
            let start = Instant::now();
            operation.run().map_err(|error| error.to_string())?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        // The first run plans: whether the work is long is seen from those after it.
        let expected = seconds[1..].iter().sum::<f64>() / (WARM_RUNS - 1) as f64;
        Ok(Prepared { operation, first_seconds: seconds[0], expected })
    }

    /// The time that the work takes once, in seconds.
    fn turn(&mut self, duration: Duration) -> Result<f64, String> {
        let mut run = || self.operation.run().map_err(|error| error.to_string());
        if self.expected < LONG {
            run()?;
        }
        let (start, mut runs) = (Instant::now(), 0);
        while runs == 0 || start.elapsed() < duration {
            run()?;
            runs += 1;
        }
        Ok(start.elapsed().as_secs_f64() / f64::from(runs))
    }
}

fn answer(line: &str, prepared: &mut Option<Prepared>) -> Result<Value, String> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("operations", "") => Ok(json!({ "rows": table::rows().iter().map(Row::describe).collect::<Vec<_>>() })),
        ("prepare", name) => {
            // The previous row is dropped first: two may not fit into memory.
            *prepared = None;
            let ready = prepared.insert(Prepared::new(name)?);
            let facts = ready.operation.facts().map_err(|error| error.to_string())?;
            Ok(json!({ "first_seconds": ready.first_seconds, "values": [], "facts": facts }))
        }
        ("run", "") => match prepared {
            Some(prepared) => Ok(json!({ "seconds": prepared.turn(TURN)? })),
            None => Err("no row is prepared".to_owned()),
        },
        _ => Err(format!("'{line}' is not understood; there are 'operations', 'prepare NAME', 'run' and 'quit'")),
    }
}

/// The processor time of the main thread, where the system tells it: with `GLASSGRAD_THREADS=1` that of all work, which other
/// programs disturb less than the clock.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|number| number.parse::<f64>().ok())
        .map_or(f64::NAN, |number| 1e-9 * number)
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, seconds] = &arguments[..] {
        let seconds: f64 = seconds.parse().map_err(|_| format!("'{seconds}' is no number of seconds"))?;
        let mut prepared = Prepared::new(name)?;
        let (before, start) = (processor_seconds(), Instant::now());
        let taken = prepared.turn(Duration::from_secs_f64(seconds))?;
        let share = (processor_seconds() - before) / start.elapsed().as_secs_f64();
        println!("{name}: {:.4} ms, of which the main thread runs {:.4} ms", 1e3 * taken, 1e3 * taken * share);
        return Ok(());
    }
    let mut prepared = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("cannot read standard input: {error}"))?;
        if line.trim() == "quit" {
            break;
        }
        let answer = answer(line.trim(), &mut prepared).unwrap_or_else(|reason| json!({ "error": reason }));
        let mut output = std::io::stdout().lock();
        writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .map_err(|error| format!("cannot answer: {error}"))?;
    }
    Ok(())
}
