//! `hexad gc`: removes stored data that is no longer reachable.

use std::io::Write;

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;
use serde_json::json;

use crate::fsck::{fail_on, print_problems};
use crate::maintenance::{self, StoreArgs};
use crate::text::counted;

/// Remove stored data that is no longer reachable: leftovers of crashes, lost races and rewrites,
/// older than two hours. Safe while the server is used.
#[derive(Args)]
pub struct Gc {
    /// Count, and remove nothing.
    #[arg(long)]
    dry_run: bool,

    /// Do not wait two minutes for running reads; use it only if the server is not in use.
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    store: StoreArgs,
}

impl Gc {
    pub fn run(self) -> Result<()> {
        let store = self.store.open()?;
        let no_wait = self.no_wait || self.dry_run || self.store.data.is_some();
        let request = json!({"dry_run": self.dry_run, "no_wait": no_wait});
        let verb = if self.dry_run { "garbage" } else { "removed" };
        let mut problems = 0;
        for (area, sum) in maintenance::run(&store.server, "gc", &request, print_problems)? {
            problems += sum.failed;
            let share = format!("{} of {}", sum.removed, counted(sum.keys, "key"));
            writeln!(std::io::stdout(), "{area}: {verb}: {share}, {}", ByteSize(sum.removed_bytes))?;
        }
        // Garbage collection removes no blobs of a damaged part.
        fail_on(problems)
    }
}
