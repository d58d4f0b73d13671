//! Numbers that look random, the same in every language.
//!
//! Element k of stream s is the hash SplitMix64 of 2⁴⁰·s + k: a few lines in any language, without state, so that all
//! engines work on the same numbers and must find the same results.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::nn::Linear;
use glassgrad::shape::Shape;

/// Draws arrays, each from a stream of its own.
#[derive(Default)]
pub(super) struct Source {
    streams: u64,
}

impl Source {
    /// Numbers between two bounds.
    pub(super) fn uniform(&mut self, shape: impl Into<Shape>, low: f64, high: f64, dtype: DType) -> Tensor {
        let shape = shape.into();
        let stream = self.next_stream();
        let numbers: Vec<f64> = (0..shape.elements() as u64).map(|k| low + (high - low) * unit(stream, k)).collect();
        match dtype {
            DType::F32 => Tensor::new(&numbers.iter().map(|number| *number as f32).collect::<Vec<_>>(), shape),
            _ => Tensor::new(&numbers, shape),
        }
    }

    /// The weights and the biases of a layer, 32-bit, between ±1/√(number of inputs).
    pub(super) fn layer(&mut self, inputs: usize, outputs: usize) -> Linear {
        let bound = 1.0 / (inputs as f64).sqrt();
        let mut draw = |shape: &[usize]| self.uniform(shape, -bound, bound, DType::F32);
        Linear { weight: draw(&[inputs, outputs]), bias: Some(draw(&[outputs])) }
    }

    /// Rows of which each is the unit vector of some class, 32-bit.
    pub(super) fn targets(&mut self, count: usize, classes: usize) -> Tensor {
        let targets = self.indices(count, classes).one_hot(classes, DType::F32);
        // A leaf: the targets are data, and are not computed again in every step.
        targets.detach().unwrap_or(targets)
    }

    /// Whole numbers from 0 up to but not including a bound.
    pub(super) fn indices(&mut self, count: usize, bound: usize) -> Tensor {
        let stream = self.next_stream();
        Tensor::from((0..count as u64).map(|k| (unit(stream, k) * bound as f64) as i64).collect::<Vec<i64>>())
    }

    /// The dropout mask, 32-bit: 0 at this rate, and otherwise the inverse of the keep probability.
    pub(super) fn mask(&mut self, shape: impl Into<Shape>, rate: f64) -> Tensor {
        let (shape, stream) = (shape.into(), self.next_stream());
        let kept = (1.0 / (1.0 - rate)) as f32;
        let factor = |k| if unit(stream, k) < rate { 0.0 } else { kept };
        Tensor::new(&(0..shape.elements() as u64).map(factor).collect::<Vec<_>>(), shape)
    }

    fn next_stream(&mut self) -> u64 {
        self.streams += 1;
        self.streams
    }
}

/// The direction of directional derivatives, for checks and checksums: numbers between -1 and 1.
pub(super) fn direction(count: usize) -> impl Iterator<Item = f64> {
    const STREAM: u64 = 1000;
    (0..count as u64).map(|k| 2.0 * unit(STREAM, k) - 1.0)
}

/// A number from 0 up to but not including 1.
pub(super) fn unit(stream: u64, k: u64) -> f64 {
    let mut z = ((stream << 40) + k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
