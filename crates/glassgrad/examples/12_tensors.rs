//! Tensors: the transforms, and control flow that is ordinary Rust.
//!
//! A tensor is an expression; operations build a graph, and reading computes it. A derivative is again
//! such a graph, so transforms nest. This page runs the examples of the Autograd study: the second
//! derivative of the sine, the gradient of a dictionary, a loop that multiplies, and the log-likelihood of
//! a recurrent network whose loop is as long as the sequence.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 12_tensors`.

use std::collections::BTreeMap;

use glassgrad::rng::Key;
use glassgrad::tree::Tree as _;
use glassgrad::{Tensor, Tree, grad, hessian, jacobian, value_and_grad, vmap};

fn main() {
    nested_derivatives();
    dictionary();
    dynamic_control_flow();
    recurrent_likelihood();
}

/// grad(grad(sin)): the inner derivative is a graph, and the outer one differentiates it.
fn nested_derivatives() {
    let sine = |x: &Tensor| x.sin();
    let first = grad(sine);
    let second = grad(|x: &Tensor| grad(sine)(x));
    let x = Tensor::from(0.7_f64);
    println!("sin at 0.7: {}, first derivative {}, second {}", x.sin(), first(&x), second(&x));
    assert_eq!(second(&x).item().unwrap(), -0.7_f64.sin());

    // The inner derivative sees the outer variable as a constant: d/dx (x · d/dy (x + y)) = 1.
    let outer = grad(|x: &Tensor| x * grad(|y: &Tensor| x + y)(&Tensor::from(4.0)));
    assert_eq!(outer(&Tensor::from(3.0)).item().unwrap(), 1.0);

    let v = Tensor::from([1.0_f64, 2.0, 3.0]);
    println!("Jacobian of v²:\n{}", jacobian(|v: &Tensor| v.square())(&v));
    println!("Hessian of Σ v³:\n{}", hessian(|v: &Tensor| v.powi(3).sum())(&v));
    println!("one gradient a row: {}", vmap(grad(|x: &Tensor| x.exp()))(&v));
}

/// A map of tensors is a vector space with named leaves, and so is its gradient.
fn dictionary() {
    let parameters = BTreeMap::from([("x".to_owned(), Tensor::from(3.0_f64))]);
    let gradient = grad(|p: &BTreeMap<String, Tensor>| &p["x"] * &p["x"])(&parameters);
    println!("\ngradient of p[x]·p[x] at 3: {{x: {}}}", gradient["x"]);
    assert_eq!(gradient["x"].item().unwrap(), 6.0);
}

/// Loops, branches on values and recursion need nothing special: the graph is what the program did.
fn dynamic_control_flow() {
    let power = |x: &Tensor| (1..3).fold(x.clone(), |product, _| product * x);
    assert_eq!(grad(power)(&Tensor::from(2.0)).item().unwrap(), 12.0);

    // A loop that runs as long as a value says, with the value read inside the derivative.
    let halved = |x: &Tensor| {
        let mut y = x.clone();
        while y.item()? > 1.0 {
            y /= 2.0;
        }
        Ok::<Tensor, glassgrad::error::Error>(y)
    };
    assert_eq!(grad(halved)(&Tensor::from(10.0)).item().unwrap(), 0.0625);

    enum Sum {
        Leaf(f64),
        Pair(Box<Sum>, Box<Sum>),
    }
    fn evaluate(sum: &Sum, x: &Tensor) -> Tensor {
        match sum {
            Sum::Leaf(weight) => (x * *weight).sin(),
            Sum::Pair(left, right) => evaluate(left, x) * evaluate(right, x),
        }
    }
    let product = Sum::Pair(Box::new(Sum::Leaf(1.0)), Box::new(Sum::Leaf(2.0)));
    let gradient = grad(|x: &Tensor| evaluate(&product, x))(&Tensor::from(0.5)).item().unwrap();
    let exact = 0.5_f64.cos() * 1.0_f64.sin() + 2.0 * 0.5_f64.sin() * 1.0_f64.cos();
    assert!((gradient - exact).abs() < 1e-15);
    println!("loops, reads and recursion differentiate: {gradient:.6}");
}

/// A recurrent network: the state of the next step from the input and the state of this one.
#[derive(Clone, Tree)]
struct Recurrent {
    input: Tensor,
    state: Tensor,
    output: Tensor,
    start: Tensor,
}

impl Recurrent {
    fn random(key: Key, symbols: usize, width: usize) -> Recurrent {
        let matrix = |number, rows, columns| Tensor::normal(key.fold(number), [rows, columns]) * 0.5;
        Recurrent {
            input: matrix(0, symbols, width),
            state: matrix(1, width, width),
            output: matrix(2, width, symbols),
            start: Tensor::zeros([1, width]),
        }
    }

    /// The mean logarithm of the probability of each next symbol, over a sequence of any length.
    fn log_likelihood(&self, sequence: &Tensor, symbols: usize) -> Tensor {
        let letters = sequence.one_hot(symbols, self.input.dtype());
        let steps = sequence.shape()[0] - 1;
        let row = |step: usize| letters.slice(&[(step as isize..step as isize + 1).into()]);
        let mut state = self.start.clone();
        let mut total = Tensor::zeros(());
        for step in 0..steps {
            state = (row(step).matmul(&self.input) + state.matmul(&self.state)).tanh();
            total += state.matmul(&self.output).log_softmax(-1).inner(&row(step + 1));
        }
        total / steps as f64
    }
}

fn recurrent_likelihood() {
    // Two sequences of different lengths: the loop adapts, and no length is declared anywhere.
    let sequences = [vec![0_i64, 1, 2, 0, 1, 2, 0, 1, 2, 0], vec![0, 1, 2, 0, 1]].map(Tensor::from);
    let mut network = Recurrent::random(Key::new(1), 3, 8);
    let loss = |network: &Recurrent| -> Tensor {
        -sequences.iter().map(|sequence| network.log_likelihood(sequence, 3)).sum::<Tensor>()
    };
    let start = loss(&network).item().unwrap();
    for _ in 0..60 {
        let (_, gradient) = value_and_grad(loss)(&network);
        network = network.add(&gradient.scale(-0.3)).realise().expect("shapes fit");
    }
    let end = loss(&network).item().unwrap();
    println!("\nrecurrent network: negative log-likelihood from {start:.3} to {end:.3}");
    assert!(end < 0.1 * start, "the cycle 0 1 2 was learned");
}
