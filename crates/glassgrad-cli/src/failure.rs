//! Errors of commands, and their exit codes.

use std::fmt;
use std::process::ExitCode;

pub(crate) use crate::terminal::print;

/// A failure, with the message that people read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is wrong: exit code 2.
    Input(String),
    /// The input is right, but the result is not finite or a check did not pass: exit code 1.
    Result(String),
}

impl Failure {
    /// The error for an error that wrong input has caused.
    pub(crate) fn input(error: impl fmt::Display) -> Failure {
        Failure::Input(error.to_string())
    }

    /// The error for an error that right input has met.
    pub(crate) fn result(error: impl fmt::Display) -> Failure {
        Failure::Result(error.to_string())
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Input(_) => ExitCode::from(2),
            Failure::Result(_) => ExitCode::from(1),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Input(message) | Failure::Result(message)) = self;
        formatter.write_str(message)
    }
}
