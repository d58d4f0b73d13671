//! Random tensor programs.

use crate::generator::{Failure, Generator, Selection};

/// The generator of random tensor programs.
#[derive(Debug)]
pub struct Programs {
    selection: Selection,
}

impl Programs {
    /// The generator, with a selection of its oracles.
    pub fn new(selection: Selection) -> Programs {
        Programs { selection }
    }
}

impl Generator for Programs {
    fn name(&self) -> &'static str {
        "programs"
    }

    fn oracles(&self) -> &'static [&'static str] {
        &[]
    }

    fn run(&self, _seed: u64) -> Result<(), Failure> {
        let _ = &self.selection;
        Ok(())
    }
}
