//! The program `glassgrad`: derivatives that show their work.
//!
//! Each command is a file in `commands/` with its arguments and a function that runs it. Results go to
//! standard output, diagnostics to standard error. The exit code is 0 on success, 1 where a result is
//! not finite or a check failed, 2 where the input is wrong.

mod chart;
mod commands;
mod failure;
mod interrupt;
mod lab;
mod plot;
mod progress;
mod question;
mod report;
#[allow(dead_code, unused_imports, reason = "the command that trains reads a part of them")]
mod sources;
mod table;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// See-through automatic differentiation: every value, gradient and dependency of an expression.
#[derive(Parser)]
#[command(name = "glassgrad", version, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Grad(commands::grad::Grad),
    Derive(commands::derive::Derive),
    Graph(commands::graph::Graph),
    Check(commands::check::Check),
    Operations(commands::operations::Operations),
    Train(commands::train::Train),
    Bench(commands::bench::Bench),
}

fn main() -> ExitCode {
    let outcome = match Program::parse().command {
        Command::Grad(command) => command.run(),
        Command::Derive(command) => command.run(),
        Command::Graph(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Operations(command) => command.run(),
        Command::Train(command) => command.run(),
        Command::Bench(command) => command.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (start, end) = if colour { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
    eprintln!("{start}error{end}: {failure}");
    failure.exit_code()
}
