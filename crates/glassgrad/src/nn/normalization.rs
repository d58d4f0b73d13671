//! Layer and batch normalization, with a learned scale and shift.

use super::layer::Layer;
use crate::Tree;
use crate::collective::shard_count;
use crate::diff::FusedRegion;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{Axes, FusedKernel, Tensor};

/// Inputs of 16 bits in `f32`, in which they are normalized: differences from a rounded mean would lose the digits that count.
#[track_caller]
pub(super) fn widened(x: &Tensor) -> Tensor {
    match x.dtype() {
        DType::F16 | DType::BF16 if x.error().is_none() => x.cast(DType::F32),
        _ => x.clone(),
    }
}

/// A normalized result, rounded to 16 bits where its input has 16 bits.
#[track_caller]
pub(super) fn rounded_as(normal: Tensor, x: &Tensor) -> Tensor {
    match x.dtype() {
        dtype @ (DType::F16 | DType::BF16) if normal.error().is_none() => normal.cast(dtype),
        _ => normal,
    }
}

/// ε, added to variances for numerical stability.
const EPSILON: f64 = 1e-5;

/// Layer normalization along the last axis.
///
/// ```
/// use glassgrad::{Tensor, nn::{Layer, LayerNorm}};
/// let y = LayerNorm::new(2).apply(&Tensor::from([[1.0_f32, 3.0], [10.0, 30.0]]));
/// assert!(y.all_close(Tensor::from([[-1.0_f32, 1.0], [-1.0, 1.0]]), 0.0, 1e-4).item().unwrap() == 1.0);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct LayerNorm {
    /// The scale γ.
    pub scale: Tensor,
    /// The shift β.
    pub shift: Tensor,
    /// ε, added to variances.
    #[tree(static)]
    pub epsilon: f64,
}

impl LayerNorm {
    /// Layer normalization of rows of this size, with scale 1 and shift 0.
    ///
    /// ```
    /// use glassgrad::{nn::LayerNorm, tree::Tree};
    /// assert_eq!(LayerNorm::new(8).element_count(), 16);
    /// ```
    pub fn new(size: usize) -> LayerNorm {
        LayerNorm { scale: Tensor::ones([size]), shift: Tensor::zeros([size]), epsilon: EPSILON }
    }
}

impl Layer for LayerNorm {
    #[track_caller]
    fn apply(&self, x: &Tensor) -> Tensor {
        let rows = || Axes::from(-1).keep();
        let wide = widened(x);
        let centred = &wide - wide.mean_over(rows());
        let variance = centred.square().mean_over(rows());
        let normalised = centred / (variance + self.epsilon).sqrt() * &self.scale + &self.shift;
        rounded_as(normalised, x).reported_as("layer_norm", &[x, &self.scale])
    }
}

/// Batch normalization: normalises each channel over the batch, and where the batch is distributed over ranks, over all of it. The running statistics for evaluation are a separate tree that a
/// training step returns beside its result: layers have no hidden state.
///
/// ```
/// use glassgrad::{Tensor, nn::{BatchNorm, Statistics}};
/// let (norm, before) = (BatchNorm::new(1), Statistics::new(1));
/// let batch = Tensor::from([[1.0_f32], [3.0]]);
/// let (y, after) = norm.normalize(&batch, &before);
/// assert!((y.to_vec::<f32>().unwrap()[1] - 1.0).abs() < 1e-4);
/// // The running mean moves by the momentum 0.1 from 0 towards the mean 2.
/// assert!((after.mean.item().unwrap() - 0.2).abs() < 1e-6);
/// assert_eq!(norm.predict(&batch, &after).shape().to_string(), "[2, 1]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct BatchNorm {
    /// The scale γ of each channel.
    pub scale: Tensor,
    /// The shift β.
    pub shift: Tensor,
    /// ε, added to variances.
    #[tree(static)]
    pub epsilon: f64,
    /// The momentum: the weight of the batch statistics in the running statistics.
    #[tree(static)]
    pub momentum: f64,
}

/// The running mean and variance of each channel.
///
/// ```
/// use glassgrad::nn::Statistics;
/// assert_eq!(Statistics::new(2).variance.to_string(), "[1, 1]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Statistics {
    /// The mean.
    pub mean: Tensor,
    /// The variance, with n - 1 in place of n.
    pub variance: Tensor,
}

impl Statistics {
    /// The initial statistics: mean 0 and variance 1.
    ///
    /// ```
    /// use glassgrad::nn::Statistics;
    /// assert_eq!(Statistics::new(2).mean.to_string(), "[0, 0]");
    /// ```
    pub fn new(channels: usize) -> Statistics {
        Statistics { mean: Tensor::zeros([channels]), variance: Tensor::ones([channels]) }
    }
}

impl BatchNorm {
    /// Batch normalization of this many channels (the second axis), with scale 1 and shift 0.
    ///
    /// ```
    /// use glassgrad::nn::BatchNorm;
    /// assert_eq!(BatchNorm::new(8).momentum, 0.1);
    /// ```
    pub fn new(channels: usize) -> BatchNorm {
        BatchNorm { scale: Tensor::ones([channels]), shift: Tensor::zeros([channels]), epsilon: EPSILON, momentum: 0.1 }
    }

    /// Training mode: the batch normalised by its own mean and variance, and the updated running statistics. The derivative passes
    /// through mean and variance of the batch, and not into the statistics.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{BatchNorm, Statistics}};
    /// let images = Tensor::arange(48.0_f32).reshape([2, 3, 2, 4]);
    /// let (y, _) = BatchNorm::new(3).normalize(&images, &Statistics::new(3));
    /// assert!(y.mean().item().unwrap().abs() < 1e-6);
    /// ```
    #[track_caller]
    pub fn normalize(&self, x: &Tensor, statistics: &Statistics) -> (Tensor, Statistics) {
        if let Some(failed) = self.other_channels(x) {
            return (failed.clone(), Statistics { mean: failed.clone(), variance: failed });
        }
        // The statistics of one shard need the others, so that no kernel computes them.
        let region = (shard_count() == 1).then(|| FusedRegion::new(&[x, &self.scale, &self.shift]));
        let [given, scale, shift] = match &region {
            Some(region) => [0, 1, 2].map(|operand| region.parameters[operand].clone()),
            None => [x, &self.scale, &self.shift].map(Tensor::clone),
        };
        let x = &widened(&given);
        let axes: Vec<isize> = (0..x.rank() as isize).filter(|axis| *axis != 1).collect();
        let (mean, count) = batch_mean(x, &axes);
        let centred = x - along_channels(&mean, x.rank());
        let (variance, _) = batch_mean(&centred.square(), &axes);
        let normalized = rounded_as(scaled([&scale, &shift], self.epsilon, &centred, &variance), &given);
        let mut outputs = vec![normalized, mean, variance];
        if let Some(region) = region {
            outputs = region.outputs(FusedKernel::BatchNorm(self.epsilon), outputs);
        }
        let [normalized, mean, variance] = [0, 1, 2].map(|output| outputs[output].clone());
        let unbiased = match count {
            Elements::Known(count) => &variance * (count as f64 / (count.max(2) - 1) as f64),
            Elements::Summed(count) => &variance * (&count / (count.maximum(2.0) - 1.0)),
        };
        let towards = |old: &Tensor, new: Tensor| old * (1.0 - self.momentum) + new.stop_gradient() * self.momentum;
        let moved =
            Statistics { mean: towards(&statistics.mean, mean), variance: towards(&statistics.variance, unbiased) };
        (normalized, moved)
    }

    /// Evaluation mode: the batch normalised by the running statistics.
    ///
    /// ```
    /// use glassgrad::{Tensor, nn::{BatchNorm, Statistics}};
    /// let x = Tensor::from([[5.0_f32, 7.0]]);
    /// assert!(BatchNorm::new(2).predict(&x, &Statistics::new(2)).all_close(&x, 1e-4, 0.0).item().unwrap() == 1.0);
    /// ```
    #[track_caller]
    pub fn predict(&self, x: &Tensor, statistics: &Statistics) -> Tensor {
        if let Some(failed) = self.other_channels(x) {
            return failed;
        }
        let centred = widened(x) - along_channels(&statistics.mean, x.rank());
        rounded_as(scaled([&self.scale, &self.shift], self.epsilon, &centred, &statistics.variance), x)
    }

    /// The error for inputs whose axis 1 has another number of channels.
    #[track_caller]
    fn other_channels(&self, x: &Tensor) -> Option<Tensor> {
        let channels = self.scale.shape().elements();
        match x.shape().get(1) {
            _ if x.error().is_some() => Some(x.clone()),
            Some(own) if *own == channels => None,
            own => {
                let found = own.map_or_else(|| "no channels".to_owned(), |own| format!("{own} channels"));
                let message = format!("the input has {found} along axis 1, and the layer normalises {channels}");
                let help = "inputs are [batch, channels, …], and BatchNorm::new takes the number of channels";
                Some(Tensor::refused(Error::new("batch_norm", message).help(help), &[x]))
            }
        }
    }
}

/// Centred elements divided by their standard deviation, scaled and shifted by channel.
#[track_caller]
fn scaled([scale, shift]: [&Tensor; 2], epsilon: f64, centred: &Tensor, variance: &Tensor) -> Tensor {
    let factor = scale / (variance + epsilon).sqrt();
    centred * along_channels(&factor, centred.rank()) + along_channels(shift, centred.rank())
}

/// The number of elements that a channel has in the batch.
enum Elements {
    /// All are here.
    Known(usize),
    /// Summed over the shards of the batch.
    Summed(Tensor),
}

/// The mean of each channel over the batch, and the number of its elements. On the shards of a batch both are those of the whole batch:
/// statistics are synchronised.
#[track_caller]
fn batch_mean(x: &Tensor, axes: &[isize]) -> (Tensor, Elements) {
    let channels = x.shape()[1];
    let count = x.shape().elements() / channels.max(1);
    if shard_count() == 1 {
        return (x.mean_over(axes), Elements::Known(count));
    }
    // The number of elements travels with the sums, because shards may differ by an example.
    let parts = [x.sum_over(axes), Tensor::full([1], count as f64, x.dtype())];
    let both = Tensor::concatenate(&parts, 0).all_reduce();
    let (sums, count) = (both.part_of_axis(0, 0, channels), both.part_of_axis(0, channels, 1));
    (sums / &count, Elements::Summed(count))
}

/// A vector over channels, reshaped to broadcast against a tensor of this rank with channels second.
#[track_caller]
fn along_channels(numbers: &Tensor, rank: usize) -> Tensor {
    let mut shape = vec![1; rank.saturating_sub(1).max(1)];
    shape[0] = numbers.shape().elements();
    numbers.reshape(shape)
}
