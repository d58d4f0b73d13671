//! Kernels for a whole region of a graph.

/// Kernels that some targets have for a whole region.
///
/// Attention is that of packed queries, keys and values `[batch, positions, 3, heads, size]`. Its outputs are `[batch, positions, heads,
/// size]`, and the logarithm of the sum of exponentials of each row of scaled scores, `[batch, heads, positions]`, in the compute type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FusedKernel {
    /// Attention.
    Attention(AttentionKernel),
    /// Its pullback, from the operand, the cotangent of the first output and both outputs to the cotangent of the operand. The body
    /// computes attention anew from the operand and ignores the outputs, so that derivatives of the pullback are those of the body.
    AttentionPullback(AttentionKernel),
    /// Cross-entropy of logits `[…, classes]` and indices of classes `[…]`: the loss of each example in the compute type, and the logarithm of
    /// its normalizer. An index out of range is an error of the operation of this name.
    CrossEntropy(&'static str),
    /// Its pullback, from both operands, the cotangent of the loss and both outputs to the cotangent of the logits.
    CrossEntropyPullback(&'static str),
    /// Batch normalization of `[batch, channels, …]` with a scale and a shift for each channel, and this epsilon: the result in the type of the
    /// operand, and mean and variance of each channel in the compute type.
    BatchNorm(f64),
    /// Its pullback, from the operands, the cotangent of the result and all outputs to the cotangents of the operands.
    BatchNormPullback(f64),
    /// A cumulative operation along an axis, of a result of the same shape.
    Cumulative(CumulativeKernel),
    /// Its pullback, from the operand, the cotangent of the result and the result to the cotangent of the operand.
    CumulativePullback(CumulativeKernel),
    /// The places of this many of the largest elements along the last axis, the largest first; of equal ones the first comes first, and NaN is
    /// the largest.
    TopK(usize),
}

/// What is accumulated along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CumulativeKernel {
    /// How elements are combined.
    pub of: Cumulation,
    /// The axis.
    pub axis: usize,
    /// Whether it begins with the last element.
    pub reversed: bool,
}

/// An associative operation that is accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cumulation {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionKernel {
    /// Whether a position attends only to itself and to earlier ones.
    pub causal: bool,
    /// The factor of the scores.
    pub scale: f64,
}

impl FusedKernel {
    /// The kernel in a few words.
    pub fn describe(&self) -> String {
        match self {
            FusedKernel::Attention(AttentionKernel { causal: true, .. }) => "causal attention".to_owned(),
            FusedKernel::Attention(AttentionKernel { causal: false, .. }) => "attention".to_owned(),
            FusedKernel::AttentionPullback(AttentionKernel { causal: true, .. }) => {
                "causal attention pullback".to_owned()
            }
            FusedKernel::AttentionPullback(AttentionKernel { causal: false, .. }) => "attention pullback".to_owned(),
            FusedKernel::CrossEntropy(_) => "cross-entropy".to_owned(),
            FusedKernel::CrossEntropyPullback(_) => "cross-entropy pullback".to_owned(),
            FusedKernel::BatchNorm(_) => "batch normalization".to_owned(),
            FusedKernel::BatchNormPullback(_) => "batch normalization pullback".to_owned(),
            FusedKernel::Cumulative(kernel) => format!("cumulative {} along {}", kernel.of.name(), kernel.axis),
            FusedKernel::CumulativePullback(kernel) => {
                format!("cumulative {} pullback along {}", kernel.of.name(), kernel.axis)
            }
            FusedKernel::TopK(count) => format!("top {count}"),
        }
    }
}

impl Cumulation {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Cumulation::Sum => "sum",
            Cumulation::Product => "product",
            Cumulation::Max => "max",
            Cumulation::Min => "min",
        }
    }
}
