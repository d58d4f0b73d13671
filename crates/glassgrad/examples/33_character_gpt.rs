//! A character GPT learns Shakespeare's sonnets: causal attention, tied embeddings, AdamW with decay groups, a cosine schedule with
//! warm-up, gradient accumulation, clipping, and generation over a KV cache.
//!
//! The sizes here are small, for minutes on a laptop; `GptConfig::character` and `GptConfig::GPT2` are the large ones.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 33_character_gpt`; `-- 2000` trains for that many steps.

use std::sync::Arc;

use glassgrad::Tensor;
use glassgrad::data::Examples;
use glassgrad::expr::Keys;
use glassgrad::models::{Gpt, GptConfig, Sampling};
use glassgrad::rng::Key;
use glassgrad::train::Training;
use glassgrad::tree::Tree as _;

const TEXT: &str = include_str!("data/sonnets.txt");
const CONTEXT: usize = 48;
const BATCH: usize = 32;

fn main() {
    let steps: u64 = std::env::args().nth(1).and_then(|steps| steps.parse().ok()).unwrap_or(250);
    let mut alphabet: Vec<char> = TEXT.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let number = |character: char| alphabet.binary_search(&character).expect("a known character") as i64;
    let symbols: Vec<i64> = TEXT.chars().map(number).collect();

    // Windows of the text, and the same one character further.
    let starts = (0..symbols.len() - CONTEXT - 1).step_by(CONTEXT / 4);
    let (mut seen, mut next) = (Vec::new(), Vec::new());
    for start in starts.clone() {
        seen.extend_from_slice(&symbols[start..start + CONTEXT]);
        next.extend_from_slice(&symbols[start + 1..start + CONTEXT + 1]);
    }
    let windows = |symbols: &[i64]| Tensor::new(symbols, [starts.len(), CONTEXT]);
    let examples = Arc::new(Examples::new((windows(&seen), windows(&next))).expect("examples"));

    let config =
        GptConfig { vocabulary: alphabet.len(), context: CONTEXT, width: 64, layers: 2, heads: 4, dropout: 0.1 };
    let network = Gpt::new(Key::new(1), &config);
    println!("{} parameters; GPT-2 has {}", network.element_count(), GptConfig::GPT2.parameters());

    let objective =
        |network: &Gpt, (tokens, targets): &(Tensor, Tensor), key: &Keys| network.loss_train(tokens, targets, key);
    let optimizer = Gpt::optimizer(4e-3, 0.1, steps / 10, steps);
    let training = Training::new(objective, optimizer).batch_size(BATCH).accumulate(2).epochs(u64::MAX);
    let mut session = training.session(&network, &examples).expect("a session");
    let mut losses = Vec::new();
    for _ in 0..steps {
        let step = session.step().expect("a step").expect("more examples");
        losses.push(step.loss);
        if step.number == 1 || step.number.is_multiple_of(steps.div_ceil(6)) {
            println!("step {:4}  {:.3} bits per character", step.number, step.loss / std::f64::consts::LN_2);
        }
    }
    let prompt: Vec<i64> = "Shall I ".chars().map(number).collect();
    let sampling = Sampling { temperature: 0.8, top_k: Some(20), key: Key::new(2) };
    let written = session.parameters().generate(&prompt, 200, &sampling).expect("a text");
    let text: String = written.iter().map(|symbol| alphabet[*symbol as usize]).collect();
    println!("\nShall I {text}");
    assert!(losses[losses.len() - 1] < 0.8 * losses[0]);
}
