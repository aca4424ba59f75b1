//! `hexad backup`: copies the store while it is in use.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;

use super::http::agent_with;
use crate::admin::Access;
use crate::deploy;
use crate::store::StoreProblem;
use crate::store::sqlite::{self, BackupError};

/// How long the host may take to say whether it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Copy the store into a file, also while a server uses it: everything that was acknowledged before,
/// and nothing half done, with the components that were swapped in. To restore it, put the file into
/// an empty data folder under the name `sqlite_key_value.db`.
#[derive(Args)]
pub struct Backup {
    /// The new file.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The data folder of the server, which is on this machine.
    #[arg(long, default_value = "data", value_name = "FOLDER")]
    data: PathBuf,
}

impl Backup {
    pub fn run(self) -> Result<()> {
        // Only the host can tell. It is asked after the copy, because a file may be removed meanwhile, and if there is
        // no copy, because a database without its log can look damaged.
        let check_files = || match host_lost_its_files(&self.data) {
            true => Err(BackupError::Removed { path: self.data.join(sqlite::FILE_NAME) }),
            false => Ok(()),
        };
        let copied = sqlite::backup(&self.data, &self.file, || {
            check_files()?;
            deploy::read_deployed(&self.data).map_err(BackupError::Attachments)
        });
        let size = match copied {
            Ok(size) => size,
            Err(error) => return Err(check_files().err().unwrap_or(error).into()),
        };
        writeln!(std::io::stdout(), "{}: {}", self.file.display(), ByteSize(size))?;
        Ok(())
    }
}

/// Whether a host runs on the folder and writes to other files than those that are there.
fn host_lost_its_files(data: &Path) -> bool {
    let Ok(access) = Access::find(data) else { return false };
    // A host that was killed leaves the address of its listener: no answer is no reason to make no backup.
    let response = agent_with(Some(READY_TIMEOUT)).get(format!("{}/readyz", access.url)).call();
    let text = response.and_then(|mut response| response.body_mut().read_to_string());
    text.is_ok_and(|text| text.trim_end() == format!("store {}", StoreProblem::Removed.name()))
}
