//! The command line. A command is a module here and an arm of [`Command`].

mod admin;
mod backup;
#[path = "../../../forge/src/demo.rs"]
mod demo;
#[path = "../../../forge/src/fsck.rs"]
mod fsck;
#[path = "../../../forge/src/gc.rs"]
mod gc;
#[path = "../../../forge/src/import/mod.rs"]
mod import;
#[path = "../../../forge/src/import_git/mod.rs"]
mod import_git;
mod log;
#[path = "../../../forge/src/maintenance.rs"]
mod maintenance;
#[path = "../../../forge/src/server.rs"]
mod server;
mod status;
mod swap;
#[path = "../../../forge/src/token.rs"]
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
    Gc(gc::Gc),
    Fsck(fsck::Fsck),
    Backup(backup::Backup),
    ImportGit(import_git::ImportGit),
    Token(token::Token),
    Status(status::Status),
    Swap(swap::Swap),
    Promote(swap::Promote),
    Rollback(swap::Rollback),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Up(up) => up.run(),
        Command::Import(import) => import.run(),
        Command::Gc(gc) => gc.run(),
        Command::Fsck(fsck) => fsck.run(),
        Command::Backup(backup) => backup.run(),
        Command::ImportGit(import) => import.run(),
        Command::Token(token) => token.run(),
        Command::Status(status) => status.run(),
        Command::Swap(swap) => swap.run(),
        Command::Promote(promote) => promote.run(),
        Command::Rollback(rollback) => rollback.run(),
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

/// `1 user`, `2 users`: how many of what.
fn counted(count: u64, noun: &str) -> String {
    let noun = noun.replace('_', " ");
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nouns_have_their_number() {
        let texts = [(0, "user"), (1, "merge_request"), (2, "merge_request")].map(|(count, noun)| counted(count, noun));
        assert_eq!(texts, ["0 users", "1 merge request", "2 merge requests"]);
    }
}
