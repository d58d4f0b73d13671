//! Errors of experiments and commands: wrong input, or a result that is not finite.

use std::fmt;

/// A failure, with the message that people read.
#[derive(Debug)]
pub enum Failure {
    /// The input is wrong: exit code 2 of the program.
    Input(String),
    /// The input is right, but the result is not finite or a check did not pass: exit code 1 of the program.
    Result(String),
}

impl Failure {
    /// The error for an error that wrong input has caused.
    pub fn input(error: impl fmt::Display) -> Failure {
        Failure::Input(error.to_string())
    }

    /// The error for an error that right input has met.
    pub fn result(error: impl fmt::Display) -> Failure {
        Failure::Result(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Input(message) | Failure::Result(message)) = self;
        formatter.write_str(message)
    }
}
