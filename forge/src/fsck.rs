//! `hexad fsck`: checks everything that is stored.

use std::io::Write;

use anyhow::{Result, bail};
use bytesize::ByteSize;
use clap::Args;
use hexad::cli::printable;
use hexad::store::sqlite;
use serde_json::json;

use crate::maintenance::{self, StoreArgs};
use crate::text::counted;

/// Check everything that is stored: records, and every byte of every file. With --data the pages of
/// the database as well. Prints a line for each problem and fails if there is one.
#[derive(Args)]
pub struct Fsck {
    #[command(flatten)]
    store: StoreArgs,
}

impl Fsck {
    pub fn run(self) -> Result<()> {
        let mut stdout = std::io::stdout();
        if let Some(data) = &self.store.data {
            let findings = sqlite::check(data)?;
            for finding in &findings {
                writeln!(stdout, "store: {}", printable(finding))?;
            }
            // Areas cannot be checked on pages that are damaged.
            fail_on(findings.len() as u64)?;
            writeln!(stdout, "store: every page is sound")?;
        }
        let store = self.store.open()?;
        let sums = maintenance::run(&store.server, "fsck", &json!({}), |area, step| {
            for found in &step.problems {
                writeln!(std::io::stdout(), "{area}: {}: {}", printable(&found.key), printable(&found.problem))?;
            }
            Ok(())
        })?;
        let mut problems = 0;
        for (area, sum) in sums {
            problems += sum.failed;
            let (roots, found) = (counted(sum.roots, "root"), counted(sum.failed, "problem"));
            writeln!(stdout, "{area}: {roots} and {} of files checked, {found}", ByteSize(sum.bytes))?;
        }
        fail_on(problems)?;
        let dry_run = json!({"dry_run": true, "no_wait": true});
        for (area, sum) in maintenance::run(&store.server, "gc", &dry_run, |_, _| Ok(()))? {
            let keys = counted(sum.removed, "key");
            writeln!(stdout, "{area}: {keys} of garbage, {}; `hexad gc` removes it", ByteSize(sum.removed_bytes))?;
        }
        Ok(())
    }
}

fn fail_on(problems: u64) -> Result<()> {
    match problems {
        0 => Ok(()),
        problems => bail!("{} found, listed above", counted(problems, "problem")),
    }
}
