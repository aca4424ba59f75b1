//! The host as a whole: one value that `/status`, `/metrics`, the operator's pages and `hexad status` show.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hexad_deploy::{Deployer, FleetHost, ReloadOutcome};
use hexad_engine::StoreMonitor;
use hexad_limits::instance_permit::StalledPermits;
use hexad_limits::memory_budget::{MemoryBudget, MemoryDivision};
use hexad_manifest::sharing_notes;
use hexad_runtime::component::ComponentService;
use hexad_runtime::engine::Runtime;
use hexad_runtime::ingress::{Certificates, Ingress};
use hexad_store::StoreHealth;
use hexad_store_postgres::ServerStatus;
use hexad_support::machine;
use hexad_support::serving_threads::ServingThreads;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The host as a whole. Sizes in bytes, times in seconds. Hosts of earlier releases do not send every key, and only the
/// metrics have the skipped fields.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct HostStatus {
    pub version: String,
    pub uptime: f64,
    pub connections: usize,
    pub resident_memory: Option<u64>,
    pub memory: MemoryStatus,
    /// Files and sockets that are open.
    pub descriptors: Option<usize>,
    /// The limit of open files and sockets. None without a limit.
    pub max_descriptors: Option<u64>,
    pub store_size: u64,
    /// Transactions since the start.
    pub store_commits: u64,
    pub store_failed_transactions: u64,
    /// None while the store does its work.
    pub store_problem: Option<StoreProblemStatus>,
    /// None if the manifest was not read again since the start.
    pub last_reload: Option<ReloadStatus>,
    /// None if the last attempt to read the certificates succeeded.
    pub certificate_problem: Option<CertificateProblemStatus>,
    /// Why clients refuse the certificate in use; None if they do not.
    pub certificate_refusal: Option<String>,
    /// Threads that ended while the host serves, or whose last turn failed.
    pub ended_threads: Vec<String>,
    /// None for a store in the data folder.
    pub postgres: Option<ServerStatus>,
    /// The hosts that share the store; none for a store in the data folder.
    pub hosts: Vec<FleetHostStatus>,
    pub anonymous_work: AnonymousWorkStatus,
    /// Keys that several components may write, and stores of which a component may write every key.
    pub notes: Vec<String>,
    /// Requests without a route.
    pub unrouted: u64,
    #[serde(rename = "memo")]
    pub response_cache: ResponseCacheStatus,
    /// None if no traces are exported.
    pub spans: Option<SpanStatus>,
    /// None without a listener with TLS.
    #[serde(skip)]
    pub certificates_are_read: Option<bool>,
    /// The last second in which the certificates in use are valid, since the Unix epoch.
    #[serde(skip)]
    pub certificates_not_after: Option<u64>,
    /// Instances that wait for their clients and have yielded their permits.
    #[serde(skip)]
    pub stalled_instances: usize,
    /// Lines of the access log that were dropped since the start.
    #[serde(skip)]
    pub access_log_dropped: u64,
    #[serde(skip)]
    pub pool: Option<PoolStatus>,
}

/// The limits of work per minute for the clients of one network that have no accepted credential. The time is in
/// seconds; 0 is no limit.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct AnonymousWorkStatus {
    pub cpu_time: f64,
    pub store_bytes: u64,
    /// Requests that were refused since the start.
    pub refused: u64,
    /// Networks that are at a limit now.
    pub limited: usize,
}

/// Why the store cannot do its work.
#[derive(Debug, Deserialize, Serialize)]
pub struct StoreProblemStatus {
    /// `damaged`, `removed`, `unlocked`, `writer_stopped`, `full`, `busy`, `unusable` or `unavailable`.
    pub problem: String,
    pub reason: String,
    /// For how many seconds.
    pub seconds: f64,
}

/// Why the host could not read the certificates again. It uses the old ones.
#[derive(Debug, Deserialize, Serialize)]
pub struct CertificateProblemStatus {
    pub reason: String,
    /// How long ago the host tried, in seconds.
    pub age: f64,
}

/// The memory limits of the host's parts and their use, in bytes.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct MemoryStatus {
    /// The memory that caches, responses and guests may take together.
    pub budget: u64,
    /// The memory of the machine or the container.
    #[serde(default)]
    pub machine: u64,
    pub guests: u64,
    pub guests_limit: u64,
    /// How often a guest did not get memory because the host had none left.
    pub guests_denied: u64,
    /// Responses that clients have not taken.
    pub send_buffer: u64,
}

/// Used entries of the instance pool.
#[derive(Debug)]
pub struct PoolStatus {
    pub instances: u64,
    pub memories: usize,
    pub stacks: usize,
}

/// The last attempt to read the manifest again.
#[derive(Debug, Deserialize, Serialize)]
pub struct ReloadStatus {
    /// In UTC, as RFC 3339.
    pub at: Option<String>,
    /// How long ago it was, in seconds.
    pub age: f64,
    pub applied: bool,
    /// The settings that it changed, or why it was refused.
    pub detail: String,
}

/// A host that shares the store and has reported within the last day.
#[derive(Debug, Deserialize, Serialize)]
pub struct FleetHostStatus {
    pub name: String,
    /// How long ago it reported, in seconds, as the host that answers knows it.
    pub age: f64,
    pub is_live: bool,
    pub version: String,
    /// The digest of the host's manifest.
    pub manifest: Option<String>,
    /// The digest of the manifest's resolved content. None from a build before 0.2.
    #[serde(default)]
    pub resolved_manifest: Option<String>,
    /// The revision of the record that this host serves.
    pub revision: i64,
    /// Why it does not serve the same components as the others.
    pub problem: Option<String>,
}

impl FleetHostStatus {
    /// Whether two hosts have the same manifest. If both report its resolved content, the content decides.
    pub fn has_manifest_of(&self, other: &Self) -> bool {
        match (&self.resolved_manifest, &other.resolved_manifest) {
            (Some(own), Some(other)) => own == other,
            _ => self.manifest == other.manifest,
        }
    }
}

impl From<&FleetHost> for FleetHostStatus {
    fn from(host: &FleetHost) -> Self {
        let report = &host.report;
        Self {
            name: host.name.clone(),
            age: host.seen_ago().as_secs_f64(),
            is_live: host.is_live(),
            version: report.version.clone(),
            manifest: report.manifest.map(|digest| digest.to_string()),
            resolved_manifest: report.resolved_manifest.map(|digest| digest.to_string()),
            revision: report.record_version,
            problem: report.problem.clone(),
        }
    }
}

/// The response cache. `size` is in bytes.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct ResponseCacheStatus {
    pub hits: u64,
    pub misses: u64,
    /// Responses that were stored since the start.
    #[serde(skip)]
    pub stored: u64,
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
    /// Spans that wait to be sent.
    #[serde(skip)]
    pub queued: usize,
}

/// Reads the host's status. It keeps neither the store open nor a shard alive.
pub struct HostStatusReader {
    pub started: Instant,
    pub deployer: Arc<Deployer>,
    pub runtime: Arc<Runtime>,
    pub memory: Arc<MemoryBudget>,
    pub division: MemoryDivision,
    pub stalled: Arc<StalledPermits>,
    pub store: StoreMonitor,
    pub store_health: Arc<StoreHealth>,
    pub commits: Arc<AtomicU64>,
    /// The settings of each listener, without duplicates.
    pub ingresses: Arc<Mutex<Vec<Arc<Ingress>>>>,
    pub threads: ServingThreads,
    /// Of each shard.
    pub loads: Vec<Arc<AtomicUsize>>,
}

impl HostStatusReader {
    pub fn read(&self) -> HostStatus {
        let application = self.deployer.application();
        let components: Vec<_> = application.services().iter().map(ComponentService::component).collect();
        let (store_size, postgres) = self.store.status();
        let ingresses = self.ingresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let certificates = ingresses.iter().filter_map(|ingress| ingress.certificates.as_ref());
        let certificates: Vec<_> = certificates.map(Certificates::state).collect();
        let failure = certificates.iter().find_map(|certificates| certificates.failure.as_ref());
        let dropped = |ingress: &Arc<Ingress>| ingress.access_log.as_ref().map_or(0, |log| log.dropped());
        HostStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: self.started.elapsed().as_secs_f64(),
            connections: self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum(),
            resident_memory: machine::resident_memory(),
            memory: MemoryStatus {
                budget: self.division.total,
                machine: self.division.machine,
                guests: self.memory.used(),
                guests_limit: self.memory.limit(),
                guests_denied: self.memory.denials.get(),
                send_buffer: ingresses.iter().map(|ingress| ingress.send_budgets.held() as u64).sum(),
            },
            descriptors: machine::open_descriptors(),
            max_descriptors: machine::max_descriptors(),
            store_size,
            store_commits: self.commits.load(Ordering::Relaxed),
            store_failed_transactions: self.store_health.failed_transactions(),
            store_problem: self.store_problem(),
            last_reload: self.last_reload(),
            certificate_problem: failure.map(|failure| CertificateProblemStatus {
                reason: failure.reason.clone(),
                age: failure.at.elapsed().unwrap_or_default().as_secs_f64(),
            }),
            certificate_refusal: certificates.iter().find_map(|certificates| certificates.refusal.clone()),
            ended_threads: self.threads.ended(),
            postgres,
            hosts: self.deployer.known_hosts().iter().map(FleetHostStatus::from).collect(),
            anonymous_work: self.anonymous_work(),
            notes: sharing_notes(components.iter().map(|component| &**component)),
            unrouted: application.unrouted(),
            response_cache: self.response_cache(),
            spans: self.spans(),
            certificates_are_read: (!certificates.is_empty()).then_some(failure.is_none()),
            certificates_not_after: certificates.iter().filter_map(|certificates| certificates.not_after).min(),
            stalled_instances: self.stalled.taken(),
            access_log_dropped: ingresses.iter().map(dropped).sum(),
            pool: self.runtime.engine().pooling_allocator_metrics().map(|pool| PoolStatus {
                instances: pool.component_instances(),
                memories: pool.memories(),
                stacks: pool.stacks(),
            }),
        }
    }

    fn store_problem(&self) -> Option<StoreProblemStatus> {
        let failure = self.store_health.failure()?;
        Some(StoreProblemStatus {
            problem: failure.problem.name().to_owned(),
            reason: failure.reason.to_string(),
            seconds: failure.since.elapsed().as_secs_f64(),
        })
    }

    fn last_reload(&self) -> Option<ReloadStatus> {
        let reload = self.deployer.last_reload()?;
        Some(ReloadStatus {
            at: Timestamp::try_from(reload.at).ok().map(|at| at.to_string()),
            age: reload.at.elapsed().unwrap_or_default().as_secs_f64(),
            applied: matches!(reload.outcome, ReloadOutcome::Applied(_)),
            detail: match reload.outcome {
                ReloadOutcome::Applied(reloaded) => reloaded.to_string(),
                ReloadOutcome::Refused(reason) => reason,
            },
        })
    }

    fn anonymous_work(&self) -> AnonymousWorkStatus {
        let work = self.deployer.application().anonymous_work();
        AnonymousWorkStatus {
            cpu_time: work.limits.cpu_time.as_secs_f64(),
            store_bytes: work.limits.store_bytes,
            refused: work.refused.get(),
            limited: work.limited(),
        }
    }

    fn response_cache(&self) -> ResponseCacheStatus {
        let cache = self.deployer.application().response_cache();
        let (entries, size) = cache.size();
        let counters = cache.counters();
        ResponseCacheStatus {
            hits: counters.hits(),
            misses: counters.misses(),
            stored: counters.stored.load(Ordering::Relaxed),
            entries,
            size,
        }
    }

    fn spans(&self) -> Option<SpanStatus> {
        let counters = self.deployer.application().tracer()?.counters();
        Some(SpanStatus {
            exported: counters.exported.get(),
            failed: counters.failed.get(),
            dropped: counters.dropped.get(),
            queued: counters.queued(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_age_of_a_host_goes_on_while_nothing_new_is_learned_of_it() {
        let host = FleetHost {
            instance: "a#1".to_owned(),
            name: "a".to_owned(),
            age: Duration::from_secs(2),
            read_at: Instant::now().checked_sub(Duration::from_secs(60)).unwrap(),
            report: Default::default(),
        };
        let status = FleetHostStatus::from(&host);
        assert!(status.age >= 62.0 && status.is_live, "{status:?}");
    }
}
