//! The memory that settings need: sizes of networks and of examples.

use super::settings::{Model, Number, Settings};
use super::task::Description;
use crate::failure::Failure;
use crate::memory;

/// The most parameters that a network of the widths in a file's header may have, as a multiple of the numbers in the file.
const ROOM: usize = 16;

impl Settings {
    /// An estimate of the number of weights from the widths alone, before the network is built.
    pub fn weights(&self, task: &Description) -> usize {
        let ends = task.ends(self);
        if let (Model::Cnn, Some((hidden, channels))) = (self.model, self.layers.split_last()) {
            // Nine numbers for each pair of channels; each convolution halves height and width.
            let (mut before, mut pixels, mut sum) = (1_usize, ends.view.numbers(), 0_usize);
            for outputs in channels {
                sum = sum.saturating_add(9_usize.saturating_mul(before).saturating_mul(*outputs));
                (before, pixels) = (*outputs, pixels / 4);
            }
            let linear = before.saturating_mul(pixels).saturating_add(ends.outputs).saturating_mul(*hidden);
            return sum.saturating_add(linear);
        }
        if self.model == Model::Resnet {
            // Two blocks of two 3×3 convolutions for each stage, and a projection.
            let squares = |pair: &[usize]| pair[1].saturating_mul(pair[0].saturating_add(pair[1].saturating_mul(4)));
            let channels = [&[1], &self.layers[..]].concat();
            return channels
                .windows(2)
                .map(squares)
                .fold(0, |sum, pairs| sum.saturating_add(9_usize.saturating_mul(pairs)));
        }
        let first =
            if matches!(self.model, Model::Transformer | Model::Gpt) { self.context } else { ends.view.numbers() };
        let widths = [&[first], &self.layers[..], &[ends.outputs]].concat();
        let weights = |pair: &[usize]| match self.model {
            Model::Mlp | Model::Cnn | Model::Resnet => pair[0].saturating_mul(pair[1]),
            Model::Sparse => pair[1].saturating_mul(self.fan_in),
            // A block of attention has twelve squares of its width, and no recurrent cell has more.
            Model::Rnn | Model::Lstm | Model::Gru | Model::Transformer | Model::Gpt => {
                12_usize.saturating_mul(pair[1]).saturating_mul(pair[0].max(pair[1]))
            }
        };
        widths.windows(2).map(weights).fold(0, usize::saturating_add)
    }

    /// Refuses widths that would make a network far larger than the numbers that are there.
    pub fn check_size(&self, task: &Description, numbers: usize) -> Result<(), String> {
        let claimed = self.weights(task);
        match claimed > numbers.saturating_mul(ROOM).max(1 << 16) {
            true => Err(format!("it claims to have {claimed} weights, and holds {numbers} numbers")),
            false => Ok(()),
        }
    }

    /// Refuses a network that cannot be trained in the memory that there is.
    pub fn check_memory(&self, task: &Description, examples: usize) -> Result<(), Failure> {
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
        let optimizer = (self.optimizer.0.build)(self.lr, (self.momentum > 0.0).then_some(self.momentum));
        let slots = optimizer.slots().iter().filter(|slot| slot.is_per_weight).count() as u64;
        let copies = 4 + 2 * slots;
        let weights = (self.weights(task) as u64).saturating_mul(copies);
        let batch = if self.batch == 0 { examples } else { self.batch.min(examples) } as u64;
        let units = self.layers.iter().fold(0_u64, |sum, width| sum.saturating_add(*width as u64));
        let values = match self.model {
            Model::Transformer | Model::Gpt | Model::Rnn | Model::Lstm | Model::Gru => units.saturating_mul(2),
            // Every channel of a residual network is an image.
            Model::Resnet => units.saturating_mul(task.ends(self).view.numbers() as u64),
            Model::Mlp | Model::Sparse | Model::Cnn => units,
        };
        weights.saturating_add(batch.saturating_mul(values)).saturating_mul(element)
    }
}

/// Refuses examples that cannot be prepared in the memory that there is: features of 64 bits, those of both parts, and the
/// same when they are scaled.
pub fn check_examples(rows: usize, width: usize) -> Result<(), Failure> {
    memory::check(example_bytes(rows, width), || {
        format!(
            "{rows} examples of {width} numbers; leave out examples or columns, such as words that are nearly all different"
        )
    })
}

/// The memory that preparing examples takes.
pub fn example_bytes(rows: usize, width: usize) -> u64 {
    (rows as u64).saturating_mul(width as u64).saturating_mul(4 * 8)
}

#[cfg(test)]
mod tests {
    use super::super::datasets;
    use super::*;

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
