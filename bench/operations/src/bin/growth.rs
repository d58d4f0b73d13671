//! One measurement of `bench/run growth`: `growth CASE SIZE [SHARE]`.
//!
//! The cases are a network by its parameters, by its layers and by its positions, and a graph by its nodes. Prints one line of JSON: how long
//! planning took (the graph is built, differentiated and lowered), the median time of a step, what a step allocates besides its inputs by
//! plan, and the peak memory of the process. With a share the gradient is computed within that share of what it allocates otherwise.

use std::time::Instant;

use glassgrad::exec::footprint;
use glassgrad::models::{Gpt, GptConfig};
use glassgrad::nn::{Layer as _, Linear};
use glassgrad::optim::{Optimizer, State};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, Within as _, compile, grad, value_and_grad};
use serde_json::{Value, json};

/// The layers of the network whose width grows, and its batch.
const DEPTH: usize = 4;
const BATCH: usize = 32;
/// The width and the batch of the network whose layers grow.
const WIDTH: usize = 256;
const MANY: usize = 2048;
/// Steps are repeated for about this long.
const SECONDS: f64 = 1.0;

type Layers = Vec<Linear>;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "growth parameters|layers|positions|nodes SIZE [SHARE]";
    let (case, rest) = arguments.split_first().ok_or(usage)?;
    let numbers = rest.iter().map(|text| text.parse::<f64>()).collect::<Result<Vec<f64>, _>>();
    let numbers = numbers.map_err(|error| format!("{usage}: {error}"))?;
    let (size, share) = match numbers[..] {
        [size] => (size as usize, None),
        [size, share] => (size as usize, Some(share)),
        _ => return Err(usage.to_owned()),
    };
    let found = match case.as_str() {
        "parameters" => parameters(size),
        "layers" => layers(size, share),
        "positions" => positions(size, share),
        "nodes" => nodes(size),
        _ => return Err(usage.to_owned()),
    };
    let mut found = found.map_err(|error| error.to_string())?;
    found["peak_bytes"] = json!(peak_bytes());
    println!("{found}");
    Ok(())
}

/// The most memory that the process had, where the system tells it.
fn peak_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(1024.0 * line.split_whitespace().nth(1)?.parse::<f64>().ok()?)
}

/// The median of some runs.
fn median(mut run: impl FnMut() -> Result<(), glassgrad::error::Error>) -> Result<f64, glassgrad::error::Error> {
    let begin = Instant::now();
    let mut seconds = Vec::new();
    while seconds.is_empty() || (begin.elapsed().as_secs_f64() < SECONDS && seconds.len() < 99) {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// The loss of a network of equal layers.
fn loss(layers: &Layers, (x, y): &(Tensor, Tensor)) -> Tensor {
    let output = layers.iter().fold(x.clone(), |x, layer| layer.apply(&x).relu());
    (output - y).square().mean()
}

fn equal_layers(count: usize, width: usize) -> Result<Layers, glassgrad::error::Error> {
    (0..count).map(|number| Linear::new(Key::new(number as u64), width, width)).collect::<Layers>().realise()
}

fn examples(count: usize, width: usize) -> Result<(Tensor, Tensor), glassgrad::error::Error> {
    let draw = |key: u64| Tensor::normal(Key::new(key), [count, width]);
    (draw(1_000_001), draw(1_000_002)).realise()
}

/// A training step by the number of parameters: SGD, whose update runs behind each gradient.
fn parameters(size: usize) -> Result<Value, glassgrad::error::Error> {
    let width = ((size / DEPTH) as f64).sqrt().round() as usize;
    let layers = equal_layers(DEPTH, width)?;
    let data = examples(BATCH, width)?;
    let optimizer = Optimizer::sgd(1e-3);
    let mut state = (layers.clone(), optimizer.init(&layers));
    drop(layers);
    let count = state.0.element_count();
    type Trained = (Layers, State<Layers>);
    let step = compile(move |((layers, slots), data): &(Trained, (Tensor, Tensor))| {
        let (value, gradient) = value_and_grad(|layers: &Layers| loss(layers, data))(layers);
        (optimizer.update(layers, &gradient, slots), value)
    });
    let start = Instant::now();
    let program = step.program(&((state.0.map(Tensor::clone), state.1.map(Tensor::clone)), data.clone()))?;
    let planning = start.elapsed().as_secs_f64();
    step.update(&mut state, &data)?.item()?;
    let seconds = median(|| step.update(&mut state, &data)?.item().map(drop))?;
    Ok(
        json!({ "size": count, "planning_seconds": planning, "step_seconds": seconds, "step_bytes": footprint(&program) }),
    )
}

/// Measures a gradient, within a share of what it allocates otherwise if there is one.
fn gradient<X: Tree, D: Tree + Clone>(
    size: usize,
    (parameters, data): (X, D),
    loss: fn(&X, &D) -> Tensor,
    share: Option<f64>,
) -> Result<Value, glassgrad::error::Error> {
    let free = compile(move |(parameters, data): &(X, D)| value_and_grad(|x: &X| loss(x, data))(parameters));
    let arguments = (parameters, data);
    let start = Instant::now();
    let program = free.program(&arguments)?;
    let planning = start.elapsed().as_secs_f64();
    let bytes = footprint(&program);
    let Some(share) = share else {
        free.call(&arguments)?;
        let seconds = median(|| free.call(&arguments).map(drop))?;
        return Ok(json!({ "size": size, "planning_seconds": planning, "step_seconds": seconds, "step_bytes": bytes }));
    };
    drop(program);
    let budget = (share * bytes as f64) as usize;
    let within =
        compile(move |(parameters, data): &(X, D)| value_and_grad(|x: &X| loss(x, data)).within(budget)(parameters));
    let start = Instant::now();
    let program = within.program(&arguments)?;
    let planning = start.elapsed().as_secs_f64();
    within.call(&arguments)?;
    let seconds = median(|| within.call(&arguments).map(drop))?;
    let bytes = footprint(&program);
    Ok(json!({
        "size": size, "planning_seconds": planning, "step_seconds": seconds, "step_bytes": bytes, "budget_bytes": budget,
    }))
}

/// A gradient by the number of layers.
fn layers(size: usize, share: Option<f64>) -> Result<Value, glassgrad::error::Error> {
    gradient(size, (equal_layers(size, WIDTH)?, examples(MANY, WIDTH)?), loss, share)
}

/// A gradient of a Transformer of two blocks by the number of positions.
fn positions(size: usize, share: Option<f64>) -> Result<Value, glassgrad::error::Error> {
    let config = GptConfig { vocabulary: 64, context: size, width: 128, layers: 2, heads: 2, dropout: 0.0 };
    let network = Gpt::new(Key::new(1), &config).realise()?;
    let tokens = |first: usize| Tensor::from((first..first + size).map(|k| (7 * k % 64) as i64).collect::<Vec<i64>>());
    let part = |first: usize| tokens(first).reshape([1, size]);
    let data = (part(0), part(1)).realise()?;
    gradient(size, (network, data), |network: &Gpt, (tokens, targets)| network.loss(tokens, targets), share)
}

/// A gradient of a chain of operations on one number, built anew: everything but the arithmetic is planning.
fn nodes(size: usize) -> Result<Value, glassgrad::error::Error> {
    let x = Tensor::from([0.3_f32]);
    let start = Instant::now();
    let f = |x: &Tensor| (0..size / 2).fold(x.clone(), |y, _| (y * 0.999).sin()).sum();
    grad(f)(&x).item()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(json!({ "size": size, "planning_seconds": seconds }))
}
