//! The commands, a file and a row each.

mod bench;
mod check;
mod complete;
mod derive;
mod device;
mod grad;
mod graph;
mod operations;
mod plan;
mod predict;
mod studio;
mod train;
mod tune;

use clap::Subcommand;

use crate::failure::Failure;

/// The commands in the order of the help, a row each: the type of its arguments, which is its name too, and its file.
macro_rules! commands {
    ($($Name:ident $module:ident),* $(,)?) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $( $Name($module::$Name), )*
        }

        impl Command {
            pub(crate) fn run(self) -> Result<(), Failure> {
                match self {
                    $( Command::$Name(command) => command.run(), )*
                }
            }
        }
    };
}

commands! {
    Grad grad,
    Derive derive,
    Graph graph,
    Check check,
    Operations operations,
    Train train,
    Predict predict,
    Tune tune,
    Plan plan,
    Bench bench,
    Device device,
    Studio studio,
    Completions complete,
    Man complete,
}
