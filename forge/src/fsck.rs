//! `hexad fsck`: checks everything that is stored.

use std::io::Write;

use bytesize::ByteSize;
use clap::Args;
use serde_json::json;

use super::maintenance::{self, Place};
use super::server::printable;
use super::{Failure, counted};
use crate::store::sqlite;

/// Check everything that is stored: records, and every byte of every file. With --data the pages of
/// the database as well. Prints a line for each problem and fails if there is one.
#[derive(Args)]
pub struct Fsck {
    #[command(flatten)]
    place: Place,
}

impl Fsck {
    pub fn run(self) -> Result<(), Failure> {
        let mut stdout = std::io::stdout();
        if let Some(data) = &self.place.data {
            let findings = sqlite::check(data)?;
            for finding in &findings {
                writeln!(stdout, "store: {}", printable(finding))?;
            }
            // The areas could not even be asked.
            match findings.len() {
                0 => writeln!(stdout, "store: every page is sound")?,
                count => return Err(failure(count as u64)),
            }
        }
        let open = self.place.open()?;
        let sums = maintenance::run(&open.server, "fsck", &json!({}), |area, step| {
            for found in &step.problems {
                writeln!(std::io::stdout(), "{area}: {}: {}", printable(&found.key), printable(&found.problem))?;
            }
            Ok(())
        })?;
        let mut failed = 0;
        for (area, sum) in sums {
            failed += sum.failed;
            let (roots, problems) = (counted(sum.roots, "root"), counted(sum.failed, "problem"));
            writeln!(stdout, "{area}: {roots} and {} of files checked, {problems}", ByteSize(sum.bytes))?;
        }
        if failed > 0 {
            return Err(failure(failed));
        }
        for (area, sum) in
            maintenance::run(&open.server, "gc", &json!({"dry_run": true, "no_wait": true}), |_, _| Ok(()))?
        {
            let keys = counted(sum.removed, "key");
            writeln!(stdout, "{area}: {keys} of garbage, {}; `hexad gc` removes it", ByteSize(sum.removed_bytes))?;
        }
        Ok(())
    }
}

fn failure(problems: u64) -> Failure {
    format!("{} found, as told above", counted(problems, "problem")).into()
}
