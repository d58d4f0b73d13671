//! The program as a user meets it: what it prints, and what it does with wrong input.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn glassgrad(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassgrad")).args(arguments).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = glassgrad(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?} warns: {}", String::from_utf8_lossy(&output.stderr));
    stdout(&output)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeeds(arguments)).expect("one JSON object")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const BAYDIN: &str = "ln(x1) + x1*x2 - sin(x2)";

#[test]
fn the_tables_of_the_seed_are_printed() {
    insta::assert_snapshot!(succeeds(&["grad", BAYDIN, "--at", "x1=2,x2=5", "--table", "--node", "v2"]));
}

/// All help texts, so that a changed one is read again.
#[test]
fn help_texts() {
    let whole = succeeds(&["--help"]);
    let listed = whole.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("commands");
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() >= 13, "{names:?}");
    insta::assert_snapshot!("help", whole);
    for name in names.iter().filter(|name| **name != "help") {
        insta::assert_snapshot!(format!("help_{name}"), succeeds(&[name, "--help"]));
    }
}

#[test]
fn steps_on_many_ranks_are_predicted() {
    insta::assert_snapshot!(succeeds(&[
        "plan",
        "--compute",
        "0.1",
        "--gradient",
        "100",
        "--ranks",
        "1,2,64",
        "--latency",
        "10",
        "--bandwidth",
        "2",
    ]));
    // What is measured varies; what follows from it does not.
    let plan = json(&["plan", "moons", "--shards", "4", "--ranks", "1,2,3,4,8", "--json"]);
    let predictions = plan["predictions"].as_array().expect("predictions");
    assert_eq!(predictions.len(), 5);
    assert_eq!(predictions[0]["weak_efficiency"], 1.0);
    let weak: Vec<f64> = predictions.iter().map(|row| row["weak_seconds"].as_f64().expect("seconds")).collect();
    assert!(weak.is_sorted() && weak[0] > 0.0, "{weak:?}");
    assert!(predictions[3]["strong_seconds"].is_f64() && predictions[4]["strong_seconds"].is_null());
    for (arguments, message) in [
        (&["plan", "moons", "--ranks", "0"][..], "--ranks: numbers from 1"),
        (&["plan", "moons", "--bandwidth", "-1"], "--bandwidth more than 0"),
        (&["plan", "--compute", "1"], "--gradient"),
        (&["plan", "moons", "--shards", "3"], "--shards 3: a power of two"),
    ] {
        let output = glassgrad(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(message), "{arguments:?}: {text}");
    }
}

/// The texts of the studio's page, without its markup.
#[test]
fn texts_of_the_studio() {
    let page = include_str!("../../glassgrad-studio/page/index.html");
    let mut text = String::new();
    for piece in page.split('<').skip(1) {
        let (tag, shown) = piece.split_once('>').expect("a tag");
        let labels = ["aria-label=\"", "title=\"", "placeholder=\"", "alt=\""];
        let attributes = labels.iter().filter_map(|label| Some(tag.split_once(label)?.1.split('"').next()?.trim()));
        for line in attributes.chain([shown.trim()]).filter(|line| !line.is_empty()) {
            text.push_str(line);
            text.push('\n');
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_second_output_is_left_out_of_the_reverse_sweep() {
    let program = "v4 = ln(x1) + x1*x2; v4 - sin(x2); v4*x1";
    let text = succeeds(&["grad", program, "--at", "x1=2,x2=5", "--table"]);
    let reverse = text.split("Reverse trace").nth(1).expect("a reverse trace");
    let steps = reverse.split("What the sweeps cover").next().expect("steps");
    assert!(text.contains("v6    v4 * x1") && !steps.contains("v̄6") && steps.contains("1.71634"), "{text}");
    assert!(text.contains("ancestors of v5: x1, x2, v1, v2, v3, v4, v5\n"), "{text}");
    let second = json(&["grad", program, "--at", "x1=2,x2=5", "--output", "2", "--json"]);
    assert_eq!(second["values"].as_array().map(Vec::len), Some(2));
    assert_eq!(second["value"], second["values"][1]);
}

#[test]
fn forward_and_reverse_mode_agree() {
    let gradients =
        ["forward", "reverse"].map(|mode| json(&["grad", BAYDIN, "--at", "x1=2,x2=5", "--mode", mode, "--json"]));
    assert_eq!(gradients[0]["gradient"], gradients[1]["gradient"]);
    assert_eq!(gradients[0]["gradient"]["x1"], 5.5);
    let forward = succeeds(&["grad", BAYDIN, "--at", "x1=2,x2=5", "--mode", "forward", "--table"]);
    assert!(forward.contains("v̇ = ∂v/∂x1") && forward.contains("v̇ = ∂v/∂x2"));
}

#[test]
fn json_has_the_promised_fields() {
    let hessian = json(&["grad", BAYDIN, "--at", "x1=2,x2=5", "--json", "--hessian"]);
    assert_eq!(hessian["value"], 11.652071455223084);
    assert_eq!(hessian["hessian"]["variables"], serde_json::json!(["x1", "x2"]));
    assert_eq!(hessian["hessian"]["dense"], serde_json::json!([[-0.25, 1.0], [1.0, -0.9589242746631385]]));
    let orders = json(&["grad", "x^x", "--at", "x=1", "--order", "4", "--json"]);
    let derivatives: Vec<f64> =
        orders["derivatives"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert!(
        derivatives.iter().zip([1.0, 1.0, 2.0, 3.0, 8.0]).all(|(d, exact)| (d - exact).abs() < 1e-12),
        "{derivatives:?}"
    );
    let table = json(&["grad", BAYDIN, "--at", "x1=2,x2=5", "--json", "--table", "--wrt", "x2"]);
    assert_eq!(table["reverse"][0]["rule"], "seed");
    assert_eq!(table["forward"]["x2"][4]["rule"], "x\u{307}2·cos(x2)");
    assert_eq!(table["gradient"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn a_branch_not_taken_contributes_exactly_zero() {
    for source in ["where(x > 0, ln(x), 0)", "where(x > 0, sqrt(x), 0)"] {
        let answer = json(&["grad", source, "--at", "x=0", "--json", "--hessian", "--order", "3"]);
        assert_eq!(answer["gradient"]["x"], 0.0, "{source}");
        assert_eq!(answer["hessian"]["dense"], serde_json::json!([[0.0]]), "{source}");
        assert_eq!(answer["derivatives"], serde_json::json!([0.0, 0.0, 0.0, 0.0]), "{source}");
    }
}

#[test]
fn an_infinite_input_with_a_finite_answer_is_fine() {
    assert_eq!(json(&["grad", "exp(-x)", "--at", "x=inf", "--json"])["value"], 0.0);
}

/// Wrong input: the exit code, and the message with the place and what to do.
#[test]
fn bad_input_is_refused_with_the_place() {
    let deep = format!("{}x{}", "(".repeat(5000), ")".repeat(5000));
    let long = "x+".repeat(50_000);
    let cases: [&[&str]; 28] = [
        &["grad", "foo(x)", "--at", "x=1"],
        &["grad", "x + y", "--at", "x=1"],
        &["grad", "x + z", "--at", "x=1,y=2,z=3"],
        &["grad", "(x + 1", "--at", "x=1"],
        &["grad", "x", "--at", "x"],
        &["grad", "x", "--at", "x=abc"],
        &["grad", "x", "--at", "x=1+"],
        &["grad", "x", "--at", "x=nan"],
        &["grad", "x", "--at", "x=0/0"],
        &["grad", "x", "--at", "x=1,x=2"],
        &["grad", "x + e", "--at", "x=1,e=2"],
        &["grad", "x*y", "--at", "x=1,y=1", "--wrt", "q"],
        &["grad", "x*y", "--at", "x=1,y=1", "--order", "2"],
        &["grad", "x", "--at", "x=1", "--order", "171"],
        &["grad", "x", "--at", "x=1", "--node", "v9"],
        &["grad", "x", "--at", "x=1", "--output", "2"],
        &["grad", "x", "--at", "x=1", "--output", "0"],
        &["grad", &deep, "--at", "x=1"],
        &["grad", &long, "--at", "x=1"],
        &["grad", "ln(x) + 2", "--at", "x=-1"],
        &["grad", "2*exp(x*10)", "--at", "x=1000"],
        &["grad", "sqrt(x)", "--at", "x=0", "--json"],
        &["grad", "x*0", "--at", "x=inf"],
        &["grad", "x^1.5", "--at", "x=0", "--hessian"],
        &["grad", "where(x > 0, 1, ln(x))", "--at", "x=-1"],
        &["check", "3"],
        &["check", "ln(x)", "--at", "x=-1"],
        &["graph", "x^2", "--at", "x=3", "-o", "/no/such/folder/g.svg"],
    ];
    let mut report = String::new();
    for arguments in cases {
        let output = glassgrad(arguments);
        let shown: Vec<String> = arguments.iter().map(|argument| argument.chars().take(40).collect()).collect();
        let error = String::from_utf8_lossy(&output.stderr)
            .replace("cannot write /no/such/folder/g.svg: ", "cannot write FILE: ");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{shown:?} exits with {:?}", output.status);
        assert!(!error.contains("panicked"), "{error}");
        report += &format!("{}\nexit code {}\n{error}\n", shown.join(" "), output.status.code().unwrap_or(-1));
    }
    insta::assert_snapshot!(report);
}

#[test]
fn what_is_not_finite_is_still_written_to_json() {
    let output = glassgrad(&["grad", "sqrt(x) + ln(y)", "--at", "x=0,y=0", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let object: Value = serde_json::from_str(&stdout(&output)).expect("one JSON object");
    assert_eq!((&object["value"], &object["gradient"]["x"]), (&"-Infinity".into(), &"Infinity".into()));
    let nan = glassgrad(&["grad", "ln(x)", "--at", "x=-1", "--json"]);
    assert!(stdout(&nan).contains("\"value\":\"NaN\""));
}

#[test]
fn a_graph_is_not_written_under_the_name_of_another_file_type() {
    let path = std::env::temp_dir().join(format!("glassgrad-{}.png", std::process::id()));
    let output = glassgrad(&["graph", "x*y", "--at", "x=1,y=2", "--out", path.to_str().expect("a path")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(".png: unsupported file type") && error.contains(".svg"), "{error}");
    assert!(!path.exists());
}

#[test]
fn graphs_are_drawn_in_every_format() {
    let ask = |format: &str| succeeds(&["graph", BAYDIN, "--at", "x1=2,x2=5", "--format", format]);
    insta::assert_snapshot!("graph_text", ask("text"));
    insta::assert_snapshot!("graph_dot", ask("dot"));
    let svg = ask("svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for label in ["v5 = v4 - v3", "x̄1 = 5.5", ">0.283662<", "11.6521", "x̄2 = 1.71634"] {
        assert!(svg.contains(label), "{label} is missing");
    }
    let graph: Value = serde_json::from_str(&ask("json")).expect("JSON");
    assert_eq!(graph["nodes"][6]["parents"][1], serde_json::json!({ "name": "v3", "partial": -1.0, "formula": "-1" }));
    let path = std::env::temp_dir().join(format!("glassgrad-{}.svg", std::process::id()));
    succeeds(&["graph", "where(x < 3, x, 1)", "--at", "x=1", "--format", "svg"]);
    succeeds(&["graph", BAYDIN, "--at", "x1=2,x2=5", "-o", path.to_str().expect("a path")]);
    assert_eq!(std::fs::read_to_string(&path).expect("written"), svg);
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn check_certifies_smooth_functions_and_names_kinks() {
    let certificate = json(&["check", "exp(sin(exp(cos(x))))*y", "--at", "x=0.3,y=2", "--json"]);
    assert_eq!(certificate["certified"], true);
    assert_eq!(certificate["symbolic_growth"].as_array().map(Vec::len), Some(5));
    let text = succeeds(&["check", BAYDIN, "--at", "x1=2,x2=5"]);
    for part in [
        "Certificate",
        "Three ways to differentiate",
        "error of ∂f/∂x1 against the step h",
        "∂f/∂x1 = 1 / x1 + x2",
        "growth",
    ] {
        assert!(text.contains(part), "{part} is missing from\n{text}");
    }
    let kink = glassgrad(&["check", "abs(x) + y^2", "--at", "x=0,y=1"]);
    assert_eq!(kink.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&kink.stderr).contains("not certified"));
}

#[test]
fn the_reference_of_operations_is_up_to_date() {
    let folder = std::env::temp_dir().join(format!("glassgrad-reference-{}", std::process::id()));
    succeeds(&["operations", "--out", folder.to_str().expect("a path")]);
    let same = |file: &Path| {
        let committed = std::fs::read_to_string(root().join("docs").join(file)).unwrap_or_default();
        let made = std::fs::read_to_string(folder.join(file)).expect("made");
        assert!(
            committed == made,
            "docs/{} is stale: run `cargo run --release -- operations --out docs`",
            file.display()
        );
    };
    same(Path::new("operations.md"));
    for picture in std::fs::read_dir(folder.join("operations")).expect("a folder") {
        same(&Path::new("operations").join(picture.expect("an entry").file_name()));
    }
    std::fs::remove_dir_all(folder).expect("removed");
    assert!(succeeds(&["operations"]).contains("leaky_relu(x, slope = 0.01)"));
}

/// Every `$ cargo run --release -- …` in the documentation is run, and its output compared.
#[test]
fn the_commands_in_the_documentation_print_what_it_says() {
    let mut commands = 0;
    for page in ["README.md", "docs/language.md", "docs/conventions.md", "docs/derive.md", "book/matrix-calculus.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        for block in text.split("```console\n").skip(1) {
            let block = block.split("```").next().expect("a block");
            for session in block.split("$ ").skip(1) {
                let (command, expected) = session.split_once('\n').expect("a line");
                let Some(arguments) = command.strip_prefix("cargo run --release -- ") else { continue };
                let output = glassgrad(&words(arguments).iter().map(String::as_str).collect::<Vec<_>>());
                let printed = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
                // A line with an ellipsis stands for what the page leaves out.
                match expected.split_once("\n…\n") {
                    None => assert_eq!(printed.trim(), expected.trim(), "{page}: {command}"),
                    Some((start, end)) => {
                        assert!(printed.trim().starts_with(start.trim()), "{page}: {command}\n{printed}");
                        assert!(printed.trim().ends_with(end.trim()), "{page}: {command}\n{printed}");
                    }
                }
                commands += 1;
            }
        }
    }
    assert!(commands >= 5, "only {commands} commands were found");
}

/// The words of a command line with double quotes.
fn words(line: &str) -> Vec<String> {
    let pieces = line.split('"').enumerate();
    pieces
        .flat_map(|(number, piece)| match number % 2 {
            1 => vec![piece.to_owned()],
            _ => piece.split_whitespace().map(str::to_owned).collect(),
        })
        .collect()
}
