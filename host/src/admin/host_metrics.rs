//! The metrics of the host as a whole.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use prometheus_client::metrics::MetricType;

use super::host_state::{HostState, MemoryState};
use super::metric_family::FamilyEncoder;
use super::process;
use crate::application::Application;
use crate::deploy::ReloadOutcome;
use crate::machine;
use crate::store::{StoreProblem, postgres};

/// Writes the host's metrics.
pub fn encode(application: &Application, state: &HostState, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    response_cache(application, out)?;
    spans(application, out)?;
    host(application, state, out)
}

fn response_cache(application: &Application, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    let cache = application.response_cache();
    let counters = cache.counters();
    for (name, help, count) in [
        ("response_cache_hits", "Requests that got a cached response", &counters.hits),
        ("response_cache_misses", "Cacheable requests that got a new response", &counters.misses),
        ("response_cache_stored", "Responses that were stored in the cache", &counters.stored),
    ] {
        out.host(name, help, MetricType::Counter, count.load(Ordering::Relaxed) as f64)?;
    }
    let (entries, bytes) = cache.size();
    out.host("response_cache_entries", "Responses in the cache", MetricType::Gauge, entries as f64)?;
    out.host("response_cache_bytes", "Memory of the cached responses", MetricType::Gauge, bytes as f64)
}

fn spans(application: &Application, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    let Some(counters) = application.tracer().map(|tracer| tracer.counters()) else {
        return Ok(());
    };
    for (name, help, count) in [
        ("spans_exported", "Spans that the collector accepted", &counters.exported),
        ("spans_failed", "Spans that could not be sent", &counters.failed),
        ("spans_dropped", "Spans that the full queue dropped", &counters.dropped),
    ] {
        out.host(name, help, MetricType::Counter, count.get() as f64)?;
    }
    out.host("spans_queued", "Spans that wait to be sent", MetricType::Gauge, counters.queued() as f64)
}

fn host(application: &Application, state: &HostState, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    let HostState {
        commits,
        started,
        connections,
        pool,
        store_bytes,
        store_failure,
        failed_transactions,
        postgres,
        ..
    } = state;
    let mut build = out.encoder.encode_descriptor("build_info", "This host; always 1", None, MetricType::Gauge)?;
    build.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?.encode_gauge(&1.0)?;
    let unrouted = application.unrouted() as f64;
    out.host("unrouted_requests", "Requests without a route", MetricType::Counter, unrouted)?;
    out.host("store_bytes", "Size of the store's files", MetricType::Gauge, *store_bytes as f64)?;
    out.host("store_commits", "Transactions that were flushed to disk", MetricType::Counter, *commits as f64)?;
    let failed = *failed_transactions as f64;
    out.host("store_failed_transactions", "Transactions that failed", MetricType::Counter, failed)?;
    let help = "1 for the problem that keeps the store from its work";
    let mut problems = out.encoder.encode_descriptor("store_problem", help, None, MetricType::Gauge)?;
    for name in StoreProblem::NAMES {
        let is_present = store_failure.as_ref().is_some_and(|failure| failure.problem.name() == *name);
        problems.encode_family(&[("problem", *name)])?.encode_gauge(&f64::from(u8::from(is_present)))?;
    }
    if let Some(status) = postgres {
        postgres_metrics(out, status)?;
    }
    out.host(
        "connections",
        "Connections and requests without one, in the shards",
        MetricType::Gauge,
        *connections as f64,
    )?;
    out.host("uptime_seconds", "Since the host started", MetricType::Gauge, started.elapsed().as_secs_f64())?;
    let MemoryState { budget, division, send_buffer } = &state.memory;
    for (name, help, value) in [
        ("memory_budget_bytes", "What caches, responses and guests may take together", division.total),
        ("guest_memory_limit_bytes", "What guests may take of it together", budget.limit()),
        (
            "guest_memory_bytes",
            "Linear memory of all instances, request bodies sent ahead over HTTP/2, and what equal outbound requests \
             share: the bodies of requests and of responses",
            budget.used(),
        ),
        ("send_buffer_bytes", "Responses that clients have not taken", *send_buffer),
    ] {
        out.host(name, help, MetricType::Gauge, value as f64)?;
    }
    let help = "Requests for more memory that were denied because the host had none left";
    out.host("guest_memory_denied", help, MetricType::Counter, budget.denials.get() as f64)?;
    let help = "Lines of the access log that were dropped because it is too slow";
    let dropped = state.access_log_dropped as f64;
    out.host("access_log_lines_dropped", help, MetricType::Counter, dropped)?;
    if let Some(reload) = &state.last_reload {
        let applied = f64::from(u8::from(matches!(reload.outcome, ReloadOutcome::Applied(_))));
        let help = "1 if the manifest was applied when it was last read again, 0 if it was refused";
        out.host("manifest_reload_successful", help, MetricType::Gauge, applied)?;
        let at = reload.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let help = "When the manifest was last read again, since the Unix epoch";
        out.host("manifest_reload_timestamp_seconds", help, MetricType::Gauge, at)?;
    }
    if !state.certificates.is_empty() {
        let are_read = state.certificates.iter().all(|certificates| certificates.failure.is_none());
        let are_read = f64::from(u8::from(are_read));
        let help = "1 if the certificates in use are those that were last read, 0 if they could not be read again";
        out.host("certificates_reload_successful", help, MetricType::Gauge, are_read)?;
    }
    if let Some(not_after) = state.certificates.iter().filter_map(|certificates| certificates.not_after).min() {
        let help = "When the certificate in use expires, since the Unix epoch";
        out.host("certificate_not_after_seconds", help, MetricType::Gauge, not_after as f64)?;
    }
    let help = "Threads that have ended though the host serves, or whose last turn has failed; it is not ready then";
    out.host("ended_threads", help, MetricType::Gauge, state.ended_threads.len() as f64)?;
    let help = "Instances that have waited for their clients and made way for other requests";
    out.host("stalled_instances", help, MetricType::Gauge, state.stalled_instances as f64)?;
    if let Some((instances, memories, stacks)) = pool {
        out.host("pool_instances", "Component instances alive", MetricType::Gauge, *instances as f64)?;
        out.host("pool_memories", "Linear memories in use", MetricType::Gauge, *memories as f64)?;
        out.host("pool_stacks", "Stacks in use", MetricType::Gauge, *stacks as f64)?;
    }
    if let Some(bytes) = machine::resident_memory() {
        out.host("resident_memory_bytes", "Memory of the process", MetricType::Gauge, bytes as f64)?;
    }
    if let Some(count) = process::open_descriptors() {
        out.host("open_descriptors", "Files and sockets of the process", MetricType::Gauge, count as f64)?;
    }
    if let Some(count) = process::max_descriptors() {
        let help = "Files and sockets that the process may have open";
        out.host("max_descriptors", help, MetricType::Gauge, count as f64)?;
    }
    Ok(())
}

fn postgres_metrics(out: &mut FamilyEncoder<'_, '_>, status: &postgres::ServerStatus) -> fmt::Result {
    let is_connected = f64::from(u8::from(status.server.is_some()));
    out.host("postgres_connected", "1 while a PostgreSQL can be used", MetricType::Gauge, is_connected)?;
    let round_trip = status.round_trip.as_secs_f64();
    out.host("postgres_round_trip_seconds", "How long the last barrier took", MetricType::Gauge, round_trip)?;
    for (name, help, count) in [
        ("postgres_barriers", "Questions whether another host has changed anything", status.barriers),
        ("postgres_reads", "Reads of components that were sent to the server", status.reads),
        ("postgres_reconnects", "How often all connections were made anew", status.reconnects),
    ] {
        out.host(name, help, MetricType::Counter, count as f64)?;
    }
    let help = "1 for each setting of the server that endangers data";
    let mut warnings = out.encoder.encode_descriptor("postgres_warnings", help, None, MetricType::Gauge)?;
    for warning in &status.warnings {
        warnings.encode_family(&[("setting", warning.setting)])?.encode_gauge(&1.0)?;
    }
    let help = "Bytes of the log that a standby has not written yet";
    let mut lags = out.encoder.encode_descriptor("postgres_standby_lag_bytes", help, None, MetricType::Gauge)?;
    for (name, lag) in &status.standbys {
        lags.encode_family(&[("standby", name.as_str())])?.encode_gauge(&(*lag as f64))?;
    }
    Ok(())
}
