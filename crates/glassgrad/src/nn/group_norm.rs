//! Normalization of groups of channels, of single channels, and by the root mean square.

use super::layer::Layer;
use super::normalization::{rounded_as, widened};
use crate::Tree;
use crate::expr::Tensor;

/// ε, added to variances, as in PyTorch.
const EPSILON: f64 = 1e-5;
/// ε, added to mean squares.
const RMS_EPSILON: f64 = 1e-6;

/// Group normalization: normalizes groups of channels of each example `[batch, channels, …]`, independently of the batch.
///
/// ```
/// use glassgrad::{Tensor, nn::{GroupNorm, Layer}};
/// let y = GroupNorm::new(2, 4).apply(&Tensor::arange(48.0_f32).reshape([2, 4, 6]));
/// assert!(y.mean().item().unwrap().abs() < 1e-6);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct GroupNorm {
    /// The scale γ of each channel.
    pub scale: Tensor,
    /// The shift β.
    pub shift: Tensor,
    /// The number of groups.
    #[tree(static)]
    pub groups: usize,
    /// ε, added to variances.
    #[tree(static)]
    pub epsilon: f64,
}

impl GroupNorm {
    /// A normalization of `groups` groups over `channels` channels, with scale 1 and shift 0.
    ///
    /// ```
    /// use glassgrad::{nn::GroupNorm, tree::Tree};
    /// assert_eq!(GroupNorm::new(4, 8).element_count(), 16);
    /// ```
    pub fn new(groups: usize, channels: usize) -> GroupNorm {
        GroupNorm { scale: Tensor::ones([channels]), shift: Tensor::zeros([channels]), groups, epsilon: EPSILON }
    }
}

impl Layer for GroupNorm {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        rounded_as(by_channel(&widened(x).group_norm(self.groups, self.epsilon), &self.scale, &self.shift, x), x)
    }
}

/// Instance normalization: normalizes each channel of each example over its spatial axes, `[batch, channels, spatial…]`.
///
/// ```
/// use glassgrad::{Tensor, nn::{InstanceNorm, Layer}};
/// let y = InstanceNorm::new(1).apply(&Tensor::from([[[1.0_f32, 3.0]]]));
/// assert!((y.to_vec::<f32>().unwrap()[1] - 1.0).abs() < 1e-4);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct InstanceNorm {
    /// The scale γ of each channel.
    pub scale: Tensor,
    /// The shift β.
    pub shift: Tensor,
    /// ε, added to variances.
    #[tree(static)]
    pub epsilon: f64,
}

impl InstanceNorm {
    /// A normalization of this many channels, with scale 1 and shift 0.
    ///
    /// ```
    /// use glassgrad::nn::InstanceNorm;
    /// assert_eq!(InstanceNorm::new(2).scale.to_string(), "[1, 1]");
    /// ```
    pub fn new(channels: usize) -> InstanceNorm {
        InstanceNorm { scale: Tensor::ones([channels]), shift: Tensor::zeros([channels]), epsilon: EPSILON }
    }
}

impl Layer for InstanceNorm {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        rounded_as(by_channel(&widened(x).instance_norm(self.epsilon), &self.scale, &self.shift, x), x)
    }
}

/// RMS normalization: divides each row along the last axis by its root mean square and multiplies by a learned scale.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, RmsNorm}};
/// let y = RmsNorm::new(2).apply(&Tensor::from([[3.0_f32, -3.0]]));
/// assert!((y.to_vec::<f32>().unwrap()[1] + 1.0).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct RmsNorm {
    /// The scale γ.
    pub scale: Tensor,
    /// ε, added to mean squares.
    #[tree(static)]
    pub epsilon: f64,
}

impl RmsNorm {
    /// RMS normalization of rows of this size, with scale 1.
    ///
    /// ```
    /// use glassgrad::nn::RmsNorm;
    /// assert_eq!(RmsNorm::new(2).scale.to_string(), "[1, 1]");
    /// ```
    pub fn new(size: usize) -> RmsNorm {
        RmsNorm { scale: Tensor::ones([size]), epsilon: RMS_EPSILON }
    }
}

impl Layer for RmsNorm {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        rounded_as(widened(x).rms_norm(-1, self.epsilon) * &self.scale, x).composed_as("RmsNorm", &[x, &self.scale])
    }
}

/// Scale and shift along the second axis.
#[track_caller]
fn by_channel(normal: &Tensor, scale: &Tensor, shift: &Tensor, x: &Tensor) -> Tensor {
    if normal.error().is_some() {
        return normal.clone();
    }
    let mut shape = vec![1; x.rank().saturating_sub(1)];
    shape[0] = scale.shape().elements();
    normal * scale.reshape(&shape[..]) + shift.reshape(shape)
}
