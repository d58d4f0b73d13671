//! What people expect of an array library, one idea a file, composed from the core: the rules of the core
//! differentiate and batch it.

mod complex;
mod convolution;
mod cumulative;
#[cfg(feature = "fft")]
mod fourier;
mod indexing;
mod interpolate;
mod layout;
#[cfg(feature = "linalg")]
pub mod linalg;
mod order;
mod pooling;
mod product;
mod sampling;
mod truth;
mod window;

pub use complex::{Complex, IntoComplex};
pub use convolution::Convolution;
#[cfg(feature = "fft")]
pub use fourier::Norm;
pub use interpolate::Interpolation;
pub use pooling::Pooling;
pub use window::PerAxis;

/// The name of an operation over so many axes: the first of the names is that over any number.
fn with_axes(names: [&'static str; 3], axes: usize) -> &'static str {
    names.get(axes).unwrap_or(&names[0])
}
