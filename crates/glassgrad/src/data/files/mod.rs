//! Data in files (feature `files`).
//!
//! Files are read as a whole, and nothing is allocated by what they claim about themselves: counts in headers are compared
//! with the bytes that are there, and what is compressed is expanded up to a limit. An error names the file and the place in it.
//!
//! | format | read by | at most |
//! |---|---|---|
//! | CSV, also compressed by gzip | [`Table::read`] | 2³⁴ bytes; 2³⁰ when expanded |
//! | NPY | [`read_npy`] | 2³⁴ bytes |
//! | NPZ | [`read_npz`], [`read_npz_within`] | 2³¹ bytes when expanded, or as given |
//! | idx, also compressed by gzip | [`Idx::read`] | what the header declares; 2³¹ bytes when expanded |

mod gz;
mod header_checks;
mod idx;
mod npy;
mod npz;
mod table;
mod whole;

pub use gz::expand;
pub use idx::Idx;
pub use npy::{npy_from_bytes, npy_from_bytes_as_stored, npy_to_bytes, read_npy, read_npy_as_stored};
pub use npz::{npz_from_bytes, read_npz, read_npz_within};
pub use table::{Column, Features, Reading, Table};
