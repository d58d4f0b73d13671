//! `glassgrad derive` as a user meets it.

use std::process::{Command, Output};

use serde_json::Value;

fn glassgrad(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassgrad")).args(arguments).output().expect("the program starts")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = glassgrad(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?} warns: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The text with small deviations, which differ from machine to machine, replaced by one that says so.
fn steady(text: &str) -> String {
    let small = |word: &str| word.parse::<f64>().is_ok_and(|value| value.abs() < 1e-9) && word.contains('e');
    let line = |line: &str| {
        let words = line.split_inclusive(' ').map(|piece| match small(piece.trim_end()) {
            true => piece.replace(piece.trim_end(), "tiny"),
            false => piece.to_owned(),
        });
        words.collect::<String>()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

const FACTORISATION: [&str; 12] = [
    "derive",
    "norm2(T - U*V')^2",
    "--shape",
    "T=n,n",
    "--shape",
    "U=n,k",
    "--shape",
    "V=n,k",
    "--wrt",
    "U",
    "--order",
    "2",
];

#[test]
fn a_derivative_is_shown_in_every_notation_with_its_steps() {
    let mut arguments = FACTORISATION.to_vec();
    arguments.extend(["--sizes", "n=200,k=10", "--steps"]);
    let logistic = ["derive", "sum(log(1 + exp(-y.*(A*x))))", "--wrt", "x", "--sizes", "A: m n, x: n, y: m"];
    let tensor = ["derive", "einsum(\"ijk,j,k->i\", T, x, x)", "--wrt", "x", "--sizes", "T: n n n, x: n"];
    let texts = [succeeds(&arguments), succeeds(&logistic), succeeds(&tensor)].map(|text| steady(&text));
    insta::assert_snapshot!(texts.join("\n\n----\n\n"));
}

#[test]
fn json_has_the_promised_fields() {
    let mut arguments = FACTORISATION.to_vec();
    arguments.extend(["--sizes", "n=1000,k=10", "--json"]);
    let answer: Value = serde_json::from_str(&succeeds(&arguments)).expect("one JSON object");
    assert_eq!(answer["einstein"], "2·V_mj V_ml δ_ik");
    assert_eq!(answer["matrix"], "2*dU*V'*V");
    assert_eq!(answer["direction"], "dU");
    assert_eq!(answer["latex"], "2 \\mathrm{dU} V^\\top V");
    assert_eq!((answer["held_bytes"].as_u64(), answer["dense_bytes"].as_u64()), (Some(800), Some(800_000_000)));
    let steps = answer["steps"].as_array().expect("steps");
    assert!(!steps.is_empty());
    for field in ["rule", "before", "after", "flops_before", "flops_after", "deviation"] {
        assert!(steps.iter().all(|step| !step[field].is_null()), "{field}");
    }
    assert!(answer["agreement"]["finite_differences"].as_f64().expect("a number") < 1e-8);
}

#[test]
fn bad_input_is_refused_with_the_place() {
    let wrong: [&[&str]; 9] = [
        &["derive", "A*x", "--wrt", "x", "--sizes", "x: n"],
        &["derive", "A*x", "--wrt", "x", "--sizes", "A: m n, x: m"],
        &["derive", "A*x", "--wrt", "x", "--order", "2", "--sizes", "A: m n, x: n"],
        &["derive", "x'*x", "--wrt", "x", "--order", "3", "--sizes", "x: n"],
        &["derive", "norm2(x*x')^2", "--wrt", "x", "--sizes", "x: n, n=100000"],
        &["derive", "x'*x", "--wrt", "x", "--sizes", "x: n, n=100", "--limit", "200B"],
        &["derive", "det(A)", "--wrt", "A", "--shape", "A=m,n"],
        &["derive", "x'*x", "--wrt", "x", "--shape", "x"],
        &["derive", "sum(erf(x))", "--wrt", "x", "--sizes", "x: n", "--emit", "rust"],
    ];
    let answers = wrong.map(|arguments| {
        let output = glassgrad(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        format!("{}\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr))
    });
    insta::assert_snapshot!(answers.join("\n"));
}

#[test]
fn what_is_never_finite_is_shown_and_fails() {
    let output = glassgrad(&["derive", "sqrt(-1 - x'*x)", "--wrt", "x", "--sizes", "x: n"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("-x/sqrt(-1 - x'*x)"));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(message, "error: at none of the random points that were tried the derivative is finite\n");
}

#[test]
fn units_of_the_limit_are_read() {
    for limit in ["2000", "2000B", "2kB", "0.002MB", "1TB"] {
        succeeds(&["derive", "x'*x", "--wrt", "x", "--sizes", "x: n, n=100", "--limit", limit]);
    }
    for limit in ["-1", "2 apples", "NaN", ""] {
        let output = glassgrad(&["derive", "x'*x", "--wrt", "x", "--sizes", "x: n", &format!("--limit={limit}")]);
        assert_eq!(output.status.code(), Some(2), "{limit}");
    }
}

#[test]
fn help_shows_commands_that_run() {
    let help = succeeds(&["derive", "--help"]);
    let examples = help.split("Examples:\n").nth(1).expect("examples");
    assert!(examples.lines().all(|line| line.trim().starts_with("glassgrad ")), "{examples}");
    let mut count = 0;
    for line in examples.lines().filter_map(|line| line.trim().strip_prefix("glassgrad ")) {
        // A line that was wrapped would run as half a command.
        assert_eq!(line.matches('"').count() % 2, 0, "{line}");
        let pieces = line.split('"').enumerate();
        let words: Vec<String> = pieces
            .flat_map(|(number, piece)| match number % 2 {
                1 => vec![piece.to_owned()],
                _ => piece.split_whitespace().map(str::to_owned).collect(),
            })
            .collect();
        succeeds(&words.iter().map(String::as_str).collect::<Vec<_>>());
        count += 1;
    }
    assert!(count >= 5, "only {count} examples were found");
}
