//! What an operation costs besides its arithmetic: a training step built anew each time (define-by-run), the same
//! step compiled, and its program alone, on arrays so small that bookkeeping is what one sees.
//!
//! `cargo bench --bench overhead` prints nanoseconds an operation. With `--define STEPS` or `--replay STEPS` only
//! that many steps run, for a tool that counts instructions.

use std::time::Instant;

use glassgrad::opt::graph::Graph;
use glassgrad::opt::lower::lower;
use glassgrad::opt::passes::optimise;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, value_and_grad};

type Parameters = [Tensor; 4];
type Data = (Tensor, Tensor);

/// A network with one hidden layer: the loss of a batch, as anyone would write it.
fn loss([w1, b1, w2, b2]: &Parameters, (x, y): &Data) -> Tensor {
    let hidden = (x.matmul(w1) + b1).tanh();
    let logits = hidden.matmul(w2) + b2;
    -(logits.log_softmax(-1) * y).sum() / x.shape()[0] as f64
}

/// One step of gradient descent with momentum.
fn step(parameters: &Parameters, speeds: &Parameters, data: &Data, rate: f64) -> (Tensor, Parameters, Parameters) {
    let (loss, slope) = value_and_grad(|parameters: &Parameters| loss(parameters, data))(parameters);
    let speeds = speeds.zip(&slope, |speed, slope| speed * 0.9 + slope);
    let moved = parameters.zip(&speeds, |parameter, speed| parameter - speed * rate);
    (loss, moved, speeds)
}

fn start() -> (Parameters, Parameters, Data) {
    let numbers = |rows: usize, columns: usize, phase: f32| -> Tensor {
        let elements: Vec<f32> = (0..rows * columns).map(|k| (k as f32 * 0.7 + phase).sin() * 0.5).collect();
        Tensor::new(&elements, [rows, columns])
    };
    let parameters = [numbers(4, 8, 0.1), Tensor::zeros(8), numbers(8, 3, 0.2), Tensor::zeros(3)];
    let parameters = parameters.realise().expect("parameters");
    let speeds = parameters.each_ref().map(Tensor::zeros_like).realise().expect("speeds");
    let classes: Vec<f32> = (0..24).map(|k| f32::from(u8::from(k % 4 == 0))).collect();
    (parameters, speeds, (numbers(8, 4, 0.3), Tensor::new(&classes, [8, 3])))
}

/// Steps built anew, each with a rate of its own. Returns the last loss.
fn define(steps: usize) -> f64 {
    let (mut parameters, mut speeds, data) = start();
    let mut last = 0.0;
    for number in 0..steps {
        let result = step(&parameters, &speeds, &data, 0.1 / (1.0 + number as f64)).realise().expect("step");
        last = result.0.item().expect("loss");
        (parameters, speeds) = (result.1, result.2);
    }
    last
}

/// The same steps through one compiled function.
fn replay(steps: usize) -> f64 {
    let (mut parameters, mut speeds, data) = start();
    type Argument = (Parameters, Parameters, Data, Tensor);
    let compiled = compile(|(parameters, speeds, data, rate): &Argument| {
        let (loss, slope) = value_and_grad(|parameters: &Parameters| loss(parameters, data))(parameters);
        let speeds = speeds.zip(&slope, |speed, slope| speed * 0.9 + slope);
        let moved = parameters.zip(&speeds, |parameter, speed| parameter - speed * rate);
        (loss, moved, speeds)
    });
    let mut last = 0.0;
    for number in 0..steps {
        let rate = Tensor::from((0.1 / (1.0 + number as f64)) as f32);
        let result = compiled.call(&(parameters, speeds, data.clone(), rate)).expect("step");
        last = result.0.item().expect("loss");
        (parameters, speeds) = (result.1, result.2);
    }
    last
}

/// The median time of a step, in nanoseconds.
fn time(run: fn(usize) -> f64) -> f64 {
    const STEPS: usize = 2000;
    run(STEPS);
    let mut times: Vec<f64> = (0..15)
        .map(|_| {
            let begin = Instant::now();
            std::hint::black_box(run(STEPS));
            begin.elapsed().as_nanos() as f64 / STEPS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = |flag: &str| {
        let place = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(place + 1)?.parse::<usize>().ok()
    };
    if let Some(steps) = count("--define") {
        return println!("loss {}", define(steps));
    }
    if let Some(steps) = count("--replay") {
        return println!("loss {}", replay(steps));
    }
    assert_eq!(define(10) as f32, replay(10) as f32, "both ways compute the same");
    let (parameters, speeds, data) = start();
    let (loss, moved, speeds) = step(&parameters, &speeds, &data, 0.1);
    let roots: Vec<Tensor> = [loss].into_iter().chain(moved).chain(speeds).collect();
    let roots: Vec<&Tensor> = roots.iter().collect();
    let (graph, _) = Graph::of(&roots).expect("graph");
    let operations = graph.nodes.len() - graph.inputs.len();
    let program = lower(&optimise(graph));
    println!("a training step of {operations} operations, which run as {} steps of a program", program.steps.len());
    for (name, run) in [("define-by-run", define as fn(usize) -> f64), ("compiled", replay)] {
        let nanoseconds = time(run);
        println!("{name:>14}: {nanoseconds:8.0} ns a step, {:6.1} ns an operation", nanoseconds / operations as f64);
    }
}
