//! The components in `/status` and `/components`.

use std::time::{Duration, Instant, SystemTime};

use hexad_runtime::component::{Canary, ComponentService, Health, Revision};
use hexad_support::digest::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A component of the manifest.
#[derive(Debug, Deserialize, Serialize)]
pub struct ComponentStatus {
    pub id: String,
    /// `serving`; `canary` during a trial; `failing` while a circuit breaker is open or half-open.
    pub state: String,
    #[serde(flatten)]
    pub current: RevisionStatus,
    /// The component that a rollback restores, unless it ends a trial.
    pub previous: Option<Digest>,
    pub canary: Option<CanaryStatus>,
    pub source: String,
    #[serde(default)]
    pub grants: GrantsStatus,
    #[serde(default)]
    pub limits: LimitsStatus,
    pub in_flight: usize,
    pub waiting: usize,
    #[serde(rename = "figures")]
    pub statistics: ComponentStatistics,
}

/// A revision.
#[derive(Debug, Deserialize, Serialize)]
pub struct RevisionStatus {
    /// None for a component that is not an area.
    pub area: Option<String>,
    pub version: Option<String>,
    pub digest: Digest,
    #[serde(rename = "generation")]
    pub revision: u64,
    pub loaded_at: Option<String>,
}

/// A canary and its results so far.
#[derive(Debug, Deserialize, Serialize)]
pub struct CanaryStatus {
    #[serde(flatten)]
    pub served: RevisionStatus,
    pub percent: f64,
    #[serde(rename = "answers")]
    pub responses: u64,
    pub failed: u64,
    /// Responses that the verdict still needs. After its window, the trial goes on until they have come. Hosts of
    /// earlier releases do not send it.
    #[serde(rename = "answers_missing", default)]
    pub missing_responses: u64,
    pub seconds_left: f64,
}

/// The access to key-value stores that the manifest grants.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct GrantsStatus {
    pub key_value_stores: Vec<String>,
    pub read: Vec<String>,
    pub write: Vec<String>,
    /// Denied accesses since the start.
    pub denied: u64,
}

/// The limits. Times in seconds, sizes in bytes.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct LimitsStatus {
    pub memory: usize,
    pub request_timeout: f64,
    pub transfer_timeout: f64,
    pub cpu_time: f64,
    pub max_body: u64,
    pub max_response: u64,
    pub instances: usize,
    pub queue_timeout: f64,
    /// Lines per second.
    pub log_lines: u32,
}

impl From<&ComponentService> for ComponentStatus {
    fn from(service: &ComponentService) -> Self {
        let component = service.component();
        let deployment = service.deployment();
        let (in_flight, waiting) = service.load();
        let (grants, limits) = (&component.grants, &component.limits);
        Self {
            id: component.id.clone(),
            state: match deployment.current.health() {
                Health::Healthy if deployment.canary.is_some() => "canary",
                Health::Healthy => "serving",
                Health::Recovering | Health::Failing => "failing",
            }
            .to_owned(),
            current: RevisionStatus::from(&*deployment.current),
            previous: service.rollback_target(),
            canary: deployment.canary.as_deref().map(CanaryStatus::from),
            source: component.source.display().to_string(),
            grants: GrantsStatus {
                key_value_stores: grants.labels().map(str::to_owned).collect(),
                read: grants.readable().to_vec(),
                write: grants.writable().to_vec(),
                denied: grants.denied(),
            },
            limits: LimitsStatus {
                memory: limits.memory,
                request_timeout: limits.request.request_timeout.as_secs_f64(),
                transfer_timeout: limits.request.transfer_timeout.as_secs_f64(),
                cpu_time: limits.request.cpu_time.as_secs_f64(),
                max_body: limits.request.max_body,
                max_response: limits.request.max_response,
                instances: limits.instances,
                queue_timeout: limits.queue_timeout.as_secs_f64(),
                log_lines: limits.log_lines,
            },
            in_flight,
            waiting,
            statistics: ComponentStatistics::from(service),
        }
    }
}

impl From<&Revision> for RevisionStatus {
    fn from(revision: &Revision) -> Self {
        let description = revision.description.as_ref();
        Self {
            area: description.map(|area| area.area.clone()),
            version: description.map(|area| area.version.clone()),
            digest: revision.digest,
            revision: revision.number,
            loaded_at: timestamp(revision.loaded_at),
        }
    }
}

impl From<&Canary> for CanaryStatus {
    fn from(canary: &Canary) -> Self {
        let counts = canary.counts();
        let left: Duration = canary.ends_at().saturating_duration_since(Instant::now());
        Self {
            served: RevisionStatus::from(&*canary.revision),
            percent: canary.policy.percent,
            responses: counts.responses,
            failed: counts.failed,
            missing_responses: canary.missing_responses(),
            seconds_left: left.as_secs_f64(),
        }
    }
}

fn timestamp(time: SystemTime) -> Option<String> {
    Some(Timestamp::try_from(time).ok()?.to_string())
}

/// The statistics of a component since the host started: a selection of `/metrics`, added up.
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
