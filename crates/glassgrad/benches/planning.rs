//! What planning costs: `cargo bench -p glassgrad-benches --bench planning [-- NAME [NODES]]`.
//!
//! Graphs of several kinds and sizes go through every pass, through lowering, and their values through memory planning
//! alone. Each line tells microseconds a node of the graph as it was taken; a column that grows down the sizes is not
//! linear. The least of a few runs is shown.

use std::hint::black_box;
use std::time::Instant;

use glassgrad::exec::Target;
use glassgrad::opt::graph::Graph;
use glassgrad::opt::lower::lower;
use glassgrad::opt::memory::{Lifetime, plan};
use glassgrad::opt::passes::PASSES;
use glassgrad::opt::program::{Memory, Program};
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad};

const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// A kind of graph, and a function that makes one of about this many nodes.
type Kind = (&'static str, fn(usize) -> Graph);

const KINDS: [Kind; 11] = [
    ("chain", chain),
    ("spaces", spaces),
    ("recurrent", recurrent),
    ("sum-tree", sum_tree),
    ("mlp-gradient", mlp_gradient),
    ("shared", shared),
    ("products", products),
    ("sizes", sizes),
    ("fan-in", fan_in),
    ("results", results),
    ("quadratics", quadratics),
];

fn main() {
    // The harness of cargo hands over options of its own.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let (name, nodes) = (arguments.next(), arguments.next().and_then(|nodes| nodes.parse::<usize>().ok()));
    let passes: Vec<String> = PASSES.iter().map(|pass| format!("{:>8}", pass.name)).collect();
    println!("{:<13} {:>7} {}    lower  (memory)   in all µs a node", "graph", "nodes", passes.join(" "));
    for (kind, make) in KINDS.iter().filter(|(kind, _)| name.as_deref().is_none_or(|name| name == *kind)) {
        for size in SIZES.into_iter().filter(|size| nodes.is_none_or(|nodes| nodes == *size)) {
            let graph = make(size);
            let runs = if size > 10_000 { 1 } else { 5 };
            let best = (0..runs).map(|_| planned(graph.clone())).reduce(least).unwrap_or_default();
            let each: Vec<String> =
                best.iter().map(|seconds| format!("{:>8.2}", seconds * 1e6 / graph.nodes.len() as f64)).collect();
            let total: f64 = best[..best.len() - 1].iter().sum();
            let total = total * 1e6 / graph.nodes.len() as f64;
            println!("{kind:<13} {:>7} {} {total:>8.2}", graph.nodes.len(), each.join(" "));
        }
    }
}

fn least(one: Vec<f64>, other: Vec<f64>) -> Vec<f64> {
    one.into_iter().zip(other).map(|(a, b)| a.min(b)).collect()
}

/// The seconds of each pass, of lowering, and of memory planning alone.
#[inline(never)]
fn planned(mut graph: Graph) -> Vec<f64> {
    let mut seconds = Vec::new();
    for pass in PASSES {
        let start = Instant::now();
        graph = pass.applied(graph);
        seconds.push(start.elapsed().as_secs_f64());
    }
    let start = Instant::now();
    let program = lower(&graph, Target::Cpu.capabilities());
    seconds.push(start.elapsed().as_secs_f64());
    let lifetimes = lifetimes(&program);
    let start = Instant::now();
    black_box(plan(&lifetimes, program.steps.len()));
    seconds.push(start.elapsed().as_secs_f64());
    seconds
}

/// One value for everything that a step writes into the arena, needed until the place is written again.
fn lifetimes(program: &Program) -> Vec<Lifetime> {
    let mut lifetimes: Vec<Lifetime> = Vec::new();
    let mut latest = std::collections::HashMap::new();
    for (number, step) in program.steps.iter().enumerate() {
        for access in step.reads() {
            if let Some(value) = latest.get(&access.memory) {
                let lifetime: &mut Lifetime = &mut lifetimes[*value];
                lifetime.last = number;
            }
        }
        for memory in step.writes().map(|access| access.memory).filter(|memory| matches!(memory, Memory::Arena(_))) {
            latest.insert(memory, lifetimes.len());
            lifetimes.push(Lifetime { bytes: 64 + number % 7 * 64, first: number, last: number, instead_of: None });
        }
    }
    lifetimes
}

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    (Tensor::normal(Key::new(seed), shape) * 0.3).detach().expect("random numbers").variable()
}

fn taken(tensors: &[&Tensor]) -> Graph {
    Graph::of(tensors).expect("a sound graph").0
}

/// Element by element, one after another.
fn chain(nodes: usize) -> Graph {
    let (x, scale, shift) = (normal(1, &[64]), normal(2, &[64]), normal(3, &[64]));
    let mut y = x;
    for _ in 0..nodes / 4 {
        y = (&y * &scale + &shift).tanh() - &y;
    }
    taken(&[&y])
}

/// Element by element over several spaces, with sums and broadcasts between them.
fn spaces(nodes: usize) -> Graph {
    let (mut x, rows, columns) = (normal(1, &[8, 4]), normal(2, &[8, 1]), normal(3, &[4]));
    for _ in 0..nodes / 9 {
        let mean = (&x + &rows).tanh().sum_over(1);
        x = (&x * &columns).sin() - mean.reshape([8, 1]).broadcast_to([8, 4]).transpose().exp().transpose();
    }
    taken(&[&x])
}

/// A recurrent network, step by step.
fn recurrent(nodes: usize) -> Graph {
    let (weights, inputs, bias) = (normal(1, &[8, 8]), normal(2, &[8, 4]), normal(3, &[8]));
    let given = normal(4, &[3, 4]);
    let mut state = normal(5, &[3, 8]);
    for _ in 0..nodes / 6 {
        state = (state.matmul(&weights) + given.matmul(&inputs.transpose()) + &bias).tanh();
    }
    taken(&[&state.sum()])
}

/// Many terms, added two by two.
fn sum_tree(nodes: usize) -> Graph {
    let x = normal(1, &[16]);
    let mut terms: Vec<Tensor> = (0..nodes / 4).map(|k| (&x * (k as f64)).sin()).collect();
    while terms.len() > 1 {
        terms = terms.chunks(2).map(|pair| if let [a, b] = pair { a + b } else { pair[0].clone() }).collect();
    }
    taken(&[&terms[0].sum()])
}

/// The gradient of a deep network for all its weights.
fn mlp_gradient(nodes: usize) -> Graph {
    let layers = (nodes / 11).max(1);
    let weights: Vec<Tensor> = (0..layers).map(|layer| normal(layer as u64, &[6, 6])).collect();
    let given = normal(1, &[5, 6]);
    let gradients = grad(move |weights: &Vec<Tensor>| {
        let mut x = given.clone();
        for weights in weights {
            x = x.matmul(weights).tanh();
        }
        x.square().sum()
    })(&weights);
    taken(&gradients.iter().collect::<Vec<_>>())
}

/// Everything is read several times, and much is written twice.
fn shared(nodes: usize) -> Graph {
    let mut known = vec![normal(1, &[32]), normal(2, &[32])];
    for step in 0..nodes / 7 {
        let [a, b] = [&known[known.len() - 1], &known[known.len() - 2]];
        let early = &known[known.len() / (2 + step % 5)];
        let next = (a * b).sin() + (b * a).sin() * 0.5 + early.cos();
        known.push(next * 0.5);
    }
    taken(&[&known[known.len() - 1], &known[known.len() / 2]])
}

/// A chain of products of matrices of several sizes.
fn products(nodes: usize) -> Graph {
    let (wide, tall, square) = (normal(1, &[3, 9]), normal(2, &[9, 3]), normal(3, &[9, 9]));
    let mut product = normal(4, &[2, 3]);
    for _ in 0..nodes / 3 {
        product = product.matmul(&wide).matmul(&square).matmul(&tall);
    }
    taken(&[&product])
}

/// A chain of products of matrices no two of which have the same sizes.
fn sizes(nodes: usize) -> Graph {
    let mut product = normal(1, &[3, 4]);
    let mut columns = 4;
    for step in 0..nodes / 2 {
        let next = 2 + (step * 7919) % 23;
        product = product.matmul(&normal(step as u64, &[columns, next]));
        columns = next;
    }
    taken(&[&product])
}

/// The gradient of something that is read in thousands of places: a sum of as many terms.
fn fan_in(nodes: usize) -> Graph {
    let given: Vec<Tensor> = (0..nodes / 8).map(|k| normal(k as u64, &[12])).collect();
    let total = move |x: &Tensor| given.iter().map(|given| (x * given).tanh().sum()).sum::<Tensor>();
    let x = normal(1, &[12]);
    taken(&[&total(&x), &grad(total)(&x)])
}

/// Nearly everything is asked for.
fn results(nodes: usize) -> Graph {
    let x = normal(1, &[20]);
    let all: Vec<Tensor> = (0..nodes / 3).map(|k| (&x * (k as f64)).tanh().sum()).collect();
    taken(&all.iter().collect::<Vec<_>>())
}

/// Quadratic forms and their gradients for many matrices and few vectors: products that have factors in common.
fn quadratics(nodes: usize) -> Graph {
    let vectors: Vec<Tensor> = (0..5).map(|k| normal(k, &[6])).collect();
    let mut all = Vec::new();
    for step in 0..nodes / 7 {
        let (matrix, x) = (normal(step as u64, &[6, 6]), &vectors[step % 5]);
        all.push(Tensor::einsum("i,ij,j->", [x, &matrix, x]));
        all.push(matrix.matmul(x) + matrix.transpose().matmul(x));
    }
    taken(&all.iter().collect::<Vec<_>>())
}
