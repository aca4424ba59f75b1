//! The host in `/status`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::host_state::HostState;
use super::process;
use crate::application::Application;
use crate::component::ComponentService;
use crate::deploy::{FleetHost, ReloadOutcome};
use crate::machine;
use crate::manifest::sharing_notes;
use crate::store::postgres;

/// The host as a whole. Sizes in bytes, times in seconds.
#[derive(Debug, Deserialize, Serialize)]
pub struct HostStatus {
    pub version: String,
    pub uptime: f64,
    pub connections: usize,
    pub resident_memory: Option<u64>,
    #[serde(default)]
    pub memory: MemoryStatus,
    /// Files and sockets that are open.
    #[serde(default)]
    pub descriptors: Option<usize>,
    /// The limit of open files and sockets. None without a limit.
    #[serde(default)]
    pub max_descriptors: Option<u64>,
    pub store_size: u64,
    pub store_commits: u64,
    #[serde(default)]
    pub store_failed_transactions: u64,
    /// None while the store does its work.
    #[serde(default)]
    pub store_problem: Option<StoreProblemStatus>,
    /// None if the manifest was not read again since the start.
    #[serde(default)]
    pub last_reload: Option<ReloadStatus>,
    /// None if the last attempt to read the certificates succeeded.
    #[serde(default)]
    pub certificate_problem: Option<CertificateProblemStatus>,
    /// Why clients refuse the certificate in use; None if they do not.
    #[serde(default)]
    pub certificate_refusal: Option<String>,
    /// Threads that ended while the host serves, or whose last turn failed.
    #[serde(default)]
    pub ended_threads: Vec<String>,
    /// None for a store in the data folder.
    #[serde(default)]
    pub postgres: Option<PostgresStatus>,
    /// The hosts that share the store; none for a store in the data folder.
    #[serde(default)]
    pub hosts: Vec<FleetHostStatus>,
    #[serde(default)]
    pub anonymous_work: AnonymousWorkStatus,
    /// Keys that several components may write, and stores of which a component may write every key.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Requests without a route.
    pub unrouted: u64,
    #[serde(rename = "memo")]
    pub response_cache: ResponseCacheStatus,
    /// None if no traces are exported.
    pub spans: Option<SpanStatus>,
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

/// A store on PostgreSQL, without passwords.
#[derive(Debug, Deserialize, Serialize)]
pub struct PostgresStatus {
    pub url: String,
    /// None while the host can use no server.
    pub server: Option<String>,
    /// The duration of the last barrier.
    pub round_trip: f64,
    pub barriers: u64,
    pub reads: u64,
    pub reconnects: u64,
    pub warnings: Vec<String>,
    pub standbys: Vec<StandbyStatus>,
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

/// A standby of the server in use. `lag` is in bytes of its log.
#[derive(Debug, Deserialize, Serialize)]
pub struct StandbyStatus {
    pub name: String,
    pub lag: u64,
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

impl From<&postgres::ServerStatus> for PostgresStatus {
    fn from(status: &postgres::ServerStatus) -> Self {
        let standby = |(name, lag): &(String, u64)| StandbyStatus { name: name.clone(), lag: *lag };
        Self {
            url: status.url.clone(),
            server: status.server.clone(),
            round_trip: status.round_trip.as_secs_f64(),
            barriers: status.barriers,
            reads: status.reads,
            reconnects: status.reconnects,
            warnings: status.warnings.iter().map(|warning| warning.text.clone()).collect(),
            standbys: status.standbys.iter().map(standby).collect(),
        }
    }
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
    pub fn new(application: &Application, state: &HostState, hosts: &[FleetHost]) -> Self {
        let cache = application.response_cache();
        let counters = cache.counters();
        let (entries, size) = cache.size();
        let spans = application.tracer().map(|tracer| tracer.counters());
        let components: Vec<_> = application.services().iter().map(ComponentService::component).collect();
        let work = application.anonymous_work();
        let failure = state.certificates.iter().find_map(|certificates| certificates.failure.as_ref());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: state.started.elapsed().as_secs_f64(),
            connections: state.connections,
            resident_memory: machine::resident_memory(),
            memory: MemoryStatus {
                budget: state.memory.division.total,
                machine: state.memory.division.machine,
                guests: state.memory.budget.used(),
                guests_limit: state.memory.budget.limit(),
                guests_denied: state.memory.budget.denials.get(),
                send_buffer: state.memory.send_buffer,
            },
            descriptors: process::open_descriptors(),
            max_descriptors: process::max_descriptors(),
            store_size: state.store_bytes,
            store_commits: state.commits,
            store_failed_transactions: state.failed_transactions,
            store_problem: state.store_failure.as_ref().map(|failure| StoreProblemStatus {
                problem: failure.problem.name().to_owned(),
                reason: failure.reason.to_string(),
                seconds: failure.since.elapsed().as_secs_f64(),
            }),
            last_reload: state.last_reload.as_ref().map(|reload| ReloadStatus {
                at: Timestamp::try_from(reload.at).ok().map(|at| at.to_string()),
                age: reload.at.elapsed().unwrap_or_default().as_secs_f64(),
                applied: matches!(reload.outcome, ReloadOutcome::Applied(_)),
                detail: match &reload.outcome {
                    ReloadOutcome::Applied(reloaded) => reloaded.to_string(),
                    ReloadOutcome::Refused(reason) => reason.clone(),
                },
            }),
            certificate_problem: failure.map(|failure| CertificateProblemStatus {
                reason: failure.reason.clone(),
                age: failure.at.elapsed().unwrap_or_default().as_secs_f64(),
            }),
            certificate_refusal: state.certificates.iter().find_map(|certificates| certificates.refusal.clone()),
            ended_threads: state.ended_threads.clone(),
            postgres: state.postgres.as_ref().map(PostgresStatus::from),
            hosts: hosts.iter().map(FleetHostStatus::from).collect(),
            anonymous_work: AnonymousWorkStatus {
                cpu_time: work.limits.cpu_time.as_secs_f64(),
                store_bytes: work.limits.store_bytes,
                refused: work.refused.get(),
                limited: work.limited(),
            },
            notes: sharing_notes(components.iter().map(|component| &**component)),
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
