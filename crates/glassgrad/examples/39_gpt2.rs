//! GPT-2 with pretrained weights: the safetensors file of Hugging Face, byte-pair encoding, and generation over a KV cache.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 39_gpt2 -- model.safetensors "The meaning of life"`, where the file is
//! that of huggingface.co/openai-community/gpt2. Without a file a small network with random weights is saved and read in its place,
//! which writes nonsense.

use glassgrad::data::Tokenizer;
use glassgrad::models::{Gpt, GptConfig, Sampling};
use glassgrad::rng::Key;
use glassgrad::save::File;
use glassgrad::tree::Tree as _;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "target/pictures");
    let (file, heads) = match arguments.next() {
        Some(path) => (File::read(path).expect("a safetensors file"), GptConfig::GPT2.heads),
        None => {
            let config = GptConfig { context: 32, width: 8, layers: 2, heads: 2, ..GptConfig::GPT2 };
            let bytes = Gpt::new(Key::new(1), &config).to_hugging_face().and_then(|file| file.to_bytes());
            (File::from_bytes(&bytes.expect("bytes")).expect("a file"), config.heads)
        }
    };
    let network = Gpt::from_hugging_face(&file, heads).expect("a GPT-2");
    println!("{} parameters", network.element_count());
    let prompt = arguments.next().unwrap_or_else(|| "The meaning of life".to_owned());
    let tokenizer = Tokenizer::gpt2().expect("the vocabulary");
    let tokens = tokenizer.encode(&prompt);
    println!("{} tokens: {tokens:?}", tokens.len());
    let sampling = Sampling { temperature: 0.8, top_k: Some(50), key: Key::new(2) };
    let written = network.generate(&tokens, 40, &sampling).expect("a text");
    println!("{prompt}{}", tokenizer.decode(&written).expect("known tokens"));
    assert_eq!(written.len(), 40);
}
