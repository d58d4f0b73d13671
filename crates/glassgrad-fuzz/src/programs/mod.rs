//! Random tensor programs.
//!
//! A program is data: a list of instructions over previous values, with nested blocks for the functions of transforms. It is
//! generated from a seed, interpreted by calling the library, put before [`oracles`], reduced if they disagree, and printed
//! in a format that can be parsed back.

pub mod builder;
pub mod compare;
pub mod corpus;
pub mod export;
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
        let is_due = |oracle: &&Oracle| {
            let is_named = self.selection.names().any(|name| name == oracle.name);
            self.selection.has(oracle.name) && (is_named || (oracle.every > 0 && seed.is_multiple_of(oracle.every)))
        };
        for oracle in ORACLES.iter().filter(is_due) {
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
        let kind = kind_of(&message);
        let fails = |candidate: &Program| {
            Case::new(candidate, seed).check(oracle).is_err_and(|message| kind_of(&message) == kind)
        };
        let reduced = reduce::reduce(&program, &fails);
        let message = Case::new(&reduced, seed).check(oracle).err().unwrap_or(message);
        let program = corpus::entry(&reduced, oracle.name, seed);
        Err(Failure { seed, oracle: oracle.name.to_owned(), message, program })
    }
}

/// The kind of a disagreement, which stays the same while a program is reduced: the first words without numbers.
fn kind_of(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let words: String = line.chars().filter(|c| !c.is_ascii_digit()).take(40).collect();
    let numbers = ["result ", "the gradient", "⟨w"];
    let kind = numbers.iter().find(|kind| words.contains(**kind));
    kind.map_or(words.clone(), |kind| (*kind).to_owned())
}
