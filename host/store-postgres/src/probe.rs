//! Checks whether the tables can be used, or can be used again. A probe uses a value of its own as requests do, and
//! reads the keys of failed statements again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hexad_store::{ErrorKind, Key, StoreError, StoreHealth, StoreProblem};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;

use super::classify;
use super::connection_set::ConnectionSet;
use super::late_reply::outcome_of;
use super::memory::Observation;
use super::sql::{self, PROBE_KEY, PROBE_STORE};

/// How long a probe may take while the host serves.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Most keys of failed reads that a probe reads.
const MAX_FAILED_KEYS: usize = 16;

/// The keys of failed statements, which the next probe reads.
#[derive(Default)]
pub struct Probe {
    /// Only the keys in a damaged page lead to it again.
    failed_keys: Mutex<Vec<Key>>,
}

impl Probe {
    /// Records why a statement about these keys has failed. Returns whether the store's health reports it from now on.
    pub fn record_failure(&self, health: &StoreHealth, error: &StoreError, keys: &[Key]) -> bool {
        match (error, error.kind()) {
            (
                StoreError::Unavailable { reason, .. },
                ErrorKind::Unavailable(problem @ (StoreProblem::Damaged | StoreProblem::Unusable)),
            ) => {
                let mut failed = self.failed_keys();
                for key in keys {
                    if failed.len() < MAX_FAILED_KEYS && !failed.contains(key) {
                        failed.push(key.clone());
                    }
                }
                drop(failed);
                health.begin_outage(problem, reason, 1);
                true
            }
            // A trigger or a constraint of another program, or an odd request.
            (StoreError::Engine(_), _) => {
                health.suspect();
                false
            }
            _ => false,
        }
    }

    /// Uses the connection for the host's own writes, and the one for barriers. Without a response within `deadline`,
    /// the health does not change.
    pub async fn run(&self, link: &Arc<ConnectionSet>, health: &StoreHealth, deadline: Duration) {
        let Some(bytes) = health.probe_bytes() else { return };
        match self.try_tables(link, bytes, deadline).await {
            Ok(()) => {
                self.failed_keys().clear();
                health.record_probe();
            }
            Err(StoreError::Engine(reason)) => health.begin_outage(StoreProblem::Unusable, &reason, 1),
            Err(StoreError::Unavailable { problem: StoreProblem::Full, reason }) => {
                health.begin_outage(StoreProblem::Full, &reason, 1);
            }
            Err(error) if self.record_failure(health, &error, &[]) => {}
            Err(error) => tracing::debug!(%error, "it is not known whether PostgreSQL can be used"),
        }
    }

    async fn try_tables(&self, link: &Arc<ConnectionSet>, bytes: usize, deadline: Duration) -> Result<(), StoreError> {
        let away = || StoreError::Engine(Arc::from("the connection for the host's own writes is gone"));
        let idle = link.aside().idle().await.ok_or_else(away)?;
        let writer = idle.get().ok_or_else(away)?;
        let (value, failed_keys) = (vec![0u8; bytes], self.failed_keys().clone());
        // Other hosts may probe at the same time.
        let probe_key = &*format!("{PROBE_KEY}/{}", writer.process);
        let reader = link.barrier();
        let none: Option<&str> = None;
        let get = async |store: &str, key: &str| {
            let params: [&(dyn ToSql + Sync); 3] = [&none, &store, &key];
            reader.client.query_one(&reader.get, &params).await
        };
        let work = async {
            let (stores, keys, values) = (vec![PROBE_STORE], vec![probe_key], vec![value.as_slice()]);
            let params: [&(dyn ToSql + Sync); 3] = [&stores, &keys, &values];
            writer.client.query_one(&writer.set, &params).await?;
            let read = async {
                let found = get(PROBE_STORE, probe_key).await?;
                for key in &failed_keys {
                    get(&key.store, &key.key).await?;
                }
                Ok((found, reader.client.query_opt(&reader.serving, &[&none]).await?))
            };
            let read = read.await;
            // A separate transaction, so that the value needs disk space.
            writer.client.query_one(sql::REMOVE_PROBE, &[&probe_key]).await?;
            read
        };
        let done = timeout(deadline, work).await.ok();
        let (found, serving) = outcome_of(link, idle, done)?;
        if Observation::of(&found).map_err(|error| classify::of_row(&error))?.is_none() {
            return Err(classify::no_row("horizon"));
        }
        if serving.is_none() {
            return Err(classify::no_row("serving"));
        }
        let found: Option<&[u8]> = found.try_get(3).map_err(|error| classify::of_row(&error))?;
        match found.map(<[u8]>::len) == Some(bytes) {
            true => Ok(()),
            false => Err(StoreError::Engine(Arc::from("a value that was written is not there"))),
        }
    }

    fn failed_keys(&self) -> MutexGuard<'_, Vec<Key>> {
        self.failed_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
