//! Capabilities of a target: an input of lowering, stated once by each executor.

use super::program::{CallKind, Signature};
use crate::dtype::DType;
use crate::program::FusedKernel;

/// The capabilities and limits of a target.
///
/// ```
/// use glassgrad::exec::Target;
/// let cpu = Target::Cpu.capabilities();
/// assert!(cpu.row_elements >= 256 && cpu.epilogue.is_some());
/// assert!(Target::Reference.capabilities().epilogue.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The element types that it computes with.
    pub dtypes: &'static [DType],
    /// The most axes of a loop or a contraction.
    pub axes: usize,
    /// The most instructions of a loop.
    pub instructions: usize,
    /// The most loads, and the most stores, of a loop: each is one more stream of memory.
    pub streams: usize,
    /// As long as a loop over many elements has fewer loads than this, work that shares nothing with it joins it: more streams
    /// than these evict each other from caches.
    pub joined_streams: usize,
    /// The most elements over which a loop can reduce rows and go on with what it found.
    pub row_elements: usize,
    /// Whether loops over transposed operands are tiled for the cache.
    pub tiles: bool,
    /// The largest number of elements of an overlapping window whose reduction is unrolled.
    pub unrolled_windows: usize,
    /// When a contraction can have an epilogue; `None` if never.
    pub epilogue: Option<EpilogueLimits>,
    /// Whether several products of one contraction can accumulate into overlapping places (col2im).
    pub accumulation: bool,
    /// Whether half of a symmetric product can be computed and mirrored.
    pub symmetric: bool,
    /// The storage types whose products it computes from elements as they are stored, with sums in the compute type; operands
    /// of other storage types are converted before.
    pub products: &'static [DType],
    /// Whether such products have results in the compute type, which a loop rounds.
    pub wide_products: bool,
    /// The least multiplications of such a product, all together; operands of smaller ones are converted before.
    pub stored_multiplications: usize,
    /// The types of convolutions whose results are stored channels-last, as `[batch, places…, channels]`. What is computed element by
    /// element from such a result keeps that layout, and so do padding, batch normalization and scatters of windows.
    pub channels_last: &'static [DType],
    /// Whether the transpose of a read of windows takes elements of storage types as they are, with sums in the compute type.
    pub stored_scatters: bool,
    /// Whether products of a large matrix and a vector are contractions; they are loops otherwise.
    pub matrix_vector: bool,
    /// Which regions it has a kernel for, by the types and shapes of their inputs; others are opened before the passes.
    pub fused: fn(&FusedKernel, &[Signature]) -> bool,
    /// Whether kernels for regions read their operands in aligned vectors, so that leaves, which may begin anywhere, are copied before.
    pub aligned_operands: bool,
    /// Which kinds of call it runs itself; others run on the host. `explain` names what runs each step.
    pub native: fn(&CallKind) -> bool,
}

/// From which sizes on a contraction can have an epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpilogueLimits {
    /// The least bytes of the result: less stays in a cache by itself.
    pub bytes: usize,
    /// The least multiplications.
    pub multiplications: usize,
    /// Whether contractions with more terms than lines of the result can have one. A target that packs a factor again for
    /// each tile loses by it.
    pub deep: bool,
    /// Whether a reduction of what a loop stores becomes a loop of its own, so that the rest of the loop can be an epilogue.
    pub separate_reductions: bool,
}
