//! The expression language: what it means, what it refuses, and that nothing makes it panic.

#[path = "judges/cases.rs"]
mod cases;

use cases::random_cases;
use glassgrad::formula::Symbols;
use glassgrad::lang::{MAXIMUM_DEPTH, MAXIMUM_LENGTH, parse};
use glassgrad::ops::Operation;
use glassgrad::scalar::{Dual, Tape, gradient};
use proptest::prelude::*;

fn value(source: &str, x: f64, y: f64) -> f64 {
    let expression = parse(source).unwrap_or_else(|error| panic!("{error}"));
    let inputs: Vec<f64> = expression.variables().iter().map(|name| if name == "x" { x } else { y }).collect();
    expression.evaluate(&inputs)[0]
}

#[test]
fn precedence_is_that_of_mathematics() {
    for (source, expected) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 - 3 - 4", -5.0),
        ("24 / 4 / 2", 3.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("(-2) ^ 2", 4.0),
        ("2 ^ -1", 0.5),
        ("2 * -3", -6.0),
        ("--3", 3.0),
        ("-x ^ 2", -9.0),
        ("7.5 % 2", 1.5),
        ("1e3 + 1.5e-3", 1000.0015),
        (".5 + 1.", 1.5),
        ("2 * pi", std::f64::consts::TAU),
        ("e ^ 1", std::f64::consts::E),
        ("log(e)", 1.0),
        ("max(x, y) - min(x, y)", 1.0),
        ("leaky_relu(-x, 0.5)", -1.5),
        ("leaky_relu(-x)", -0.03),
        ("polygamma(1/2, 1)", std::f64::consts::PI.powi(2) / 2.0),
        ("where(x > y, 1, 2)", 2.0),
        ("where(x < y and y < 5, 1, 2)", 1.0),
        ("where(x > y or not y > 5, 1, 2)", 1.0),
        ("where((x > y or y > 3) and (x) < 4, 1, 2)", 1.0),
        ("a = x * y; b = a + 1; b * b", 169.0),
        ("a = x * y", 12.0),
        ("x · y − 1", 11.0),
    ] {
        let found = value(source, 3.0, 4.0);
        assert!((found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs(), "{source} is {found}, not {expected}");
    }
}

#[test]
fn every_row_of_the_table_can_be_called() {
    for operation in Operation::ALL {
        let call = match operation.arity() {
            1 => format!("{operation}(x)"),
            _ => format!("{operation}(x, y)"),
        };
        let expression = parse(&call).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(expression.variables().len(), operation.arity(), "{call}");
    }
}

#[test]
fn nodes_are_numbered_as_in_the_seeds_table() {
    let tape = glassgrad::scalar::Tape::new();
    let expression = parse("ln(x1) + x1*x2 - sin(x2)").unwrap();
    expression.record(&tape, &[2.0, 5.0]);
    let trace = glassgrad::trace::Trace::new(&tape);
    let rows: Vec<String> = tape.ids().map(|id| format!("{} = {}", trace.label(id), trace.expression(id))).collect();
    let expected =
        ["x1 = input", "x2 = input", "v1 = ln(x1)", "v2 = x1 * x2", "v3 = sin(x2)", "v4 = v1 + v2", "v5 = v4 - v3"];
    assert_eq!(rows, expected);
}

/// Every message, with the place and what to do, as people see it.
#[test]
fn errors_point_at_the_place_and_say_what_to_do() {
    let sources = [
        "",
        "  ",
        "foo(x)",
        "tahn(x)",
        "x +",
        "x + * y",
        "(x + 1",
        "(x + )",
        "x + 1)",
        "sin x",
        "sin",
        "max",
        "max(x)",
        "sin(x, y)",
        "leaky_relu(x, y)",
        "powi(x, 2.5)",
        "2 3",
        "x (y)",
        "|x",
        "|x + |",
        "max(x, y, z)",
        "x = = 3",
        "x == 3",
        "where(x, 1, 2)",
        "where(x > 0, 1)",
        "where(x > 0 > 1, 1, 2)",
        "1 + (x > 0)",
        "x > 0 and 3",
        "x $ y",
        "1e999",
        "1..2",
        "sin = 3; sin",
        "x + 1; x = 3",
        "a = 1; a = 2",
        "x y",
        "x,y",
        "π + 1 +",
        "a = x\n+ foo(x)",
    ];
    let messages: Vec<String> = sources
        .iter()
        .map(|source| {
            format!("{source:?}\n{}", parse(source).map_or_else(|error| error.to_string(), |_| "accepted".into()))
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n\n"));
}

#[test]
fn notation_that_people_type() {
    let equal = [
        ("2x", "2*x"),
        ("2x^2 + 3x - 1", "2*x^2 + 3*x - 1"),
        ("2(x + 1)", "2*(x + 1)"),
        ("(x + 1)(x - 1)", "(x + 1)*(x - 1)"),
        ("2sin(x)cos(x)", "2*sin(x)*cos(x)"),
        ("1/2x", "1/2*x"),
        ("x^2y", "x^2*y"),
        ("-2x", "-2*x"),
        ("2e", "2*e"),
        ("|x|", "abs(x)"),
        ("|x - 3|^2", "abs(x - 3)^2"),
        ("2|x|y", "2*abs(x)*y"),
        ("|x| + |y|", "abs(x) + abs(y)"),
        ("|2x*(|y| - 1)|", "abs(2*x*(abs(y) - 1))"),
        ("|max(|x|, y)|", "abs(max(abs(x), y))"),
        ("where(x > 0 and y < 2, 2x, 3(y))", "where(x > 0 and y < 2, 2*x, 3*y)"),
        ("max(x, y, 0.5)", "max(max(x, y), 0.5)"),
        ("min(x, y, 2x, 3)", "min(min(min(x, y), 2*x), 3)"),
    ];
    for (typed, written) in equal {
        let [typed_read, written_read] =
            [typed, written].map(|text| parse(text).unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(typed_read.variables(), written_read.variables(), "{typed}");
        for point in [[0.7, 1.9], [-1.3, 0.4]] {
            let point = &point[..typed_read.variables().len()];
            assert_eq!(typed_read.evaluate::<f64>(point), written_read.evaluate::<f64>(point), "{typed}");
        }
    }
}

#[test]
fn hostile_input_is_refused_and_does_not_overflow_the_stack() {
    let nested = |open: &str, close: &str, depth: usize| format!("{}x{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("(", ")"), ("sin(", ")"), ("-", ""), ("2^", ""), ("where(x > 0, 1, ", ")"), ("+", "")] {
        assert!(parse(&nested(open, close, MAXIMUM_DEPTH - 1)).is_ok(), "{open} nested {}", MAXIMUM_DEPTH - 1);
        for depth in [MAXIMUM_DEPTH + 1, 3000] {
            let error = parse(&nested(open, close, depth)).unwrap_err();
            assert!(error.message.contains("nested more than"), "{open}: {}", error.message);
        }
    }
    let negations = format!("where({} x > 0, 1, 2)", "not ".repeat(3000));
    assert!(parse(&negations).unwrap_err().message.contains("nested more than"));
    let long = "x+".repeat(MAXIMUM_LENGTH);
    assert!(parse(&long).unwrap_err().to_string().len() < 500);
    // The longest chains that are read are no deeper than others: they are evaluated by a loop.
    let chain = format!("{}x", "x+".repeat(MAXIMUM_LENGTH / 2 - 1));
    let expression = parse(&chain).unwrap();
    assert_eq!(expression.evaluate(&[1.0])[0], (MAXIMUM_LENGTH / 2) as f64);
    assert_eq!(gradient(|x| expression.evaluate(x)[0], &[1.0]), [(MAXIMUM_LENGTH / 2) as f64]);
    let conditions = format!("where({}x > 1, 1, 2)", "x > 0 and ".repeat(5000));
    assert_eq!(parse(&conditions).unwrap().evaluate(&[0.5])[0], 2.0);
}

#[test]
fn symbolic_derivatives_are_written_readably() {
    for (source, expected) in [
        ("x^3", "3 * x^2"),
        ("sin(x)*x", "x * cos(x) + sin(x)"),
        ("exp(-x^2)", "exp(-x^2) * (-(2 * x))"),
        (
            "x^x",
            "where(x == 0, where(x == 0, 0, x * pow(x, x - 1)), x * pow(x, x - 1)) + where(x == 0, 0, pow(x, x) * ln(x))",
        ),
        ("relu(x)", "where(x > 0, 1, 0)"),
        ("1/x", "-(1 / x / x)"),
        ("3", "0"),
        ("(-4)^0.5 + x", "1"),
    ] {
        let symbols = Symbols::new();
        let (_, derivative) = parse(source).unwrap().derivative(0, &symbols);
        assert_eq!(
            derivative.to_string().replace("x^(x - 1)", "pow(x, x - 1)").replace("x^x", "pow(x, x)"),
            expected,
            "{source}"
        );
    }
}

/// Random programs of the language, as text.
fn random_source() -> impl Strategy<Value = String> {
    let leaf =
        prop_oneof![Just("x".to_owned()), Just("y".to_owned()), (-5.0..5.0_f64).prop_map(|number| format!("{number}"))];
    leaf.prop_recursive(6, 48, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone(), prop_oneof![Just("+"), Just("-"), Just("*"), Just("/")])
                .prop_map(|(a, b, operator)| format!("({a}) {operator} ({b})")),
            (
                inner.clone(),
                prop_oneof![Just("sin"), Just("tanh"), Just("sigmoid"), Just("-"), Just("atan"), Just("softplus")]
            )
                .prop_map(|(a, function)| format!("{function}({a})")),
            (inner.clone(), 0..4_i32).prop_map(|(a, exponent)| format!("({a})^{exponent}")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("where({a} < {b}, {b}, {c})")),
        ]
    })
}

fn same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #![proptest_config(random_cases(400))]

    #[test]
    fn text_of_any_kind_is_read_or_refused(source in "\\PC{0,80}") {
        if let Err(error) = parse(&source) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn text_of_tokens_is_read_or_refused(tokens in prop::collection::vec(
        prop_oneof![Just("x"), Just("("), Just(")"), Just("+"), Just("-"), Just("*"), Just("^"), Just("2"), Just("where"),
            Just(","), Just("<"), Just("and"), Just("not"), Just(";"), Just("="), Just("sin"), Just("e"), Just("1e"), Just("∂")], 0..40)) {
        if let Err(error) = parse(&tokens.join(" ")) {
            prop_assert!(error.to_string().contains("  | "));
        }
    }

    #[test]
    fn a_written_formula_reads_back_as_the_same_function(source in random_source(), x in -2.0..2.0_f64, y in -2.0..2.0_f64) {
        let expression = parse(&source).unwrap();
        let symbols = Symbols::new();
        let inputs: Vec<_> = expression.variables().iter().map(|name| symbols.variable(name)).collect();
        let written = expression.evaluate(&inputs)[0].to_string();
        let (before, after) = (value(&source, x, y), value(&written, x, y));
        // Writing drops products with zero, which differ only where the other factor is not finite.
        prop_assert!(same(before, after) || !before.is_finite(), "{source}\n{written}\n{before} {after}");
    }

    #[test]
    fn symbolic_forward_and_reverse_derivatives_agree(source in random_source(), x in -2.0..2.0_f64, y in -2.0..2.0_f64) {
        let expression = parse(&source).unwrap();
        let point: Vec<f64> = expression.variables().iter().map(|name| if name == "x" { x } else { y }).collect();
        // Beside a pole an engine that skips zero tangents and one that adds infinities rightly differ.
        let tape = Tape::new();
        expression.record(&tape, &point);
        let regular = tape.ids().map(|id| tape.node(id)).all(|node| {
            node.value.is_finite() && node.partials.iter().all(|partial| partial.is_finite())
        });
        prop_assume!(regular);
        let reverse = gradient(|x| expression.evaluate(x)[0], &point);
        for (variable, slope) in reverse.iter().enumerate() {
            let seeded: Vec<Dual<f64>> =
                (0..).zip(&point).map(|(k, x)| if k == variable { Dual::variable(*x) } else { Dual::constant(*x) }).collect();
            let forward = expression.evaluate(&seeded)[0].tangent();
            prop_assert!(same(forward, *slope), "{source}: {forward} {slope}");
            let symbols = Symbols::new();
            let symbolic = expression.derivative(variable, &symbols).1.evaluate(&point);
            prop_assert!(same(forward, symbolic), "{source}: {forward} {symbolic}");
        }
    }
}
