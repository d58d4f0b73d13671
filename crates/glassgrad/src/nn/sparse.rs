//! A linear layer with sparse random connectivity.

use super::initializer::{Fans, Initializer};
use super::layer::Layer;
use crate::Tree;
use crate::expr::Tensor;
use crate::rng::Key;

/// An affine map of the last axis with sparse random connectivity: each output reads a few inputs, drawn at random. The
/// connections are fixed, their weights are learned.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, SparseLinear}, rng::Key, tree::Tree};
/// let layer = SparseLinear::new(Key::new(1), 100, 10, 3);
/// assert_eq!(layer.apply(&Tensor::ones([5, 100])).shape().to_string(), "[5, 10]");
/// // Three weights with their places, and a bias, for each output.
/// assert_eq!(layer.element_count(), 70);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct SparseLinear {
    /// The weight of each connection, `[outputs, fan_in]`.
    pub weight: Tensor,
    /// The bias of each output.
    pub bias: Tensor,
    /// The input that each connection reads, `[outputs, fan_in]`: those of one output are distinct.
    pub indices: Tensor,
}

impl SparseLinear {
    /// With this fan-in, or the number of inputs if that is less; weights and biases uniform in ±1/√fan_in.
    ///
    /// ```
    /// use glassgrad::{nn::SparseLinear, rng::Key};
    /// let all = SparseLinear::new(Key::new(1), 3, 1, 5).indices.sort(1);
    /// assert_eq!(all.to_string(), "[[0, 1, 2]]");
    /// ```
    pub fn new(key: Key, inputs: usize, outputs: usize, fan_in: usize) -> SparseLinear {
        let fan_in = fan_in.min(inputs);
        let fans = Fans { inputs: fan_in, outputs: (fan_in * outputs).div_ceil(inputs.max(1)) };
        let indices: Vec<i64> = (0..outputs as u64)
            .flat_map(|output| key.fold(2).fold(output).permutation(inputs).into_iter().take(fan_in))
            .map(|place| place as i64)
            .collect();
        SparseLinear {
            weight: Initializer::FanIn.draw(key.fold(0), [outputs, fan_in], fans),
            bias: Initializer::FanIn.draw(key.fold(1), [outputs], fans),
            indices: Tensor::new(&indices, [outputs, fan_in]),
        }
    }
}

impl Layer for SparseLinear {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let seen = x.take(&self.indices, x.rank().saturating_sub(1));
        (seen * &self.weight).sum_over(-1) + &self.bias
    }
}
