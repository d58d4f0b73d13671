//! From graph to numbers.
//!
//! The reference executor is slow and right: it is the judge of every faster one. [`read`](self) holds
//! the methods of [`Tensor`](crate::expr::Tensor) that ask for values.

mod clock;
mod every;
mod followed;
mod footprint;
mod fused;
mod graphs;
mod large;
mod level;
mod machine;
mod packed;
mod product;
mod programs;
mod read;
mod reference;
mod register;
mod schedule;
mod strong;
mod sweep;
mod symmetric;
pub(crate) mod threads;
mod tiles;
mod vector;
mod whole;

pub(crate) use clock::{Timed, timed};
pub(crate) use every::{Place, every_value, value_of};
pub use footprint::footprint;
pub(crate) use fused::WORTH;
pub use level::{Level, at_level};
pub(crate) use machine::{Results, address_mut, part};
pub use programs::programs_planned;
pub(crate) use programs::{planned, program_for, run};
pub(crate) use schedule::{evaluate, evaluate_by_reference, extract, function, known, program, reaches_variable};
pub use threads::{threads, with_threads};
pub use vector::accuracy;
