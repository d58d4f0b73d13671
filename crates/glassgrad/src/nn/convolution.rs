//! Convolution layers.

use super::initializer::{Fans, Initializer};
use super::layer::{Layer, narrowed};
use crate::Tree;
use crate::expr::Tensor;
use crate::operations::{Convolution, PerAxis};
use crate::rng::Key;

/// A convolution over `N` axes with a bias for each output channel: `[…, channels, n…]` gives `[…, outputs, m…]`.
///
/// ```
/// use glassgrad::{Tensor, nn::{Conv2d, Layer}, operations::Convolution, rng::Key};
/// let layer = Conv2d::new(Key::new(1), 3, 8, 5, Convolution::default().padding(2));
/// assert_eq!(layer.apply(&Tensor::ones([10, 3, 28, 28])).shape().to_string(), "[10, 8, 28, 28]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Conv<const N: usize> {
    /// The kernels, `[outputs, channels / groups, k…]`.
    pub weight: Tensor,
    /// The bias of each output channel.
    pub bias: Option<Tensor>,
    /// Stride, padding, dilation and groups.
    #[tree(static)]
    pub config: Convolution<N>,
}

/// A convolution over the last axis.
pub type Conv1d = Conv<1>;
/// A convolution over the last two axes.
pub type Conv2d = Conv<2>;
/// A convolution over the last three axes.
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// A convolution from `channels` to `outputs` channels with this kernel size; weights and biases uniform in ±1/√fan-in.
    ///
    /// ```
    /// use glassgrad::{nn::Conv1d, operations::Convolution, rng::Key};
    /// let layer = Conv1d::new(Key::new(1), 4, 6, 3, Convolution::default().groups(2));
    /// assert_eq!(layer.weight.shape().to_string(), "[6, 2, 3]");
    /// ```
    pub fn new(key: Key, channels: usize, outputs: usize, size: impl PerAxis<N>, config: Convolution<N>) -> Conv<N> {
        Conv::with_init(key, channels, outputs, size, config, Initializer::FanIn)
    }

    /// The same with another weight initialization, as in [`Linear::with_init`](super::Linear::with_init).
    ///
    /// ```
    /// use glassgrad::{nn::{Conv2d, Initializer}, operations::Convolution, rng::Key};
    /// let layer = Conv2d::with_init(Key::new(1), 1, 2, [3, 3], Convolution::default(), Initializer::HeNormal);
    /// assert_eq!(layer.bias.unwrap().to_string(), "[0, 0]");
    /// ```
    pub fn with_init(
        key: Key,
        channels: usize,
        outputs: usize,
        size: impl PerAxis<N>,
        config: Convolution<N>,
        initial: Initializer,
    ) -> Conv<N> {
        let mut shape = vec![outputs, channels / config.groups.max(1)];
        shape.extend(size.per_axis());
        let fans = Fans::of_kernel(&shape);
        let bias = if initial == Initializer::FanIn { initial } else { Initializer::Constant(0.0) };
        Conv {
            weight: initial.draw(key.fold(0), shape, fans),
            bias: Some(bias.draw(key.fold(1), [outputs], fans)),
            config,
        }
    }

    /// The same without a bias.
    ///
    /// ```
    /// use glassgrad::{nn::Conv1d, operations::Convolution, rng::Key, tree::Tree};
    /// assert_eq!(Conv1d::new(Key::new(1), 2, 3, 5, Convolution::default()).without_bias().element_count(), 30);
    /// ```
    pub fn without_bias(self) -> Conv<N> {
        Conv { bias: None, ..self }
    }
}

impl<const N: usize> Layer for Conv<N> {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let convolved = narrowed(x, &self.weight).conv(&self.weight, self.config);
        match &self.bias {
            Some(bias) => {
                // [outputs, 1, …]: along the channels.
                let mut shape = vec![1; N + 1];
                shape[0] = bias.shape().elements();
                convolved + bias.reshape(shape)
            }
            None => convolved,
        }
    }
}
