//! Products with a matrix of which few elements are there.

use super::initial::{Initial, Reach};
use super::layer::Layer;
use crate::Tree;
use crate::expr::Tensor;
use crate::rng::Key;

/// An affine map of the last axis in which every output sees only some inputs, drawn at random: the wires are fixed, what
/// they carry is learned.
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
    /// What each wire multiplies with, `[outputs, wires]`.
    pub weight: Tensor,
    /// What is added to each output.
    pub bias: Tensor,
    /// Where each wire of each output begins, `[outputs, wires]`: no two of one output in the same place.
    pub wires: Tensor,
}

impl SparseLinear {
    /// So many wires for each output, or as many as there are inputs; weights and biases between ±1/√wires.
    ///
    /// ```
    /// use glassgrad::{nn::SparseLinear, rng::Key};
    /// let all = SparseLinear::new(Key::new(1), 3, 1, 5).wires.sort(1);
    /// assert_eq!(all.to_string(), "[[0, 1, 2]]");
    /// ```
    pub fn new(key: Key, inputs: usize, outputs: usize, wires: usize) -> SparseLinear {
        let wires = wires.min(inputs);
        let reach = Reach { inputs: wires, outputs: (wires * outputs).div_ceil(inputs.max(1)) };
        let begin: Vec<i64> = (0..outputs as u64)
            .flat_map(|output| key.fold(2).fold(output).permutation(inputs).into_iter().take(wires))
            .map(|place| place as i64)
            .collect();
        SparseLinear {
            weight: Initial::Inputs.draw(key.fold(0), [outputs, wires], reach),
            bias: Initial::Inputs.draw(key.fold(1), [outputs], reach),
            wires: Tensor::new(&begin, [outputs, wires]),
        }
    }
}

impl Layer for SparseLinear {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let seen = x.gather(&self.wires, x.rank().saturating_sub(1));
        (seen * &self.weight).sum_over(-1) + &self.bias
    }
}
