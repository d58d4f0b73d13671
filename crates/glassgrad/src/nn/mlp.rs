//! Multilayer perceptrons.

use super::activation::Activation;
use super::initializer::Initializer;
use super::layer::Layer;
use super::linear::Linear;
use crate::Tree;
use crate::expr::Tensor;
use crate::rng::Key;

/// A multilayer perceptron: linear layers with an activation after each but the last.
///
/// ```
/// use glassgrad::{Tensor, nn::{Activation, Layer, Mlp}, rng::Key, tree::Tree};
/// let network = Mlp::new(Key::new(1), &[4, 10, 3], Activation::Tanh);
/// assert_eq!(network.apply(&Tensor::ones([7, 4])).shape().to_string(), "[7, 3]");
/// assert_eq!(network.leaves()[2].0.to_string(), "layers.1.weight");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Mlp {
    /// The linear layers.
    pub layers: Vec<Linear>,
    /// The activation of the hidden layers.
    pub activation: Activation,
}

impl Mlp {
    /// A perceptron with these layer sizes, from input to output; weights uniform in ±1/√inputs of their layer.
    ///
    /// ```
    /// use glassgrad::{nn::{Activation, Mlp}, rng::Key};
    /// assert_eq!(Mlp::new(Key::new(1), &[2, 16, 16, 1], Activation::Relu).layers.len(), 3);
    /// ```
    pub fn new(key: Key, sizes: &[usize], activation: Activation) -> Mlp {
        Mlp::with_init(key, sizes, activation, Initializer::FanIn)
    }

    /// The same with another weight initialization.
    ///
    /// ```
    /// use glassgrad::{nn::{Activation, Initializer, Mlp}, rng::Key};
    /// let deep = Mlp::with_init(Key::new(1), &[8; 20], Activation::Relu, Initializer::He);
    /// assert_eq!(deep.layers.len(), 19);
    /// ```
    pub fn with_init(key: Key, sizes: &[usize], activation: Activation, initial: Initializer) -> Mlp {
        let layers = sizes.windows(2).enumerate();
        let layers = layers.map(|(k, ends)| Linear::with_init(key.fold(k as u64), ends[0], ends[1], initial));
        Mlp { layers: layers.collect(), activation }
    }
}

impl Layer for Mlp {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for (number, layer) in self.layers.iter().enumerate() {
            if number > 0 {
                x = self.activation.apply(&x);
            }
            x = layer.apply(&x);
        }
        x
    }
}
