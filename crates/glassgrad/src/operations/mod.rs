//! What people expect of an array library, one idea a file, composed from the core: the rules of the core
//! differentiate and batch it.

mod convolution;
mod cumulative;
mod indexing;
mod layout;
mod order;
mod pooling;
mod product;
mod truth;
mod window;

pub use convolution::Convolution;
pub use pooling::Pooling;
pub use window::PerAxis;
