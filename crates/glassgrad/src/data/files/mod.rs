//! Data in files (feature `files`).
//!
//! Files are read as a whole, and nothing is allocated by what they claim about themselves: counts in headers are compared
//! with the bytes that are there, and what is compressed is expanded up to a limit. An error names the file and the place in it.

mod gz;

pub use gz::expand;
