//! What people expect of an array library, one idea a file, composed from the core: the rules of the core
//! differentiate and batch it.

mod activation;
pub(crate) mod attention;
mod axes;
mod complex;
mod composed;
mod contraction;
mod convolution;
mod cumulative;
#[cfg(feature = "fft")]
mod fourier;
mod gamma_sample;
mod indexing;
mod integer;
mod interpolate;
mod layout;
#[cfg(feature = "linalg")]
pub mod linalg;
mod normalization;
mod norms;
mod order;
mod padding;
mod patches;
mod pointwise;
mod pooling;
mod product;
mod ranking;
mod sampling;
mod segment;
mod sets;
mod sparse;
mod special;
mod truth;
mod window;

pub use attention::Attention;
pub use complex::{Complex, IntoComplex};
pub use convolution::Convolution;
#[cfg(feature = "fft")]
pub use fourier::Norm;
pub use interpolate::Interpolation;
pub use padding::Padding;
pub use pooling::Pooling;
pub use ranking::Quantile;
pub use segment::Reduction;
pub use sparse::SparseMatrix;
pub use window::PerAxis;

/// The name of an operation over this many axes: the first of the names is that over any number.
fn with_axes(names: [&'static str; 4], axes: usize) -> &'static str {
    names.get(axes).unwrap_or(&names[0])
}
