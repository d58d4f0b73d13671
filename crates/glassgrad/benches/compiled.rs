//! What compiled tapes cost: `cargo bench -p glassgrad-benches --features jit --bench compiled`.
//!
//! For each function the plain evaluation in `f64`, its compiled gradient at one point and in a batch, and the gradient on a reused
//! tape, each the best of several turns; and after how many gradients compiling has paid off against the tape.

use std::hint::black_box;
use std::time::Instant;

use glassgrad::scalar::{CompiledTape, Derivative, Recorded, Var, Workspace};
use glassgrad::{Real, c};

/// Points in a batch.
const BATCH: usize = 64;

fn main() {
    println!(
        "| function | f64 | compiled | × f64 | batch | tape | × f64 | nodes | operations | compile | break-even |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let x: Vec<f64> = (0..100).map(|k| 0.5 + 0.3 * f64::from(k).sin()).collect();
    row("Rosenbrock, n = 100", &x, |x| rosenbrock(x), rosenbrock);
    let x: Vec<f64> = (0..10_000).map(|k| 3.0 * (0.7 * f64::from(k)).sin()).collect();
    row("log-sum-exp, n = 100", &x[..100], |x| log_sum_exp(x), log_sum_exp);
    row("log-sum-exp, n = 10000", &x, |x| log_sum_exp(x), log_sum_exp);
    let x: Vec<f64> = (0..64).map(|k| (1.7 * f64::from(k)).sin()).collect();
    row("determinant by minors, 6 × 6", &x[..36], |x| determinant(x, 6), |x| determinant(x, 6));
    row("determinant by minors, 8 × 8", &x, |x| determinant(x, 8), |x| determinant(x, 8));
}

fn row(name: &str, x: &[f64], function: impl for<'t> Fn(&[Var<'t>]) -> Var<'t>, plain: impl Fn(&[f64]) -> f64) {
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
        tape = tape.min(seconds(|| _ = black_box(workspace.value_and_gradient(&function, black_box(x)))));
    }
    let expected = workspace.value_and_gradient(&function, x).1;
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

fn rosenbrock<T: Real>(x: &[T]) -> T {
    let term = |pair: &[T]| {
        let valley = pair[1] - pair[0] * pair[0];
        let distance = c::<T>(1.0) - pair[0];
        valley * valley * c(100.0) + distance * distance
    };
    x.windows(2).map(term).sum()
}

/// The shift depends on the values alone: as a constant it changes no derivative.
fn log_sum_exp<T: Real>(x: &[T]) -> T {
    let shift = x.iter().map(|x| x.primal()).fold(f64::NEG_INFINITY, f64::max);
    x.iter().map(|x| (*x - c(shift)).exp()).sum::<T>().ln() + c(shift)
}

fn determinant<T: Real>(matrix: &[T], size: usize) -> T {
    fn minor<T: Real>(matrix: &[T], size: usize, row: usize, columns: &mut Vec<usize>) -> T {
        if let [column] = columns[..] {
            return matrix[row * size + column];
        }
        let mut sum = c(0.0);
        for place in 0..columns.len() {
            let column = columns.remove(place);
            let term = matrix[row * size + column] * minor(matrix, size, row + 1, columns);
            columns.insert(place, column);
            sum = if place % 2 == 0 { sum + term } else { sum - term };
        }
        sum
    }
    minor(matrix, size, 0, &mut (0..size).collect())
}
