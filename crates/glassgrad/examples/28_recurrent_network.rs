//! A recurrent network adds two marked numbers of a sequence, whatever its length.
//!
//! Each entry is a number and a mark; two entries are marked, and their sum is wanted at the end. Sequences of a batch have
//! different lengths and are filled up to the longest. The network has to remember across entries that do not matter.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 28_recurrent_network`.

use glassgrad::nn::{Gru, Layer, Linear, Recurrent};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, loss, value_and_grad};

const BATCH: usize = 32;
const LONGEST: usize = 12;

type Network = (Recurrent<Gru>, Linear);
/// Sequences, their lengths, and the sums.
type Sequences = (Tensor, Tensor, Tensor);

fn sequences(key: Key) -> Sequences {
    let mut entries = vec![0.0_f32; LONGEST * BATCH * 2];
    let (mut lengths, mut sums) = (Vec::new(), Vec::new());
    for example in 0..BATCH {
        let key = key.fold(example as u64);
        let length = 4 + (key.uniform(0) * (LONGEST - 3) as f64) as usize;
        let marked = &key.fold(1).permutation(length)[..2];
        let mut sum = 0.0;
        for time in 0..length {
            let number = key.uniform(10 + time as u64) as f32;
            let at = (time * BATCH + example) * 2;
            entries[at] = number;
            if marked.contains(&time) {
                entries[at + 1] = 1.0;
                sum += number;
            }
        }
        lengths.push(length as i64);
        sums.push(sum);
    }
    (Tensor::new(&entries, [LONGEST, BATCH, 2]), Tensor::from(lengths), Tensor::new(&sums, [BATCH, 1]))
}

fn wrong((recurrent, output): &Network, (entries, lengths, sums): &Sequences) -> Tensor {
    let (_, last) = recurrent.run_lengths(entries, lengths);
    loss::mse(&output.apply(&last), sums).mean()
}

fn main() {
    let key = Key::new(4);
    let network: Network = (Recurrent::new(Gru::new(key.fold(0), 2, 32)), Linear::new(key.fold(1), 32, 1));
    let optimizer = Optimizer::adam(5e-3).clip_norm(1.0);
    let step = compile(|((network, state), batch): &((Network, _), Sequences)| {
        let (value, gradient) = value_and_grad(|network: &Network| wrong(network, batch))(network);
        (optimizer.update(network, &gradient, state), value)
    });
    let mut moment = (network.map(Tensor::clone), optimizer.init(&network));
    for number in 0..=1500 {
        let value = step.update(&mut moment, &sequences(Key::new(5).fold(number))).expect("a step");
        if number % 300 == 0 {
            println!("step {number:4}  mean square of the error {:.4}", value.item().expect("a number"));
        }
    }
    let error = wrong(&moment.0, &sequences(Key::new(6))).item().expect("a number");
    println!("on new sequences {error:.4}; always saying 1 would give {:.4}", 1.0 / 6.0);
    assert!(error < 0.02);
}
