//! The state of the host as a whole, which only the host can read.

use std::sync::Arc;
use std::time::Instant;

use crate::deploy::ReloadRecord;
use crate::ingress::CertificateState;
use crate::memory_budget::{MemoryBudget, MemoryDivision};
use crate::store::{StoreFailure, postgres};

/// The host's state at one moment.
pub struct HostState {
    /// Transactions of the store since the start.
    pub commits: u64,
    pub started: Instant,
    pub connections: usize,
    pub store_bytes: u64,
    /// `None` for a store in the data folder.
    pub postgres: Option<postgres::ServerStatus>,
    /// Why the store cannot do its work, if it cannot.
    pub store_failure: Option<StoreFailure>,
    /// Transactions that failed since the start.
    pub failed_transactions: u64,
    /// The last attempt to read the manifest again.
    pub last_reload: Option<ReloadRecord>,
    /// Of each listener with TLS.
    pub certificates: Vec<CertificateState>,
    /// Threads that ended while the host serves, or whose last turn failed.
    pub ended_threads: Vec<String>,
    /// Instances that wait for their clients and have yielded their permits.
    pub stalled_instances: usize,
    pub memory: MemoryState,
    /// Lines of the access log that were dropped since the start.
    pub access_log_dropped: u64,
    /// Used entries of the instance pool: component instances, memories, stacks.
    pub pool: Option<(u64, u64, u64)>,
}

/// The use of the host's memory.
pub struct MemoryState {
    pub budget: Arc<MemoryBudget>,
    pub division: MemoryDivision,
    /// Bytes of responses that clients have not taken.
    pub send_buffer: u64,
}
