//! `glassgrad completions` and `glassgrad man`: generated from the table of the parser.

use clap::Args;
use clap_complete::Shell;

use crate::failure::{Failure, print};

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  glassgrad completions bash > ~/.local/share/bash-completion/completions/glassgrad
  glassgrad completions zsh > ~/.zfunc/_glassgrad
  glassgrad completions fish > ~/.config/fish/completions/glassgrad.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual, or that of one command, as a man page
#[derive(Args)]
#[command(after_help = "\
Examples:
  glassgrad man | man -l -
  glassgrad man train > glassgrad-train.1")]
pub(crate) struct Man {
    /// The command
    command: Option<String>,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut crate::program(), "glassgrad", &mut text);
        print(&String::from_utf8_lossy(&text))
    }
}

impl Man {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = crate::program();
        let command = match &self.command {
            None => program,
            Some(name) => {
                let Some(command) = program.find_subcommand(name) else {
                    return Err(Failure::Input(format!("there is no command named {name:?}; see glassgrad --help")));
                };
                command.clone().name(format!("glassgrad-{name}"))
            }
        };
        let mut text = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut text);
        rendered.map_err(Failure::result)?;
        print(&String::from_utf8_lossy(&text))
    }
}
