//! Random tensor programs.
//!
//! A program is data: a list of instructions over previous values, with nested blocks for the functions of transforms. It is
//! generated from a seed, interpreted by calling the library, put before [`oracles`], reduced if they disagree, and printed
//! in a format that can be parsed back.

pub mod builder;
pub mod compare;
pub mod generate;
pub mod interpret;
pub mod operations;
pub mod oracles;
pub mod program;
pub mod reduce;
pub mod text;

use crate::counters;
use crate::generator::{Failure, Generator, Selection};
use oracles::{Case, NAMES, ORACLES, Oracle};
use program::Program;

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

    /// Puts a program before the selected oracles; the name of the first that disagrees, and what differs.
    pub fn check(&self, program: &Program, seed: u64) -> Result<(), (&'static Oracle, String)> {
        let case = Case::new(program, seed);
        for oracle in ORACLES.iter().filter(|oracle| self.selection.has(oracle.name)) {
            case.check(oracle).map_err(|message| (oracle, message))?;
        }
        Ok(())
    }
}

impl Generator for Programs {
    fn name(&self) -> &'static str {
        "programs"
    }

    fn oracles(&self) -> &'static [&'static str] {
        NAMES
    }

    fn run(&self, seed: u64) -> Result<(), Failure> {
        let program = generate::program(seed);
        counters::add("programs", "instructions", program.length() as u64);
        program.each(&mut |instruction| {
            let row = if instruction.operation == "row" { format!(" {}", instruction.text) } else { String::new() };
            counters::add("operation", format!("{}{row}", instruction.operation), 1);
        });
        let Err((oracle, message)) = self.check(&program, seed) else { return Ok(()) };
        let is_panic = message.starts_with("panic");
        let fails = |candidate: &Program| match Case::new(candidate, seed).check(oracle) {
            Err(message) => message.starts_with("panic") == is_panic,
            Ok(()) => false,
        };
        let reduced = reduce::reduce(&program, &fails);
        let message = Case::new(&reduced, seed).check(oracle).err().unwrap_or(message);
        Err(Failure { seed, oracle: oracle.name.to_owned(), message, program: reduced.to_string() })
    }
}
