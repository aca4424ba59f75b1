//! `hexad store copy`: moves a store between a data folder and PostgreSQL.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use hexad::deploy::{RecordLocation, restore_deployed};
use hexad::store::copy::{CopyError, CopyStep, check_source, copy, finish};
use hexad::store::postgres::{self, Passwords, StoreUrl};
use hexad::store::{Engine, sqlite};
use indicatif::ProgressBar;

use crate::progress;
use crate::text::counted;

/// Connections to PostgreSQL that write.
const WRITERS: usize = 2;

/// Commands on a store that no host uses.
#[derive(Args)]
pub struct Store {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    Copy(Copy),
}

/// Copy everything that is stored and the swapped-in components, with every host stopped, and compare the copy with the
/// source.
#[derive(Args)]
struct Copy {
    /// The data folder, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "STORE")]
    from: String,

    /// The same for the target; it must be empty.
    #[arg(long, value_name = "STORE")]
    to: String,
}

impl Store {
    pub fn run(self) -> Result<()> {
        let StoreCommand::Copy(Copy { from, to }) = self.command;
        // Stores on PostgreSQL have no data folder, so they get temporary folders.
        let folders = (tempfile::tempdir()?, tempfile::tempdir()?);
        anyhow::ensure!(is_url(&from) || Path::new(&from).is_dir(), "there is no folder {from}; name a data folder");
        anyhow::ensure!(!is_same(&from, &to)?, "the source and the target are the same store; name another target");
        let source = open(&from, folders.0.path(), false).context("the source")?;
        check_source(&source)?;
        if !is_url(&from) {
            // In a restored backup, the swapped-in components are part of the data until a host starts.
            source.restore_attachments(|files| restore_deployed(Path::new(&from), files))??;
        }
        let target = open(&to, folders.1.path(), true).context("the target")?;
        let (served, serving) = (record_location(&source, &from), record_location(&target, &to));
        anyhow::ensure!(serving.is_empty()?, CopyError::NotEmpty);
        let mut shown: Option<(CopyStep, ProgressBar)> = None;
        let keys = copy(&source, &target, |step, done, total| {
            let label = match step {
                CopyStep::Copying => "copying",
                CopyStep::Comparing => "comparing",
            };
            if shown.as_ref().is_none_or(|(shown, _)| *shown != step) {
                shown = Some((step, progress::items(label, total)));
            }
            if let Some((_, bar)) = &shown {
                bar.set_position(done);
            }
        })?;
        if let Some((_, bar)) = shown {
            bar.finish_and_clear();
        }
        let components = served.copy_to(&serving).context("the serving record was not copied; remove the copy")?;
        finish(&target)?;
        let mut out = std::io::stdout();
        writeln!(out, "{} copied and compared", counted(keys, "key"))?;
        if components > 0 {
            writeln!(out, "{} swapped in", counted(u64::try_from(components)?, "component"))?;
        }
        Ok(())
    }
}

/// The location of the record of the serving components.
fn record_location<'a>(engine: &Engine, name: &'a str) -> RecordLocation<'a> {
    engine.fleet().map_or_else(|| RecordLocation::Folder(Path::new(name)), RecordLocation::Fleet)
}

fn is_same(from: &str, to: &str) -> Result<bool> {
    if is_url(from) && is_url(to) {
        let passwords = Passwords::from_environment()?;
        return Ok(StoreUrl::parse(from, &passwords)?.name == StoreUrl::parse(to, &passwords)?.name);
    }
    // A target that does not exist differs from the source.
    Ok(Path::new(to).canonicalize().is_ok_and(|to| Path::new(from).canonicalize().is_ok_and(|from| from == to)))
}

fn is_url(store: &str) -> bool {
    store.contains("://")
}

/// Opens a store. With `creates`, creates it if it does not exist. The source of a copy must exist.
fn open(store: &str, folder: &Path, creates: bool) -> Result<Engine> {
    let sqlite = sqlite::SqliteOptions { creates, ..sqlite::SqliteOptions::default() };
    if !is_url(store) {
        return Ok(Engine::open(Path::new(store), 1, &sqlite, None)?);
    }
    let url = StoreUrl::parse(store, &Passwords::from_environment()?)?;
    let mut options = postgres::PostgresOptions::new(url, WRITERS, Duration::ZERO);
    options.creates = creates;
    Ok(Engine::open(folder, 1, &sqlite, Some(&options))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_store_is_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir(&from).unwrap();
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let copy = || Store { command: StoreCommand::Copy(Copy { from: path(&from), to: path(&to) }) }.run();
        let error = format!("{:#}", copy().unwrap_err());
        assert!(error.starts_with("the source: there is no store in"), "{error}");
        assert!(std::fs::read_dir(&from).unwrap().next().is_none() && !to.exists(), "nothing was made");
        drop(open(&path(&from), folder.path(), true).unwrap());
        copy().unwrap();
    }
}
