//! Errors of commands, and their exit codes.

use std::process::ExitCode;

pub(crate) use glassgrad_experiment::failure::Failure;

pub(crate) use crate::terminal::print;

/// The exit code of a failure.
pub(crate) fn exit_code(failure: &Failure) -> ExitCode {
    match failure {
        Failure::Input(_) => ExitCode::from(2),
        Failure::Result(_) => ExitCode::from(1),
    }
}
