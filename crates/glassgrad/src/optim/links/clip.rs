//! Updates that are kept from being too large.

use crate::expr::Tensor;
use crate::optim::{Link, Memory, Optimiser, Step};

/// If all updates together are longer than this, they are scaled to this length.
///
/// ```
/// use glassgrad::{Tensor, optim::Optimiser};
/// let optimiser = Optimiser::sgd(1.0).clip_norm(5.0);
/// let (x, slope) = ((Tensor::from([0.0]), Tensor::from([0.0])), (Tensor::from([30.0]), Tensor::from([40.0])));
/// let (moved, _) = optimiser.update(&x, &slope, &optimiser.start(&x));
/// assert_eq!((moved.0.to_string(), moved.1.to_string()), ("[-3]".into(), "[-4]".into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipNorm(pub f64);

impl Link for ClipNorm {
    fn name(&self) -> &'static str {
        "clip by norm"
    }

    fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, _: &mut Memory) -> Vec<Tensor> {
        let squares = updates.iter().map(|update| update.square().sum().cast(crate::dtype::DType::F64));
        let Some(sum) = squares.reduce(|sum, square| sum + square) else { return updates };
        // A length of zero is divided by what it is compared with, not by itself.
        let norm = sum.sqrt();
        let factor = (norm.maximum(self.0)).recip() * self.0;
        updates.iter().map(|update| update * factor.cast(update.dtype())).collect()
    }
}

/// Every number of the updates is kept between minus this and this.
///
/// ```
/// use glassgrad::{Tensor, optim::{ClipValue, Optimiser}};
/// let optimiser = Optimiser::new(1.0).link(ClipValue(5.0));
/// let (x, slope) = (Tensor::from([0.0, 0.0]), Tensor::from([30.0, -2.0]));
/// assert_eq!(optimiser.update(&x, &slope, &optimiser.start(&x)).0.to_string(), "[-5,  2]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipValue(pub f64);

impl Link for ClipValue {
    fn name(&self) -> &'static str {
        "clip by value"
    }

    fn update(&self, _: &Step<'_>, updates: Vec<Tensor>, _: &mut Memory) -> Vec<Tensor> {
        updates.iter().map(|update| update.clip(-self.0, self.0)).collect()
    }
}

impl Optimiser {
    /// The same with gradients that are no longer than this, whatever comes then.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::adam(0.1).clip_norm(1.0).names(), ["clip by norm", "adam"]);
    /// ```
    pub fn clip_norm(self, length: f64) -> Optimiser {
        self.link_first(ClipNorm(length))
    }

    /// The same with gradients of which no number is larger than this, whatever comes then.
    ///
    /// ```
    /// use glassgrad::optim::Optimiser;
    /// assert_eq!(Optimiser::sgd(0.1).clip_value(1.0).names(), ["clip by value"]);
    /// ```
    pub fn clip_value(self, largest: f64) -> Optimiser {
        self.link_first(ClipValue(largest))
    }
}
