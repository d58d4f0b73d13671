//! The benchmark from the command line: what it prints. How fast it is, is no matter of tests.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn glassgrad(arguments: &[&str], input: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_glassgrad"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    program.stdin.take().expect("an input").write_all(input.as_bytes()).expect("the program reads");
    program.wait_with_output().expect("the program ends")
}

fn fields(object: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields
}

fn is_a_time(number: &Value) -> bool {
    number.as_f64().is_some_and(|seconds| seconds > 0.0 && seconds.is_finite())
}

#[test]
fn the_json_object_has_all_fields() {
    let output = glassgrad(&["bench", "--json", "--only", "elementwise_1000", "--repetitions", "2"], "");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(fields(&result), ["workloads"]);
    let [workload] = &result["workloads"].as_array().expect("a list")[..] else { panic!("{result}") };
    assert_eq!(fields(workload), ["first_seconds", "forward_seconds", "name", "quartiles", "repetitions", "seconds"]);
    assert_eq!((&workload["name"], &workload["repetitions"]), (&"elementwise_1000".into(), &2.into()));
    assert!(["seconds", "forward_seconds", "first_seconds"].iter().all(|field| is_a_time(&workload[field])));
    let [lower, upper] = [0, 1].map(|end| workload["quartiles"][end].as_f64().expect("a number"));
    let median = workload["seconds"].as_f64().expect("a number");
    assert!(lower <= median && median <= upper, "{workload}");
}

#[test]
fn people_get_a_table() {
    let output = glassgrad(&["bench", "--only", "moons", "--only", "elementwise_1000", "--repetitions", "1"], "");
    let text = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = text.lines().skip(4).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(output.status.success() && names == ["moons", "elementwise_1000"], "{text}");
}

#[test]
fn a_roofline_reports_every_step() {
    let workloads = ["--only", "elementwise_1000", "--only", "moons", "--only", "logistic_hessian_100"];
    let output = glassgrad(&[&["bench", "--roofline"], &workloads[..]].concat(), "");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in
        ["limits of this machine", "elementwise_1000: 1 steps", "loop 1000: tanh", "moons: every number is a node"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }

    let output = glassgrad(&[&["bench", "--roofline", "--json"], &workloads[..]].concat(), "");
    let result: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(fields(&result), ["limits", "workloads"]);
    let names: Vec<&Value> = result["workloads"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["elementwise_1000", "moons", "logistic_hessian_100"]);
    for step in result["workloads"][2]["steps"].as_array().expect("a list") {
        let expected = ["because", "gflops", "gigabytes", "limit", "reached", "runs", "seconds", "step", "what"];
        assert_eq!(fields(step), expected);
        // What reaches less than 60 % of its limit has a reason.
        let reached = step["reached"].as_f64().expect("a number");
        assert_eq!(reached < 0.6, step["because"].is_string(), "{step}");
    }
    assert!(result["workloads"][1]["steps"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn wrong_input_is_refused() {
    let output = glassgrad(&["bench", "--only", "tulips"], "");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("there is no workload 'tulips'; there are iris, iris_define_by_run, mnist_64,"), "{text}");
    for wrong in [["--repetitions", "0"], ["--serve", "--json"], ["--serve", "--roofline"]] {
        assert_eq!(glassgrad(&[&["bench"], &wrong[..]].concat(), "").status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_server_answers_each_line() {
    let lines = "run\nprepare elementwise_1000\nrun\nprepare tulips\nrun\nfly\nquit\nrun\n";
    let output = glassgrad(&["bench", "--serve"], lines);
    let text = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(output.status.success() && answers.len() == 6, "{text}");
    // What was not prepared cannot be run, also after an attempt that failed.
    for refused in [0, 3, 4, 5] {
        assert_eq!(fields(&answers[refused]), ["error"]);
    }
    assert_eq!(fields(&answers[1]), ["facts", "first_seconds", "values"]);
    assert!(is_a_time(&answers[1]["first_seconds"]) && is_a_time(&answers[2]["seconds"]));

    // The derivative of Σ tanh(x)·y + e⁻ˣ along the direction, from its formula in 64 bits.
    let value = answers[1]["values"][0].as_f64().expect("a number");
    let unit = |stream: u64, k: u64| {
        let mut z = ((stream << 40) + k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let slope = |k: u64| {
        let [x, y] = [1, 2].map(|stream| 4.0 * unit(stream, k) - 2.0);
        (y * (1.0 - x.tanh().powi(2)) - (-x).exp()) * (2.0 * unit(1000, k) - 1.0)
    };
    let exact: f64 = (0..1000).map(slope).sum();
    // A thousand terms of size one, each with a few roundings of 32 bits.
    assert!((value - exact).abs() < 1000.0 * 4.0 * f64::from(f32::EPSILON), "{value} against {exact}");
}

#[test]
fn experiments_are_asked_for_by_problem_question_and_size() {
    let names =
        ["factorization/held/30", "factorization/dense/30", "joint/step/8", "network/reverse/4", "logistic/held/5"];
    let wrong = ["factorization/held/0", "factorization/eaten/3", "tulips/held/3", "factorization/held/3/4"];
    let lines: String = names.iter().chain(&wrong).map(|name| format!("prepare {name}\n")).collect();
    let output = glassgrad(&["bench", "--serve"], &lines);
    let text = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(output.status.success() && answers.len() == names.len() + wrong.len(), "{text}");
    assert!(answers[names.len()..].iter().all(|answer| fields(answer) == ["error"]), "{text}");
    let checksum = |place: usize| answers[place]["values"][0].as_f64().expect("a number");
    assert!((checksum(0) - checksum(1)).abs() < 1e-12 * checksum(0).abs(), "{text}");
    let facts = &answers[0]["facts"];
    // What is held is 2·VᵀV, ten by ten.
    assert_eq!((&facts["held_bytes"], &facts["structure"]), (&800.into(), &"10×10 ⊗ I of 30".into()));
    assert_eq!(answers[2]["facts"]["solved"], "one leaf eliminated, the others as one matrix");
    assert_eq!(answers[3]["facts"]["mode"], "reverse");
}

#[test]
fn growth_is_drawn_from_a_file() {
    let folder = std::env::temp_dir().join(format!("glassgrad-growth-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("growth.json");
    let panel = r#"{"title": "work", "horizontal": "n", "curves": [{"engine": "A", "label": "A n^2.0", "points": [[10, 1e-6], [100, 1e-4]]}]}"#;
    std::fs::write(&file, format!("{{\"panels\": [{panel}]}}")).expect("a file");
    let path = file.to_str().expect("a path");
    let output = glassgrad(&["bench", "--draw", path], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let picture = std::fs::read_to_string(file.with_extension("svg")).expect("a picture");
    assert!(["A n^2.0", "work", "100 µs"].iter().all(|text| picture.contains(text)), "{picture}");
    for wrong in ["{}", "tulips", r#"{"panels": [{"title": "work"}]}"#] {
        std::fs::write(&file, wrong).expect("a file");
        assert_eq!(glassgrad(&["bench", "--draw", path], "").status.code(), Some(2), "{wrong}");
    }
    std::fs::remove_dir_all(folder).expect("the folder goes");
}
