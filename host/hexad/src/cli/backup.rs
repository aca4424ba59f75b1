//! `hexad backup`: copies the store while it is in use.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;
use hexad_admin::{AdminAccess, StoreProblemStatus};
use hexad_deploy as deploy;
use hexad_store::StoreProblem;
use hexad_store_postgres::ServerStatus;
use hexad_store_sqlite::{self as sqlite, BackupError};
use hexad_support::http_client::agent_with;
use serde::Deserialize;

use super::terminal::printable;

/// How long the host may take to report the state of its store.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// Copy the store into a file, also while a server uses it. The copy has all writes that were acknowledged before, no
/// partial ones, and the components that were swapped in. To restore it, put the file into an empty data folder under
/// the name `sqlite_key_value.db`.
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
        // Only the host knows whether this file is its store. The command asks after the copy, because the file may be
        // removed meanwhile. It also asks after a failed copy, because a database without its log can look damaged.
        let check_host = || host_objection(&self.data).map_or(Ok(()), Err);
        let copied = sqlite::backup(&self.data, &self.file, || {
            check_host()?;
            deploy::read_deployed(&self.data).map_err(BackupError::Attachments)
        });
        let size = match copied {
            Ok(size) => size,
            Err(error) => return Err(check_host().err().unwrap_or(error).into()),
        };
        writeln!(std::io::stdout(), "{}: {}", self.file.display(), ByteSize(size))?;
        Ok(())
    }
}

/// Why the files in the folder are not the store of the host that runs on it. A stopping host answers, too.
fn host_objection(data: &Path) -> Option<BackupError> {
    #[derive(Deserialize)]
    struct StatusResponse {
        host: StoreStatus,
    }
    /// The part of the status that the command needs, so that hosts of other builds are understood.
    #[derive(Deserialize)]
    struct StoreStatus {
        #[serde(default)]
        store_problem: Option<StoreProblemStatus>,
        #[serde(default)]
        postgres: Option<ServerStatus>,
    }
    let AdminAccess { url, token } = AdminAccess::find(data).ok()?;
    let request = agent_with(STATUS_TIMEOUT).get(format!("{url}/status"));
    // A killed host leaves the address of its listener behind. Without an answer, the backup is made.
    let mut response = request.header("authorization", format!("Bearer {token}")).call().ok()?;
    let text = response.body_mut().read_to_string().ok()?;
    let StoreStatus { store_problem, postgres } = serde_json::from_str::<StatusResponse>(&text).ok()?.host;
    if let Some(postgres) = postgres {
        return Some(BackupError::OnPostgres { directory: data.to_owned(), url: printable(&postgres.url) });
    }
    let is_removed = store_problem.is_some_and(|found| found.problem == StoreProblem::Removed.name());
    is_removed.then(|| BackupError::Removed { path: data.join(sqlite::FILE_NAME) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use hexad_testing::wait::{accept, join};

    #[test]
    fn the_host_of_a_store_on_postgres_is_asked_in_vain() {
        const STATUS: &str = r#"{"host":{"store_problem":null,"postgres":{"url":"postgres://db1/forge","server":null,
            "round_trip":0.1,"barriers":0,"reads":0,"reconnects":0,"warnings":[],"standbys":[]}},"components":[]}"#;
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let host = std::thread::spawn(move || {
            // Each backup asks it.
            for _ in 0..2 {
                let mut stream = accept(&listener, "the command to ask the host");
                let _ = stream.read(&mut [0; 4096]).unwrap();
                let length = STATUS.len();
                write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{STATUS}")
                    .unwrap();
            }
        });
        let _file = AdminAccess { url, token: "t".to_owned() }.publish(folder.path()).unwrap();
        let backup = || Backup { file: folder.path().join("copy"), data: folder.path().to_owned() };
        let check = || {
            let error = backup().run().unwrap_err().to_string();
            assert!(error.contains("(postgres://db1/forge)") && error.contains("pg_dump"), "{error}");
            assert!(!folder.path().join("copy").exists());
        };
        check();
        // A store that was copied to PostgreSQL is still in the folder.
        drop(sqlite::Sqlite::open(folder.path(), &sqlite::SqliteOptions::default()).unwrap());
        check();
        join(host, "the end of the host");
    }

    #[test]
    fn a_folder_without_a_store_may_be_that_of_one_on_postgres() {
        let folder = tempfile::tempdir().unwrap();
        let backup = Backup { file: folder.path().join("copy"), data: folder.path().to_owned() };
        let error = backup.run().unwrap_err().to_string();
        assert!(error.contains("--data") && error.contains("pg_basebackup"), "{error}");
    }
}
