//! Scan loops and their reverse sweeps: steps whose bodies are programs.

use std::sync::Arc;

use super::{Access, Memory, Program};
use crate::revolve::Schedule;

/// A loop over leading axes: a program for one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanLoop {
    /// One iteration: its inputs are the carries, one entry of each sequence and loop invariants; its results are the next
    /// carries and one entry of each stacked result.
    pub body: Arc<Program>,
    /// How many iterations.
    pub length: usize,
    /// Whether entries come from the last to the first; results stand where their entries do.
    pub reversed: bool,
    /// The initial carries, the sequences, and loop invariants. The first stride of a sequence leads from one entry to the
    /// next.
    pub inputs: Vec<Access>,
    /// The final carries and the stacked results, where anything reads them.
    pub outputs: Vec<Option<Access>>,
    /// How many carries there are.
    pub carries: usize,
    /// How many sequences there are.
    pub sequences: usize,
    /// The arena of the body, from this byte on, followed by two buffers for each carry.
    pub scratch: Memory,
    /// The node to name if it fails.
    pub source: usize,
}

/// The reverse sweep over a scan loop, by a schedule of snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct ReverseScan {
    /// One iteration of the loop: from all inputs of both programs to the next state.
    pub advance: Arc<Program>,
    /// One iteration of the sweep: from the same inputs to the cotangents before it, and to one entry of each stacked
    /// result. The inputs are the state, the carried cotangents, one entry of each sequence, and loop invariants.
    pub reverse: Arc<Program>,
    /// When to run which, and which states to keep.
    pub schedule: Arc<Schedule>,
    /// The initial state, the final cotangents, the sequences, and loop invariants.
    pub inputs: Vec<Access>,
    /// The initial cotangents and the stacked results, where anything reads them.
    pub outputs: Vec<Option<Access>>,
    /// How many arrays the state has.
    pub states: usize,
    /// How many cotangents are carried.
    pub carries: usize,
    /// How many sequences there are.
    pub sequences: usize,
    /// The arena of both programs, followed by two buffers for each array of the state and each carried cotangent, and by
    /// the snapshots.
    pub scratch: Memory,
    /// The node to name if it fails.
    pub source: usize,
}

impl ReverseScan {
    /// How often one iteration of the loop runs on its own, and how often it is reversed.
    pub fn runs(&self) -> [usize; 2] {
        [self.schedule.advances(), self.schedule.steps]
    }
}
