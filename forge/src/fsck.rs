//! `hexad fsck`: checks everything that is stored.

use std::io::{self, Write};

use anyhow::{Result, bail};
use bytesize::ByteSize;
use clap::Args;
use hexad::cli::printable;
use hexad::store::sqlite;
use serde_json::json;

use crate::maintenance::{self, Step, StoreArgs};
use crate::text::counted;

/// Check everything that is stored: records, and every byte of every file. With --data the pages of
/// the database as well. Prints a line for each problem and fails if there is one.
#[derive(Args)]
pub struct Fsck {
    /// Before the check, rebuild the catalog and the paths of groups and projects from their records.
    #[arg(long)]
    repair: bool,

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
            // Areas cannot check damaged pages.
            fail_on(findings.len() as u64)?;
            writeln!(stdout, "store: every page is sound")?;
        }
        let store = self.store.open()?;
        let mut problems = 0;
        if self.repair {
            for (area, sum) in maintenance::run(&store.server, "repair", &json!({}), print_problems)? {
                problems += sum.failed;
                if sum.roots > 0 {
                    writeln!(stdout, "{area}: derived anew from {}", counted(sum.roots, "record"))?;
                }
            }
        }
        let sums = maintenance::run(&store.server, "fsck", &json!({}), print_problems)?;
        for (area, sum) in sums {
            problems += sum.failed;
            let (roots, found) = (counted(sum.roots, "root"), counted(sum.failed, "problem"));
            let remarked =
                if sum.remarked > 0 { format!(", {}", counted(sum.remarked, "remark")) } else { String::new() };
            writeln!(stdout, "{area}: {roots} and {} of files checked, {found}{remarked}", ByteSize(sum.bytes))?;
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

pub fn print_problems(area: &str, step: &Step) -> io::Result<()> {
    for found in step.problems.iter().chain(&step.remarks) {
        writeln!(io::stdout(), "{area}: {}: {}", printable(&found.key), printable(&found.problem))?;
    }
    Ok(())
}

pub fn fail_on(problems: u64) -> Result<()> {
    match problems {
        0 => Ok(()),
        problems => bail!("{} found, listed above", counted(problems, "problem")),
    }
}
