//! Numbers that look random, the same in every language: those of `glassgrad bench` and `peers_python/data.py`.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::shape::Shape;

/// Draws arrays, each from a stream of its own.
#[derive(Default)]
pub(crate) struct Source {
    streams: u64,
}

impl Source {
    /// Numbers between two bounds.
    pub(crate) fn uniform(&mut self, shape: impl Into<Shape>, low: f64, high: f64, dtype: DType) -> Tensor {
        let shape = shape.into();
        self.streams += 1;
        let numbers: Vec<f64> =
            (0..shape.elements() as u64).map(|k| low + (high - low) * unit(self.streams, k)).collect();
        match dtype {
            DType::F32 => Tensor::new(&numbers.iter().map(|number| *number as f32).collect::<Vec<_>>(), shape),
            _ => Tensor::new(&numbers, shape),
        }
    }

    /// Whole numbers from 0 up to but not including a bound.
    pub(crate) fn indices(&mut self, count: usize, bound: usize) -> Tensor {
        self.streams += 1;
        Tensor::from((0..count as u64).map(|k| (unit(self.streams, k) * bound as f64) as i64).collect::<Vec<i64>>())
    }
}

/// The direction of digests, and cotangents: numbers between -1 and 1.
pub(crate) fn direction(count: usize) -> impl Iterator<Item = f64> {
    const STREAM: u64 = 1000;
    (0..count as u64).map(|k| 2.0 * unit(STREAM, k) - 1.0)
}

/// A number from 0 up to but not including 1.
fn unit(stream: u64, k: u64) -> f64 {
    let mut z = ((stream << 40) + k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
