//! The worked examples of the textbooks, computed by hand from what the tape shows.
//!
//! A tape is a list of elementary operations. Each node knows its value, its parents, and the local
//! partial derivative with respect to each parent. That is all the chain rule needs: a loop down the
//! list carries tangents (forward mode), a loop up the list carries adjoints (reverse mode). This
//! program writes both loops itself, prints the tables of "A Step-by-step Introduction to the
//! Implementation of Automatic Differentiation" (Fang et al.), and checks that the sweeps of the
//! library give the same numbers.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 01_worked_examples`.

use glassgrad::scalar::{NodeId, Tape, Var};

fn main() {
    forward_and_reverse_tables();
    a_product_of_two_paths();
    a_volume_of_three_inputs();
    a_dead_rectifier();
    a_loop_of_powers();
}

/// y = ln x₁ + x₁x₂ - sin x₂ at (2, 5), the example of Baydin et al. and Fang et al.
fn forward_and_reverse_tables() {
    let tape = Tape::new();
    let x1 = tape.input(2.0).named("x1");
    let x2 = tape.input(5.0).named("x2");
    let v1 = x1.ln().named("v1");
    let v2 = (x1 * x2).named("v2");
    let v3 = x2.sin().named("v3");
    let v4 = (v1 + v2).named("v4");
    let v5 = (v4 - v3).named("v5");

    println!("y = ln x1 + x1 x2 - sin x2 at (2, 5)\n\nforward: tangents with respect to x1");
    let mut tangents = vec![0.0; tape.len()];
    tangents[NodeId::from(x1).index()] = 1.0;
    for id in tape.ids() {
        let node = tape.node(id);
        // The chain rule: a node moves as its parents move, each weighted with the local partial.
        for (parent, partial) in node.parents() {
            tangents[id.index()] += partial * tangents[parent.index()];
        }
        let (name, tangent) = (tape.name_of(id), tangents[id.index()]);
        println!("  {name} = {:<14} = {:>7.3}   tangent {tangent:>6.3}", formula(&tape, id), node.value);
    }
    let library = tape.forward(x1);
    assert_eq!(tangents, library.as_slice());
    assert_eq!(tangents[NodeId::from(v5).index()], 5.5);

    println!("\nreverse: adjoints of y, and how each node hands its own on to its parents");
    let mut adjoints = vec![0.0; tape.len()];
    adjoints[NodeId::from(v5).index()] = 1.0;
    for id in tape.ids().rev() {
        // Every child of this node was visited before, so its adjoint is complete.
        let adjoint = adjoints[id.index()];
        print!("  adjoint of {} = {adjoint:>6.3}", tape.name_of(id));
        for (parent, partial) in tape.node(id).parents() {
            adjoints[parent.index()] += adjoint * partial;
            print!("   {} += {adjoint:.3} * {partial:.3}", tape.name_of(parent));
        }
        println!();
    }
    let library = tape.reverse(v5);
    assert_eq!(adjoints, library.as_slice());
    assert!((v5.value() - 11.652_071_455_223_084).abs() < 1e-14);
    assert_eq!(library.of(x1), 5.5);
    assert!((library.of(x2) - 1.716_337_814_536_773_8).abs() < 1e-15);

    let names = |ids: Vec<NodeId>| ids.into_iter().map(|id| tape.name_of(id)).collect::<Vec<_>>().join(", ");
    assert_eq!(names(tape.reachable(x1)), "x1, v1, v2, v4, v5");
    println!("\n  reachable from x1: {}", names(tape.reachable(x1)));
    println!("  ancestors of v3:   {}", names(tape.ancestors(v3)));
}

/// The right-hand side of a node, as in the tables: an operation and the names of its parents.
fn formula(tape: &Tape, id: NodeId) -> String {
    let node = tape.node(id);
    let parents: Vec<String> = node.parents().map(|(parent, _)| tape.name_of(parent)).collect();
    format!("{}({})", node.operation, parents.join(", "))
}

/// e = (a·b)·(b + 1): the input b reaches e along two paths, and its adjoint is their sum.
fn a_product_of_two_paths() {
    let tape = Tape::new();
    let (a, b) = (tape.input(2.0), tape.input(3.0));
    let c = a * b;
    let d = b + 1.0;
    let e = c * d;
    let adjoints = tape.reverse(e);
    println!("\ne = (a b)(b + 1) at (2, 3): e = {}, de/da = {}, de/db = {}", e.value(), adjoints.of(a), adjoints.of(b));
    assert_eq!((e.value(), adjoints.of(a), adjoints.of(b)), (24.0, 12.0, 14.0));
    // Through c the derivative is d·a = 8, through d it is c = 6.
    assert_eq!(adjoints.of(c) * a.value() + adjoints.of(d), 14.0);
    // A forward sweep answers for one input only; for the other one it must run again.
    assert_eq!((tape.forward(a).of(e), tape.forward(b).of(e)), (12.0, 14.0));
}

/// V = xy + z(x + y): one reverse sweep gives all three partial derivatives y + z, x + z and x + y.
fn a_volume_of_three_inputs() {
    let tape = Tape::new();
    let [x, y, z] = [2.0, 3.0, 4.0].map(|number| tape.input(number));
    let volume = x * y + z * (x + y);
    let adjoints = tape.reverse(volume);
    let gradient = [x, y, z].map(|input| adjoints.of(input));
    println!("V = xy + z(x + y) at (2, 3, 4): V = {}, gradient {gradient:?}", volume.value());
    assert_eq!(gradient, [3.0 + 4.0, 2.0 + 4.0, 2.0 + 3.0]);
}

/// y = relu(w₁x + b₁)·w₂ + b₂ with a negative argument: the rectifier lets no gradient through.
fn a_dead_rectifier() {
    let tape = Tape::new();
    let x = tape.input(2.0);
    let [w1, b1, w2, b2] = [-3.0, 1.0, 2.0, 0.5].map(|number| tape.input(number));
    let hidden = (w1 * x + b1).relu();
    let y = hidden * w2 + b2;
    let adjoints = tape.reverse(y);
    let gradient = [w1, b1, w2, b2].map(|parameter| adjoints.of(parameter));
    println!("relu(w1 x + b1) w2 + b2 with a dead relu: y = {}, gradient {gradient:?}", y.value());
    assert_eq!((y.value(), gradient), (0.5, [0.0, 0.0, 0.0, 1.0]));
    // The tape shows where the gradient died: an adjoint arrives at the relu, its partial is zero.
    assert_eq!((adjoints.of(hidden), tape.node(hidden).partials), (2.0, vec![0.0]));
}

/// xⁿ by a loop: the tape records what ran, so ordinary control flow needs no support of its own.
fn a_loop_of_powers() {
    fn power(x: Var<'_>, n: usize) -> Var<'_> {
        (1..n).fold(x, |result, _| result * x)
    }
    println!("x^n by a loop, at x = 2:");
    for n in 1..=4 {
        let tape = Tape::new();
        let x = tape.input(2.0);
        let y = power(x, n);
        let derivative = tape.reverse(y).of(x);
        println!("  n = {n}: {} nodes, value {}, derivative {derivative}", tape.len(), y.value());
        assert_eq!((tape.len(), derivative), (n, n as f64 * 2.0_f64.powi(n as i32 - 1)));
    }
}
