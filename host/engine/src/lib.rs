//! The engine that a host was started with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hexad_store::{Backend, StoreHealth};
use hexad_store_postgres::{self as postgres, ConnectionSupervisor, FleetStore, Postgres};
use hexad_store_sqlite::{self as sqlite, Attachment, Sqlite};

pub mod copy;

/// An open store.
pub enum Engine {
    Sqlite(Box<Sqlite>),
    Postgres(Box<Postgres>),
}

/// The state of a store that the host reads while it serves. It does not keep the store open.
#[derive(Clone)]
pub enum StoreMonitor {
    /// The data folder.
    Sqlite(PathBuf),
    Postgres(Arc<ConnectionSupervisor>),
}

impl StoreMonitor {
    /// Whether this host does the maintenance of the store. One of the sharing hosts does it.
    pub fn is_leader(&self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres(supervisor) => supervisor.is_leader(),
        }
    }

    /// The store's size in bytes and, on PostgreSQL, the status of the server.
    pub fn status(&self) -> (u64, Option<postgres::ServerStatus>) {
        match self {
            Self::Sqlite(data) => (sqlite::size(data), None),
            Self::Postgres(supervisor) => {
                let status = postgres::ServerStatus::of(supervisor);
                (status.size, Some(status))
            }
        }
    }
}

/// Why a store cannot be opened, or has failed since: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Sqlite(#[from] sqlite::SqliteOpenError),
    #[error(transparent)]
    Postgres(#[from] postgres::PostgresOpenError),
}

impl Engine {
    /// Opens the store: on PostgreSQL, or else in the data directory. Blocks.
    pub fn open(
        data: &Path,
        shards: usize,
        sqlite: &sqlite::SqliteOptions,
        postgres: Option<&postgres::PostgresOptions>,
    ) -> Result<Self, EngineError> {
        Ok(match postgres {
            Some(options) => Self::Postgres(Box::new(Postgres::open(data, shards, options)?)),
            None => Self::Sqlite(Box::new(Sqlite::open(data, sqlite)?)),
        })
    }

    /// The store as one shard uses it.
    pub fn backend(&self, shard: usize) -> Result<Arc<dyn Backend>, EngineError> {
        Ok(match self {
            Self::Sqlite(store) => store.backend()?,
            Self::Postgres(store) => store.backend(shard),
        })
    }

    /// The stores by label, each with its number of keys.
    pub async fn contents(&self) -> Result<Vec<(String, u64)>, EngineError> {
        Ok(match self {
            Self::Sqlite(store) => store.contents()?,
            Self::Postgres(store) => store.contents().await?,
        })
    }

    /// Whether another host uses the store. An open store in a data directory is locked.
    pub async fn has_other_hosts(&self) -> Result<bool, EngineError> {
        Ok(match self {
            Self::Sqlite(_) => false,
            Self::Postgres(store) => store.has_other_hosts().await?,
        })
    }

    /// Marks that a copy into the store has begun, or that it is complete. A marked store cannot be opened.
    pub async fn mark_unfinished(&self, is_unfinished: bool) -> Result<(), EngineError> {
        match self {
            Self::Sqlite(store) => store.mark_unfinished(is_unfinished)?,
            Self::Postgres(store) => store.mark_unfinished(is_unfinished).await?,
        }
        Ok(())
    }

    /// The store's health. The handle does not keep the store open.
    pub fn health(&self) -> &Arc<StoreHealth> {
        match self {
            Self::Sqlite(store) => store.health(),
            Self::Postgres(store) => store.health(),
        }
    }

    /// The error of a store that has permanently failed since it was opened.
    pub fn failure(&self) -> Option<EngineError> {
        match self {
            Self::Sqlite(store) => store.failure().map(EngineError::Sqlite),
            Self::Postgres(_) => None,
        }
    }

    /// The counter of flushed transactions. It does not keep the store open.
    pub fn commit_counter(&self) -> Arc<AtomicU64> {
        match self {
            Self::Sqlite(store) => store.commit_counter(),
            Self::Postgres(store) => store.commit_counter(),
        }
    }

    /// Takes the attachments out of a store that was restored from a backup, see
    /// [`Sqlite::restore_attachments`].
    pub fn restore_attachments<E>(
        &self,
        restore: impl FnOnce(Vec<Attachment>) -> Result<(), E>,
    ) -> Result<Result<(), E>, EngineError> {
        Ok(match self {
            Self::Sqlite(store) => store.restore_attachments(restore)?,
            Self::Postgres(_) => Ok(()),
        })
    }

    /// The tables of the hosts that share the store; `None` for a store of one host.
    pub fn fleet(&self) -> Option<FleetStore> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => Some(store.fleet()),
        }
    }

    /// `data` is the host's data folder.
    pub fn monitor(&self, data: PathBuf) -> StoreMonitor {
        match self {
            Self::Sqlite(_) => StoreMonitor::Sqlite(data),
            Self::Postgres(store) => StoreMonitor::Postgres(store.supervisor().clone()),
        }
    }
}

#[cfg(test)]
mod tests;
