//! A small Transformer learns to turn sequences round: after a separator, the symbols before it in reverse order.
//!
//! Embeddings of symbols and of places, two blocks with causal attention, and a linear layer that predicts the next symbol.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 29_transformer`.

use glassgrad::dtype::DType;
use glassgrad::expr::s;
use glassgrad::nn::{Embedding, Layer, LayerNorm, Linear, TransformerBlock};
use glassgrad::optim::{Optimizer, Schedule};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, Tree, compile, loss, value_and_grad};

const SYMBOLS: usize = 8;
const SEPARATOR: i64 = SYMBOLS as i64;
const LENGTH: usize = 6;
/// The symbols, the separator, the symbols turned round.
const PLACES: usize = 2 * LENGTH + 1;
const WIDTH: usize = 32;

#[derive(Clone, Tree)]
struct Model {
    symbols: Embedding,
    places: Embedding,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    output: Linear,
}

impl Model {
    fn new(key: Key) -> Model {
        let block = |number: u64| {
            let block = TransformerBlock::new(key.fold(number), WIDTH, 4);
            TransformerBlock { attention: block.attention.clone().causal(), ..block }
        };
        Model {
            symbols: Embedding::new(key.fold(0), SYMBOLS + 1, WIDTH),
            places: Embedding::new(key.fold(1), PLACES, WIDTH),
            blocks: vec![block(2), block(3)],
            norm: LayerNorm::new(WIDTH),
            output: Linear::new(key.fold(4), WIDTH, SYMBOLS + 1),
        }
    }

    /// Logits of the next symbol at each place.
    fn next(&self, sequences: &Tensor) -> Tensor {
        let places = Tensor::arange(sequences.shape()[1] as i64);
        let embedded = self.symbols.apply(sequences) + self.places.apply(&places);
        self.output.apply(&self.norm.apply(&self.blocks.apply(&embedded)))
    }
}

fn sequences(key: Key, count: usize) -> Tensor {
    let mut all = Vec::new();
    for sequence in 0..count as u64 {
        let key = key.fold(sequence);
        let symbols: Vec<i64> = (0..LENGTH as u64).map(|k| (key.uniform(k) * SYMBOLS as f64) as i64).collect();
        all.extend(symbols.iter().chain([&SEPARATOR]).chain(symbols.iter().rev()).copied());
    }
    Tensor::new(&all, [count, PLACES])
}

/// The cross-entropy of what follows the separator; what stands before it cannot be known.
fn wrong(model: &Model, sequences: &Tensor) -> Tensor {
    let seen = sequences.slice(&[s(..), s(..-1)]);
    let targets = sequences.slice(&[s(..), s(LENGTH as isize + 1..)]);
    let logits = model.next(&seen).slice(&[s(..), s(LENGTH as isize..)]);
    loss::cross_entropy(&logits, &targets).mean()
}

fn main() {
    let model = Model::new(Key::new(1));
    let warm = Schedule::WarmUp { steps: 50, then: Box::new(Schedule::Cosine { steps: 550, least: 0.05 }) };
    let optimizer = Optimizer::adamw(3e-3, 1e-2).clip_norm(1.0).schedule(warm);
    let step = compile(|((model, state), batch): &((Model, _), Tensor)| {
        let (value, gradient) = value_and_grad(|model: &Model| wrong(model, batch))(model);
        (optimizer.update(model, &gradient, state), value)
    });
    println!("{} parameters", model.element_count());
    let mut moment = (model.clone(), optimizer.init(&model));
    for number in 0..=600 {
        let value = step.update(&mut moment, &sequences(Key::new(2).fold(number), 32)).expect("a step");
        if number % 100 == 0 {
            println!("step {number:3}  loss {:.4}", value.item().expect("a number"));
        }
    }
    let (model, tests) = (moment.0, sequences(Key::new(3), 200));
    let predicted = model.next(&tests.slice(&[s(..), s(..-1)])).argmax(-1).slice(&[s(..), s(LENGTH as isize..)]);
    let right = predicted.equal(tests.slice(&[s(..), s(LENGTH as isize + 1..)])).cast(DType::F64).mean();
    let right = right.item().expect("a number");
    println!("{:.1} % of the symbols of new sequences are right", 100.0 * right);
    assert!(right > 0.9);
}
