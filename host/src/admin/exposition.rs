//! The metrics as OpenMetrics or Prometheus text. The names of metrics are an interface: dashboards and
//! alerts use them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use http::HeaderMap;
use http::header::ACCEPT;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::host_state::{HostMemory, HostState};
use super::prometheus_text;
use crate::application::Application;
use crate::component::{Health, Slot};
use crate::deploy::ReloadOutcome;
use crate::imports::outbound::Outbound;
use crate::metrics::{Histogram, Summary};
use crate::store::{StoreProblem, postgres};

/// The media type of OpenMetrics text.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics, as OpenMetrics text.
pub fn openmetrics(application: Arc<Application>, host_state: HostState) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("hexad");
    registry.register_collector(Box::new(MetricsCollector { application, host_state }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The media type that the client accepts, and the text in it.
pub fn negotiate(openmetrics: String, headers: &HeaderMap) -> (&'static str, String) {
    let accepts = |name: &str| {
        let mut values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.contains(name))
    };
    match accepts("text/plain") && !accepts("application/openmetrics-text") {
        true => (prometheus_text::MEDIA_TYPE, prometheus_text::from_openmetrics(&openmetrics)),
        false => (MEDIA_TYPE, openmetrics),
    }
}

struct MetricsCollector {
    application: Arc<Application>,
    host_state: HostState,
}

impl fmt::Debug for MetricsCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsCollector")
    }
}

/// Writes families of metrics, slot by slot.
struct FamilyEncoder<'a, 'b> {
    encoder: DescriptorEncoder<'a>,
    slots: &'b [Slot],
}

impl FamilyEncoder<'_, '_> {
    fn each(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl Fn(&Slot, &mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        self.slots.iter().try_for_each(|slot| write(slot, &mut family))
    }

    /// One value for each component.
    fn counter(&mut self, name: &str, help: &str, value: impl Fn(&Slot) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |slot, family| count(family, &[component(slot)], value(slot)))
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Fn(&Slot) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Gauge, |slot, family| {
            family.encode_family(&[component(slot)])?.encode_gauge(&value(slot))
        })
    }

    /// Several values for each component, with a second label.
    fn counters<L: ToString>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Fn(&Slot) -> Vec<(L, u64)>,
    ) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |slot, family| {
            values(slot).into_iter().try_for_each(|(kind, value)| {
                count(family, &[component(slot), (label, &kind.to_string())], value as f64)
            })
        })
    }

    fn histogram(&mut self, name: &str, help: &str, summary: impl Fn(&Slot) -> Summary) -> fmt::Result {
        self.each(name, help, MetricType::Histogram, |slot, family| {
            distribution(family, &[component(slot)], &summary(slot))
        })
    }

    /// A value of the host.
    fn host(&mut self, name: &str, help: &str, kind: MetricType, value: f64) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        match kind {
            MetricType::Counter => family.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            _ => family.encode_gauge(&value),
        }
    }
}

fn distribution(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, summary: &Summary) -> fmt::Result {
    let Summary { count, sum, buckets } = summary;
    family.encode_family(labels)?.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
}

fn component(slot: &Slot) -> (&str, &str) {
    ("component", slot.id())
}

fn count(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: f64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
}

impl Collector for MetricsCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = FamilyEncoder { encoder, slots: self.application.slots() };
        out.counters("requests", "Responses, by status", "status", |slot| slot.metrics().statuses())?;
        out.histogram("request_duration_seconds", "From a request's head to its response's", |slot| {
            slot.metrics().histogram(|shard| &shard.latency)
        })?;
        out.counters(
            "request_refusals",
            "Responses of the host in a component's place, by reason",
            "reason",
            |slot| slot.metrics().refusals().collect(),
        )?;
        out.gauge("requests_in_flight", "Requests being served", |slot| slot.load().0 as f64)?;
        out.gauge("requests_waiting", "Requests waiting for an instance", |slot| slot.load().1 as f64)?;
        out.histogram(
            "queue_wait_seconds",
            "How long requests waited for an instance, without those that did not wait",
            |slot| slot.metrics().histogram(|shard| &shard.queue_wait),
        )?;
        out.counter("instantiations", "Instances made", |slot| {
            slot.metrics().total(|shard| shard.instantiations.get()) as f64
        })?;
        out.counter("instantiation_failures", "Instances that could not be made", |slot| {
            slot.metrics().total(|shard| shard.failed_instantiations.get()) as f64
        })?;
        out.counters("instance_failures", "Instances that ended early, by reason", "reason", |slot| {
            slot.metrics().failures().collect()
        })?;
        out.counters("instances_retired", "Instances that the host ended, by reason", "reason", |slot| {
            slot.metrics().retirements().collect()
        })?;
        out.counter("responses_cut_off", "Responses that were truncated at the size limit", |slot| {
            slot.metrics().total(|shard| shard.cut_off.get()) as f64
        })?;
        out.counter("responses_broken", "Responses whose body broke after the head was sent", |slot| {
            slot.metrics().total(|shard| shard.broken.get()) as f64
        })?;
        out.counter(
            "responses_timed_out",
            "Responses whose component ran out of time after the head was sent",
            |slot| slot.metrics().total(|shard| shard.timed_out.get()) as f64,
        )?;
        out.counter("breaker_tripped", "How often a circuit breaker opened", |slot| {
            slot.metrics().total(|shard| shard.breaker_trips.get()) as f64
        })?;
        out.gauge("breaker_open", "1 while a circuit breaker is open, 0.5 while one is half-open", |slot| match slot
            .current()
            .health()
        {
            Health::Healthy => 0.0,
            Health::Recovering => 0.5,
            Health::Failing => 1.0,
        })?;
        out.counter("log_lines_dropped", "Lines that the component printed above its rate", |slot| {
            slot.metrics().log_lines_dropped.get() as f64
        })?;
        out.gauge("instance_memory_peak_bytes", "The most memory that one instance had", |slot| {
            slot.metrics().memory_peak() as f64
        })?;
        out.counter("memory_denied", "Requests for more memory that were denied", |slot| {
            slot.metrics().total(|shard| shard.memory_denials.get()) as f64
        })?;
        out.counter("guest_busy_seconds", "Processor time of guests and of their calls of the host", |slot| {
            slot.metrics().total(|shard| shard.cpu_nanos.get()) as f64 / 1e9
        })?;
        out.counters("key_value_operations", "Operations on the key-value store", "operation", |slot| {
            slot.metrics().operations().map(|(operation, durations)| (operation, durations.count)).collect()
        })?;
        out.each(
            "key_value_duration_seconds",
            "How long operations on the key-value store took; commit is the wait for the disk",
            MetricType::Histogram,
            |slot, family| {
                let mut operations = slot.metrics().operations().filter(|(_, durations)| durations.count > 0);
                operations.try_for_each(|(operation, durations)| {
                    distribution(family, &[component(slot), ("operation", operation)], &durations)
                })
            },
        )?;
        out.counter("key_value_swaps_lost", "Compare-and-swaps that found another value", |slot| {
            slot.metrics().total(|shard| shard.swaps_lost.get()) as f64
        })?;
        out.counter("key_value_denied", "Accesses that the grants do not cover", |slot| {
            slot.component().grants.denied() as f64
        })?;
        out.counters("outbound_requests", "Outbound requests, by outcome", "outcome", |slot| {
            let Some(outbound) = slot.outbound() else { return Vec::new() };
            let counters = outbound.counters();
            vec![
                ("answered", counters.answered.get()),
                ("denied", counters.denied.get()),
                ("prohibited", counters.prohibited.get()),
                ("busy", counters.busy.get()),
                ("timed_out", counters.timeouts.get()),
                ("failed", counters.failed.get()),
            ]
        })?;
        out.each(
            "outbound_duration_seconds",
            "From an outbound request to the head of its response, or to its error",
            MetricType::Histogram,
            |slot, family| match slot.outbound() {
                Some(outbound) => {
                    distribution(family, &[component(slot)], &Histogram::sum([&outbound.counters().duration]))
                }
                None => Ok(()),
            },
        )?;
        let outbound = |slot: &Slot, value: fn(&Outbound) -> u64| slot.outbound().map_or(0.0, |out| value(&out) as f64);
        out.counter(
            "outbound_requests_shared",
            "Outbound requests that got the response of an identical one",
            |slot| outbound(slot, Outbound::coalesced),
        )?;
        out.counter("outbound_connections", "Outbound connections that were opened", |slot| {
            outbound(slot, |outbound| outbound.counters().connections.get())
        })?;
        out.counter("outbound_received_bytes", "Bytes of responses to outbound requests", |slot| {
            outbound(slot, |outbound| outbound.counters().received.get())
        })?;
        out.gauge("outbound_requests_in_flight", "Outbound requests under way", |slot| {
            outbound(slot, |outbound| outbound.in_flight() as u64)
        })?;
        out.each("component_info", "The active component; always 1", MetricType::Gauge, |slot, family| {
            let current = slot.current();
            let area = current.description.as_ref();
            let labels = [
                component(slot),
                ("area", area.map_or("", |area| &area.area)),
                ("version", area.map_or("", |area| &area.version)),
                ("digest", &current.digest.to_string()),
            ];
            family.encode_family(&labels)?.encode_gauge(&1.0)
        })?;
        out.gauge("generation", "The number of the active generation", |slot| slot.current().number as f64)?;
        out.gauge("canary", "1 during the trial of a canary", |slot| {
            f64::from(u8::from(slot.deployment().canary.is_some()))
        })?;

        self.response_cache(&mut out)?;
        self.spans(&mut out)?;
        self.host(&mut out)
    }
}

impl MetricsCollector {
    fn response_cache(&self, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
        let cache = self.application.response_cache();
        let counters = cache.counters();
        for (name, help, count) in [
            ("memo_hits", "Requests that got a cached response", &counters.hits),
            ("memo_misses", "Cacheable requests that got a new response", &counters.misses),
            ("memo_remembered", "Responses that were stored in the cache", &counters.stored),
        ] {
            out.host(name, help, MetricType::Counter, count.load(Ordering::Relaxed) as f64)?;
        }
        let (entries, bytes) = cache.size();
        out.host("memo_answers", "Responses in the cache", MetricType::Gauge, entries as f64)?;
        out.host("memo_bytes", "Memory of the cached responses", MetricType::Gauge, bytes as f64)
    }

    fn spans(&self, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
        let Some(counters) = self.application.tracer().map(|tracer| tracer.counters()) else {
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

    fn host(&self, out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
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
        } = &self.host_state;
        let mut build = out.encoder.encode_descriptor("build_info", "This host; always 1", None, MetricType::Gauge)?;
        build.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?.encode_gauge(&1.0)?;
        let unrouted = self.application.unrouted() as f64;
        out.host("unrouted_requests", "Requests without a route", MetricType::Counter, unrouted)?;
        out.host("store_bytes", "Size of the store's files", MetricType::Gauge, *store_bytes as f64)?;
        out.host("store_commits", "Transactions that were flushed to disk", MetricType::Counter, *commits as f64)?;
        let failed = *failed_transactions as f64;
        out.host("store_failed_transactions", "Transactions that failed", MetricType::Counter, failed)?;
        let help = "1 for the problem that keeps the store from its work";
        let mut problems = out.encoder.encode_descriptor("store_problem", help, None, MetricType::Gauge)?;
        for (problem, name) in StoreProblem::ALL {
            let is_present = store_failure.as_ref().is_some_and(|failure| failure.problem == problem);
            problems.encode_family(&[("problem", name)])?.encode_gauge(&f64::from(u8::from(is_present)))?;
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
        let HostMemory { budget, division, send_buffer } = &self.host_state.memory;
        for (name, help, value) in [
            ("memory_budget_bytes", "What caches, responses and guests may take together", division.total),
            ("guest_memory_limit_bytes", "What guests may take of it together", budget.limit()),
            ("guest_memory_bytes", "Linear memory of all instances", budget.used()),
            ("send_buffer_bytes", "Responses that clients have not taken", *send_buffer),
        ] {
            out.host(name, help, MetricType::Gauge, value as f64)?;
        }
        let help = "Requests for more memory that were denied because the host had none left";
        out.host("guest_memory_denied", help, MetricType::Counter, budget.denials.get() as f64)?;
        let help = "Lines of the access log that were dropped because it is too slow";
        let dropped = self.host_state.access_log_dropped as f64;
        out.host("access_log_lines_dropped", help, MetricType::Counter, dropped)?;
        if let Some(reload) = &self.host_state.last_reload {
            let applied = f64::from(u8::from(matches!(reload.outcome, ReloadOutcome::Applied(_))));
            let help = "1 if the manifest was applied when it was last read again, 0 if it was refused";
            out.host("manifest_reload_successful", help, MetricType::Gauge, applied)?;
            let at = reload.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let help = "When the manifest was last read again, since the Unix epoch";
            out.host("manifest_reload_timestamp_seconds", help, MetricType::Gauge, at)?;
        }
        if let Some((instances, memories, stacks)) = pool {
            out.host("pool_instances", "Component instances alive", MetricType::Gauge, *instances as f64)?;
            out.host("pool_memories", "Linear memories in use", MetricType::Gauge, *memories as f64)?;
            out.host("pool_stacks", "Stacks in use", MetricType::Gauge, *stacks as f64)?;
        }
        if let Some(bytes) = resident_bytes() {
            out.host("resident_memory_bytes", "Memory of the process", MetricType::Gauge, bytes as f64)?;
        }
        if let Some(count) = open_descriptors() {
            out.host("open_descriptors", "Files and sockets of the process", MetricType::Gauge, count as f64)?;
        }
        Ok(())
    }
}

fn postgres_metrics(out: &mut FamilyEncoder<'_, '_>, status: &postgres::Status) -> fmt::Result {
    let is_connected = f64::from(u8::from(status.server.is_some()));
    out.host("postgres_connected", "1 while a PostgreSQL can be used", MetricType::Gauge, is_connected)?;
    let round_trip = status.round_trip.as_secs_f64();
    out.host("postgres_round_trip_seconds", "How long the last barrier took", MetricType::Gauge, round_trip)?;
    for (name, help, count) in [
        ("postgres_barriers", "Questions whether another host has changed anything", status.barriers),
        ("postgres_reads", "Statements that read", status.reads),
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

fn open_descriptors() -> Option<usize> {
    // Without the descriptor of the folder itself.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// The resident memory, from procfs: the second field has its pages.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
