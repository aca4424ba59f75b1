//! The host in `/status`.

use serde::{Deserialize, Serialize};

use super::exposition::resident_bytes;
use super::host_state::HostState;
use crate::application::Application;

/// The host as a whole. Sizes in bytes, times in seconds.
#[derive(Debug, Deserialize, Serialize)]
pub struct HostStatus {
    pub version: String,
    pub uptime: f64,
    pub connections: usize,
    pub resident_memory: Option<u64>,
    pub store_size: u64,
    pub store_commits: u64,
    #[serde(default)]
    pub store_failed_transactions: u64,
    /// None while the store does its work.
    #[serde(default)]
    pub store_problem: Option<StoreProblemStatus>,
    /// Requests without a route.
    pub unrouted: u64,
    #[serde(rename = "memo")]
    pub response_cache: ResponseCacheStatus,
    /// None if no traces are exported.
    pub spans: Option<SpanStatus>,
}

/// Why the store cannot do its work.
#[derive(Debug, Deserialize, Serialize)]
pub struct StoreProblemStatus {
    /// `damaged`, `writer_stopped`, `full`, `busy` or `unavailable`.
    pub problem: String,
    pub reason: String,
    /// For how many seconds.
    pub seconds: f64,
}

/// The response cache. `size` is in bytes.
#[derive(Debug, Deserialize, Serialize)]
pub struct ResponseCacheStatus {
    pub hits: u64,
    pub misses: u64,
    #[serde(rename = "answers")]
    pub entries: usize,
    pub size: usize,
}

/// Exported and lost spans.
#[derive(Debug, Deserialize, Serialize)]
pub struct SpanStatus {
    pub exported: u64,
    pub failed: u64,
    pub dropped: u64,
}

impl HostStatus {
    pub fn new(application: &Application, state: &HostState) -> Self {
        let cache = application.response_cache();
        let counters = cache.counters();
        let (entries, size) = cache.size();
        let spans = application.tracer().map(|tracer| tracer.counters());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: state.started.elapsed().as_secs_f64(),
            connections: state.connections,
            resident_memory: resident_bytes(),
            store_size: state.store_bytes,
            store_commits: state.commits,
            store_failed_transactions: state.failed_transactions,
            store_problem: state.store_failure.as_ref().map(|failure| StoreProblemStatus {
                problem: failure.problem.name().to_owned(),
                reason: failure.reason.to_string(),
                seconds: failure.since.elapsed().as_secs_f64(),
            }),
            unrouted: application.unrouted(),
            response_cache: ResponseCacheStatus { hits: counters.hits(), misses: counters.misses(), entries, size },
            spans: spans.map(|counters| SpanStatus {
                exported: counters.exported.get(),
                failed: counters.failed.get(),
                dropped: counters.dropped.get(),
            }),
        }
    }
}
