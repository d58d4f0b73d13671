//! What people expect of an array library, one idea a file, composed from the core: the rules of the core
//! differentiate and batch it.

#[cfg(feature = "linalg")]
pub mod linalg;
