//! The databases of hosts that are tested on PostgreSQL. A run has one server for all tests. Each data folder has its
//! own database, so that a restarted host finds its records.

use super::postgres::{Address, Postgres};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Settings of the server. The tests kill hosts, never this server.
pub const SETTINGS: &[&str] = &["fsync=off", "full_page_writes=off", "max_connections=400"];

/// The server that the runner has started, or one of this process's own.
static SERVER: LazyLock<Address> =
    LazyLock::new(|| Address::shared().unwrap_or_else(|| Postgres::until_exit(SETTINGS)));

static DATABASES: LazyLock<Mutex<Databases>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Databases {
    of_folders: HashMap<PathBuf, Database>,
    made: usize,
}

struct Database {
    name: String,
    url: String,
    /// The data folder, or its parent. It is removed when its test has ended.
    kept_by: PathBuf,
}

/// Whether the hosts use PostgreSQL, as in the runner's second suite.
pub fn are_asked_for() -> bool {
    std::env::var("HEXAD_TEST_STORE").as_deref() == Ok("postgres")
}

/// The URL of the database of the host with this data folder. The first call creates the database. `None` if the host
/// stores its data in the folder.
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
        if *made == 0 {
            drop_abandoned();
        }
        let database = of_folders.entry(data.to_owned()).or_insert_with(|| {
            *made += 1;
            let name = format!("host_{}_{made}", std::process::id());
            let kept_by = data.ancestors().find(|folder| folder.exists()).unwrap_or(data).to_owned();
            Database { url: SERVER.new_database(&name), name, kept_by }
        });
        database.url.clone()
    }
}

/// Drops the databases of tests that have ended: each test is a process of its own.
fn drop_abandoned() {
    let names = SERVER.sql("select datname from pg_database where datname like 'host\\_%';");
    for name in names.lines() {
        let process = name.split('_').nth(1).unwrap_or_default();
        if !Path::new("/proc").join(process).exists() {
            // Another test may have dropped it.
            SERVER.sql(&format!("drop database if exists {name} with (force);"));
        }
    }
}
