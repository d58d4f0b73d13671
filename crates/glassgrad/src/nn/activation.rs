//! Activation functions.

use super::layer::Layer;
use crate::Tree;
use crate::error::Error;
use crate::expr::Tensor;

/// An activation function: pointwise, except for softmax and log-softmax, which act along the last axis.
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
    /// The identity.
    Identity,
    /// The logistic sigmoid, 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// The Heaviside step function at this threshold, with derivative 0.
    Threshold(#[tree(static)] f64),
    /// The rectified linear unit, max(x, 0).
    Relu,
    /// The leaky rectified linear unit with this negative slope.
    LeakyRelu(#[tree(static)] f64),
    /// The exponential linear unit: x where it is positive, else α (eˣ - 1).
    Elu(#[tree(static)] f64),
    /// The Gaussian error linear unit, x Φ(x) with the normal distribution function Φ.
    Gelu,
    /// GELU in the tanh approximation, the form of GPT-2.
    GeluTanh,
    /// The sigmoid linear unit, x σ(x), also called swish.
    Silu,
    /// Softplus, ln(1 + eˣ).
    Softplus,
    /// Softmax along the last axis.
    Softmax,
    /// The logarithm of softmax along the last axis.
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
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
            Activation::Softplus => x.softplus(),
            Activation::Softmax => x.softmax(-1),
            Activation::LogSoftmax => x.log_softmax(-1),
        }
    }
}

/// The parametric rectified linear unit with a learned negative slope: a single one, or one per channel (the second axis, as in
/// PyTorch). Its derivative at 0 is the negative slope, as for [`Tensor::leaky_relu`].
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
    /// The negative slope, `[1]` or `[channels]`.
    pub slope: Tensor,
}

impl PRelu {
    /// `count` negative slopes, each initialised to 0.25.
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
