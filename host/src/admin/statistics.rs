//! The statistics of a component in `/status`: a selection of `/metrics`, added up.

use serde::{Deserialize, Serialize};

use crate::component::ComponentService;

/// The statistics of a component since the host started.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct ComponentStatistics {
    /// Responses, of the component or of the host instead of it.
    pub requests: u64,
    /// Responses with a status of 500 or more, or with a body that broke or ran out of time.
    pub failed: u64,
    /// Upper bound of the median latency, from a request's head to its response's, in seconds. None without a request.
    /// At most the largest bound of the histogram.
    pub p50: Option<f64>,
    /// The same of the 99th percentile.
    pub p99: Option<f64>,
    pub instantiations: u64,
    /// Instances that ended early.
    pub instance_failures: u64,
    /// The most memory that one instance had, in bytes.
    pub memory_peak: u64,
    /// Processor time in seconds.
    pub guest_busy: f64,
    pub key_value_operations: u64,
    pub outbound_requests: u64,
}

impl From<&ComponentService> for ComponentStatistics {
    fn from(service: &ComponentService) -> Self {
        let metrics = service.metrics();
        let latency = metrics.histogram(|shard| &shard.latency);
        let statuses = metrics.statuses();
        let failed = statuses.iter().filter(|(status, _)| *status >= 500);
        Self {
            requests: statuses.iter().map(|(_, count)| count).sum(),
            failed: failed.map(|(_, count)| count).sum::<u64>()
                + metrics.total(|shard| shard.broken.get() + shard.timed_out.get()),
            p50: latency.finite_quantile(0.5),
            p99: latency.finite_quantile(0.99),
            instantiations: metrics.total(|shard| shard.instantiations.get()),
            instance_failures: metrics.failures().map(|(_, count)| count).sum(),
            memory_peak: metrics.memory_peak(),
            guest_busy: metrics.total(|shard| shard.cpu_nanos.get()) as f64 / 1e9,
            key_value_operations: metrics.operations().map(|(_, durations)| durations.count).sum(),
            outbound_requests: service.outbound().map_or(0, |outbound| outbound.counters().requests.get()),
        }
    }
}
