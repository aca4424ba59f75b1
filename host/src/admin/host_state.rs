//! The state of the host as a whole, which only the host can read.

use std::time::Instant;

use crate::store::StoreFailure;

/// The host's state at one moment.
pub struct HostState {
    /// Transactions of the store since the start.
    pub commits: u64,
    pub started: Instant,
    pub connections: usize,
    pub store_bytes: u64,
    /// Why the store cannot do its work, if it cannot.
    pub store_failure: Option<StoreFailure>,
    /// Transactions that failed since the start.
    pub failed_transactions: u64,
    /// Used entries of the instance pool: component instances, memories, stacks.
    pub pool: Option<(u64, u64, u64)>,
}
