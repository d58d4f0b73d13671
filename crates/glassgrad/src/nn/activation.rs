//! Functions between layers.

use super::layer::Layer;
use crate::Tree;
use crate::error::Error;
use crate::expr::Tensor;

/// A function of each number, or, for the last two, of each row along the last axis.
///
/// ```
/// use glassgrad::{Tensor, nn::{Activation, Layer}};
/// let x = Tensor::from([-2.0, 3.0]);
/// assert_eq!(Activation::Relu.apply(&x).to_string(), "[0, 3]");
/// assert_eq!(Activation::LeakyRelu(0.5).apply(&x).to_string(), "[-1,  3]");
/// assert_eq!(Activation::Threshold(3.0).apply(&x).to_string(), "[0, 1]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Tree)]
pub enum Activation {
    /// The number itself.
    Identity,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// 1 from this number on, 0 below; flat.
    Threshold(#[tree(static)] f64),
    /// The number where it is positive, else 0.
    Relu,
    /// The number where it is positive, else this part of it.
    LeakyRelu(#[tree(static)] f64),
    /// The number where it is positive, else this times (eˣ - 1).
    Elu(#[tree(static)] f64),
    /// The number times the probability that a standard normal one is smaller.
    Gelu,
    /// The number times its sigmoid.
    Silu,
    /// ln(1 + eˣ).
    Softplus,
    /// Positive numbers that add up to 1 along the last axis.
    Softmax,
    /// Their logarithms.
    LogSoftmax,
}

impl Layer for Activation {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        match *self {
            Activation::Identity => x.clone(),
            Activation::Sigmoid => x.sigmoid(),
            Activation::Tanh => x.tanh(),
            Activation::Threshold(threshold) => x.step(threshold),
            Activation::Relu => x.relu(),
            Activation::LeakyRelu(slope) => x.leaky_relu(slope),
            Activation::Elu(alpha) => x.elu(alpha),
            Activation::Gelu => x.gelu(),
            Activation::Silu => x.silu(),
            Activation::Softplus => x.softplus(),
            Activation::Softmax => x.softmax(-1),
            Activation::LogSoftmax => x.log_softmax(-1),
        }
    }
}

/// The number where it is positive, else a learned part of it: one for all, or one for each channel, that is along the
/// second axis as in PyTorch. Its derivative at 0 is the slope, as that of [`Tensor::leaky_relu`].
///
/// ```
/// use glassgrad::{Tensor, grad, nn::{Layer, PRelu}};
/// let unit = PRelu::new(1);
/// let x = Tensor::from([-2.0_f32, 3.0]);
/// assert_eq!(unit.apply(&x).to_string(), "[-0.5,    3]");
/// assert_eq!(grad(|unit: &PRelu| unit.apply(&x).sum())(&unit).slope.to_string(), "[-2]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct PRelu {
    /// What negative numbers are multiplied with, `[1]` or `[channels]`.
    pub slope: Tensor,
}

impl PRelu {
    /// So many slopes of a quarter.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{Layer, PRelu}};
    /// assert_eq!(PRelu::new(3).apply(&Tensor::ones([2, 3, 5])).shape().to_string(), "[2, 3, 5]");
    /// ```
    pub fn new(channels: usize) -> PRelu {
        PRelu { slope: Tensor::new(&vec![0.25_f32; channels], [channels]) }
    }
}

impl Layer for PRelu {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let channels = self.slope.shape().elements();
        if let Some(failed) = [x, &self.slope].into_iter().find(|tensor| tensor.error().is_some()) {
            return failed.clone();
        }
        if channels != 1 && x.shape().get(1) != Some(&channels) {
            let message = format!("{channels} slopes are for [batch, {channels}, …], not for the shape {}", x.shape());
            return Tensor::refused(Error::new("PRelu", message), &[x, &self.slope]);
        }
        // [channels, 1, …]: from the second axis to the last; one slope for all has no axis, and adds none.
        let mut shape = vec![1; if channels == 1 { 0 } else { x.rank() - 1 }];
        if let Some(first) = shape.first_mut() {
            *first = channels;
        }
        let negative = (x * self.slope.reshape(shape)).composed_as("PRelu", &[x, &self.slope]);
        x.gt(0.0).choose(x, &negative)
    }
}
