//! Examples, in batches and in random order, ahead of those who need them.
//!
//! A [`Dataset`] has a number of examples and stacks those at given indices; [`Examples`] are one, of tensors whose
//! first axis is that of the examples. [`split`] divides a dataset, [`Batches`] is the order in which one is seen: a function
//! of a key, an epoch and a number, so that a run can begin anywhere. [`Prefetch`] loads the next batches in a thread of
//! their own. [`Standard`] brings numbers to the mean 0 and the deviation 1. [`Labelled`] are examples with their targets, a
//! [`Source`] is a set of them with its names, and [`synthetic`] has synthetic data sets. [`random_crop`] and [`random_flip`]
//! augment images.

mod augment;
mod batches;
mod dataset;
#[cfg(feature = "files")]
pub mod files;
mod labelled;
mod prefetch;
mod standard;
pub mod synthetic;
#[cfg(feature = "tokens")]
mod tokens;

pub use augment::{random_crop, random_flip};
pub use batches::{Batches, Position};
pub use dataset::{Dataset, Examples, Subset, split};
pub use labelled::{Labelled, Source, Targets};
pub use prefetch::Prefetch;
pub use standard::Standard;
#[cfg(feature = "tokens")]
pub use tokens::Tokenizer;
