//! Glassgrad as a tool of [GradBench](https://github.com/gradbench/gradbench): messages on the standard input, one JSON
//! object a line, and a response to each on the standard output. `bench/run gradbench --suite PATH` runs it.

mod descent;
mod evals;
mod hand;
mod models;

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use evals::{Evaluation, Function};
use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let response = match serde_json::from_str::<Value>(&line?) {
            Ok(message) => respond(&message),
            Err(error) => json!({ "success": false, "error": format!("the message is not JSON: {error}") }),
        };
        writeln!(output, "{response}")?;
        output.flush()?;
    }
    Ok(())
}

fn respond(message: &Value) -> Value {
    let id = &message["id"];
    let module = message["module"].as_str().unwrap_or_default();
    match message["kind"].as_str() {
        Some("start") => json!({ "id": id, "tool": "glassgrad" }),
        Some("define") if evals::MODULES.contains(&module) => json!({ "id": id, "success": true }),
        Some("define") => json!({ "id": id, "success": false, "error": format!("there is no module '{module}'") }),
        Some("evaluate") => {
            let function = message["function"].as_str().unwrap_or_default();
            let start = Instant::now();
            match evals::prepare(module, function, &message["input"]) {
                Ok(function) => run(id, function, &message["input"], start.elapsed()),
                Err(error) => json!({ "id": id, "success": false, "error": format!("{module}::{function}: {error}") }),
            }
        }
        _ => json!({ "id": id }),
    }
}

/// Runs a function as often and as long as the message asks for, with one timing for each run, and one for its preparation:
/// reading the input and compiling.
fn run(id: &Value, mut function: Function, input: &Value, preparation: Duration) -> Value {
    let least_runs = input["min_runs"].as_u64().unwrap_or(1).max(1);
    let least_time = Duration::from_secs_f64(input["min_seconds"].as_f64().unwrap_or(0.0).max(0.0));
    let timing = |name: &str, time: Duration| json!({ "name": name, "nanoseconds": time.as_nanos() as u64 });
    let (mut timings, mut total, mut output) = (Vec::new(), Duration::ZERO, Evaluation::default());
    while (timings.len() as u64) < least_runs || total < least_time {
        let start = Instant::now();
        output = function();
        let elapsed = start.elapsed();
        total += elapsed;
        timings.push(timing("evaluate", elapsed));
    }
    timings.push(timing("prepare", preparation));
    json!({ "id": id, "success": true, "output": output.to_json(), "timings": timings })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(module: &str, function: &str, input: Value) -> Value {
        let response = respond(&json!({
            "id": 3, "kind": "evaluate", "module": module, "function": function, "input": input,
        }));
        assert_eq!((&response["id"], &response["success"]), (&json!(3), &json!(true)), "{response}");
        response["output"].clone()
    }

    #[test]
    fn the_protocol_has_four_kinds_of_messages() {
        assert_eq!(
            respond(&json!({ "id": 0, "kind": "start", "eval": "hello" })),
            json!({ "id": 0, "tool": "glassgrad" })
        );
        assert_eq!(
            respond(&json!({ "id": 1, "kind": "define", "module": "hello" })),
            json!({ "id": 1, "success": true })
        );
        assert_eq!(respond(&json!({ "id": 2, "kind": "define", "module": "other" }))["success"], json!(false));
        assert_eq!(respond(&json!({ "id": 4, "kind": "analysis", "of": 3, "valid": true })), json!({ "id": 4 }));
        let unknown = respond(&json!({ "id": 5, "kind": "evaluate", "module": "det", "function": "f", "input": {} }));
        assert_eq!(unknown["success"], json!(false));
        let message = json!({ "id": 6, "kind": "evaluate", "module": "lse", "function": "primal",
            "input": { "x": [1.0, 2.0], "min_runs": 5, "min_seconds": 0.0 } });
        let response = respond(&message);
        let timings = response["timings"].as_array().unwrap();
        assert_eq!(timings.iter().filter(|timing| timing["name"] == "evaluate").count(), 5);
    }

    #[test]
    fn hello_squares_and_doubles() {
        assert_eq!(output("hello", "square", json!(3.0)), json!(9.0));
        assert_eq!(output("hello", "double", json!(3.0)), json!(6.0));
    }

    /// Every number of a JSON value, in order; the keys of objects are sorted.
    fn numbers(value: &Value) -> Vec<f64> {
        match value {
            Value::Number(number) => vec![number.as_f64().unwrap()],
            Value::Array(values) => values.iter().flat_map(numbers).collect(),
            Value::Object(values) => values.values().flat_map(numbers).collect(),
            _ => Vec::new(),
        }
    }

    /// The gradient beside central differences of the primal in every number of a field.
    fn check_gradient(module: &str, [primal, gradient]: [&str; 2], input: &Value, fields: &[&str]) {
        let result = output(module, gradient, input.clone());
        let step = 1e-6;
        for field in fields {
            let found = numbers(if result.is_object() { &result[field] } else { &result });
            let count = numbers(&input[field]).len();
            assert_eq!(found.len(), count);
            for (place, found) in found.into_iter().enumerate() {
                let shifted = |shift: f64| {
                    let mut input = input.clone();
                    add(&mut input[field], place, shift);
                    *numbers(&output(module, primal, input)).last().unwrap()
                };
                let difference = (shifted(step) - shifted(-step)) / (2.0 * step);
                assert!(
                    (found - difference).abs() <= 1e-6 * (1.0 + difference.abs()),
                    "{module} {field} {place}: {found} {difference}"
                );
            }
        }
    }

    /// Adds to one number of a JSON value, counted in order; returns how many numbers it has.
    fn add(value: &mut Value, place: usize, shift: f64) -> usize {
        match value {
            Value::Number(number) => {
                if place == 0 {
                    *value = json!(number.as_f64().unwrap() + shift);
                }
                1
            }
            Value::Array(values) => {
                let mut seen = 0;
                for value in values {
                    seen += if place >= seen { add(value, place - seen, shift) } else { numbers(value).len() };
                }
                seen
            }
            _ => 0,
        }
    }

    fn wave(count: usize, phase: f64) -> Vec<f64> {
        (0..count).map(|k| (1.7 * k as f64 + phase).sin()).collect()
    }

    fn rows(count: usize, width: usize, phase: f64) -> Vec<Vec<f64>> {
        (0..count).map(|k| wave(width, phase + k as f64)).collect()
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let primal = ["primal", "gradient"];
        check_gradient("det", primal, &json!({ "A": wave(16, 0.3), "ell": 4 }), &["A"]);
        check_gradient("llsq", primal, &json!({ "x": wave(5, 0.1), "n": 12 }), &["x"]);
        check_gradient("lse", primal, &json!({ "x": wave(9, 0.2) }), &["x"]);
        check_gradient("ode", primal, &json!({ "x": wave(6, 0.9), "s": 7 }), &["x"]);
        let mixture = json!({ "d": 3, "k": 2, "n": 5, "alpha": wave(2, 0.4), "mu": rows(2, 3, 0.1), "q": rows(2, 3, 0.2),
            "l": rows(2, 3, 0.3), "x": rows(5, 3, 0.5), "m": 1, "gamma": 0.8 });
        check_gradient("gmm", ["objective", "jacobian"], &mixture, &["alpha", "mu", "q", "l"]);
    }

    #[test]
    fn the_determinant_is_the_determinant() {
        let found =
            numbers(&output("det", "primal", json!({ "A": [2.0, 1.0, 0.5, -1.0, 3.0, 2.0, 0.0, 4.0, 1.0], "ell": 3 })));
        assert!((found[0] + 11.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn the_gradient_of_the_lstm_covers_both_groups_of_parameters() {
        let (layers, bits) = (2, 3);
        let main = rows(2 * layers, 4 * bits, 0.1);
        let extra = rows(3, bits, 0.7);
        let input = |main: &[Vec<f64>], extra: &[Vec<f64>]| json!({ "main_params": main, "extra_params": extra, "state": rows(2 * layers, bits, 0.2), "sequence": rows(6, bits, 0.5) });
        let gradient = numbers(&output("lstm", "jacobian", input(&main, &extra)));
        assert_eq!(gradient.len(), 2 * layers * 4 * bits + 3 * bits);
        let step = 1e-6;
        for (place, found) in gradient.into_iter().enumerate() {
            let shifted = |shift: f64| {
                let (mut main, mut extra) = (main.clone(), extra.clone());
                match place.checked_sub(2 * layers * 4 * bits) {
                    None => main[place / (4 * bits)][place % (4 * bits)] += shift,
                    Some(place) => extra[place / bits][place % bits] += shift,
                }
                numbers(&output("lstm", "objective", input(&main, &extra)))[0]
            };
            let difference = (shifted(step) - shifted(-step)) / (2.0 * step);
            assert!((found - difference).abs() <= 1e-7, "{place}: {found} {difference}");
        }
    }

    #[test]
    fn bundle_adjustment_has_fifteen_derivatives_a_residual() {
        let camera = [0.1, -0.2, 0.3, 0.5, 0.4, -3.0, 1.2, 0.1, 0.2, 0.05, -0.02];
        let point = [0.3, 0.7, 1.1];
        let input = |camera: &[f64], point: &[f64], weight: f64| json!({ "n": 2, "m": 3, "p": 4, "cam": camera, "x": point, "w": weight, "feat": [0.4, 0.6] });
        let jacobian = output("ba", "jacobian", input(&camera, &point, 0.9));
        let (columns, values) = (numbers(&jacobian["cols"]), numbers(&jacobian["vals"]));
        assert_eq!((columns.len(), values.len(), numbers(&jacobian["rows"]).len()), (31, 31, 31));
        let error = |camera: &[f64], point: &[f64], weight: f64, row: usize| {
            numbers(&output("ba", "objective", input(camera, point, weight))["reproj_error"]["elements"])[row]
        };
        let step = 1e-6;
        for (place, found) in values[..30].iter().enumerate() {
            let (row, column) = (place / 15, place % 15);
            let shifted = |shift: f64| {
                let (mut camera, mut point, mut weight) = (camera, point, 0.9);
                match column {
                    0..11 => camera[column] += shift,
                    11..14 => point[column - 11] += shift,
                    _ => weight += shift,
                }
                error(&camera, &point, weight, row)
            };
            let difference = (shifted(step) - shifted(-step)) / (2.0 * step);
            assert!((found - difference).abs() <= 1e-7 * (1.0 + difference.abs()), "{place}: {found} {difference}");
        }
        assert_eq!(values[30], -1.8, "d(1 - w²)/dw");
        assert_eq!((columns[0], columns[11], columns[14], columns[30]), (0.0, 22.0, 31.0, 34.0));
    }

    #[test]
    fn jacobians_of_hands_are_those_of_finite_differences() {
        let identity = |shift: f64| {
            json!([[1.0, 0.0, 0.0, shift], [0.0, 1.0, 0.0, -0.5 * shift], [0.0, 0.0, 1.0, 0.2], [0.0, 0.0, 0.0, 1.0]])
        };
        let (bones, vertices) = (22, 5);
        let parents: Vec<i64> = (0..bones).map(|bone| if bone == 0 { -1 } else { (bone - 1) / 2 }).collect();
        let matrices: Vec<Value> = (0..bones).map(|bone| identity(0.1 * bone as f64)).collect();
        let positions: Vec<Vec<f64>> =
            rows(vertices, 3, 0.4).into_iter().map(|row| [row, vec![1.0]].concat()).collect();
        let input = |theta: &[f64], us: &[[f64; 2]]| {
            json!({ "theta": theta, "us": us, "data": {
                "model": { "bone_names": vec!["bone"; bones as usize], "parents": parents, "base_relatives": matrices,
                    "inverse_base_absolutes": matrices, "base_positions": positions, "weights": rows(vertices, bones as usize, 0.1),
                    "triangles": [[0, 1, 2], [2, 3, 4]], "is_mirrored": true },
                "correspondences": [1, 0, 1], "points": rows(3, 3, 0.8) } })
        };
        let theta: Vec<f64> = wave(26, 0.3);
        let step = 1e-6;
        for us in [vec![], vec![[0.2, 0.3], [0.4, 0.1], [0.6, 0.3]]] {
            let found = output("ht", "jacobian", input(&theta, &us));
            let columns = theta.len() + if us.is_empty() { 0 } else { 2 };
            let found = numbers(&found);
            assert_eq!(found.len(), 9 * columns);
            for column in 0..columns {
                let shifted = |shift: f64| {
                    let (mut theta, mut us) = (theta.clone(), us.clone());
                    match column.checked_sub(columns - 26) {
                        Some(place) => theta[place] += shift,
                        None => us.iter_mut().for_each(|u| u[column] += shift),
                    }
                    numbers(&output("ht", "objective", input(&theta, &us)))
                };
                let (above, below) = (shifted(step), shifted(-step));
                for row in 0..9 {
                    let difference = (above[row] - below[row]) / (2.0 * step);
                    let found = found[row * columns + column];
                    assert!(
                        (found - difference).abs() <= 1e-6 * (1.0 + difference.abs()),
                        "{row} {column}: {found} {difference}"
                    );
                }
            }
        }
    }

    #[test]
    fn newton_directions_of_k_means_lead_to_the_means() {
        // With each centroid its own points, the Newton step is the way to their mean.
        let input = json!({ "points": [[0.0, 0.1], [0.2, 0.1], [5.0, 5.0], [5.0, 6.0]], "centroids": [[0.0, 0.0], [4.0, 5.0]] });
        let direction = numbers(&output("kmeans", "dir", input.clone()));
        for (found, expected) in direction.iter().zip([-0.1, -0.1, -1.0, -0.5]) {
            assert!((found - expected).abs() < 1e-12, "{direction:?}");
        }
        let cost = numbers(&output("kmeans", "cost", input))[0];
        assert!((cost - (0.01 + 0.05 + 1.0 + 2.0)).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn nested_modes_agree_and_reach_their_goal() {
        let variants = ["ff", "fr", "rf", "rr"];
        let controls = variants.map(|variant| numbers(&output("particle", variant, json!({ "w": 0.0 })))[0]);
        for control in controls {
            assert!((control - controls[0]).abs() <= 1e-9, "{controls:?}");
            assert!(models::squared_miss(control) < 1e-6, "the particle passes the origin");
        }
        for variant in variants {
            let point = numbers(&output("saddle", variant, json!({ "start": [1.0, 1.0] })));
            assert!(point.iter().all(|coordinate| coordinate.abs() < 1e-3), "{point:?}");
        }
    }
}
