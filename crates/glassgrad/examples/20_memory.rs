//! How little memory a gradient can do with, and what that costs.
//!
//! Reverse mode goes back over what was computed, and so keeps it: a thousand steps of a recurrent network keep a
//! thousand states. Keeping a few of them means running the steps in between again. Which to keep so that the fewest steps
//! run again is known: with s states kept and every step run at most r times, (s + r)! / (s! r!) steps can be reversed.
//! So the work grows with the logarithm of what is saved. Here the same gradient is made within smaller and smaller
//! budgets; then a deep network, which is no loop, is cut into steps the same way; and last, by hand, with checkpoints.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 20_memory`.

use glassgrad::exec::footprint;
use glassgrad::opt::program::{Program, Step};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Within, checkpoint, compile, grad, scan};

type Weights = (Tensor, Tensor);

fn normal(seed: u64, shape: [usize; 2], scale: f32) -> Tensor {
    (Tensor::normal(Key::new(seed), shape) * scale).detach().expect("random numbers")
}

/// How the last state of a recurrent network differs from a target.
fn recurrent(sequence: &Tensor, target: &Tensor) -> impl Fn(&Weights) -> Tensor {
    move |(inner, outer)| {
        let step = |state: &Tensor, x: &Tensor| ((state.matmul(inner) + x.matmul(outer)).tanh(), ());
        let (last, ()) = scan(step, &target.zeros_like(), sequence);
        (last - target).square().mean()
    }
}

/// One layer: wide inside, narrow outside.
fn layer((x, weight): &(Tensor, Tensor)) -> Tensor {
    x.matmul(weight).tanh().sin().exp().matmul(&weight.transpose()).tanh()
}

fn kilobytes(program: &Program) -> f64 {
    footprint(program) as f64 / 1000.0
}

/// The largest difference between two gradients, relative to the largest number in them.
fn difference(a: &Tensor, b: &Tensor) -> f64 {
    let largest = |tensor: Tensor| tensor.abs().max().item().expect("a number");
    largest(a - b) / largest(b.clone())
}

fn main() {
    let (length, batch, hidden, inputs) = (1000, 16, 64, 8);
    let sequence = Tensor::normal(Key::new(1), [length, batch, inputs]).detach().expect("random numbers");
    let target = normal(2, [batch, hidden], 0.5);
    let weights = (normal(3, [hidden, hidden], 0.1), normal(4, [inputs, hidden], 0.3));
    let loss = recurrent(&sequence, &target);

    println!("A recurrent network of {length} steps\n");
    println!("{:>12} {:>12} {:>10} {:>16} {:>12}", "budget", "taken, kB", "kept", "steps forwards", "difference");
    let plain = compile(grad(&loss));
    let whole = plain.program(&weights).expect("a program");
    let expected = plain.call(&weights).expect("a gradient");
    println!("{:>12} {:>12.1} {:>10} {:>16} {:>12}", "none", kilobytes(&whole), length, length, "");
    for part in [2, 4, 8, 16, 24] {
        let budget = footprint(&whole) / part;
        let frugal = compile(grad(&loss).within(budget));
        let program = frugal.program(&weights).unwrap_or_else(|error| panic!("{error}"));
        let sweep = program.steps.iter().find_map(|step| match step {
            Step::ReverseScan(sweep) => Some(sweep),
            _ => None,
        });
        let (kept, forwards) = sweep.map_or((length, length), |sweep| (sweep.schedule.snapshots, sweep.runs()[0]));
        let gradients = frugal.call(&weights).unwrap_or_else(|error| panic!("{error}"));
        let difference = difference(&gradients.0, &expected.0);
        assert!(footprint(&program) <= budget && difference < 1e-4, "{difference}");
        let name = format!("1/{part}");
        println!("{name:>12} {:>12.1} {kept:>10} {forwards:>16} {difference:>12.1e}", kilobytes(&program));
    }
    let refused = grad(&loss).within(1000)(&weights).0.eval().expect_err("a thousand bytes are not enough");
    println!("\nA budget that cannot be kept:\n{refused}\n");

    let deep = |layer: &dyn Fn(&(Tensor, Tensor)) -> Tensor, (x, weight): &Weights| {
        (0..40).fold(x.clone(), |x, _| layer(&(x, weight.clone()))).square().sum()
    };
    let problem = (normal(5, [32, 16], 1.0), normal(6, [16, 64], 0.2));
    println!("A network of 40 layers\n");
    println!("{:>24} {:>12} {:>14}", "", "taken, kB", "work, MFLOP");
    let report = |name: &str, program: &Program| {
        println!("{name:>24} {:>12.1} {:>14.2}", kilobytes(program), program.flops() / 1e6);
    };
    let kept = |weights: &Weights| deep(&layer, weights);
    let whole = compile(grad(kept)).program(&problem).expect("a program");
    report("everything kept", &whole);
    for part in [4, 5, 6] {
        let frugal = compile(grad(kept).within(footprint(&whole) / part));
        let program = frugal.program(&problem).unwrap_or_else(|error| panic!("{error}"));
        report(&format!("within 1/{part}"), &program);
    }
    // By hand: every layer is a checkpoint, or every five layers are.
    let one = checkpoint(layer);
    report("layers as checkpoints", &compile(grad(|w: &Weights| deep(&one, w))).program(&problem).expect("a program"));
    let five = checkpoint(|at: &(Tensor, Tensor)| (0..5).fold(at.0.clone(), |x, _| one(&(x, at.1.clone()))));
    let nested = |(x, weight): &Weights| (0..8).fold(x.clone(), |x, _| five(&(x, weight.clone()))).square().sum();
    report("checkpoints of five", &compile(grad(nested)).program(&problem).expect("a program"));
}
