//! The sweep back over a loop over time, as a step of a program.

use std::fmt;
use std::sync::Arc;

use super::program::{Access, Memory, Program};
use super::revolve::Schedule;

/// The sweep back over a loop over time, by a schedule of snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// One step forwards: from all inputs of both programs to the next state.
    pub advance: Arc<Program>,
    /// One step back: from the same inputs to the cotangents before it, and to one entry of each stacked result.
    /// The inputs are the state, what is carried back, one entry of each sequence, and what does not change.
    pub reverse: Arc<Program>,
    /// When to run which, and which states to keep.
    pub schedule: Arc<Schedule>,
    /// The first state, the last cotangents, the sequences, and what does not change.
    pub inputs: Vec<Access>,
    /// The first cotangents and the stacked results, where anybody reads them.
    pub outputs: Vec<Option<Access>>,
    /// How many arrays the state has, and how many are carried back.
    pub states: usize,
    /// How many arrays are carried back.
    pub carries: usize,
    /// How many sequences there are.
    pub sequences: usize,
    /// Where the arena of both programs is, two places for each array of the state and for each that is carried
    /// back, and the snapshots.
    pub scratch: Memory,
    /// The node to name if it fails.
    pub source: usize,
}

impl Sweep {
    /// How often one step runs forwards on its own, and how often it is reversed.
    pub fn runs(&self) -> [usize; 2] {
        [self.schedule.advances(), self.schedule.steps]
    }
}

/// How many actions of a schedule are told one by one.
const TOLD: usize = 24;

/// The schedule in words, and both programs.
impl fmt::Display for Sweep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Schedule { steps, snapshots, actions } = &*self.schedule;
        let [forwards, back] = self.runs();
        writeln!(
            formatter,
            "reverse sweep of {steps} steps with {snapshots} snapshots: {forwards} steps forwards, {back} back"
        )?;
        for action in actions.iter().take(TOLD) {
            writeln!(formatter, "       {action}")?;
        }
        if let Some(more) = actions.len().checked_sub(TOLD).filter(|more| *more > 0) {
            writeln!(formatter, "       and so on, {more} actions more")?;
        }
        for (what, program) in [("forwards", &self.advance), ("back", &self.reverse)] {
            writeln!(formatter, "       one step {what}:")?;
            for line in program.to_string().lines() {
                writeln!(formatter, "         {line}")?;
            }
        }
        Ok(())
    }
}
