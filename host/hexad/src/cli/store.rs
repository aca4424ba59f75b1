//! The options of `hexad up` about its store.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use hexad_store_postgres::{self as postgres, Passwords, StoreUrl};
use jiff::SignedDuration;

use super::values::parse_count;

/// Where the host keeps what is stored.
#[derive(Args)]
pub struct StoreArgs {
    /// Keep the store on PostgreSQL, which several hosts can share, instead of in the data folder:
    /// postgres://USER@HOST:PORT/DATABASE. The password is in the file that PGPASSFILE names, or in
    /// PGPASSWORD.
    #[arg(long, env = "HEXAD_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<String>,

    /// How many connections to PostgreSQL write. Each thread has one more, which reads.
    #[arg(long, default_value = "12", value_name = "N", value_parser = parse_count::<NonZeroUsize>)]
    store_connections: NonZeroUsize,

    /// On PostgreSQL, how fresh answers from memory are. With `exact`, the host asks the database before each answer
    /// whether another host has changed its data. With a time, such as 500ms, it asks only if its last question is
    /// older.
    #[arg(long, alias = "freshness", default_value = "exact", value_name = "TIME", value_parser = parse_staleness)]
    max_staleness: Duration,
}

impl StoreArgs {
    /// `None` for a store in the data folder.
    pub fn options(&self) -> Result<Option<postgres::PostgresOptions>> {
        let Some(url) = self.store.as_deref() else { return Ok(None) };
        // A host whose variable is not set would otherwise write to a store of its own.
        ensure!(!url.is_empty(), "--store is empty; name the database, or leave out --store and HEXAD_STORE");
        let url = StoreUrl::parse(url, &Passwords::from_environment()?)?;
        Ok(Some(postgres::PostgresOptions::new(url, self.store_connections.get(), self.max_staleness)))
    }
}

fn parse_staleness(text: &str) -> Result<Duration, String> {
    if text == "exact" {
        return Ok(Duration::ZERO);
    }
    let parsed = text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    parsed.filter(|time| !time.is_zero()).ok_or_else(|| "write exact, or a time such as 500ms".to_owned())
}
