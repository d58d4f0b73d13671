//! The program `glassgrad`; the library beside this file is all of it.

fn main() -> std::process::ExitCode {
    glassgrad_cli::main()
}
