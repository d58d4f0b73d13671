//! Activation functions that are compositions of rows of the table.

use crate::error::Error;
use crate::expr::{Axis, Tensor};

/// α and λ of the scaled exponential linear unit: with them, mean 0 and variance 1 are a fixed point.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl Tensor {
    /// min(max(x, 0), 6); its derivative at both bounds is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-1.0, 2.0, 7.0]).relu6().to_string(), "[0, 2, 6]");
    /// ```
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        let positive = self.relu();
        positive.ge(6.0).choose(&positive.literal(6.0), &positive).composed_as("relu6", &[self])
    }

    /// The piecewise linear sigmoid relu6(x + 3)/6; its derivative at ±3 is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-4.0, 0.0, 4.0]).hardsigmoid().to_string(), "[  0, 0.5,   1]");
    /// ```
    #[track_caller]
    pub fn hardsigmoid(&self) -> Tensor {
        ((self + 3.0).relu6() / 6.0).composed_as("hardsigmoid", &[self])
    }

    /// x·hardsigmoid(x).
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-4.0, 3.0, 4.0]).hardswish().to_string(), "[-0,  3,  4]");
    /// ```
    #[track_caller]
    pub fn hardswish(&self) -> Tensor {
        (self * self.hardsigmoid()).composed_as("hardswish", &[self])
    }

    /// The scaled exponential linear unit λ·elu(x, α) of self-normalizing networks.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0]).selu().item().unwrap(), 1.0507009873554805);
    /// ```
    #[track_caller]
    pub fn selu(&self) -> Tensor {
        (self.elu(SELU_ALPHA) * SELU_SCALE).composed_as("selu", &[self])
    }

    /// The continuously differentiable exponential linear unit: x above 0, alpha·(exp(x/alpha) - 1) up to 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([2.0, 0.0]).celu(2.0).to_string(), "[2, 0]");
    /// ```
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        ((self / alpha).elu(1.0) * alpha).composed_as("celu", &[self])
    }

    /// x - tanh(x).
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([1.0]).tanhshrink().item().unwrap(), 1.0 - 1.0_f64.tanh());
    /// ```
    #[track_caller]
    pub fn tanhshrink(&self) -> Tensor {
        (self - self.tanh()).composed_as("tanhshrink", &[self])
    }

    /// The soft-thresholding operator: x - λ above λ, x + λ below -λ, and 0 between; its derivative at ±λ is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-2.0, 0.25, 1.0]).softshrink(0.5).to_string(), "[-1.5,    0,  0.5]");
    /// ```
    #[track_caller]
    pub fn softshrink(&self, lambda: f64) -> Tensor {
        ((self - lambda).relu() - (-self - lambda).relu()).composed_as("softshrink", &[self])
    }

    /// x where |x| is above λ, else 0; its derivative at ±λ is 0.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([-2.0, 0.25, 1.0]).hardshrink(0.5).to_string(), "[-2,  0,  1]");
    /// ```
    #[track_caller]
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        self.abs().le(lambda).choose(&self.zeros_like(), self).composed_as("hardshrink", &[self])
    }

    /// ln(1 + exp(beta·x))/beta: the larger beta, the closer to [`Tensor::relu`].
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from(0.0).softplus_beta(2.0).item().unwrap(), 2.0_f64.ln() / 2.0);
    /// ```
    #[track_caller]
    pub fn softplus_beta(&self, beta: f64) -> Tensor {
        ((self * beta).softplus() / beta).composed_as("softplus_beta", &[self])
    }

    /// The gated linear unit: along an axis, the first half times the sigmoid of the second.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([3.0, 5.0, 0.0, 1000.0]).glu(0).to_string(), "[1.5,   5]");
    /// ```
    #[track_caller]
    pub fn glu(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        let along = match self.axis_from_front("glu", axis) {
            Ok(along) => along,
            Err(failed) => return failed,
        };
        let size = self.shape()[along];
        if size % 2 == 1 {
            let message = format!("axis {axis} has the odd size {size}: it is divided into values and gates");
            return Tensor::refused(Error::new("glu", message), &[self]);
        }
        let (values, gates) = (self.part(along, 0, size / 2), self.part(along, size / 2, size / 2));
        (values * gates.sigmoid()).composed_as("glu", &[self])
    }

    /// softmax of the negative numbers along an axis.
    ///
    /// ```
    /// use glassgrad::Tensor;
    /// assert_eq!(Tensor::from([900.0, 900.0]).softmin(0).to_string(), "[0.5, 0.5]");
    /// ```
    #[track_caller]
    pub fn softmin(&self, axis: impl Into<Axis>) -> Tensor {
        let Axis(axis) = axis.into();
        (-self).softmax(axis).composed_as("softmin", &[self])
    }
}
