//! The metrics of the host as a whole: one table of [`HostStatus`].

use std::fmt;

use hexad_store::StoreProblem;
use jiff::Timestamp;
use prometheus_client::metrics::MetricType;

use super::exposition::FamilyEncoder;
use super::host_status::{HostStatus, ReloadStatus};

/// The name, the help text, the kind and the value of a metric without labels. Without a value, the host has no such
/// metric.
type Metric = (&'static str, &'static str, MetricType, Option<f64>);

/// Writes the host's metrics.
pub fn encode(host: &HostStatus, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    for (name, help, kind, value) in metrics(host) {
        if let Some(value) = value {
            out.host(name, help, kind, value)?;
        }
    }
    out.labelled("build_info", "This host; always 1", "version", [(&*host.version, 1.0)])?;
    let problem = host.store_problem.as_ref().map(|problem| &*problem.problem);
    let problems = StoreProblem::NAMES.iter().map(|name| (*name, flag(problem == Some(*name))));
    out.labelled("store_problem", "1 for the problem that keeps the store from its work", "problem", problems)?;
    if let Some(postgres) = &host.postgres {
        let warnings = postgres.warnings.iter().map(|warning| (&*warning.setting, 1.0));
        out.labelled("postgres_warnings", "1 for each setting of the server that endangers data", "setting", warnings)?;
        let lags = postgres.standbys.iter().map(|standby| (&*standby.name, standby.lag as f64));
        let help = "Bytes of the log that a standby has not written yet";
        out.labelled("postgres_standby_lag_bytes", help, "standby", lags)?;
    }
    Ok(())
}

#[rustfmt::skip]
fn metrics(host: &HostStatus) -> [Metric; 38] {
    use MetricType::{Counter, Gauge};
    let HostStatus { memory, response_cache: cache, .. } = host;
    let (spans, postgres, reload, pool) = (host.spans.as_ref(), host.postgres.as_ref(), host.last_reload.as_ref(), host.pool.as_ref());
    [
        ("response_cache_hits", "Requests that got a cached response", Counter, Some(cache.hits as f64)),
        ("response_cache_misses", "Cacheable requests that got a new response", Counter, Some(cache.misses as f64)),
        ("response_cache_stored", "Responses that were stored in the cache", Counter, Some(cache.stored as f64)),
        ("response_cache_entries", "Responses in the cache", Gauge, Some(cache.entries as f64)),
        ("response_cache_bytes", "Memory of the cached responses", Gauge, Some(cache.size as f64)),
        ("spans_exported", "Spans that the collector accepted", Counter, spans.map(|spans| spans.exported as f64)),
        ("spans_failed", "Spans that could not be sent", Counter, spans.map(|spans| spans.failed as f64)),
        ("spans_dropped", "Spans that the full queue dropped", Counter, spans.map(|spans| spans.dropped as f64)),
        ("spans_queued", "Spans that wait to be sent", Gauge, spans.map(|spans| spans.queued as f64)),
        ("unrouted_requests", "Requests without a route", Counter, Some(host.unrouted as f64)),
        ("connections", "Connections and requests without one, in the shards", Gauge, Some(host.connections as f64)),
        ("uptime_seconds", "Since the host started", Gauge, Some(host.uptime)),
        ("store_bytes", "Size of the store's files", Gauge, Some(host.store_size as f64)),
        ("store_commits", "Transactions that were flushed to disk", Counter, Some(host.store_commits as f64)),
        ("store_failed_transactions", "Transactions that failed", Counter, Some(host.store_failed_transactions as f64)),
        ("postgres_connected", "1 while a PostgreSQL can be used", Gauge, postgres.map(|postgres| flag(postgres.server.is_some()))),
        ("postgres_round_trip_seconds", "How long the last barrier took", Gauge, postgres.map(|postgres| postgres.round_trip)),
        ("postgres_barriers", "Questions whether another host has changed anything", Counter, postgres.map(|postgres| postgres.barriers as f64)),
        ("postgres_reads", "Reads of components that were sent to the server", Counter, postgres.map(|postgres| postgres.reads as f64)),
        ("postgres_reconnects", "How often the host replaced all connections", Counter, postgres.map(|postgres| postgres.reconnects as f64)),
        ("memory_budget_bytes", "What caches, responses and guests may take together", Gauge, Some(memory.budget as f64)),
        ("guest_memory_limit_bytes", "What guests may take of it together", Gauge, Some(memory.guests_limit as f64)),
        ("guest_memory_bytes", "Linear memory of all instances, request bodies sent ahead over HTTP/2, and the bodies that equal outbound requests share", Gauge, Some(memory.guests as f64)),
        ("guest_memory_denied", "Requests for more memory that were denied because the host had none left", Counter, Some(memory.guests_denied as f64)),
        ("send_buffer_bytes", "Responses that clients have not taken", Gauge, Some(memory.send_buffer as f64)),
        ("access_log_lines_dropped", "Lines of the access log that were dropped because it is too slow", Counter, Some(host.access_log_dropped as f64)),
        ("manifest_reload_successful", "1 if the manifest was applied when it was last read again, 0 if it was refused", Gauge, reload.map(|reload| flag(reload.applied))),
        ("manifest_reload_timestamp_seconds", "When the manifest was last read again, since the Unix epoch", Gauge, reload.and_then(unix_seconds)),
        ("certificates_reload_successful", "1 if the certificates in use are those that were last read, 0 if they could not be read again", Gauge, host.certificates_are_read.map(flag)),
        ("certificate_not_after_seconds", "When the certificate in use expires, since the Unix epoch", Gauge, host.certificates_not_after.map(|second| second as f64)),
        ("ended_threads", "Threads that have ended though the host serves, or whose last turn has failed; it is not ready then", Gauge, Some(host.ended_threads.len() as f64)),
        ("stalled_instances", "Instances that wait for their clients and have yielded their permits", Gauge, Some(host.stalled_instances as f64)),
        ("pool_instances", "Component instances alive", Gauge, pool.map(|pool| pool.instances as f64)),
        ("pool_memories", "Linear memories in use", Gauge, pool.map(|pool| pool.memories as f64)),
        ("pool_stacks", "Stacks in use", Gauge, pool.map(|pool| pool.stacks as f64)),
        ("resident_memory_bytes", "Memory of the process", Gauge, host.resident_memory.map(|bytes| bytes as f64)),
        ("open_descriptors", "Files and sockets of the process", Gauge, host.descriptors.map(|count| count as f64)),
        ("max_descriptors", "Files and sockets that the process may have open", Gauge, host.max_descriptors.map(|count| count as f64)),
    ]
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn unix_seconds(reload: &ReloadStatus) -> Option<f64> {
    let at: Timestamp = reload.at.as_ref()?.parse().ok()?;
    Some(at.as_duration().as_secs_f64())
}
