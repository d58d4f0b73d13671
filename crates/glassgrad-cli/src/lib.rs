//! The program `glassgrad`: derivatives that show their work.
//!
//! Each command is a file in `commands/` with its arguments and a function that runs it. Results go to
//! standard output, diagnostics to standard error. The exit code is 0 on success, 1 where a result is
//! not finite or a check failed, 2 where the input is wrong.
//!
//! All of it is this library, and `main.rs` calls [`main`]: a library is compiled as soon as the interfaces of its dependencies are
//! known, beside their machine code, where a binary waits for all of it.

mod commands;
mod device;
mod failure;
mod folder;
mod interrupt;
mod plot;
mod progress;
mod question;
mod ranks;
mod sources;
mod studio;
mod table;
mod terminal;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use commands::Command;
use failure::Failure;
// Experiments under the names that commands use.
use glassgrad_experiment::{self as experiment, chart, report};

/// See-through automatic differentiation: every value, gradient and dependency of an expression, and neural networks
/// that can be inspected during training
#[derive(Parser)]
#[command(name = "glassgrad", version, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

/// The table from which the parser, the completions and the manual are generated.
fn program() -> clap::Command {
    Program::command()
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    match Program::parse().command.run() {
        // By convention 128 + SIGINT: the run has ended cleanly, but early.
        Ok(()) if interrupt::is_asked() => ExitCode::from(130),
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    let colour = plot::is_coloured(&std::io::stderr());
    let (start, end) = if colour { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
    // On a closed pipe only the exit code reports the failure.
    let _ = writeln!(std::io::stderr(), "{start}error{end}: {}", terminal::escaped(&failure.to_string()));
    failure::exit_code(failure)
}
