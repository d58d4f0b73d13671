//! Examples, each a link that can be shared.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::thumbnail;

/// An example: the group it belongs to, its title, what it shows, and its input.
struct Example {
    group: &'static str,
    title: &'static str,
    shows: &'static str,
    input: Input,
}

enum Input {
    /// An expression with values, and what else is chosen on the page, as in `mode=forward`.
    Scalar(&'static str, &'static str, &'static [(&'static str, &'static str)]),
    /// A matrix expression with its symbols and sizes, what to differentiate by, and the order.
    Matrix(&'static str, &'static str, &'static str, &'static str),
    /// A network to train: the data, and what is chosen besides, as in `layers=16,16`.
    Network(&'static str, &'static [(&'static str, &'static str)]),
}

use Input::{Matrix, Network, Scalar};

const fn example(group: &'static str, title: &'static str, shows: &'static str, input: Input) -> Example {
    Example { group, title, shows, input }
}

const WORKED: &str = "Worked examples of the literature";
const ALONE: &str = "Rules and their limits";
const LEARNING: &str = "Building blocks of networks";
const HIGHER: &str = "Higher orders";
const MATRICES: &str = "Vectors and matrices";
const NETWORKS: &str = "Networks that train, and some that do not";

const EXAMPLES: &[Example] = &[
    example(
        WORKED,
        "The survey's example",
        "ln(x₁) + x₁x₂ − sin(x₂) in reverse mode: one sweep for the whole gradient",
        Scalar("ln(x1) + x1*x2 - sin(x2)", "x1:2,x2:5", &[]),
    ),
    example(
        WORKED,
        "The same in forward mode",
        "One sweep for each variable: tangents with respect to x₁",
        Scalar("ln(x1) + x1*x2 - sin(x2)", "x1:2,x2:5", &[("mode", "forward"), ("wrt", "x1")]),
    ),
    example(
        WORKED,
        "Two results, shared work",
        "A node outside of the sweep stays untouched",
        Scalar("v4 = ln(x1) + x1*x2; v4 - sin(x2); v4*x1", "x1:2,x2:5", &[("output", "1")]),
    ),
    example(
        WORKED,
        "A value used twice",
        "(ab)(b + 1): the contributions of both paths to b are summed",
        Scalar("(a*b) * (b + 1)", "a:2,b:3", &[]),
    ),
    example(
        WORKED,
        "Sum times product",
        "(x + y)·(xy): two paths from each variable",
        Scalar("(x + y) * (x*y)", "x:2,y:3", &[]),
    ),
    example(
        WORKED,
        "Decomposed into elementary operations",
        "xy + z(x + y), adjoints from the root to the leaves",
        Scalar("V = x*y + z*(x + y)", "x:1,y:2,z:3", &[]),
    ),
    example(
        WORKED,
        "The logarithm of a polynomial",
        "log(3x² + 5xy) and its partial derivatives",
        Scalar("log(3*x^2 + 5*x*y)", "x:1,y:2", &[]),
    ),
    example(
        WORKED,
        "One neuron",
        "tanh of a weighted sum, as in the smallest engines",
        Scalar("n = x1*w1 + x2*w2 + b; tanh(n)", "x1:2,w1:-3,x2:0,w2:1,b:6.88137", &[]),
    ),
    example(ALONE, "A cube", "The simplest power rule", Scalar("x^3", "x:2", &[("order", "4")])),
    example(
        ALONE,
        "A branch",
        "Only the branch that was taken passes a derivative",
        Scalar("where(x > 0, x^2, sin(x)) * y", "x:1.5,y:2", &[]),
    ),
    example(
        ALONE,
        "A kink",
        "Where a function is not differentiable: the subgradient that the conventions choose",
        Scalar("abs(x) + relu(x - 1)", "x:1", &[]),
    ),
    example(
        ALONE,
        "Not a number",
        "Where a value becomes non-finite, with the place in the expression",
        Scalar("sqrt(x - 3) + ln(y)", "x:1,y:2", &[]),
    ),
    example(
        ALONE,
        "Finite differences fail",
        "A rapid oscillation: truncation and rounding errors of differences, none in the sweep",
        Scalar("sin(1000*x) * exp(-x)", "x:1", &[]),
    ),
    example(
        LEARNING,
        "Logistic loss",
        "The gradient is the predicted probability minus the target",
        Scalar("p = sigmoid(w*x + b); -(t*ln(p) + (1 - t)*ln(1 - p))", "w:0.5,x:2,b:-1,t:1", &[]),
    ),
    example(
        LEARNING,
        "Squared error of two layers",
        "Backpropagation through a hidden unit",
        Scalar("h = tanh(w1*x + b1); y = w2*h + b2; (y - t)^2", "w1:0.8,x:1.5,b1:0.1,w2:-1.2,b2:0.4,t:1", &[]),
    ),
    example(
        LEARNING,
        "Softmax of three",
        "The first probability pushes the others down",
        Scalar("s = exp(a) + exp(b) + exp(c); exp(a)/s; exp(b)/s; exp(c)/s", "a:1,b:2,c:3", &[]),
    ),
    example(HIGHER, "x to the x", "All derivatives at 1: 1, 1, 2, 3, 8, …", Scalar("x^x", "x:1", &[("order", "6")])),
    example(
        HIGHER,
        "Rosenbrock's valley",
        "Its Hessian far from the minimum",
        Scalar("(1 - x)^2 + 100*(y - x^2)^2", "x:-1.2,y:1", &[("order", "2")]),
    ),
    example(
        HIGHER,
        "Nested functions",
        "Expression swell: symbolic derivatives grow, the tape does not",
        Scalar("sin(exp(cos(x*ln(x + y))))", "x:1.3,y:0.7", &[("order", "4")]),
    ),
    example(
        MATRICES,
        "Least squares",
        "The gradient of ‖Ax − b‖² with respect to x",
        Matrix("norm2(A*x - b)^2", "A: m n, x: n, b: m", "x", "1"),
    ),
    example(
        MATRICES,
        "Its Hessian",
        "2AᵀA, independent of x",
        Matrix("norm2(A*x - b)^2", "A: m n, x: n, b: m, m=1000, n=20", "x", "2"),
    ),
    example(
        MATRICES,
        "Factorising a matrix",
        "A Hessian of 800 MB in 800 bytes of compressed storage",
        Matrix("norm2(T - U*V')^2", "T: n n, U: n k, V: n k, n=1000, k=10", "U", "2"),
    ),
    example(MATRICES, "Logarithm of a determinant", "The transposed inverse", Matrix("logdet(X)", "X: n n", "X", "1")),
    example(MATRICES, "A quadratic form", "A matrix and its transpose", Matrix("x'*A*x", "A: n n, x: n", "x", "1")),
    example(
        MATRICES,
        "Logistic regression",
        "The gradient of the loss with respect to the weights",
        Matrix("sum(log(exp(-(y .* (X*w))) + vector(1)))", "X: m n, w: n, y: m", "w", "1"),
    ),
    example(
        NETWORKS,
        "Two moons",
        "The decision boundary separates both classes",
        Network("moons", &[("layers", "16,16"), ("activation", "tanh")]),
    ),
    example(
        NETWORKS,
        "Moons with sparse random connectivity",
        "Fan-in 8: each unit reads eight inputs",
        Network("moons", &[("model", "sparse"), ("fan_in", "8")]),
    ),
    example(
        NETWORKS,
        "No activation function",
        "Without a nonlinearity three layers are one affine map",
        Network("circles", &[("layers", "16,16"), ("activation", "identity")]),
    ),
    example(
        NETWORKS,
        "Vanishing gradients",
        "Ten sigmoid layers: see the gradient norms by layer and the audit",
        Network("moons", &[("layers", "8,8,8,8,8,8,8,8,8,8"), ("activation", "sigmoid"), ("optimizer", "sgd")]),
    ),
    example(
        NETWORKS,
        "All weights zero",
        "Zero initialization never breaks the symmetry: look at the weights",
        Network("circles", &[("init", "zero"), ("activation", "tanh")]),
    ),
    example(
        NETWORKS,
        "Divergence: learning rate too high",
        "NaN, and the operation where it began",
        Network("function", &[("optimizer", "sgd"), ("lr", "50"), ("activation", "relu")]),
    ),
    example(
        NETWORKS,
        "Regression with uncertainty",
        "The network predicts a standard deviation too",
        Network("function", &[("loss", "normal"), ("noise", "0.2")]),
    ),
    example(
        NETWORKS,
        "Digits by convolutions",
        "First-layer kernels and the confusion matrix",
        Network("digits", &[("model", "cnn"), ("layers", "8,16,32"), ("epochs", "10")]),
    ),
];

/// Text as it stands in the hash of an address.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~()*',:;!".contains(&byte) {
            quoted.push(char::from(byte));
        } else {
            let _ = write!(quoted, "%{byte:02X}");
        }
    }
    quoted
}

impl Example {
    /// The link that opens it.
    fn link(&self) -> String {
        let listed = |chosen: &[(&str, &str)]| -> String {
            chosen.iter().map(|(name, value)| format!("&{name}={}", quoted(value))).collect()
        };
        match &self.input {
            Network(data, chosen) => format!("#/train?data={data}{}", listed(chosen)),
            Scalar(expression, at, chosen) => {
                let chosen = listed(chosen);
                format!("#/explore?e={}&at={}{chosen}", quoted(expression), quoted(at))
            }
            Matrix(expression, sizes, wrt, order) => {
                format!("#/matrix?e={}&sizes={}&wrt={}&order={order}", quoted(expression), quoted(sizes), quoted(wrt))
            }
        }
    }

    /// A small picture of it, if it has one.
    fn thumbnail(&self) -> Option<Value> {
        match self.input {
            Scalar(expression, at, _) => thumbnail::of_expression(expression, at),
            Matrix(expression, ..) => Some(thumbnail::of_matrix(expression)),
            Network(data, _) => thumbnail::of_data(data),
        }
    }

    /// Its subject, as text.
    fn expression(&self) -> String {
        match self.input {
            Scalar(expression, ..) | Matrix(expression, ..) => expression.to_owned(),
            Network(data, chosen) => {
                let chosen: Vec<String> = chosen.iter().map(|(name, value)| format!("{name} {value}")).collect();
                format!("{data}: {}", chosen.join(", "))
            }
        }
    }
}

/// The examples, for the page and for programs.
pub(crate) fn as_json() -> Value {
    let examples: Vec<Value> = EXAMPLES
        .iter()
        .map(|example| {
            json!({ "group": example.group, "title": example.title, "shows": example.shows,
                    "expression": example.expression(), "link": example.link(), "thumbnail": example.thumbnail() })
        })
        .collect();
    json!({ "examples": examples })
}

#[cfg(test)]
mod tests {
    use glassgrad::calculator::{Question as Asked, derive};
    use glassgrad::lang::parse;

    use super::{EXAMPLES, Matrix, Network, Scalar};

    #[test]
    fn every_example_can_be_read() {
        assert!(EXAMPLES.len() >= 17);
        for example in EXAMPLES {
            assert!(example.thumbnail().is_some(), "{} has no picture", example.title);
            match example.input {
                Scalar(expression, at, _) => {
                    let read = parse(expression).unwrap_or_else(|error| panic!("{error}"));
                    let mut given: Vec<&str> = at.split(',').filter_map(|pair| Some(pair.split_once(':')?.0)).collect();
                    let mut names: Vec<&str> = read.variables().iter().map(String::as_str).collect();
                    given.sort_unstable();
                    names.sort_unstable();
                    assert_eq!(given, names, "{expression}");
                }
                Matrix(expression, sizes, wrt, order) => {
                    let question = Asked::new(expression, wrt).order(order.parse().expect("a number")).declare(sizes);
                    let derived = question.map(|question| derive(&question).unwrap_or_else(|error| panic!("{error}")));
                    assert!(derived.is_ok_and(|derived| !derived.einstein.is_empty()), "{expression}");
                }
                // Whether the page and the server take it is seen in the tests of the page.
                Network(data, _) => {
                    assert!(crate::experiment::datasets::ROWS.iter().any(|row| row.name == data), "{data}")
                }
            }
        }
    }
}
