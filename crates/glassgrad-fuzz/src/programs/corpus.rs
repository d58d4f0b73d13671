//! Programs that once failed, kept as regression tests in `corpus/*.txt`.
//!
//! Lines that begin with `#` name the oracle and the seed of its random choices, and may say more. A line
//! `# known failure: reason` marks a defect that is not fixed yet: the test then requires that the program still fails, so
//! that the mark is removed with the defect.

use std::str::FromStr;

use super::oracles::{Case, ORACLES, Oracle};
use super::program::Program;
use super::reduce::validate;

/// A program with the oracle that it is put before.
#[derive(Debug)]
pub struct Entry {
    /// The program.
    pub program: Program,
    /// The name of the oracle.
    pub oracle: String,
    /// The seed of the random choices of the oracle.
    pub seed: u64,
    /// Why the program is known to fail.
    pub known_failure: Option<String>,
}

/// A program as an entry of the corpus.
pub fn entry(program: &Program, oracle: &str, seed: u64) -> String {
    format!("# oracle: {oracle}\n# seed: {seed}\n{program}")
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Entry, String> {
        let mark = |name: &str| {
            let prefix = format!("# {name}: ");
            text.lines().find_map(|line| line.strip_prefix(&prefix).map(|rest| rest.trim().to_owned()))
        };
        let seed = mark("seed").ok_or("the line '# seed: …' is missing")?;
        let seed = seed.parse().map_err(|_| format!("the seed '{seed}' is no number"))?;
        let oracle = mark("oracle").ok_or("the line '# oracle: …' is missing")?;
        let program: Program = text.parse()?;
        validate(&program)?;
        Ok(Entry { program, oracle, seed, known_failure: mark("known failure") })
    }
}

impl Entry {
    /// Puts the program before its oracle.
    pub fn check(&self) -> Result<(), String> {
        let oracle: &Oracle = ORACLES
            .iter()
            .find(|oracle| oracle.name == self.oracle)
            .ok_or_else(|| format!("there is no oracle '{}'", self.oracle))?;
        Case::new(&self.program, self.seed).check(oracle)
    }
}
