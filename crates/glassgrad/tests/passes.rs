//! Passes over graphs: each on its own and all together keep every value and every derivative, no pass makes an
//! illegal graph, and each does what it is there for.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/functions.rs"]
mod functions;
#[path = "judges/heap.rs"]
mod heap;
#[path = "judges/random.rs"]
mod random;

use std::sync::Arc;

use cases::random_cases;
use closeness::{agree, size_of_all};
use functions::{Made, random_function};
use glassgrad::array::{Array, Buffer};
use glassgrad::dtype::DType;
use glassgrad::einsum::Einsum;
use glassgrad::exec::{Target, footprint};
use glassgrad::expr::{Logic, Op, s};
use glassgrad::formula::{Formula, Node};
use glassgrad::ops::{Operation, Relation};
use glassgrad::opt::graph::{Graph, GraphMulti, GraphNode};
use glassgrad::opt::lower::lower;
use glassgrad::opt::passes::{PASSES, Pass, optimise, optimised, verify, without};
use glassgrad::opt::program::{Program, Step};
use glassgrad::rng::Key;
use glassgrad::shape::Shape;
use glassgrad::view::View;
use glassgrad::{Tensor, grad, hessian, hvp, jacobian, scan, value_and_grad};
use proptest::prelude::*;
use random::Random;

#[global_allocator]
static HEAP: heap::CountingAllocator = heap::CountingAllocator;

/// How many roundings of numbers of the size of the results two orders of computing may differ by.
const ROUNDINGS: f64 = 256.0;

fn normal(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(dtype).detach().expect("random numbers")
}

fn pass(name: &str) -> &'static Pass {
    PASSES.iter().find(|pass| pass.name == name).unwrap_or_else(|| panic!("there is no pass {name}"))
}

fn graph(tensors: &[&Tensor]) -> Graph {
    Graph::of(tensors).unwrap_or_else(|error| panic!("{error}")).0
}

fn elements(array: &Array) -> Vec<f64> {
    (0..array.buffer().len()).map(|place| array.buffer().get(place)).collect()
}

/// The graph as it is, after each pass alone and after all: all run to the values of the reference.
fn assert_passes_keep_values(what: &str, tensors: &[&Tensor]) {
    let (graph, inputs) = Graph::of(tensors).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(verify(&graph), Ok(()), "{what}");
    let expected: Vec<Array> = tensors.iter().map(|tensor| tensor.eval_by_reference().expect("a value")).collect();
    let finite: Vec<f64> = expected.iter().flat_map(elements).filter(|number| number.is_finite()).collect();
    let single = tensors.iter().any(|tensor| tensor.dtype() == DType::F32);
    let roundings = if single { ROUNDINGS * f64::from(f32::EPSILON) / f64::EPSILON } else { ROUNDINGS };
    let size = size_of_all(&finite);
    let alone = PASSES.iter().map(|pass| (pass.name, pass.applied(graph.clone())));
    let all = [("no pass", graph.clone()), ("all passes", optimise(graph.clone()))];
    for (name, changed) in alone.chain(all) {
        assert_eq!(verify(&changed), Ok(()), "{what}, {name}");
        assert_eq!(changed.inputs.len(), graph.inputs.len(), "{what}, {name}: inputs stay");
        let values = changed.run(&inputs).unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
        for (place, (actual, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!((actual.shape(), actual.dtype()), (expected.shape(), expected.dtype()), "{what}, {name}");
            let (actual, expected) = (elements(actual), elements(expected));
            let close = actual.iter().zip(&expected).all(|(a, b)| agree(*a, *b, size, roundings));
            assert!(close, "{what}, result {place} with {name}: {actual:?} is not {expected:?}\n{graph}\n{changed}");
        }
    }
    // As people read it, with what is held and computed together.
    for (tensor, expected) in tensors.iter().zip(&expected) {
        let (actual, expected) = (elements(&tensor.eval().expect("a value")), elements(expected));
        assert!(actual.iter().zip(&expected).all(|(a, b)| agree(*a, *b, size, roundings)), "{what}, read");
    }
}

// ------------------------------------------------------------------ random graphs

proptest! {
    #![proptest_config(random_cases(160))]

    #[test]
    fn passes_keep_values_and_derivatives(seed in 0_u64..1_000_000, length in 1_usize..9) {
        let f = random_function(seed, length, DType::F64, Made::OfEverything);
        let mut random = Random::new(seed ^ 0x55);
        let x = Tensor::from([(); 3].map(|()| random.within(&(-1.0..1.0))));
        let total = |x: &Tensor| f(x).square().sum();
        let (value, slope) = value_and_grad(total)(&x);
        let what = format!("random graph {seed} of {length} steps");
        assert_passes_keep_values(&what, &[&f(&x), &value, &slope, &hvp(total, &x, &x.cos()), &x]);
    }
}

proptest! {
    #![proptest_config(random_cases(48))]

    #[test]
    fn passes_keep_whole_second_derivatives(seed in 0_u64..1_000_000, length in 1_usize..6) {
        let f = random_function(seed, length, DType::F64, Made::OfEverything);
        let x = normal(seed ^ 0x55, &[3], DType::F64);
        let curvature = hessian(|x: &Tensor| f(x).square().sum())(&x);
        assert_passes_keep_values(&format!("random graph {seed} of {length} steps"), &[&jacobian(&f)(&x), &curvature]);
    }

    #[test]
    fn passes_keep_32_bit_values(seed in 0_u64..1_000_000, length in 1_usize..9) {
        let f = random_function(seed, length, DType::F32, Made::OfEverything);
        let x = normal(seed ^ 0x55, &[3], DType::F32);
        let slope = grad(|x: &Tensor| f(x).square().sum())(&x);
        assert_passes_keep_values(&format!("random graph {seed} of {length} steps"), &[&f(&x), &slope]);
    }
}

#[test]
fn what_is_not_finite_stays_where_the_user_put_it() {
    let x = Tensor::from([0.0, 2.0, f64::INFINITY]);
    // A zero of the user times infinity is NaN; a sum of nothing is zero; a choice keeps what was not taken away.
    let product = &x * x.zeros_like();
    let empty = Tensor::full([3, 0], f64::INFINITY, DType::F64).sum_over(1);
    let ramp = |x: &Tensor| x.gt(0.0).choose(&x.ln(), &x.zeros_like()).sum();
    let tensors = [&product, &empty, &grad(ramp)(&x), &hvp(ramp, &x, &x.ones_like())];
    assert_passes_keep_values("infinities", &tensors);
    assert!(elements(&product.eval().unwrap())[2].is_nan());
    assert_eq!(elements(&empty.eval().unwrap()), [0.0; 3]);
}

#[test]
fn integers_and_truth_values_pass_unchanged() {
    let k = Tensor::from([1_i64, -3, i64::MAX]);
    let product = (&k * &k * 3_i64).broadcast_to([2, 3]).sum_over(0);
    let truth = k.gt(0_i64).and(&k.gt(0_i64)).broadcast_to([2, 3]);
    let whole = k.cast(DType::F64).cast(DType::I64);
    let (graph, inputs) = Graph::of(&[&product, &truth, &whole]).unwrap();
    let expected: Vec<Array> = [&product, &truth, &whole].map(|tensor| tensor.eval_by_reference().unwrap()).to_vec();
    assert_eq!(optimise(graph.clone()).run(&inputs).unwrap(), expected);
    assert_eq!(graph.run(&inputs).unwrap(), expected);
}

#[test]
fn the_same_graph_gives_the_same_plan() {
    for seed in 0..20 {
        let f = random_function(seed, 8, DType::F64, Made::OfEverything);
        let x = normal(seed, &[3], DType::F64);
        let graph = graph(&[&f(&x), &grad(|x: &Tensor| f(x).sum())(&x)]);
        let cpu = Target::Cpu.capabilities();
        let (first, reports) = optimised(graph.clone());
        let (second, again) = optimised(graph);
        assert_eq!((lower(&first, cpu), &first, reports), (lower(&second, cpu), &second, again));
    }
}

// ------------------------------------------------------------------ what each pass does

/// The lines of a graph after one pass and without what is dead then.
fn after(name: &str, tensors: &[&Tensor]) -> String {
    pass("dead").applied(pass(name).applied(graph(tensors))).to_string()
}

#[test]
fn numbers_of_numbers_are_numbers() {
    let full = |number| Tensor::full([2, 3], number, DType::F64);
    let number = (full(3.0).square() + full(0.5)).transpose().sum_over(0).reshape([1, 2]) * full(2.0).sum();
    assert_eq!(after("fold", &[&number]), "%0 = einsum 342 ->ij() : f64[1, 2]  result\n");
    // What depends on an input is left alone, and so is what is no number: a unit matrix.
    let x = Tensor::from([1.0, 2.0]);
    for other in [x.exp(), Tensor::eye(2).exp()] {
        assert_eq!(pass("fold").applied(graph(&[&other])), graph(&[&other]));
    }
}

#[test]
fn what_is_computed_twice_is_computed_once() {
    let (x, y) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([[1.0, 0.0], [3.0, 4.0]]));
    let count = |tensors: &[&Tensor]| {
        let graph = pass("common").applied(graph(tensors));
        graph.nodes.len() - graph.inputs.len()
    };
    assert_eq!(count(&[&x.exp(), &x.exp(), &y.exp()]), 2);
    assert_eq!(count(&[&(&x + &y), &(&y + &x)]), 1);
    assert_eq!(count(&[&(&x - &y), &(&y - &x)]), 4);
    let pairs = [("ij,jk->ik", "ba,cb->ca"), ("ij,ij->", "xy,xy->"), ("ij,ik->jk", "ab,ac->bc")];
    for (one, other) in pairs {
        // The second notation is the first with other letters, and for the first pair with the operands turned.
        let turned = one == "ij,jk->ik";
        let operands = if turned { [&y, &x] } else { [&x, &y] };
        let tensors = [Tensor::einsum(one, [&x, &y]), Tensor::einsum(other, operands)];
        assert_eq!(count(&[&tensors[0], &tensors[1]]), 1, "{one} and {other}");
    }
    // The same matrix twice: the order of the operands does not matter, but how they are joined does.
    let squares = ["ij,jk->ik", "jk,ij->ik", "ij,kj->ik"].map(|notation| Tensor::einsum(notation, [&x, &x]));
    assert_eq!(count(&[&squares[0], &squares[1], &squares[2]]), 2);
}

#[test]
fn what_changes_nothing_goes() {
    let x = normal(1, &[2, 3], DType::F64);
    let mask = x.gt(0.0);
    let same = [
        -(-&x),
        x.reshape([6]).reshape([2, 3]),
        x.transpose().transpose(),
        &x + x.zeros_like(),
        mask.choose(&x, &x),
        x.flip([0]).flip([0]),
        x.pad(&[(1, 2), (0, 0)]).slice(&[s(1..3)]),
        x.stop_gradient(),
        x.variable(),
        &x * x.ones_like(),
        (&x * Tensor::full([2, 3], 4.0, DType::F64)) * Tensor::full([2, 3], 0.25, DType::F64),
        Tensor::eye(2).cast(DType::F64).matmul(&x),
    ];
    for (number, tensor) in same.iter().enumerate() {
        let graph = pass("simplify").applied(pass("fold").applied(graph(&[tensor])));
        let (result, value) = (graph.results[0], tensor.eval_by_reference().expect("a value"));
        assert!(graph.inputs.contains(&result), "case {number}\n{graph}");
        assert_eq!(value, x.eval().expect("a value"), "case {number}");
    }
    let twice = (&x * x.full_like(3.0)).transpose() * x.transpose().full_like(2.0);
    assert_eq!(after("simplify", &[&twice]), "%0 = leaf() : f64[2, 3]\n%1 = einsum 6 ij->ji(%0) : f64[3, 2]  result\n");
    // A sum over an axis that was stretched is a multiple.
    let repeated = x.broadcast_to([4, 2, 3]).sum_over(0);
    assert_eq!(
        after("simplify", &[&repeated]),
        "%0 = leaf() : f64[2, 3]\n%1 = einsum 4 ij->ij(%0) : f64[2, 3]  result\n"
    );
    // Truth values are stretched as they are.
    let stretched = after("simplify", &[&mask.broadcast_to([4, 2, 3])]);
    assert!(stretched.ends_with("= read [:, :](%3) : bool[4, 2, 3]  result\n"), "{stretched}");
    // Rounding is kept: there and back is not the same.
    let rounded = x.cast(DType::F32).cast(DType::F64);
    assert_eq!(pass("simplify").applied(graph(&[&rounded])).nodes.len(), 3);
    // A zero from outside is not the number behind it.
    let cut = x.exp().slice(&[s(..1)]).pad(&[(0, 1), (0, 0)]);
    assert_eq!(pass("simplify").applied(graph(&[&cut])).nodes.len(), 4);
}

#[test]
fn factors_are_multiplied_in_the_cheapest_order() {
    let n = 50;
    let [a, b, c] = [1, 2, 3].map(|seed| normal(seed, &[n, n], DType::F64));
    let v = normal(4, &[n], DType::F64);
    let chain = a.matmul(&b).matmul(&c).matmul(&v);
    let (before, after) = (graph(&[&chain]), optimise(graph(&[&chain])));
    assert_eq!((before.flops(), after.flops()), ((4 * n * n * n + 2 * n * n) as f64, (6 * n * n) as f64));
    let notation = Tensor::einsum("ij,jk,kl,l->i", [&a, &b, &c, &v]);
    assert_eq!(optimise(graph(&[&notation])).flops(), (6 * n * n) as f64);
    // The trace of a product needs no product, and that of outer products no matrix.
    let trace = a.matmul(&b).trace();
    assert_eq!(optimise(graph(&[&trace])).flops(), (2 * n * n) as f64);
    let outer = v.outer(&v).matmul(&a.sum_over(0).outer(&v)).trace();
    assert!(optimise(graph(&[&outer])).flops() < (10 * n * n) as f64);
    // A product that somebody else reads too is computed once.
    let shared = a.matmul(&b);
    let both = graph(&[&shared, &shared.matmul(&v)]);
    assert_eq!(optimise(both.clone()).flops(), both.flops());
    assert_passes_keep_values("chains", &[&chain, &notation, &trace, &outer]);
}

#[test]
fn sums_come_before_what_they_are_spread_to() {
    let x = normal(1, &[4, 5], DType::F64);
    let spread = Tensor::einsum("ij->iik=7", [&x]);
    let expected =
        "%0 = leaf() : f64[4, 5]\n%1 = einsum ij->i(%0) : f64[4]\n%2 = einsum i->iij(%1) : f64[4, 4, 7]  result\n";
    assert_eq!(after("split", &[&spread]), expected);
    assert_passes_keep_values("a spread sum", &[&spread]);
}

#[test]
fn loops_are_optimised_inside() {
    let w = normal(1, &[3, 3], DType::F64);
    let body = |state: &Tensor, x: &Tensor| (w.matmul(&w).matmul(state).tanh() + x, -(-state));
    let (last, states) = scan(body, &Tensor::from([0.1, 0.2, 0.3]), &normal(2, &[4, 3], DType::F64));
    let (before, after) = (graph(&[&last, &states]), optimise(graph(&[&last, &states])));
    let body_of = |graph: &Graph| graph.multis().next().expect("a loop").body.clone();
    assert!(body_of(&after).nodes.len() < body_of(&before).nodes.len());
    assert!(body_of(&after).flops() < body_of(&before).flops());
    assert_eq!(body_of(&after).inputs.len(), body_of(&before).inputs.len());
    assert_passes_keep_values("a loop", &[&last, &states]);
}

#[test]
fn reports_show_what_passes_did() {
    let (a, v) = (normal(1, &[20, 20], DType::F64), normal(2, &[20], DType::F64));
    let (graph, reports) = optimised(graph(&[&(-(-a.matmul(&a).matmul(&v)))]));
    let names: Vec<&str> = reports.iter().map(|report| report.pass).collect();
    assert_eq!(names, PASSES.iter().map(|pass| pass.name).collect::<Vec<_>>());
    let lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
    assert_eq!(lines[4], "flatten: 4 to 3 nodes, 17 kFLOP to 24 kFLOP, 3.4 kB to 160 B", "{lines:?}");
    assert_eq!(lines[5], "split: 3 to 4 nodes, 24 kFLOP to 1.6 kFLOP, 160 B to 320 B", "{lines:?}");
    for pair in reports.windows(2) {
        assert_eq!(
            (pair[0].nodes[1], pair[0].flops[1], pair[0].bytes[1]),
            (pair[1].nodes[0], pair[1].flops[0], pair[1].bytes[0])
        );
    }
    assert_eq!(reports.last().unwrap().flops[1], graph.flops());
}

// ------------------------------------------------------------------ growth

/// A chain in which everything is there to be done: numbers, views, products, sums and what is the same twice.
fn chain(length: usize) -> Graph {
    let shape = Shape::from([2, 2]);
    let node = |op: Op, inputs: &[usize]| GraphNode {
        op,
        inputs: inputs.to_vec(),
        shape: shape.clone(),
        dtype: DType::F64,
        source: 0,
        multi: None,
    };
    let mut graph = Graph::default();
    let x = graph.push(node(Op::Leaf, &[]));
    graph.inputs.push(x);
    let mut last = x;
    while graph.nodes.len() < length {
        let turned = graph.push(node(Op::Einsum(Einsum::permutation(&shape, &[1, 0]).into()), &[last]));
        let one = graph.push(node(Op::Einsum(Einsum::elementwise(&shape, 0).into()), &[]));
        let product = Einsum::parse("ij,jk->ik", &[&shape, &shape]).unwrap();
        let first = graph.push(node(Op::Einsum(product.clone().into()), &[turned, x]));
        let second = graph.push(node(Op::Einsum(Einsum::elementwise(&shape, 2).into()), &[first, one]));
        let again = graph.push(node(Op::Einsum(product.into()), &[turned, x]));
        let sum = graph.push(node(Op::Add, &[second, again]));
        let scaled = graph.push(node(Op::Einsum(Einsum::elementwise(&shape, 1).scaled(0.5).into()), &[sum]));
        last = graph.push(node(Op::Reshape, &[scaled]));
    }
    graph.results.push(last);
    graph
}

#[test]
fn work_grows_with_the_graph_and_no_faster() {
    let allocations = |length: usize| {
        let graph = chain(length);
        let mut nodes = 0;
        let count = heap::allocations(|| nodes = optimise(graph).nodes.len());
        assert!(nodes < length * 3 / 4, "{nodes} of {length} nodes are left");
        count as f64 / length as f64
    };
    let (short, long) = (allocations(2_000), allocations(100_000));
    assert!(long < 1.1 * short, "{short:.1} allocations a node became {long:.1}");
}

// ------------------------------------------------------------------ illegal graphs

#[test]
fn illegal_graphs_are_caught() {
    let matrix = Shape::from([2, 3]);
    let leaf = |shape: &[usize], dtype| GraphNode {
        op: Op::Leaf,
        inputs: Vec::new(),
        shape: Shape::from(shape),
        dtype,
        source: 0,
        multi: None,
    };
    // Nodes 0 to 3 are inputs: a matrix, its transpose, truth values and places.
    let leaves = || {
        let nodes = vec![
            leaf(&[2, 3], DType::F64),
            leaf(&[3, 2], DType::F64),
            leaf(&[2, 3], DType::Bool),
            leaf(&[4], DType::I64),
        ];
        Graph { nodes, inputs: vec![0, 1, 2, 3], constants: Vec::new(), results: Vec::new() }
    };
    let planted = |op: Op, inputs: &[usize], shape: &[usize], dtype: DType| {
        let mut graph = leaves();
        graph.push(GraphNode { op, inputs: inputs.to_vec(), ..leaf(shape, dtype) });
        graph
    };
    let float = |op: Op, inputs: &[usize], shape: &[usize]| planted(op, inputs, shape, DType::F64);
    let product = || Einsum::parse("ij,jk->ik", &[&[2, 3], &[3, 2]]).unwrap();
    let formula =
        |nodes: &[Node], output: usize| Op::Map(Formula { nodes: nodes.to_vec(), outputs: vec![output] }.into());
    let exp = || formula(&[Node::Variable(0), Node::Unary(Operation::Exp, 0, 0.0)], 1);
    let part = View::strided(&matrix, &[(0, 1, 2), (1, 1, 2)]);
    let without_axis = View { axes: part.axes[..1].to_vec(), ..part.clone() };
    let mut wrong_step = part.clone();
    wrong_step.axes[0].steps[0].0 = 5;
    let changed = |change: &dyn Fn(&mut Graph)| {
        let mut graph = leaves();
        change(&mut graph);
        graph
    };
    let numbers = Array::new(Shape::from([2]), Buffer::F32(vec![0.0; 2]));
    let cases: Vec<(Graph, &str)> = vec![
        (float(Op::Add, &[0, 4], &[2, 3]), "node 4, add: input 4 does not stand before it"),
        (float(Op::Add, &[0, 9], &[2, 3]), "node 4, add: input 9 does not stand before it"),
        (float(Op::Add, &[], &[2, 3]), "node 4, add: it has no inputs"),
        (float(Op::Add, &[0, 1], &[2, 3]), "node 4, add: input 1 is f64[3, 2], and it is f64[2, 3]"),
        (planted(Op::Add, &[2, 2], &[2, 3], DType::Bool), "node 4, add: truth values are no numbers"),
        (float(exp(), &[0], &[3, 2]), "node 4, map: input 0 is f64[2, 3], and it is f64[3, 2]"),
        (planted(exp(), &[3], &[4], DType::I64), "node 4, map: its type is i64"),
        (float(formula(&[Node::Variable(1)], 0), &[0], &[2, 3]), "node 4, map: the formula has no input 1"),
        (
            float(formula(&[Node::Variable(0), Node::Unary(Operation::Exp, 1, 0.0)], 0), &[0], &[2, 3]),
            "node 4, map: number 1 of the formula uses one that does not stand before it",
        ),
        (float(Op::Einsum(product().into()), &[0], &[2, 2]), "node 4, einsum ij,jk->ik: it has 1 inputs, not 2"),
        (
            float(Op::Einsum(product().into()), &[0, 0], &[2, 2]),
            "node 4, einsum ij,jk->ik: input 1 has the shape [2, 3], not [3, 2]",
        ),
        (
            float(Op::Einsum(product().into()), &[0, 1], &[2, 3]),
            "node 4, einsum ij,jk->ik: its shape is [2, 3], not [2, 2]",
        ),
        (
            planted(Op::Einsum(product().into()), &[0, 1], &[2, 2], DType::F32),
            "node 4, einsum ij,jk->ik: input 0 is f64, not f32",
        ),
        (
            float(Op::Einsum(Einsum { extents: vec![2, 3], ..product() }.into()), &[0, 1], &[2, 2]),
            "node 4, einsum ij,jk->ik: label 2 has no size",
        ),
        (
            float(Op::Einsum(Einsum { strong: vec![true], ..product() }.into()), &[0, 1], &[2, 2]),
            "node 4, einsum !ij->ik: 2 operands, 1 marks",
        ),
        (float(Op::Reshape, &[0], &[4]), "node 4, reshape: 6 elements do not fill the shape [4]"),
        (planted(Op::Reshape, &[0], &[6], DType::F32), "node 4, reshape: input 0 is f64, not f32"),
        (planted(Op::Cast, &[0], &[6], DType::F32), "node 4, cast: its shape is [6], not [2, 3]"),
        (float(Op::StopGradient, &[0, 1], &[2, 3]), "node 4, stop_gradient: it has 2 inputs, not 1"),
        (
            float(Op::ReadView(part.clone().into()), &[1], &[2, 2]),
            "node 4, view: input 0 has the shape [3, 2], not [2, 3]",
        ),
        (float(Op::ReadView(part.clone().into()), &[0], &[2, 3]), "node 4, view: its shape is [2, 3], not [2, 2]"),
        (
            float(Op::ScatterView(part.into()), &[0], &[2, 3]),
            "node 4, scatter_view: input 0 has the shape [2, 3], not [2, 2]",
        ),
        (float(Op::ReadView(wrong_step.into()), &[0], &[2, 2]), "node 4, view: the view has no axis 5"),
        (float(Op::ReadView(without_axis.into()), &[0], &[2, 2]), "node 4, view: the view has 1 axes for 2"),
        (
            float(Op::Concatenate(2), &[0, 0], &[2, 3]),
            "node 4, concatenate along 2: there is no axis 2 in the shape [2, 3]",
        ),
        (float(Op::Concatenate(0), &[0, 0], &[5, 3]), "node 4, concatenate along 0: its shape is [5, 3], not [4, 3]"),
        (
            float(Op::Concatenate(0), &[0, 1], &[4, 3]),
            "node 4, concatenate along 0: input 1 has the shape [3, 2], not [3, 3]",
        ),
        (float(Op::Gather(0), &[0, 1], &[4, 3]), "node 4, gather along 0: input 1 is f64, not i64"),
        (float(Op::Gather(0), &[0, 3], &[3, 4]), "node 4, gather along 0: its shape is [3, 4], not [4, 3]"),
        (
            float(Op::ScatterAdd(0), &[0, 3], &[9, 3]),
            "node 4, scatter_add along 0: input 0 has the shape [2, 3], not [4, 3]",
        ),
        (float(Op::Compare(Relation::Less), &[0, 0], &[2, 3]), "node 4, compare <: its type is f64, not bool"),
        (
            planted(Op::Logic(Logic::Not), &[0], &[2, 3], DType::Bool),
            "node 4, logic(not): input 0 is f64[2, 3], and it is bool[2, 3]",
        ),
        (float(Op::Select, &[0, 0, 0], &[2, 3]), "node 4, select: input 0 is f64, not bool"),
        (float(Op::Select, &[2, 0, 1], &[2, 3]), "node 4, select: input 2 is f64[3, 2], and it is f64[2, 3]"),
        (float(Op::Max(vec![1]), &[0], &[3]), "node 4, max along 1: its shape is [3], not [2]"),
        (float(Op::ArgMax(1), &[0], &[2]), "node 4, argmax along 1: its type is f64, not i64"),
        (float(Op::OneHot("one_hot"), &[3], &[5, 2]), "node 4, onehot: input 0 has the shape [4], not [5]"),
        (float(Op::GetOutput(0), &[0], &[2, 3]), "node 4, output 0: it is an output of no operation"),
        (float(Op::Placeholder, &[], &[2, 3]), "node 4, placeholder: its value is not known"),
        (float(Op::Leaf, &[], &[2, 3]), "node 4, leaf: it is neither input nor constant"),
        (changed(&|graph| graph.inputs.push(7)), "the input 7 is no leaf"),
        (changed(&|graph| graph.inputs.push(0)), "the input 0 is listed twice"),
        (changed(&|graph| graph.constants.push((9, numbers.clone()))), "the constant 9 is no leaf"),
        (
            changed(&|graph| {
                graph.inputs.pop();
                graph.constants.push((3, numbers.clone()));
            }),
            "the constant 3 is f32[2], not i64[4]",
        ),
        (changed(&|graph| graph.results.push(4)), "the result 4 is not in the graph"),
    ];
    for (graph, message) in cases {
        assert_eq!(verify(&graph).map_err(|illegal| illegal.to_string()), Err(message.to_owned()));
        assert!(graph.run(&[]).is_err(), "an illegal graph does not run");
    }
    assert_eq!(verify(&leaves()), Ok(()));
}

#[test]
fn illegal_loops_are_caught() {
    let (last, sums) = scan(
        |state: &Tensor, x: &Tensor| (state * x, state.sum()),
        &Tensor::from([1.0, 2.0]),
        &Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    );
    let legal = graph(&[&last, &sums]);
    let place = legal.nodes.iter().position(|node| node.multi.is_some()).expect("an output");
    assert_eq!(verify(&legal), Ok(()));
    let with = |change: &dyn Fn(&mut Graph)| {
        let mut graph = legal.clone();
        change(&mut graph);
        graph
    };
    let of_both =
        |change: &dyn Fn(&mut GraphNode)| with(&|graph| graph.nodes[place..place + 2].iter_mut().for_each(change));
    let with_body = |change: &dyn Fn(&mut Graph)| {
        let mut multi = GraphMulti::clone(legal.nodes[place].multi.as_ref().unwrap());
        change(&mut multi.body);
        let multi = Arc::new(multi);
        of_both(&|node| node.multi = Some(Arc::clone(&multi)))
    };
    let value = GraphNode { op: Op::Reshape, ..legal.nodes[place].clone() };
    let cases = [
        (with(&|graph| graph.nodes[place].multi = None), "it is an output of no operation"),
        (with(&|graph| graph.nodes[place] = value.clone()), "an operation with several outputs is no value"),
        (with(&|graph| graph.nodes[place].op = Op::GetOutput(2)), "its operation has no output 2"),
        (with(&|graph| graph.nodes[place].op = Op::GetOutput(1)), "its shape is [2], not [3]"),
        (with(&|graph| graph.nodes[place].dtype = DType::F32), "its type is f32, not f64"),
        (of_both(&|node| node.inputs.truncate(1)), "it has 1 inputs, and its body 2"),
        (of_both(&|node| node.inputs.swap(0, 1)), "input 0 is f64[3, 2], not f64[2]"),
        (
            with(&|graph| {
                let again = graph.nodes[place + 1].multi.as_ref().map(|multi| Arc::new(GraphMulti::clone(multi)));
                graph.nodes[place + 1].multi = again;
            }),
            "it shares no operation with node",
        ),
        (with_body(&|body| body.results.truncate(1)), "its body has 1 results, not 2"),
        (with_body(&|body| body.results.swap(0, 1)), "output 0 of its body is f64[], not f64[2]"),
        (with_body(&|body| body.results[0] = 99), "its body has no result 99"),
        (with_body(&|body| body.nodes[2].inputs[0] = 2), "in its body: node 2"),
    ];
    for (graph, message) in cases {
        let illegal = verify(&graph).expect_err(message).to_string();
        assert!(illegal.contains(message), "{illegal} does not say {message}");
    }
}

// ------------------------------------------------------------------ snapshots

/// A graph after all passes, and the program for it.
fn shown(tensors: &[&Tensor]) -> String {
    let graph = optimise(graph(tensors));
    format!("{graph}\n{}", lower(&graph, Target::Cpu.capabilities()))
}

#[test]
fn optimised_graphs_and_their_programs() {
    let random = |seed, shape: &[usize]| normal(seed, shape, DType::F32);
    let (x, y) = (random(1, &[64, 20]), random(2, &[64, 10]));
    let layers = (random(3, &[20, 32]), random(4, &[32]), random(5, &[32, 10]));
    let loss = |(first, bias, second): &(Tensor, Tensor, Tensor)| {
        ((x.matmul(first) + bias).tanh().matmul(second) - &y).square().mean()
    };
    let (value, slopes) = value_and_grad(loss)(&layers);
    insta::assert_snapshot!("layers_and_their_gradients", shown(&[&value, &slopes.0, &slopes.1, &slopes.2]));

    let [queries, keys, values] = [6, 7, 8].map(|seed| random(seed, &[4, 16, 8]));
    let scores = Tensor::einsum("bqd,bkd->bqk", [&queries, &keys]) * 8.0_f32.sqrt().recip();
    let attention = Tensor::einsum("bqk,bkd->bqd", [&scores.softmax(2), &values]);
    insta::assert_snapshot!("attention", shown(&[&attention]));

    let matrix = random(9, &[30, 30]);
    let form = |v: &Tensor| v.matmul(&matrix).matmul(&matrix.transpose()).matmul(v).sin();
    let v = random(10, &[30]);
    insta::assert_snapshot!("hessian_of_a_quadratic_form", shown(&[&hessian(form)(&v)]));

    let (weight, start, sequence) = (random(11, &[8, 8]), random(12, &[8]), random(13, &[5, 8]));
    let recurrent = |weight: &Tensor| {
        let step = |state: &Tensor, x: &Tensor| ((weight.matmul(state) + x).tanh(), state.sum());
        let (last, sums) = scan(step, &start, &sequence);
        last.sum() + sums.sum()
    };
    insta::assert_snapshot!("gradient_of_a_loop", shown(&[&grad(recurrent)(&weight)]));

    let chosen = |x: &Tensor| x.gt(0.0).choose(&x.ln(), &x.zeros_like()).pad(&[(1, 1)]).slice(&[s(..).step(-1)]);
    insta::assert_snapshot!("jacobian_of_a_choice", shown(&[&jacobian(chosen)(&random(14, &[6]))]));
}

// ------------------------------------------------------------------ what grows with a graph

/// The most loads, instructions and stores of any loop.
fn largest_loops(program: &Program) -> [usize; 3] {
    let mut largest = [0; 3];
    for step in &program.steps {
        if let Step::Loop(fused) = step {
            let sizes = [fused.loads.len(), fused.code.len(), fused.stores.len()];
            largest.iter_mut().zip(sizes).for_each(|(largest, size)| *largest = size.max(*largest));
        }
    }
    largest
}

#[test]
fn a_sum_of_thousands_of_terms_runs_in_loops_that_stay_near() {
    // Numbers that are spread need a place of their own each, all at once.
    let mut graph = Graph::default();
    let node = |op: Op, inputs: Vec<usize>, shape: Shape| GraphNode {
        op,
        inputs,
        shape,
        dtype: DType::F64,
        source: 0,
        multi: None,
    };
    let count = 3000;
    let leaves: Vec<usize> = (0..count).map(|_| graph.push(node(Op::Leaf, Vec::new(), Shape::scalar()))).collect();
    graph.inputs = leaves.clone();
    let spread = || Op::Einsum(Einsum::broadcast(&[], &[8]).into());
    let terms: Vec<usize> = leaves.iter().map(|leaf| graph.push(node(spread(), vec![*leaf], Shape::from(8)))).collect();
    let sum = graph.push(node(Op::Add, terms, Shape::from(8)));
    graph.results = vec![sum];
    let program = lower(&optimise(graph.clone()), Target::Cpu.capabilities());
    let [loads, code, _] = largest_loops(&program);
    assert!(loads <= 128 && code <= 200, "{loads} loads, {code} instructions");
    let bytes = footprint(&program);
    assert!(bytes <= 2 << 20, "{bytes} bytes for the registers of a loop");
    let inputs: Vec<Array> = (0..count).map(|k| Array::new(Shape::scalar(), Buffer::F64(vec![f64::from(k)]))).collect();
    let total = f64::from(count * (count - 1) / 2);
    assert_eq!(elements(&optimise(graph).run(&inputs).unwrap()[0]), [total; 8]);
}

#[test]
fn a_chain_of_thousands_of_operations_needs_few_registers_and_little_memory() {
    let x = normal(1, &[4], DType::F64).variable();
    let y = (0..20_000).fold(x.clone(), |y, _| y.sin() * &x);
    let program = lower(&optimise(graph(&[&y])), Target::Cpu.capabilities());
    let [loads, code, _] = largest_loops(&program);
    assert!(loads <= 4 && code <= 200, "{loads} loads, {code} instructions");
    let bytes = footprint(&program);
    assert!(bytes <= 1 << 16, "{bytes} bytes for a few registers");
    assert!(program.arena <= 256, "an arena of {} bytes for one vector at a time", program.arena);
}

/// A sum without terms is 0, whatever the factors are; split into two products, it would be 0 · NaN.
#[test]
fn a_product_with_an_empty_sum_is_zero_without_any_pass_too() {
    let mut names: Vec<&'static str> = PASSES.iter().map(|pass| pass.name).collect();
    names.dedup();
    let enabled = [vec![], names.clone()].into_iter().chain(names.iter().map(|name| vec![*name]));
    for disabled in enabled {
        for (a, b, c) in [(1, 2, 1), (2, 3, 2), (1, 1, 1)] {
            let zeros = without(&disabled, || {
                let x = Tensor::new(&vec![f64::NAN; a * a * b], [a, a, b]).exp();
                let empty = Tensor::new(&[0.0_f64; 0], [c, 0, 0]);
                Tensor::einsum("aab,cdd->cb", [&x, &empty]).to_vec::<f64>().expect("a value")
            });
            assert_eq!(zeros, vec![0.0; b * c], "sizes {a}, {b}, {c}, without {disabled:?}");
        }
    }
}
