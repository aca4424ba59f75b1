//! `hexad backup`: copies the store while it is in use.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;

use crate::deploy;
use crate::store::sqlite;

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
        let size = sqlite::backup(&self.data, &self.file, || deploy::read_deployed(&self.data))?;
        writeln!(std::io::stdout(), "{}: {}", self.file.display(), ByteSize(size))?;
        Ok(())
    }
}
