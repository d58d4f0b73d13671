//! Value, gradient and Hessian asked for together: what they have in common is computed once, and nothing costs more
//! than if each were planned on its own and equal steps were shared.

#[path = "judges/cases.rs"]
mod cases;
#[path = "judges/closeness.rs"]
mod closeness;
#[path = "judges/expressions.rs"]
mod expressions;
#[path = "judges/random.rs"]
#[expect(dead_code, reason = "numbers of an interval are for others")]
mod random;

use glassgrad::array::Array;
use glassgrad::expr::Op;
use glassgrad::opt::contract::flops;
use glassgrad::opt::graph::Graph;
use glassgrad::opt::passes::{APART, PASSES, optimise};
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hessian, jacobian, value_and_grad};

use cases::random_cases;
use closeness::{agree, size_of_all};
use expressions::{EXPRESSIONS, sized};
use proptest::prelude::*;
use random::Random;

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    (Tensor::normal(Key::new(seed), shape).cast(glassgrad::dtype::DType::F64) * 0.3).detach().expect("random numbers")
}

/// The same graph with each product planned as if it were alone, and equal steps computed once.
fn planned_apart(graph: &Graph) -> Graph {
    let passes = PASSES.iter().map(|pass| if pass.name == APART.name { APART } else { *pass });
    passes.fold(graph.clone(), |graph, pass| pass.applied(graph))
}

/// The FLOPs of products: what planning can change.
fn product_flops(graph: &Graph) -> u128 {
    let count = |op: &Op| if let Op::Einsum(einsum) = op { flops(einsum) } else { 0 };
    graph.nodes.iter().map(|node| count(&node.op)).sum()
}

fn largest(graph: &Graph) -> usize {
    let computed = graph.nodes.iter().filter(|node| node.op != Op::Leaf && !node.inputs.is_empty());
    computed.map(|node| node.shape.elements()).max().unwrap_or(0)
}

fn elements(array: &Array) -> Vec<f64> {
    (0..array.buffer().len()).map(|place| array.buffer().get(place)).collect()
}

/// The FLOPs of products in a program for each result, in one program where each product is planned alone, and in one
/// where they are planned together.
fn compared(what: &str, tensors: &[&Tensor]) -> [u128; 3] {
    let (graph, inputs) = Graph::of(tensors).unwrap_or_else(|error| panic!("{what}: {error}"));
    let expected: Vec<f64> = tensors.iter().flat_map(|t| elements(&t.eval_by_reference().expect("a value"))).collect();
    let actual: Vec<f64> = optimise(graph.clone()).run(&inputs).expect("a value").iter().flat_map(elements).collect();
    let size = size_of_all(&expected);
    assert!(actual.iter().zip(&expected).all(|(a, b)| agree(*a, *b, size, 4096.0)), "{what}: another value");
    counted(what, graph)
}

/// As [`compared`], without values.
fn counted(what: &str, graph: Graph) -> [u128; 3] {
    let alone = graph.results.iter().map(|result| optimise(Graph { results: vec![*result], ..graph.clone() }));
    let programs = alone.map(|graph| product_flops(&graph)).sum();
    let (apart, together) = (planned_apart(&graph), optimise(graph.clone()));
    let flops = [programs, product_flops(&apart), product_flops(&together)];
    assert!(flops[2] <= flops[1], "{what}: {flops:?}\n{apart}\n{together}");
    assert!(largest(&together) <= largest(&apart).max(largest(&graph)), "{what}: a larger intermediate\n{together}");
    flops
}

fn derivatives(function: impl Fn(&Tensor) -> Tensor + Clone, x: &Tensor) -> [Tensor; 3] {
    [function(x), grad(function.clone())(x), hessian(function)(x)]
}

#[test]
fn seeds() {
    let (n, d, k) = (60, 20, 5);
    let mut rows: Vec<(&str, [u128; 3])> = Vec::new();
    let mut add = |what: &'static str, tensors: &[Tensor]| {
        rows.push((what, compared(what, &tensors.iter().collect::<Vec<_>>())));
    };
    {
        let (data, labels, w) = (normal(1, &[n, d]), normal(2, &[n]), normal(3, &[d]));
        let loss = move |w: &Tensor| (-(&labels * data.matmul(w))).softplus().sum();
        add("logistic regression", &derivatives(loss, &w));
    }
    {
        let (t, v, u) = (normal(1, &[d, d]), normal(2, &[d, k]), normal(3, &[d, k]));
        let loss = move |u: &Tensor| (&t - u.matmul(&v.transpose())).square().sum();
        add("‖T − UVᵀ‖²", &derivatives(loss, &u));
    }
    {
        let (a, x) = (normal(1, &[n, n]), normal(2, &[n]));
        let form = move |x: &Tensor| Tensor::einsum("i,ij,j->", [x, &a, x]);
        add("xᵀAx", &derivatives(form, &x));
    }
    {
        let (a, b, x) = (normal(1, &[n, d]), normal(2, &[k, n]), normal(3, &[d]));
        let map = move |x: &Tensor| b.matmul(&a.matmul(x).sin().exp());
        add("B·g(h(Ax)), value and Jacobian", &[map(&x), jacobian(map.clone())(&x)]);
    }
    {
        let (a, x) = (normal(1, &[n, d]), normal(3, &[d]));
        add("Σ g(h(Ax))", &derivatives(move |x: &Tensor| a.matmul(x).sin().exp().sum(), &x));
    }
    {
        let (a, b, x) = (normal(1, &[n, d]), normal(2, &[n]), normal(3, &[d]));
        add("log-sum-exp of affine maps", &derivatives(move |x: &Tensor| (a.matmul(x) + &b).logsumexp(), &x));
    }
    {
        let (a, b, x) = (normal(1, &[k, d]), normal(2, &[d, k]), normal(3, &[d, d]));
        add("‖AXB‖²", &derivatives(move |x: &Tensor| a.matmul(x).matmul(&b).square().sum(), &x));
    }
    {
        // Alone the first is best A(BC); together both use AB.
        let (a, b, c) = (normal(1, &[d, n]), normal(2, &[n, d]), normal(3, &[d, 4]));
        let (left, right) = (a.matmul(&b).matmul(&c), a.matmul(&b).matmul(&normal(4, &[d, 30])));
        add("three factors, twice", &[left, right]);
    }
    {
        // The product of two that nobody asks for is read twice, and best not computed.
        let (a, b) = (normal(1, &[n, n]), normal(2, &[n, n]));
        let both = a.matmul(&b);
        add("three factors with vectors", &[both.matmul(&normal(3, &[n])), both.matmul(&normal(4, &[n]))]);
    }
    let table: Vec<String> = rows
        .iter()
        .map(|(what, [programs, apart, together])| format!("{what}: {programs} {apart} {together}"))
        .collect();
    insta::assert_snapshot!("seeds", table.join("\n"));
    // Some of it as literals: Ax is computed once for value and gradient, and the product that is read by vectors alone
    // is not computed at all.
    let (n, flops) =
        (n as u128, |what: &str| rows.iter().find(|row| row.0 == what).map(|row| row.1).unwrap_or_default());
    assert_eq!(flops("xᵀAx")[2] + 2 * n * n, flops("xᵀAx")[0]);
    let [_, apart, together] = flops("three factors with vectors");
    assert_eq!((apart, together), (2 * n * n * n + 4 * n * n, 8 * n * n));
}

/// Random products of a few tensors, some of which read others, and one of which is a result more than once.
fn random_products(seed: u64) -> Vec<Tensor> {
    let mut random = Random::new(seed);
    let sizes: Vec<usize> = (0..5).map(|_| 1 + random.next() as usize % 9).collect();
    let mut known: Vec<(Vec<usize>, Tensor)> = (0..4)
        .map(|number| {
            let labels: Vec<usize> = (0..1 + random.next() as usize % 2).map(|_| random.next() as usize % 5).collect();
            let shape: Vec<usize> = labels.iter().map(|label| sizes[*label]).collect();
            (labels, normal(seed.wrapping_add(number), &shape))
        })
        .collect();
    for _ in 0..3 + random.next() % 5 {
        let factors: Vec<usize> =
            (0..2 + random.next() as usize % 3).map(|_| random.next() as usize % known.len()).collect();
        let letters = |labels: &[usize]| labels.iter().map(|label| (b'a' + *label as u8) as char).collect::<String>();
        let mut output: Vec<usize> = Vec::new();
        for label in factors.iter().flat_map(|factor| &known[*factor].0) {
            if !output.contains(label) && random.next().is_multiple_of(2) && output.len() < 3 {
                output.push(*label);
            }
        }
        let inputs: Vec<String> = factors.iter().map(|factor| letters(&known[*factor].0)).collect();
        let notation = format!("{}->{}", inputs.join(","), letters(&output));
        let operands: Vec<&Tensor> = factors.iter().map(|factor| &known[*factor].1).collect();
        known.push((output, Tensor::einsum(&notation, &operands)));
    }
    known.drain(..4);
    let kept = |place: usize| place == known.len() - 1 || (seed >> (place % 60)) & 1 == 1;
    (0..known.len()).filter(|place| kept(*place)).map(|place| known[place].1.clone()).collect()
}

/// The square of each of thirty products, and its gradient for all factors.
#[test]
fn gradients_of_thirty_products() {
    let (mut apart, mut together, mut gained) = (0, 0, 0);
    for (notation, sizes) in EXPRESSIONS {
        let einsum = sized(notation, sizes);
        let factors: Vec<Tensor> =
            (0..einsum.operands.len()).map(|k| normal(k as u64, &einsum.operand_shape(k))).collect();
        let square =
            move |factors: &Vec<Tensor>| Tensor::einsum(notation, factors.iter().collect::<Vec<_>>()).square().sum();
        let (value, gradient) = value_and_grad(square)(&factors);
        let results: Vec<&Tensor> = std::iter::once(&value).chain(&gradient).collect();
        let flops = counted(notation, Graph::of(&results).expect("a graph").0);
        apart += flops[1];
        together += flops[2];
        gained += usize::from(flops[2] < flops[1]);
    }
    insta::assert_snapshot!("thirty", format!("{apart} {together}, {gained} gain"));
}

proptest! {
    #![proptest_config(random_cases(400))]
    #[test]
    fn together_never_costs_more_than_apart(seed in any::<u64>()) {
        let results = random_products(seed);
        compared(&format!("seed {seed}"), &results.iter().collect::<Vec<_>>());
    }
}
