//! What people expect of an array library, one idea a file, composed from the core: the rules of the core
//! differentiate and batch it.

mod indexing;
mod layout;
mod order;
mod product;
mod truth;
