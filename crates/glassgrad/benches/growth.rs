//! How the cost of a gradient grows: `cargo bench -p glassgrad-benches --bench growth --profile release [-- batch|depth|nodes|length]`.
//!
//! A training step of a network by its batch and by its depth, a graph that is built anew by its nodes, and a loop over time by
//! its length. Each line tells the time and what it is for one example, layer, node or step of time. Where that stays the same
//! down a column, the cost is linear; the last column is the exponent between neighbouring sizes, which is 1 then.
//! Small sizes have a smaller exponent: what a call costs by itself is shared by more.

use std::time::Instant;

use glassgrad::nn::{Layer, Linear};
use glassgrad::optim::{Optimizer, State};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, scan, value_and_grad};

/// Something that grows: its name, what one of it is, its sizes, and work of a size.
type Growing = (&'static str, &'static str, &'static [usize], fn(usize) -> Box<dyn FnMut()>);

const ALL: [Growing; 4] = [
    ("batch", "example", &[16, 64, 256, 1024, 4096], |size| step_of(size, 4)),
    ("depth", "layer", &[4, 16, 64, 256], |size| step_of(64, size)),
    ("nodes", "node", &[100, 1_000, 10_000, 100_000, 1_000_000], chain),
    ("length", "step of time", &[10, 100, 1_000, 10_000], recurrent),
];

fn main() {
    // The harness of cargo hands over options of its own.
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    for (kind, one, sizes, make) in ALL.iter().filter(|(kind, ..)| name.as_deref().is_none_or(|name| name == *kind)) {
        println!("{kind:<8} {:>9} {:>12} {:>22} {:>9}", "size", "µs", format!("ns for one {one}"), "exponent");
        let mut last: Option<(usize, f64)> = None;
        for size in sizes.iter().copied() {
            let seconds = median(&mut make(size));
            let exponent = last.map(|(before, than)| (seconds / than).ln() / (size as f64 / before as f64).ln());
            let exponent = exponent.map_or_else(String::new, |exponent| format!("{exponent:.2}"));
            println!("{:<8} {size:>9} {:>12.1} {:>22.1} {exponent:>9}", "", seconds * 1e6, seconds * 1e9 / size as f64);
            last = Some((size, seconds));
        }
        println!();
    }
}

/// The median time of a few runs, after one that plans; short ones are repeated.
fn median(work: &mut dyn FnMut()) -> f64 {
    const TURN: f64 = 0.02;
    work();
    let start = Instant::now();
    work();
    let once = start.elapsed().as_secs_f64().max(1e-9);
    let repeated = (TURN / once).clamp(1.0, 1e4) as usize;
    let mut seconds: Vec<f64> = (0..if once > 0.5 { 3 } else { 9 })
        .map(|_| {
            let start = Instant::now();
            (0..repeated).for_each(|_| work());
            start.elapsed().as_secs_f64() / repeated as f64
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn numbers(shape: &[usize], phase: f64) -> Tensor {
    let count = shape.iter().product::<usize>();
    let elements: Vec<f32> = (0..count).map(|k| ((k as f64 * 0.618 + phase).sin() * 0.5) as f32).collect();
    Tensor::new(&elements, shape)
}

/// Layers, and the state of what trains them.
type Trained = (Vec<Linear>, State<Vec<Linear>>);

/// A training step of a network of this many layers of 128 units, for this many examples.
fn step_of(batch: usize, depth: usize) -> Box<dyn FnMut()> {
    const WIDTH: usize = 128;
    let key = Key::new(1);
    let layer = |number: usize| Linear::new(key.fold(number as u64), WIDTH, WIDTH);
    let layers: Vec<Linear> = (0..depth).map(layer).collect();
    let optimizer = Optimizer::new(0.01);
    let mut state = (layers.clone(), optimizer.init(&layers)).realise().expect("layers can be drawn");
    let data = (numbers(&[batch, WIDTH], 0.1), numbers(&[batch, WIDTH], 0.2));
    let step = compile(move |((layers, state), (x, y)): &(Trained, (Tensor, Tensor))| {
        let loss = |layers: &Vec<Linear>| {
            let output = layers.iter().fold(x.clone(), |x, layer| layer.apply(&x).relu());
            (output - y).square().mean()
        };
        let (value, slopes) = value_and_grad(loss)(layers);
        (optimizer.update(layers, &slopes, state), value)
    });
    Box::new(move || drop(step.update(&mut state, &data)))
}

/// The gradient of a chain of this many operations on one number, built anew.
fn chain(nodes: usize) -> Box<dyn FnMut()> {
    let x = numbers(&[1], 0.3);
    Box::new(move || {
        let f = |x: &Tensor| (0..nodes / 2).fold(x.clone(), |y, _| (y * 0.999).sin()).sum();
        drop(grad(f)(&x).to_f64_vec());
    })
}

/// The gradient through a loop over time of this many steps.
fn recurrent(length: usize) -> Box<dyn FnMut()> {
    const WIDTH: usize = 64;
    let (weights, x) = (numbers(&[WIDTH, WIDTH], 0.4), numbers(&[length, 8, WIDTH], 0.5));
    let zero = numbers(&[8, WIDTH], 0.6);
    let gradient = compile(move |weights: &Tensor| {
        let f = |weights: &Tensor| {
            let step = |state: &Tensor, x: &Tensor| {
                let next = (state.matmul(weights) * 0.1 + x).tanh();
                (next, ())
            };
            scan(step, &zero, &x).0.square().sum()
        };
        grad(f)(weights)
    });
    Box::new(move || drop(gradient.call(&weights)))
}
