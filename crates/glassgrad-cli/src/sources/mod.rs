//! Data sources in files of this machine, one file each. Each is recorded as a [`glassgrad::data::Source`].

mod cache;
mod download;
mod mnist;

pub(crate) use download::Progress;
pub(crate) use glassgrad_experiment::sources::IRIS;
pub(crate) use mnist::DataLocation;
