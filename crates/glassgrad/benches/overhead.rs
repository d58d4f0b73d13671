//! What an operation costs besides its arithmetic: a training step built anew each time (define-by-run), the same
//! step compiled, and its program alone, on arrays so small that bookkeeping is what one sees.
//!
//! `cargo bench -p glassgrad-benches --bench overhead` prints nanoseconds an operation. With `--define STEPS` or `--replay STEPS` only
//! that many steps run, for a tool that counts instructions; `--tiny STEPS` replays on arrays of two or three rows, where
//! nearly nothing but bookkeeping is left, with as many hidden layers as `--layers` says.

use std::time::Instant;

use glassgrad::exec::Target;
use glassgrad::opt::graph::Graph;
use glassgrad::opt::lower::lower;
use glassgrad::opt::passes::optimise;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, value_and_grad};

/// The weight and the bias of each layer.
type Parameters = Vec<[Tensor; 2]>;
type Data = (Tensor, Tensor);

/// A network: the loss of a batch, as anyone would write it.
fn loss(parameters: &Parameters, (x, y): &Data) -> Tensor {
    let (last, hidden) = parameters.split_last().expect("a layer");
    let apply = |x: &Tensor, [weight, bias]: &[Tensor; 2]| x.matmul(weight) + bias;
    let hidden = hidden.iter().fold(x.clone(), |x, layer| apply(&x, layer).tanh());
    let logits = apply(&hidden, last);
    -(logits.log_softmax(-1) * y).sum() / x.shape()[0] as f64
}

/// One step of gradient descent with momentum.
fn step(parameters: &Parameters, speeds: &Parameters, data: &Data, rate: f64) -> (Tensor, Parameters, Parameters) {
    let (loss, slope) = value_and_grad(|parameters: &Parameters| loss(parameters, data))(parameters);
    let speeds = speeds.zip(&slope, |speed, slope| speed * 0.9 + slope);
    let moved = parameters.zip(&speeds, |parameter, speed| parameter - speed * rate);
    (loss, moved, speeds)
}

/// Parameters, speeds and data of a network of layers of these sizes.
fn start_with(batch: usize, sizes: &[usize]) -> (Parameters, Parameters, Data) {
    let numbers = |rows: usize, columns: usize, phase: f32| -> Tensor {
        let elements: Vec<f32> = (0..rows * columns).map(|k| (k as f32 * 0.7 + phase).sin() * 0.5).collect();
        Tensor::new(&elements, [rows, columns])
    };
    let layer = |pair: &[usize]| [numbers(pair[0], pair[1], 0.1), Tensor::zeros(pair[1])];
    let parameters: Parameters = sizes.windows(2).map(layer).collect();
    let parameters = parameters.realise().expect("parameters");
    let speeds = Tree::zeros_like(&parameters).realise().expect("speeds");
    let classes = sizes[sizes.len() - 1];
    let truth: Vec<f32> = (0..batch * classes).map(|k| f32::from(u8::from(k % (classes + 1) == 0))).collect();
    (parameters, speeds, (numbers(batch, sizes[0], 0.3), Tensor::new(&truth, [batch, classes])))
}

fn start() -> (Parameters, Parameters, Data) {
    start_with(8, &[4, 8, 3])
}

/// Arrays of two or three rows, and this many hidden layers.
fn tiny(layers: usize) -> (Parameters, Parameters, Data) {
    start_with(2, &[vec![3], vec![2; layers], vec![3]].concat())
}

/// How many operations one step has, and how many steps of a program run them.
fn sizes_of((parameters, speeds, data): &(Parameters, Parameters, Data)) -> [usize; 2] {
    let (loss, moved, speeds) = step(parameters, speeds, data, 0.1);
    let roots: Vec<Tensor> = [loss].into_iter().chain(moved.flatten()).chain(speeds.flatten()).collect();
    let (graph, _) = Graph::of(&roots.iter().collect::<Vec<_>>()).expect("graph");
    let operations = graph.nodes.len() - graph.inputs.len();
    [operations, lower(&optimise(graph), Target::Cpu.capabilities()).steps.len()]
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

/// The same steps through one compiled function, which writes parameters and speeds over themselves.
fn replay(steps: usize) -> f64 {
    replay_from(start(), steps)
}

fn replay_from((parameters, speeds, data): (Parameters, Parameters, Data), steps: usize) -> f64 {
    type Argument = ((Parameters, Parameters), (Data, Tensor));
    let compiled = compile(|((parameters, speeds), (data, rate)): &Argument| {
        let (loss, slope) = value_and_grad(|parameters: &Parameters| loss(parameters, data))(parameters);
        let speeds = speeds.zip(&slope, |speed, slope| speed * 0.9 + slope);
        let moved = parameters.zip(&speeds, |parameter, speed| parameter - speed * rate);
        ((moved, speeds), loss)
    });
    let mut state = (parameters, speeds);
    let mut last = 0.0;
    for number in 0..steps {
        let rate = Tensor::from((0.1 / (1.0 + number as f64)) as f32);
        last = compiled.update(&mut state, &(data.clone(), rate)).and_then(|loss| loss.item()).expect("step");
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
    if let Some(steps) = count("--tiny") {
        let start = tiny(count("--layers").unwrap_or(1));
        let [operations, program_steps] = sizes_of(&start);
        return println!("{operations} operations, {program_steps} steps, loss {}", replay_from(start, steps));
    }
    assert_eq!(define(10) as f32, replay(10) as f32, "both ways compute the same");
    let [operations, steps] = sizes_of(&start());
    println!("a training step of {operations} operations, which run as {steps} steps of a program");
    for (name, run) in [("define-by-run", define as fn(usize) -> f64), ("compiled", replay)] {
        let nanoseconds = time(run);
        println!("{name:>14}: {nanoseconds:8.0} ns a step, {:6.1} ns an operation", nanoseconds / operations as f64);
    }
}
