//! Numbers from outside, read from `tests/golden`, and the conventions of the design, stated once for
//! scalars and for tensors.

use std::f64::consts::PI;

use serde_json::Value;

/// Reads a file of cases. It was written by Python, which spells numbers that JSON does not have.
pub(crate) fn cases(text: &str) -> Vec<Value> {
    let quoted: Vec<String> = text
        .lines()
        .map(|line| match line.trim_end_matches(',') {
            number @ ("NaN" | "Infinity" | "-Infinity") => line.replacen(number, &format!("\"{number}\""), 1),
            _ => line.to_string(),
        })
        .collect();
    let parsed: Value = serde_json::from_str(&quoted.join("\n")).expect("the golden file is JSON");
    parsed["cases"].as_array().expect("a list of cases").clone()
}

/// All numbers of a value, however deep they are nested.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::String(name) => vec![name.parse().expect("NaN or an infinity")],
        Value::Null => Vec::new(),
        number => vec![number.as_f64().expect("a number")],
    }
}

/// The name of a case, by which the tests know its function.
pub(crate) fn name(case: &Value) -> &str {
    case["f"].as_str().expect("the name of a function")
}

/// Whether a number is the stated one, to a tolerance relative to numbers above 1.
fn close(actual: f64, expected: f64, tolerance: f64) -> bool {
    (actual - expected).abs() <= tolerance * expected.abs().max(1.0)
        || actual == expected
        || (actual.is_nan() && expected.is_nan())
}

#[track_caller]
pub(crate) fn assert_all_close(what: &str, actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (actual, expected) in actual.iter().zip(expected) {
        assert!(close(*actual, *expected, tolerance), "{what}: {actual:e} is not {expected:e}");
    }
}

/// What the engine promises about second derivatives at the point of a convention.
pub(crate) enum Curvature {
    /// None at all: the function is straight on the side that the convention chose.
    Zero,
    /// A diagonal Hessian.
    Diagonal(&'static [f64]),
    /// A full one, row by row.
    Full(&'static [f64]),
    /// Nothing but that it is not a number that could pass for one: infinite or NaN.
    Singular,
}

use Curvature::{Diagonal, Full, Singular, Zero};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const ROOT: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// The conventions of section 9 of the design, literally: the case, the gradient, the curvature.
pub(crate) const CONVENTIONS: &[(&str, &[f64], Curvature)] = &[
    ("relu", &[0.0, 0.0, 1.0, 0.0], Zero),
    ("maximum(x,0)", &[0.5, 1.0, 0.0], Zero),
    ("abs", &[0.0, 0.0], Zero),
    ("sqrt", &[INF], Singular),
    ("x**0.5", &[INF], Singular),
    ("x**2", &[0.0], Diagonal(&[2.0])),
    ("x**0", &[0.0, 0.0], Zero),
    ("x**1", &[1.0], Zero),
    ("0**y", &[0.0, 0.0, 0.0], Zero),
    ("sign", &[0.0, 0.0], Zero),
    ("floor", &[0.0, 0.0], Zero),
    ("clip(x,-1,1)", &[0.5, 0.5, 1.0, 0.0], Zero),
    ("max(vector) ties", &[0.0, 0.5, 0.5, 0.0], Zero),
    ("amax ties", &[0.0, 0.5, 0.5, 0.0], Zero),
    ("min ties", &[0.5, 0.5, 0.0], Zero),
    ("median even", &[0.0, 0.0, 0.5, 0.5], Zero),
    ("sort().head(2) ties", &[0.0, 1.0, 1.0, 0.0], Zero),
    ("prod with one zero", &[0.0, 6.0, 0.0], Full(&[0.0, 3.0, 0.0, 3.0, 0.0, 2.0, 0.0, 2.0, 0.0])),
    ("prod with two zeros", &[0.0, 0.0, 0.0], Full(&[0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 2.0, 0.0])),
    (
        "cumprod with zero",
        &[1.0, 32.0, 0.0, 0.0],
        Full(&[0.0, 16.0, 0.0, 0.0, 16.0, 0.0, 10.0, 6.0, 0.0, 10.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0]),
    ),
    ("norm2 at 0", &[0.0, 0.0], Zero),
    ("norm2", &[0.6, 0.8], Full(&[0.128, -0.096, -0.096, 0.072])),
    ("where(x>0,log x,0) (NaN trap)", &[0.0, 0.0, 0.5], Diagonal(&[0.0, 0.0, -0.25])),
    ("where(x>0,sqrt x,0)", &[0.0, 0.5 * ROOT], Diagonal(&[0.0, -0.125 * ROOT])),
    ("logsumexp big", &[0.5, 0.5, 0.0], Full(&[0.25, -0.25, 0.0, -0.25, 0.25, 0.0, 0.0, 0.0, 0.0])),
    ("logsumexp -inf,-inf", &[NAN, NAN], Singular),
    ("softplus extremes", &[0.0, 0.5, 1.0], Diagonal(&[0.0, 0.25, 0.0])),
    ("log(softmax(x))[0] naive", &[NAN, NAN], Singular),
    ("log_softmax[1]", &[-1.0, 1.0], Zero),
    ("sigmoid extremes", &[0.0, 0.0], Zero),
    ("tanh extremes", &[0.0, 0.0], Zero),
    ("sinc", &[0.0, -4.0 / PI], Diagonal(&[-PI * PI / 3.0, 16.0 / PI - 2.0 * PI])),
    ("atan2(y,0) wrt y", &[0.0, 0.0], Zero),
    ("mod(x,2)", &[1.0, 1.0], Zero),
    ("mod(7.5,y) wrt y", &[-3.0, -2.0], Zero),
    ("leaky_relu(0.01)", &[0.01, 0.01, 1.0], Zero),
    ("elu", &[1.0], Diagonal(&[1.0])),
    ("relu6", &[0.5, 0.5, 1.0], Zero),
    ("hard_tanh", &[0.5, 0.5], Zero),
];

/// The gradient and the curvature that are stated for a convention.
pub(crate) fn convention(name: &str) -> (&'static [f64], &'static Curvature) {
    CONVENTIONS
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, gradient, curvature)| (*gradient, curvature))
        .unwrap_or_else(|| panic!("no convention is stated for {name:?}"))
}

impl Curvature {
    /// The Hessian of `size` rows, row by row, if it is one that can be stated.
    pub(crate) fn hessian(&self, size: usize) -> Option<Vec<f64>> {
        match self {
            Singular => None,
            Full(stated) => Some(stated.to_vec()),
            Zero => Some(vec![0.0; size * size]),
            Diagonal(stated) => {
                let element = |k: usize| if k / size == k % size { stated[k % size] } else { 0.0 };
                Some((0..size * size).map(element).collect())
            }
        }
    }
}
