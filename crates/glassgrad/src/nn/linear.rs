//! Linear layers.

use super::initializer::{Fans, Initializer};
use super::layer::{Layer, narrowed};
use crate::Tree;
use crate::expr::Tensor;
use crate::rng::Key;

/// An affine map of the last axis: x W + b.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, Linear}, rng::Key};
/// let layer = Linear { weight: Tensor::from([[1.0], [10.0]]), bias: Some(Tensor::from([0.5])) };
/// assert_eq!(layer.apply(&Tensor::from([2.0, 3.0])).to_string(), "[32.5]");
/// assert_eq!(Linear::new(Key::new(1), 4, 3).apply(&Tensor::ones([5, 4])).shape().to_string(), "[5, 3]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Linear {
    /// The weight matrix W, `[inputs, outputs]`.
    pub weight: Tensor,
    /// The bias b, `[outputs]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// A linear layer with weights and biases uniform in ±1/√inputs.
    ///
    /// ```
    /// use glassgrad::{nn::Linear, rng::Key, tree::Tree};
    /// assert_eq!(Linear::new(Key::new(1), 784, 10).element_count(), 7850);
    /// ```
    pub fn new(key: Key, inputs: usize, outputs: usize) -> Linear {
        Linear::with_init(key, inputs, outputs, Initializer::FanIn)
    }

    /// The same with another weight initialization. Biases are drawn only by [`Initializer::FanIn`]; otherwise they are zero.
    ///
    /// ```
    /// use glassgrad::{nn::{Initializer, Linear}, rng::Key};
    /// let layer = Linear::with_init(Key::new(1), 20, 10, Initializer::He);
    /// assert_eq!(layer.bias.unwrap().sum().item().unwrap(), 0.0);
    /// ```
    pub fn with_init(key: Key, inputs: usize, outputs: usize, initial: Initializer) -> Linear {
        let fans = Fans::of_matrix(inputs, outputs);
        let bias = if initial == Initializer::FanIn { initial } else { Initializer::Constant(0.0) };
        Linear {
            weight: initial.draw(key.fold(0), [inputs, outputs], fans),
            bias: Some(bias.draw(key.fold(1), [outputs], fans)),
        }
    }

    /// The same without a bias.
    ///
    /// ```
    /// use glassgrad::{nn::Linear, rng::Key, tree::Tree};
    /// assert_eq!(Linear::new(Key::new(1), 4, 3).without_bias().element_count(), 12);
    /// ```
    pub fn without_bias(self) -> Linear {
        Linear { bias: None, ..self }
    }
}

impl Layer for Linear {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let product = narrowed(x, &self.weight).matmul(&self.weight);
        match &self.bias {
            Some(bias) => product + bias,
            None => product,
        }
    }
}
