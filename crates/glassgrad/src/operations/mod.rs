//! What people expect of an array library, one idea a file, composed from the core: the rules of the core
//! differentiate and batch it.

mod complex;
#[cfg(feature = "fft")]
mod fourier;
mod indexing;
mod interpolate;
mod layout;
mod order;
mod product;
mod sampling;
mod truth;

pub use complex::{Complex, IntoComplex};
#[cfg(feature = "fft")]
pub use fourier::Norm;
pub use interpolate::Interpolation;
