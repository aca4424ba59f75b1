//! The databases of hosts that are tested on PostgreSQL: one server for all hosts of a test program, and a
//! database for each data folder, so that a host that starts again finds its records.

use super::postgres::Postgres;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The tests kill hosts, never this server.
const SETTINGS: &[&str] = &["fsync=off", "full_page_writes=off", "max_connections=400"];

static SERVER: LazyLock<Postgres> = LazyLock::new(|| Postgres::until_exit(SETTINGS));

static DATABASES: LazyLock<Mutex<Databases>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Databases {
    of_folders: HashMap<PathBuf, Database>,
    made: usize,
}

struct Database {
    name: String,
    url: String,
    /// The data folder, or the one that it is made in. It goes when its test has ended.
    kept_by: PathBuf,
}

/// Whether the hosts are on PostgreSQL: `make test-postgres` asks for it.
pub fn are_asked_for() -> bool {
    std::env::var("HEXAD_TEST_STORE").as_deref() == Ok("postgres")
}

/// The URL of the database of the host with this data folder, made when it is asked for first. `None` if
/// the host stores in the folder.
pub fn url_of(data: &Path) -> Option<String> {
    are_asked_for().then(|| {
        let mut databases = DATABASES.lock().unwrap_or_else(PoisonError::into_inner);
        databases.url_of(data)
    })
}

impl Databases {
    fn url_of(&mut self, data: &Path) -> String {
        for (_, ended) in self.of_folders.extract_if(|_, database| !database.kept_by.exists()) {
            SERVER.sql(&format!("drop database {} with (force);", ended.name));
        }
        let Self { of_folders, made } = self;
        let database = of_folders.entry(data.to_owned()).or_insert_with(|| {
            *made += 1;
            let name = format!("host{made}");
            let kept_by = data.ancestors().find(|folder| folder.exists()).unwrap_or(data).to_owned();
            Database { url: SERVER.new_database(&name), name, kept_by }
        });
        database.url.clone()
    }
}
