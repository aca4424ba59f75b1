//! Stores of several hosts on a real server, for tests. `make test POSTGRES=no` leaves these tests out.

use std::time::Duration;

use hexad_store_postgres::{Passwords, Postgres, PostgresOptions, StoreUrl};
pub use hexad_testing::postgres::Postgres as Server;

/// A server, or `None` if these tests are left out.
pub fn start() -> Option<Server> {
    hexad_testing::postgres::is_enabled().then(|| Server::start(&[]))
}

pub fn options(url: &str) -> PostgresOptions {
    PostgresOptions::new(StoreUrl::parse(url, &Passwords::default()).unwrap(), 4, Duration::ZERO)
}

/// A host's store, with a data folder of its own.
pub struct Host {
    pub store: Postgres,
    _data: tempfile::TempDir,
}

impl Host {
    pub fn open(url: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        Self { store: Postgres::open(data.path(), 2, &options(url)).unwrap(), _data: data }
    }
}
