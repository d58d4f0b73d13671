//! Making graphs cheaper before they run.

pub mod contract;
