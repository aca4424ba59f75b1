//! The `hexad` program.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use forge::{Fsck, Gc, Group, Import, ImportGit, Project, Repack, Store, Token, UpWithDemo, User};
use hexad::cli::{
    Backup, MakeBundle, Promote, Rollback, Status, Swap, Validate, has_lost_reader, one_line, warn_of_former_flags,
};

/// The exit status that shells report for a program that SIGPIPE ended.
const LOST_READER: u8 = 128 + 13;

/// The version, with a mark for the quickly built program that tests run.
const VERSION: &str = match cfg!(debug_assertions) {
    true => concat!(env!("CARGO_PKG_VERSION"), " (quick build)"),
    false => env!("CARGO_PKG_VERSION"),
};

/// Runs a code forge's API areas as WebAssembly components.
#[derive(Parser)]
#[command(name = "hexad", version = VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Print a script that completes this program's commands and flags in a shell.
#[derive(Args)]
struct Completions {
    shell: Shell,
}

/// Write the man pages of this program and its commands.
#[derive(Args)]
struct Man {
    /// An existing folder.
    folder: PathBuf,
}

impl Completions {
    fn run(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "hexad", &mut script);
        Ok(std::io::stdout().write_all(&script)?)
    }
}

impl Man {
    fn run(self) -> Result<()> {
        let written = clap_mangen::generate_to(Cli::command(), &self.folder);
        written.with_context(|| format!("cannot write the man pages into {}", self.folder.display()))
    }
}

#[derive(Subcommand)]
enum Command {
    Up(Box<UpWithDemo>),
    Validate(Validate),
    Bundle(MakeBundle),
    Import(Import),
    Gc(Gc),
    Fsck(Fsck),
    Backup(Backup),
    ImportGit(ImportGit),
    Repack(Repack),
    Token(Token),
    User(User),
    Group(Group),
    Project(Project),
    Status(Status),
    Store(Store),
    Swap(Swap),
    Promote(Promote),
    Rollback(Rollback),
    Completions(Completions),
    Man(Man),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    warn_of_former_flags();
    let result = match command {
        Command::Up(up) => up.run(),
        Command::Validate(validate) => validate.run(),
        Command::Bundle(bundle) => bundle.run(),
        Command::Import(import) => import.run(),
        Command::Gc(gc) => gc.run(),
        Command::Fsck(fsck) => fsck.run(),
        Command::Backup(backup) => backup.run(),
        Command::ImportGit(import) => import.run(),
        Command::Repack(repack) => repack.run(),
        Command::Token(token) => token.run(),
        Command::User(user) => user.run(),
        Command::Group(group) => group.run(),
        Command::Project(project) => project.run(),
        Command::Status(status) => status.run(),
        Command::Store(store) => store.run(),
        Command::Swap(swap) => swap.run(),
        Command::Promote(promote) => promote.run(),
        Command::Rollback(rollback) => rollback.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if has_lost_reader(&error) => ExitCode::from(LOST_READER),
        Err(error) => {
            // If standard error has no reader, only the exit status reports the error.
            let _ = writeln!(std::io::stderr(), "hexad: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation of the command line, as these commands describe themselves.
    const PAGE: &str = "../docs/reference/command-line.md";

    fn cell(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "\\<")
    }

    /// A command's section: what it does, then a table of its arguments and flags.
    fn describe(command: &clap::Command, name: &str, page: &mut String) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        *page += &format!("\n## {name}\n\n{}.\n", cell(&about));
        let arguments: Vec<_> = command.get_arguments().filter(|one| !one.is_hide_set()).collect();
        if !arguments.is_empty() {
            *page += "\n| argument | default | meaning |\n|---|---|---|\n";
        }
        for argument in arguments {
            let value = argument.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
            let takes_value = argument.get_action().takes_values();
            let shown = match (argument.get_long(), takes_value) {
                (Some(long), true) => format!("--{long} {value}"),
                (Some(long), false) => format!("--{long}"),
                (None, _) => value,
            };
            let variable = argument.get_env().map(|name| format!(" (`{}`)", name.display())).unwrap_or_default();
            let defaults: Vec<_> =
                argument.get_default_values().iter().map(|value| value.display().to_string()).collect();
            let default = if takes_value { defaults.join(", ") } else { String::new() };
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            *page += &format!("| `{shown}`{variable} | {default} | {} |\n", cell(&help));
        }
        for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
            describe(part, &format!("{name} {}", part.get_name()), page);
        }
    }

    #[test]
    fn the_command_line_is_documented() {
        let mut command = Cli::command().disable_help_flag(true).disable_version_flag(true);
        command.build();
        let mut page =
            "# Command line\n\nA test writes this page from the commands themselves (`HEXAD_WRITE_DOCS=yes cargo test \
                        --release -p hexad-forge`) and compares it. `hexad man` writes the same as man pages.\n"
                .to_owned();
        for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
            describe(&part.clone().disable_help_flag(true), &format!("hexad {}", part.get_name()), &mut page);
        }
        if std::env::var_os("HEXAD_WRITE_DOCS").is_some() {
            std::fs::write(PAGE, &page).expect("the page can be written");
        }
        let written = std::fs::read_to_string(PAGE).expect("docs/reference/command-line.md");
        let differs = written.lines().zip(page.lines()).find(|(written, page)| written != page);
        assert!(written == page, "{PAGE} differs, at {differs:?}; HEXAD_WRITE_DOCS=yes writes it again");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
