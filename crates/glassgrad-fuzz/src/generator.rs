//! What a generator of test cases is, and the list of all generators.

use std::collections::BTreeSet;
use std::fmt;

use crate::emitted::Emitted;
use crate::programs::Programs;
use crate::structured::Structured;
use crate::tapes::Tapes;

/// Makes test cases from seeds and checks them.
///
/// A generator is one folder of this crate and one line in [`generators`]. It counts what it checks with
/// [`counters::add`](crate::counters::add), and calls an oracle only if [`Selection::has`] says so.
pub trait Generator: Sync {
    /// The name, as `tools/fuzz --generator NAME` takes it.
    fn name(&self) -> &'static str;

    /// The names of the oracles, as `tools/fuzz --oracle NAME` takes them.
    fn oracles(&self) -> &'static [&'static str];

    /// Makes the case of a seed and puts it before the oracles. The same seed always gives the same case. A panic counts
    /// as a failure of the oracle `panic`; the runner catches it.
    fn run(&self, seed: u64) -> Result<(), Failure>;
}

/// All generators. `selection` says which oracles they call.
pub fn generators(selection: &Selection) -> Vec<Box<dyn Generator>> {
    vec![
        Box::new(Programs::new(selection.clone())),
        Box::new(Structured::new(selection.clone())),
        Box::new(Emitted::new(selection.clone())),
        Box::new(Tapes::new(selection.clone())),
    ]
}

/// A case for which two ways to compute the same thing disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The seed that makes the case.
    pub seed: u64,
    /// The oracle that disagrees.
    pub oracle: String,
    /// What differs.
    pub message: String,
    /// The reduced case as text.
    pub program: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "oracle {}, seed {}: {}\n{}", self.oracle, self.seed, self.message, self.program)
    }
}

/// Which oracles are called: those that are named, or all if none is.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    names: BTreeSet<String>,
}

impl Selection {
    /// A selection of the oracles with these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Selection {
        Selection { names: names.into_iter().collect() }
    }

    /// Whether an oracle is to be called.
    pub fn has(&self, oracle: &str) -> bool {
        self.names.is_empty() || self.names.contains(oracle)
    }

    /// The names that were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
