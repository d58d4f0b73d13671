//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod derive;
pub(crate) mod device;
pub(crate) mod grad;
pub(crate) mod graph;
pub(crate) mod operations;
pub(crate) mod predict;
pub(crate) mod studio;
pub(crate) mod train;
pub(crate) mod tune;
