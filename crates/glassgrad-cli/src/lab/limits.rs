//! What settings may ask for: ranges of numbers, and the memory that they need.

use super::settings::{Model, Number, Optimizer, Settings};
use super::task::Description;
use crate::failure::Failure;
use crate::memory;

/// The largest decay and noise: far beyond any use, and far below where their products overflow.
const LARGEST: f64 = 1e6;
/// The largest learning rate: any run diverges by it, and it is still a number in 32 bits.
pub(crate) const LARGEST_RATE: f64 = 1e30;
/// The largest count of anything but weights. Sums and products of a few of them fit into 64 bits.
const MOST: u64 = 1 << 31;

impl Settings {
    /// Refuses numbers out of their ranges, with the option to change.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let refuse =
            |option: &str, value: String, range: &str| Err(Failure::Input(format!("--{option} {value}: {range}")));
        if !self.lr.is_finite() || self.lr <= 0.0 {
            return refuse("lr", self.lr.to_string(), "the learning rate must be a positive number");
        }
        let up_to_largest = "from 0 to 1000000";
        let numbers: [(&str, f64, bool, &str); 8] = [
            ("lr", self.lr, self.lr <= LARGEST_RATE, "the learning rate is at most 1e30"),
            ("momentum", self.momentum, (0.0..1.0).contains(&self.momentum), "from 0 to below 1"),
            ("weight-decay", self.weight_decay, (0.0..=LARGEST).contains(&self.weight_decay), up_to_largest),
            ("clip", self.clip, self.clip.is_finite() && self.clip >= 0.0, "0 or a positive number"),
            ("dropout", self.dropout, (0.0..1.0).contains(&self.dropout), "from 0 to below 1"),
            (
                "lr-end",
                self.lr_end,
                self.lr_end > 0.0 && self.lr_end <= 1.0,
                "a part of the learning rate, above 0 and up to 1",
            ),
            ("test", self.test, (0.0..1.0).contains(&self.test), "a part between 0 and 1 is kept for the test"),
            ("noise", self.noise, (0.0..=LARGEST).contains(&self.noise), up_to_largest),
        ];
        if let Some((option, value, _, range)) = numbers.into_iter().find(|(_, _, is_right, _)| !is_right) {
            return refuse(option, value.to_string(), range);
        }
        let counts = [
            ("epochs", self.epochs),
            ("warmup", self.warmup),
            ("points", self.points as u64),
            ("heads", self.heads as u64),
            ("wires", self.wires as u64),
            ("context", self.context as u64),
        ];
        match counts.into_iter().find(|(_, count)| *count > MOST) {
            Some((option, count)) => refuse(option, count.to_string(), &format!("at most {MOST}")),
            None => Ok(()),
        }
    }

    /// Refuses a network that cannot be trained in the memory that there is.
    pub(crate) fn check_memory(&self, task: &Description, examples: usize) -> Result<(), Failure> {
        let weights = self.weights(task);
        let layers: Vec<String> = self.layers.iter().map(usize::to_string).collect();
        memory::check(self.bytes(task, examples), || {
            format!(
                "--layers {}: a network with about {weights} weights; choose fewer or narrower layers{}",
                layers.join(","),
                if self.batch == 0 { ", or a smaller --batch" } else { "" }
            )
        })
    }

    /// The least memory that training takes: weights, gradients, what the optimizer keeps of each, the same for the last
    /// state that can be gone back to, and what a batch becomes in the layers.
    fn bytes(&self, task: &Description, examples: usize) -> u64 {
        let element = match self.dtype {
            Number::F32 => 4_u64,
            Number::F64 => 8,
        };
        let copies = match self.optimizer {
            Optimizer::Sgd if self.momentum == 0.0 => 4,
            Optimizer::Sgd | Optimizer::Momentum | Optimizer::Nesterov | Optimizer::Rmsprop | Optimizer::Adagrad => 6,
            Optimizer::Adam | Optimizer::Adamw => 8,
        };
        let weights = (self.weights(task) as u64).saturating_mul(copies);
        let batch = if self.batch == 0 { examples } else { self.batch.min(examples) } as u64;
        let units = self.layers.iter().fold(0_u64, |sum, width| sum.saturating_add(*width as u64));
        let values = match self.model {
            Model::Transformer | Model::Rnn | Model::Lstm | Model::Gru => units.saturating_mul(2),
            Model::Mlp | Model::Sparse | Model::Cnn => units,
        };
        weights.saturating_add(batch.saturating_mul(values)).saturating_mul(element)
    }
}

/// Refuses examples that cannot be prepared in the memory that there is: features of 64 bits, those of both parts, and the
/// same when they are scaled.
pub(crate) fn check_examples(rows: usize, width: usize) -> Result<(), Failure> {
    memory::check(example_bytes(rows, width), || {
        format!(
            "{rows} examples of {width} numbers; leave out examples or columns, such as words that are nearly all different"
        )
    })
}

/// The memory that preparing examples takes.
pub(crate) fn example_bytes(rows: usize, width: usize) -> u64 {
    (rows as u64).saturating_mul(width as u64).saturating_mul(4 * 8)
}

#[cfg(test)]
mod tests {
    use super::super::datasets;
    use super::*;

    #[test]
    fn every_number_has_a_range() {
        let usual = datasets::suited("moons", None).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(usual.check().is_ok());
        type Change = fn(&mut Settings, f64);
        let changes: [(&str, Change); 8] = [
            ("--lr ", |settings, value| settings.lr = value),
            ("--momentum ", |settings, value| settings.momentum = value),
            ("--weight-decay ", |settings, value| settings.weight_decay = value),
            ("--clip ", |settings, value| settings.clip = value),
            ("--dropout ", |settings, value| settings.dropout = value),
            ("--lr-end ", |settings, value| settings.lr_end = value),
            ("--test ", |settings, value| settings.test = value),
            ("--noise ", |settings, value| settings.noise = value),
        ];
        for (option, change) in changes {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e308] {
                let mut settings = usual.clone();
                change(&mut settings, value);
                let message = settings.check().expect_err(option).to_string();
                assert!(message.starts_with(option), "{message}");
            }
            let mut settings = usual.clone();
            change(&mut settings, 1e308);
            assert_eq!(settings.check().is_ok(), option == "--clip ", "{option}");
        }
        for change in [
            |settings: &mut Settings| settings.epochs = u64::MAX,
            |settings: &mut Settings| settings.warmup = u64::MAX,
            |settings: &mut Settings| settings.points = usize::MAX,
            |settings: &mut Settings| settings.heads = usize::MAX,
            |settings: &mut Settings| settings.wires = usize::MAX,
            |settings: &mut Settings| settings.context = usize::MAX,
        ] {
            let mut settings = usual.clone();
            change(&mut settings);
            assert!(settings.check().is_err());
        }
    }

    #[test]
    fn settings_keep_every_bit_in_json() {
        let mut settings = datasets::suited("moons", None).unwrap_or_else(|failure| panic!("{failure}"));
        let key = glassgrad::rng::Key::new(3);
        for round in 0..2000 {
            let key = key.fold(round);
            (settings.lr, settings.momentum, settings.noise) =
                (key.uniform(0), key.uniform(1), key.uniform(2) * 1e-300);
            let text = serde_json::to_string_pretty(&settings).expect("JSON");
            let read: Settings = serde_json::from_str(&text).expect("settings");
            assert_eq!(read, settings);
        }
    }
}
