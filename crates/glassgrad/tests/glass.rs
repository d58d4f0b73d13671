//! The glass box of tensors: graphs that are right, faults that are found at the right line, and no false alarm.

use glassgrad::glass::Graph;
use glassgrad::{Tensor, grad, jacobian, scan};

/// Expression (1) of the tensor calculus: Xᵀ((exp(X·w) + 1)⁻¹ ⊙ exp(X·w)), the gradient of a logistic likelihood.
fn expression_1(x: &Tensor, w: &Tensor) -> Tensor {
    let e = x.matmul(w).exp();
    x.transpose().matmul(&((&e + 1.0).recip() * &e))
}

fn data() -> (Tensor, Tensor) {
    let x = Tensor::from([[1.0, 0.5], [-0.3, 2.0], [0.7, -1.1]]).named("X");
    (x, Tensor::from([0.4, -0.2]).named("w"))
}

#[test]
fn draw() {
    let (x, w) = data();
    let graph = Graph::trace(|w: &Tensor| expression_1(&x, w), &w).with_values().unwrap();
    println!("{}\n{}\n{}", graph.text(), graph.dot(), graph.to_json());
    std::fs::write("/tmp/h/e1.svg", graph.svg("Xᵀ((exp(X·w) + 1)⁻¹ ⊙ exp(X·w))").unwrap()).unwrap();
    let graph = Graph::trace(|w: &Tensor| expression_1(&x, w).sum(), &w).with_gradients().unwrap();
    println!("{}", graph.text());
    let g = grad(|w: &Tensor| expression_1(&x, w).sum())(&w);
    println!("{}", Graph::of(&[&g]).text());
    let x = Tensor::from([0.1, 0.2, 0.3]).named("x");
    let f =
        |x: &Tensor| scan(|sum: &Tensor, x: &Tensor| ((sum * x).sin() + 1.0, sum.exp()), &Tensor::from(0.0), x).1.sum();
    let graph = Graph::trace(f, &x).with_gradients().unwrap();
    println!("{}\n{}", graph.text(), graph.dot());
    std::fs::write("/tmp/h/scan.svg", graph.svg("scan").unwrap()).unwrap();
    let graph =
        Graph::trace(|x: &Tensor| (x.softmax(0) * Tensor::from([1.0, 2.0, 3.0])).sum(), &x).with_gradients().unwrap();
    println!("{}\n{}", graph.text(), graph.collapse_lines().text());
    let _ = jacobian(|x: &Tensor| x.sin());
}
