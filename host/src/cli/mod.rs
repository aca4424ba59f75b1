//! The command line. A command is a module here and an arm of [`Command`].

mod demo;
mod import;
mod log;
mod server;
mod token;
mod up;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs a code forge's API areas as WebAssembly components.
#[derive(Parser)]
#[command(name = "hexad", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Import(import::Import),
    Token(token::Token),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Up(up) => up.run(),
        Command::Import(import) => import.run(),
        Command::Token(token) => token.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hexad: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What a command fails with: a sentence that says what to do.
type Failure = Box<dyn Error>;
