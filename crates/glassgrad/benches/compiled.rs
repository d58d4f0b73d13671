//! What compiled tapes cost: `cargo bench -p glassgrad-benches --features jit --bench compiled`.
//!
//! For each function the plain evaluation in `f64`, its compiled gradient at one point and in a batch, and the gradient on a reused
//! tape, each the best of several turns; and after how many gradients compiling has paid off against the tape. A second table has
//! the growth with the size: bytes a node of the tape, time of compiling a node, and the ratio to the plain evaluation.

mod functions;

use std::hint::black_box;
use std::time::Instant;

use functions::{determinant, log_sum_exp, rosenbrock};
use glassgrad::scalar::{Active, CompiledTape, Derivative, Recorded, Var, Workspace};

/// Points in a batch.
const BATCH: usize = 64;

fn main() {
    println!(
        "| function | f64 | compiled | × f64 | batch | tape | × f64 | nodes | operations | compile | break-even |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let x: Vec<f64> = (0..100).map(|k| 0.5 + 0.3 * f64::from(k).sin()).collect();
    row("Rosenbrock, n = 100", &x, |x| rosenbrock(x), |x| rosenbrock(x), rosenbrock);
    let x: Vec<f64> = (0..10_000).map(|k| 3.0 * (0.7 * f64::from(k)).sin()).collect();
    row("log-sum-exp, n = 100", &x[..100], |x| log_sum_exp(x), |x| log_sum_exp(x), log_sum_exp);
    row("log-sum-exp, n = 10000", &x, |x| log_sum_exp(x), |x| log_sum_exp(x), log_sum_exp);
    let x: Vec<f64> = (0..64).map(|k| (1.7 * f64::from(k)).sin()).collect();
    row("determinant by minors, 6 × 6", &x[..36], |x| determinant(x, 6), |x| determinant(x, 6), |x| determinant(x, 6));
    row("determinant by minors, 8 × 8", &x, |x| determinant(x, 8), |x| determinant(x, 8), |x| determinant(x, 8));
    growth();
}

/// Rosenbrock's function in more and more dimensions.
fn growth() {
    println!(
        "\n| Rosenbrock, n | nodes | bytes a node | bytes a statement | compile a node | compiled | × f64 | break-even |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|");
    for n in [10, 100, 1000, 10_000] {
        let x: Vec<f64> = (0..n).map(|k| 0.5 + 0.3 * f64::from(k).sin()).collect();
        let recorded = Recorded::new(|x| rosenbrock(x), &x);
        let compiled = CompiledTape::new(&recorded, Derivative::Gradient).expect("the machine is supported");
        let (nodes, bytes) = (recorded.tape().len(), recorded.tape().bytes());
        let mut results = vec![0.0; compiled.results()];
        let mut workspace = Workspace::new();
        let [mut primal, mut single, mut tape] = [f64::INFINITY; 3];
        for _ in 0..10 {
            primal = primal.min(seconds(|| _ = black_box(rosenbrock(black_box(&x)))));
            single = single.min(seconds(|| compiled.evaluate(&x, &mut results).expect("there are no guards")));
            tape = tape.min(seconds(|| _ = black_box(workspace.value_and_gradient(|x| rosenbrock(x), &x))));
        }
        let compile = compiled.compile_time().as_secs_f64();
        println!(
            "| {n} | {nodes} | {:.1} | {:.1} | {:.1} µs | {:.3} µs | {:.2} | {:.0} |",
            bytes as f64 / nodes as f64,
            workspace.bytes() as f64 / workspace.statements() as f64,
            compile / nodes as f64 * 1e6,
            single * 1e6,
            single / primal,
            compile / (tape - single),
        );
    }
}

fn row(
    name: &str,
    x: &[f64],
    function: impl for<'t> Fn(&[Var<'t>]) -> Var<'t>,
    active: impl for<'t> Fn(&[Active<'t>]) -> Active<'t>,
    plain: impl Fn(&[f64]) -> f64,
) {
    let recorded = Recorded::new(&function, x);
    let compiled = CompiledTape::new(&recorded, Derivative::Gradient).expect("the machine is supported");
    let (mut results, points) = (vec![0.0; compiled.results()], x.repeat(BATCH));
    let mut batch = vec![0.0; BATCH * compiled.results()];
    let mut workspace = Workspace::new();
    let [mut primal, mut single, mut many, mut tape] = [f64::INFINITY; 4];
    // By turns, so that a busy moment of the machine does not fall on one of them alone.
    for _ in 0..20 {
        primal = primal.min(seconds(|| _ = black_box(plain(black_box(x)))));
        single = single.min(seconds(|| compiled.evaluate(black_box(x), &mut results).expect("there are no guards")));
        let whole = seconds(|| compiled.evaluate_batch(&points, &mut batch, 1).expect("there are no guards"));
        many = many.min(whole / BATCH as f64);
        tape = tape.min(seconds(|| _ = black_box(workspace.value_and_gradient(&active, black_box(x)))));
    }
    let expected = workspace.value_and_gradient(&active, x).1;
    assert!(results[1..].iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + b.abs())));
    let (compile, us) = (compiled.compile_time().as_secs_f64(), 1e6);
    println!(
        "| {name} | {:.3} µs | {:.3} µs | {:.2} | {:.3} µs | {:.3} µs | {:.1} | {} | {} | {:.1} ms | {:.0} |",
        primal * us,
        single * us,
        single / primal,
        many * us,
        tape * us,
        tape / primal,
        recorded.tape().len(),
        compiled.operations(),
        compile * 1e3,
        compile / (tape - single),
    );
}

/// Seconds of one call, over as many as take two milliseconds.
fn seconds(mut call: impl FnMut()) -> f64 {
    let mut count = 1;
    loop {
        let start = Instant::now();
        (0..count).for_each(|_| call());
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed > 2e-3 {
            return elapsed / f64::from(count);
        }
        count *= 2;
    }
}
