//! The metrics as OpenMetrics text. The names of metrics are an interface: dashboards and alerts use them.

use std::fmt;
use std::sync::Arc;

use hexad_imports::outbound::Outbound;
use hexad_runtime::application::Application;
use hexad_runtime::component::{ComponentService, Health};
use hexad_telemetry::metrics::{Histogram, Summary};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::host_metrics;
use super::host_status::HostStatus;

/// The media type of OpenMetrics text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The former and the present name of metrics that were renamed in 0.2. `--old-metric-names` is for that release only.
const RENAMED: [(&str, &str); 9] = [
    ("hexad_memo_hits", "hexad_response_cache_hits"),
    ("hexad_memo_misses", "hexad_response_cache_misses"),
    ("hexad_memo_remembered", "hexad_response_cache_stored"),
    ("hexad_memo_answers", "hexad_response_cache_entries"),
    ("hexad_memo_bytes", "hexad_response_cache_bytes"),
    ("hexad_instances_retired", "hexad_instances_closed"),
    ("hexad_outbound_requests_shared", "hexad_outbound_requests_coalesced"),
    ("hexad_generation", "hexad_revision"),
    ("hexad_guest_busy_seconds", "hexad_guest_cpu_seconds"),
];

/// Replaces the present names of metrics by the former ones.
pub fn with_old_names(metrics: String) -> String {
    RENAMED.iter().fold(metrics, |metrics, (former, present)| metrics.replace(present, former))
}

/// All metrics, as OpenMetrics text.
pub fn openmetrics(application: Arc<Application>, host: HostStatus) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("hexad");
    registry.register_collector(Box::new(MetricsCollector { application, host }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

struct MetricsCollector {
    application: Arc<Application>,
    host: HostStatus,
}

impl fmt::Debug for MetricsCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsCollector")
    }
}

impl Collector for MetricsCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = FamilyEncoder { encoder, services: self.application.services() };
        requests(&mut out)?;
        instances(&mut out)?;
        key_value(&mut out)?;
        outbound(&mut out)?;
        revisions(&mut out)?;
        host_metrics::encode(&self.host, &mut out)
    }
}

fn requests(out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    out.counters("requests", "Responses, by status", "status", |service| service.metrics().statuses())?;
    out.histogram("request_duration_seconds", "From a request's head to its response's", |service| {
        service.metrics().histogram(|shard| &shard.latency)
    })?;
    out.counters("request_refusals", "Responses of the host in a component's place, by reason", "reason", |service| {
        service.metrics().refusals().collect()
    })?;
    out.gauge("requests_in_flight", "Requests being served", |service| service.load().0 as f64)?;
    out.gauge("requests_waiting", "Requests waiting for an instance", |service| service.load().1 as f64)?;
    out.histogram(
        "queue_wait_seconds",
        "How long requests waited for an instance, without those that did not wait",
        |service| service.metrics().histogram(|shard| &shard.queue_wait),
    )
}

fn instances(out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    out.counter("instantiations", "Instances made", |service| {
        service.metrics().total(|shard| shard.instantiations.get()) as f64
    })?;
    out.counter("instantiation_failures", "Instances that could not be made", |service| {
        service.metrics().total(|shard| shard.failed_instantiations.get()) as f64
    })?;
    out.counters("instance_failures", "Instances that ended early, by reason", "reason", |service| {
        service.metrics().failures().collect()
    })?;
    out.counters("instances_closed", "Instances that the host ended, by reason", "reason", |service| {
        service.metrics().closes().collect()
    })?;
    out.counter("responses_cut_off", "Responses that were truncated at the size limit", |service| {
        service.metrics().total(|shard| shard.cut_off.get()) as f64
    })?;
    out.counter("responses_broken", "Responses whose body broke after the head was sent", |service| {
        service.metrics().total(|shard| shard.broken.get()) as f64
    })?;
    out.counter(
        "responses_timed_out",
        "Responses whose component ran out of time after the head was sent",
        |service| service.metrics().total(|shard| shard.timed_out.get()) as f64,
    )?;
    out.counter("breaker_tripped", "How often a circuit breaker opened", |service| {
        service.metrics().total(|shard| shard.breaker_trips.get()) as f64
    })?;
    out.gauge(
        "breaker_open",
        "1 while a circuit breaker is open, 0.5 while one is half-open",
        |service| match service.current().health() {
            Health::Healthy => 0.0,
            Health::Recovering => 0.5,
            Health::Failing => 1.0,
        },
    )?;
    out.counter("log_lines_dropped", "Lines that the component printed above its rate", |service| {
        service.metrics().log_lines_dropped.get() as f64
    })?;
    out.gauge("instance_memory_peak_bytes", "The most memory that one instance had", |service| {
        service.metrics().memory_peak() as f64
    })?;
    out.counter("memory_denied", "Requests for more memory that were denied", |service| {
        service.metrics().total(|shard| shard.memory_denials.get()) as f64
    })?;
    out.counter("guest_cpu_seconds", "Processor time of guests and of their calls of the host", |service| {
        service.metrics().total(|shard| shard.cpu_nanos.get()) as f64 / 1e9
    })
}

fn key_value(out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    out.counters("key_value_operations", "Operations on the key-value store", "operation", |service| {
        service.metrics().operations().map(|(operation, durations)| (operation, durations.count)).collect()
    })?;
    out.each(
        "key_value_duration_seconds",
        "How long operations on the key-value store took; commit is the wait for the disk",
        MetricType::Histogram,
        |service, family| {
            let mut operations = service.metrics().operations().filter(|(_, durations)| durations.count > 0);
            operations.try_for_each(|(operation, durations)| {
                distribution(family, &[component(service), ("operation", operation)], &durations)
            })
        },
    )?;
    out.counter("key_value_swaps_lost", "Compare-and-swaps that found another value", |service| {
        service.metrics().total(|shard| shard.swaps_lost.get()) as f64
    })?;
    out.counter("key_value_denied", "Accesses that the grants do not cover", |service| {
        service.component().grants.denied() as f64
    })
}

fn outbound(out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    out.counters("outbound_requests", "Outbound requests, by outcome", "outcome", |service| {
        let Some(outbound) = service.outbound() else { return Vec::new() };
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
        |service, family| match service.outbound() {
            Some(outbound) => {
                distribution(family, &[component(service)], &Histogram::sum([&outbound.counters().duration]))
            }
            None => Ok(()),
        },
    )?;
    let outbound = |service: &ComponentService, value: fn(&Outbound) -> u64| {
        service.outbound().map_or(0.0, |out| value(&out) as f64)
    };
    out.counter(
        "outbound_requests_coalesced",
        "Outbound requests that got the response of an identical one",
        |service| outbound(service, |outbound| outbound.counters().coalesced.get()),
    )?;
    out.counter("outbound_connections", "Outbound connections that were opened", |service| {
        outbound(service, |outbound| outbound.counters().connections.get())
    })?;
    out.counter("outbound_received_bytes", "Bytes of responses to outbound requests", |service| {
        outbound(service, |outbound| outbound.counters().received.get())
    })?;
    out.gauge("outbound_requests_in_flight", "Outbound requests under way", |service| {
        outbound(service, |outbound| outbound.in_flight() as u64)
    })
}

fn revisions(out: &mut FamilyEncoder<'_, '_>) -> fmt::Result {
    out.each("component_info", "The active component; always 1", MetricType::Gauge, |service, family| {
        let current = service.current();
        let area = current.description.as_ref();
        let labels = [
            component(service),
            ("area", area.map_or("", |area| &area.area)),
            ("version", area.map_or("", |area| &area.version)),
            ("digest", &current.digest.to_string()),
        ];
        family.encode_family(&labels)?.encode_gauge(&1.0)
    })?;
    out.gauge("revision", "The number of the active revision", |service| service.current().number as f64)?;
    out.gauge("canary", "1 during the trial of a canary", |service| {
        f64::from(u8::from(service.deployment().canary.is_some()))
    })
}

/// Writes families of metrics, service by service.
pub struct FamilyEncoder<'a, 'b> {
    pub encoder: DescriptorEncoder<'a>,
    pub services: &'b [ComponentService],
}

impl FamilyEncoder<'_, '_> {
    pub fn each(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl Fn(&ComponentService, &mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        self.services.iter().try_for_each(|service| write(service, &mut family))
    }

    /// One value for each component.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Fn(&ComponentService) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |service, family| {
            count(family, &[component(service)], value(service))
        })
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: impl Fn(&ComponentService) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Gauge, |service, family| {
            family.encode_family(&[component(service)])?.encode_gauge(&value(service))
        })
    }

    /// Several values for each component, with a second label.
    pub fn counters<L: ToString>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Fn(&ComponentService) -> Vec<(L, u64)>,
    ) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |service, family| {
            values(service).into_iter().try_for_each(|(kind, value)| {
                count(family, &[component(service), (label, &kind.to_string())], value as f64)
            })
        })
    }

    pub fn histogram(&mut self, name: &str, help: &str, summary: impl Fn(&ComponentService) -> Summary) -> fmt::Result {
        self.each(name, help, MetricType::Histogram, |service, family| {
            distribution(family, &[component(service)], &summary(service))
        })
    }

    /// Values of the host, each with its label. The metrics are gauges.
    pub fn labelled<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'l str, f64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(of, value)| family.encode_family(&[(label, of)])?.encode_gauge(&value))
    }

    /// A value of the host.
    pub fn host(&mut self, name: &str, help: &str, kind: MetricType, value: f64) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        match kind {
            MetricType::Counter => family.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            _ => family.encode_gauge(&value),
        }
    }
}

/// Writes the samples of a histogram.
pub fn distribution(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, summary: &Summary) -> fmt::Result {
    let Summary { count, sum, buckets } = summary;
    family.encode_family(labels)?.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
}

/// The label that names a component.
pub fn component(service: &ComponentService) -> (&str, &str) {
    ("component", service.id())
}

fn count(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: f64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
}
