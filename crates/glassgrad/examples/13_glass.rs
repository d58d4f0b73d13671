//! The glass box: what a graph computes, and what is wrong with it.
//!
//! The first part draws the expression of the tensor calculus study, Xᵀ((exp(X·w) + 1)⁻¹ ⊙ exp(X·w)), with its
//! values, and of its sum the gradient at every node. The second part plants faults in a small network and lets the
//! library find them: parameters that no derivative reaches, a softmax that overflows, a root at zero, and a rule
//! that is wrong.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 13_glass`; it writes the pictures into `target/pictures`, or into the
//! folder given as an argument.

use std::path::PathBuf;

use glassgrad::array::{Array, Buffer};
use glassgrad::certify::certify_tensors;
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Rule};
use glassgrad::glass::{Graph, audit, explain_non_finite};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::{Tensor, Tree};

fn main() {
    expression_1();
    parameters_out_of_reach();
    numbers_that_are_not_finite();
    a_wrong_rule();
}

/// The expression, its graph, and the gradient of its sum on every node of it.
fn expression_1() {
    let x = Tensor::from([[1.0, 0.5], [-0.3, 2.0], [0.7, -1.1]]).named("X");
    let w = Tensor::from([0.4, -0.2]).named("w");
    let f = |w: &Tensor| {
        let e = x.matmul(w).exp();
        x.transpose().matmul(&((&e + 1.0).recip() * &e))
    };
    let graph = Graph::trace(f, &w).with_values().expect("all values are known");
    println!("{}", graph.text());
    save("expression1", &graph, "Xᵀ((exp(X·w) + 1)⁻¹ ⊙ exp(X·w))");
    let differentiated = Graph::trace(|w: &Tensor| f(w).sum(), &w).with_gradients().expect("the sum is one number");
    save("expression1_gradient", &differentiated, "its sum, with the gradient at every node");
}

fn save(name: &str, graph: &Graph, title: &str) {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target/pictures".into()));
    std::fs::create_dir_all(&folder).expect("the folder for pictures can be created");
    let picture = graph.svg(title).expect("the graph is small");
    std::fs::write(folder.join(format!("{name}.svg")), picture).expect("the picture can be written");
}

#[derive(Tree)]
struct Network {
    weight: Tensor,
    bias: Tensor,
    temperature: Tensor,
    forgotten: Tensor,
}

/// A layer whose units are all dead, a temperature that was stopped, and a parameter that nobody uses.
fn parameters_out_of_reach() {
    let network = Network {
        weight: Tensor::from([[0.5, -0.2], [0.1, 0.4]]),
        bias: Tensor::from([-3.0, -4.0]),
        temperature: Tensor::from(2.0),
        forgotten: Tensor::from([1.0, 2.0, 3.0]),
    };
    let loss = |network: &Network| {
        let hidden = (Tensor::from([1.0, 1.0]).matmul(&network.weight) + &network.bias).relu();
        ((hidden + 1.0) / network.temperature.stop_gradient()).square().sum()
    };
    let report = audit(loss, &network).expect("the loss is one number");
    println!("{report}");
    assert!(!report.is_healthy());
}

/// Each story names the line, the element, the way to the output, and a repair that was tried.
fn numbers_that_are_not_finite() {
    let logits = Tensor::from([1000.0, 2.0, 3.0]).named("logits");
    let naive = |x: &Tensor| {
        let weights = x.exp();
        (&weights / weights.sum()).square().sum()
    };
    let length = |x: &Tensor| x.square().sum().sqrt();
    let stories =
        [explain_non_finite(naive, &logits), explain_non_finite(length, &Tensor::from([0.0, 0.0]).named("velocity"))];
    for story in stories {
        println!("{}\n", story.expect("the function can be evaluated").expect("something is not finite"));
    }
}

/// A square with a derivative that is one percent too large.
#[derive(Debug)]
struct WrongSquare;

impl CustomOp for WrongSquare {
    fn name(&self) -> &str {
        "wrong_square"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let x = inputs[0].buffer();
        Ok(Array::new(inputs[0].shape().clone(), Buffer::from_fn(inputs[0].dtype(), x.len(), |k| x.get(k).powi(2))))
    }
    fn rule<'r>(&self, inputs: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Pullback(Box::new(|g| vec![Some(g * &inputs[0] * 2.02)]))
    }
}

/// The identities fail, and the operation that is to blame is named.
fn a_wrong_rule() {
    let f = |x: &Tensor| Tensor::custom(WrongSquare, &[&x.sin()]).sum();
    let certificate =
        certify_tensors(f, &Tensor::from([0.5, 1.5]), Key::new(1)).expect("the function can be evaluated");
    assert!(!certificate.holds());
    println!("{certificate}");
}
