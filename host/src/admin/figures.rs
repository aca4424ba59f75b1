//! The figures of `/status`: those of `/metrics` that an operator looks at first, added up.

use serde::{Deserialize, Serialize};

use super::exposition::resident_bytes;
use super::host_state::HostState;
use crate::application::Application;
use crate::component::Slot;
use crate::metrics::Summary;

/// What a component has done since the host started.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Figures {
    /// Answers, whoever gave them.
    pub requests: u64,
    /// Those with a status of 500 or more.
    pub failed: u64,
    /// Seconds from a request's head to its response's, as an upper bound: of half of the requests,
    /// and of 99 in 100. None if there were none; more than the largest bound is the largest.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub instantiations: u64,
    /// Instances that ended before their time.
    pub instance_failures: u64,
    /// Bytes; the most that one instance had.
    pub memory_peak: u64,
    /// Seconds of a processor.
    pub guest_busy: f64,
    pub key_value_operations: u64,
    pub outbound_requests: u64,
}

/// The host as a whole. Sizes in bytes, times in seconds.
#[derive(Debug, Deserialize, Serialize)]
pub struct Host {
    pub version: String,
    pub uptime: f64,
    pub connections: usize,
    pub resident_memory: Option<u64>,
    pub store_size: u64,
    pub store_commits: u64,
    /// Requests for paths that nobody serves.
    pub unrouted: u64,
    pub memo: Memo,
    /// None if no traces are exported.
    pub spans: Option<Spans>,
}

/// The response cache. `size` is in bytes.
#[derive(Debug, Deserialize, Serialize)]
pub struct Memo {
    pub hits: u64,
    pub misses: u64,
    pub answers: usize,
    pub size: usize,
}

/// What became of spans.
#[derive(Debug, Deserialize, Serialize)]
pub struct Spans {
    pub exported: u64,
    pub failed: u64,
    pub dropped: u64,
}

impl From<&Slot> for Figures {
    fn from(slot: &Slot) -> Self {
        let metrics = slot.metrics();
        let latency = metrics.histogram(|shard| &shard.latency);
        let statuses = metrics.statuses();
        let failed = statuses.iter().filter(|(status, _)| *status >= 500);
        Self {
            requests: statuses.iter().map(|(_, count)| count).sum(),
            failed: failed.map(|(_, count)| count).sum(),
            p50: bounded(&latency, 0.5),
            p99: bounded(&latency, 0.99),
            instantiations: metrics.total(|shard| shard.instantiations.get()),
            instance_failures: metrics.failures().map(|(_, count)| count).sum(),
            memory_peak: metrics.peak(),
            guest_busy: metrics.total(|shard| shard.busy_nanos.get()) as f64 / 1e9,
            key_value_operations: metrics.operations().map(|(_, durations)| durations.count).sum(),
            outbound_requests: slot.outbound().map_or(0, |outbound| outbound.counters().requests.get()),
        }
    }
}

/// JSON knows no infinity.
fn bounded(durations: &Summary, part: f64) -> Option<f64> {
    let largest = durations.buckets.iter().map(|(bound, _)| *bound).rfind(|bound| bound.is_finite())?;
    durations.quantile(part).map(|bound| bound.min(largest))
}

impl Host {
    pub fn new(application: &Application, figures: &HostState) -> Self {
        let cache = application.response_cache();
        let counters = cache.counters();
        let (answers, size) = cache.size();
        let spans = application.tracer().map(|tracer| tracer.counts());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: figures.started.elapsed().as_secs_f64(),
            connections: figures.connections,
            resident_memory: resident_bytes(),
            store_size: figures.store_bytes,
            store_commits: figures.commits,
            unrouted: application.unrouted(),
            memo: Memo { hits: counters.hits(), misses: counters.misses(), answers, size },
            spans: spans.map(|counts| Spans {
                exported: counts.exported.get(),
                failed: counts.failed.get(),
                dropped: counts.dropped.get(),
            }),
        }
    }
}
