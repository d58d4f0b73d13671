//! Synthetic data sets: deterministic functions of a key.
//!
//! [`moons`], [`circles`], [`spirals`] and [`blobs`] are points of the plane in classes; [`Curve`] samples functions of one
//! number, a table of which is [`CURVES`].

mod curves;
mod plane;

pub use curves::{CURVES, Curve};
pub use plane::{blobs, circles, moons, spirals};
