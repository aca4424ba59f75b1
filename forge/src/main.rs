//! The `hexad` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    hexad::cli::run()
}
