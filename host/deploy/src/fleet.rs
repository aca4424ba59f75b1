//! The hosts that share a store: the record of the components that they serve, their reports, and this host.
//!
//! A host changes the record by compare-and-swap. If the reply to a change is lost, the host looks for the change in the
//! record or makes it again. It never reports such a change as one that did not take place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hexad_manifest::{MAX_BYTES, resolved_digest};
use hexad_runtime::component::{CanaryPolicy, ComponentService};
use hexad_store::{ErrorKind, StoreError, Watch};
use hexad_store_postgres::{FleetStore, HostRow, ServingRow};
use hexad_support::bounded_file;
use hexad_support::digest::Digest;
use hexad_support::random;
use serde::{Deserialize, Serialize};

use super::audit::Action;
use super::deployer::Expected;
use super::formats::Formats;
use super::policy::Signature;
use super::stop_phase::StopPhases;
use super::{DeployError, HOST};

/// When a host has not reported for so long, the others do not wait for it. It reads the record before it serves again.
pub const LIVE: Duration = Duration::from_secs(10);

/// How many of the last versions a record lists with their ids.
const RECENT: usize = 32;

/// How often the host tries one change without a reply.
const MAX_UNKNOWN: u32 = 3;

/// How long the host waits for the store, to find out an unknown outcome.
const READ_BACK: Duration = Duration::from_secs(10);

/// The components that all hosts serve. This is a stored format: unknown fields are ignored, new ones are optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServingRecord {
    /// A random text that makes each record unique.
    #[serde(default)]
    pub id: String,
    /// By the component's id in the manifests. A component that is not here was never swapped: each host serves the
    /// source in its manifest.
    #[serde(default)]
    pub components: BTreeMap<String, ServingEntry>,
    /// A component that a host is about to swap in. All other hosts prepare it.
    #[serde(default)]
    pub proposal: Option<PendingChange>,
    /// The ids of the updates that made the last versions. If a reply was lost, a host looks here whether its update
    /// took place. A build without this field drops it.
    #[serde(default)]
    pub recent: BTreeMap<i64, String>,
}

/// The digests of a component that all hosts serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServingEntry {
    pub digest: Digest,
    #[serde(default)]
    pub previous: Option<Digest>,
    #[serde(default)]
    pub canary: Option<CanaryEntry>,
    /// The actor, the action and the reason of the last change, for the audit log of each host.
    pub by: String,
    pub action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A canary and its policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CanaryEntry {
    pub digest: Digest,
    pub percent: f64,
    pub window: Duration,
    pub max_errors: f64,
    pub max_latency: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingChange {
    pub id: String,
    /// The [instance](Fleet::instance) of the host that makes the change. Earlier builds store the host's name here,
    /// which is the key of their reports.
    pub host: String,
    pub component: String,
    pub digest: Digest,
}

/// A host's report of itself. This is a stored format, as [`ServingRecord`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    pub version: String,
    /// The host's name. A report of an earlier build has none: there the name is the key.
    #[serde(default)]
    pub name: Option<String>,
    /// The digest of its manifest.
    #[serde(default)]
    pub manifest: Option<Digest>,
    /// The digest of what it says, with the present names of its keys. A build before 0.2 reports none.
    #[serde(default)]
    pub resolved_manifest: Option<Digest>,
    /// The version of the record that the host serves.
    #[serde(default, rename = "revision")]
    pub record_version: i64,
    /// The pending change for which the host is prepared, or which it refuses for `refusal`.
    #[serde(default)]
    pub proposal: Option<String>,
    #[serde(default)]
    pub refusal: Option<String>,
    /// A pending change of its own that it has abandoned, if it could not withdraw it.
    #[serde(default)]
    pub given_up: Option<String>,
    /// The formats that its components read and write. A build before 0.2 reports none.
    #[serde(default)]
    pub formats: Option<Vec<Formats>>,
    /// Why it does not serve the same components as the other hosts.
    #[serde(default)]
    pub problem: Option<String>,
}

/// A host that has reported within the last day.
#[derive(Clone, Debug)]
pub struct FleetHost {
    /// The key of its reports, see [`Fleet::instance`].
    pub instance: String,
    /// For people. Cloned machines have the same name.
    pub name: String,
    /// Time between its report and `read_at`.
    pub age: Duration,
    /// When this host read the report.
    pub read_at: Instant,
    pub report: HostReport,
}

/// This host among the hosts that share its store.
pub struct Fleet {
    pub store: FleetStore,
    pub followed: Arc<Watch>,
    /// The file whose digest the host reports.
    manifest: PathBuf,
    /// This host's name for people: the name of the machine, and the data folder.
    pub name: String,
    /// The id of this process among the hosts of the store: the name, and a random text.
    pub instance: String,
    /// Held while this host changes the shared record.
    pub changing: Mutex<()>,
    /// How far the stop of this host has come.
    pub phases: StopPhases,
    report: Mutex<HostReport>,
    report_changed: Condvar,
    hosts: Mutex<Vec<FleetHost>>,
}

impl ServingRecord {
    /// The entry of a service. A service without one serves the source in its manifest.
    pub fn entry(&self, service: &ComponentService) -> ServingEntry {
        let unswapped = || ServingEntry::new(service.current().digest, None, None);
        self.components.get(service.id()).cloned().unwrap_or_else(unswapped)
    }

    /// Every component that a host may need.
    pub fn digests(&self) -> Vec<Digest> {
        let entries = self.components.values();
        let mut digests: Vec<Digest> = entries
            .flat_map(|entry| [Some(entry.digest), entry.previous, entry.canary.as_ref().map(|canary| canary.digest)])
            .flatten()
            .collect();
        digests.extend(self.proposal.as_ref().map(|proposal| proposal.digest));
        digests
    }
}

impl ServingEntry {
    fn new(digest: Digest, previous: Option<Digest>, canary: Option<CanaryEntry>) -> Self {
        Self { digest, previous, canary, by: HOST.to_owned(), action: Action::Start, reason: None }
    }

    /// The present entry of a host that shares its store with no other.
    pub fn of(service: &ComponentService) -> Self {
        let deployment = service.deployment();
        let canary = deployment.canary.as_ref();
        let canary = canary.map(|canary| CanaryEntry::new(canary.revision.digest, &canary.policy));
        Self::new(deployment.current.digest, service.rollback_target(), canary)
    }

    pub fn served(&self) -> Expected {
        Expected { current: self.digest, canary: self.canary.as_ref().map(|canary| canary.digest) }
    }

    /// Makes a component the active one. Returns the one before.
    pub fn activate(&mut self, digest: Digest) -> Digest {
        let before = std::mem::replace(&mut self.digest, digest);
        // A rollback must not restore an equal component.
        if before != digest {
            self.previous = Some(before);
        }
        before
    }

    /// The component that a rollback restores.
    pub fn restored(&self) -> Option<Digest> {
        if self.canary.is_some() { Some(self.digest) } else { self.previous }
    }
}

impl CanaryEntry {
    pub fn new(digest: Digest, policy: &CanaryPolicy) -> Self {
        let CanaryPolicy { percent, window, max_errors, max_latency } = *policy;
        Self { digest, percent, window, max_errors, max_latency }
    }

    pub fn policy(&self) -> CanaryPolicy {
        let Self { percent, window, max_errors, max_latency, .. } = *self;
        CanaryPolicy { percent, window, max_errors, max_latency }
    }
}

impl FleetHost {
    /// Whether it was live when this host read the report.
    pub fn is_live(&self) -> bool {
        self.age < LIVE
    }

    /// How long ago it reported, as far as this host knows: without the store, the host learns nothing new.
    pub fn seen_ago(&self) -> Duration {
        self.age + self.read_at.elapsed()
    }
}

impl From<HostRow> for FleetHost {
    fn from(HostRow { instance, age, report }: HostRow) -> Self {
        let report: HostReport = serde_json::from_str(&report).unwrap_or_default();
        let name = report.name.clone().unwrap_or_else(|| instance.clone());
        Self { instance, name, age, read_at: Instant::now(), report }
    }
}

/// Leaves out a process that is not live if another one of its name reported later.
fn without_earlier_processes(mut hosts: Vec<FleetHost>) -> Vec<FleetHost> {
    hosts.sort_by(|a, b| (&a.name, a.age).cmp(&(&b.name, b.age)));
    hosts.dedup_by(|later, first| later.name == first.name && !later.is_live());
    hosts
}

/// A random text.
pub fn new_id() -> Result<String, DeployError> {
    random::token(8).map_err(|source| DeployError::Io { subject: "the system's randomness", source })
}

/// The digest of a manifest's bytes, and that of what it says.
fn digests_of(manifest: &Path) -> (Option<Digest>, Option<Digest>) {
    let Ok(bytes) = bounded_file::read(manifest, MAX_BYTES) else { return (None, None) };
    (Some(Digest::of(&bytes)), std::str::from_utf8(&bytes).ok().map(resolved_digest))
}

impl Fleet {
    /// `data` is the data folder, and `manifest` the file whose digest the host reports.
    pub fn new(store: FleetStore, data: &Path, manifest: &Path) -> Result<Self, DeployError> {
        let followed = Arc::new(Watch::new(store.clock(), &FleetStore::key()));
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let folder = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        let name = format!("{}:{}", machine.trim(), folder.display());
        let (bytes, resolved) = digests_of(manifest);
        let report = HostReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: Some(name.clone()),
            manifest: bytes,
            resolved_manifest: resolved,
            ..HostReport::default()
        };
        Ok(Self {
            store,
            followed,
            manifest: manifest.to_owned(),
            instance: format!("{name}#{}", new_id()?),
            name,
            changing: Mutex::default(),
            phases: StopPhases::default(),
            report: Mutex::new(report),
            report_changed: Condvar::new(),
            hosts: Mutex::default(),
        })
    }

    /// Gives a component to all hosts.
    pub fn publish(&self, digest: &Digest, wasm: Vec<u8>, signature: Option<&Signature>) -> Result<(), DeployError> {
        publish_to(&self.store, digest, wasm, signature)
    }

    /// Reads a component that a host has given to all.
    pub fn fetch(&self, digest: &Digest) -> Result<(Vec<u8>, Option<Signature>), DeployError> {
        fetch_from(&self.store, digest)
    }

    pub fn report(&self) -> HostReport {
        lock(&self.report).clone()
    }

    /// Reports the manifest of this host, after it has applied another one.
    pub fn report_manifest(&self) {
        let digests = digests_of(&self.manifest);
        self.set_report(|report| (report.manifest, report.resolved_manifest) = digests);
    }

    /// Changes this host's report. True if it differs from before.
    pub fn set_report(&self, change: impl FnOnce(&mut HostReport)) -> bool {
        let mut report = lock(&self.report);
        let before = report.clone();
        change(&mut report);
        let is_new = *report != before;
        drop(report);
        if is_new {
            self.report_changed.notify_all();
        }
        is_new
    }

    /// Writes this host's report to the store, and reads the reports of all hosts.
    pub fn exchange_reports(&self) -> Result<Vec<FleetHost>, DeployError> {
        let text = serde_json::to_string(&self.report()).unwrap_or_default();
        self.store.report(&self.instance, &text).map_err(DeployError::Store)?;
        self.read_hosts()
    }

    /// Reads the reports of all hosts.
    pub fn read_hosts(&self) -> Result<Vec<FleetHost>, DeployError> {
        let rows = self.store.hosts().map_err(DeployError::Store)?;
        let hosts = without_earlier_processes(rows.into_iter().map(FleetHost::from).collect());
        *lock(&self.hosts) = hosts.clone();
        Ok(hosts)
    }

    /// The reports of all hosts, as this one last read them.
    pub fn known_hosts(&self) -> Vec<FleetHost> {
        lock(&self.hosts).clone()
    }

    /// Waits until this host serves the record of this version. The error after `end` is `NotServedYet`.
    pub fn wait_until_applied(&self, record_version: i64, end: Instant) -> Result<(), DeployError> {
        self.followed.wake();
        let at_most = end.saturating_duration_since(Instant::now());
        let report = lock(&self.report);
        let waited =
            self.report_changed.wait_timeout_while(report, at_most, |report| report.record_version < record_version);
        let (report, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if report.record_version >= record_version {
            return Ok(());
        }
        let reason = report.problem.clone().unwrap_or_else(|| "it takes too long".to_owned());
        Err(DeployError::NotServedYet(reason))
    }

    /// The version of the present record, and the record.
    pub fn read(&self) -> Result<(i64, ServingRecord), DeployError> {
        decode(&self.store.read().map_err(DeployError::Store)?)
    }

    /// Changes the record, and returns its new version. `change` gets the present record and returns lines for the
    /// audit log. The host calls `change` again if another host was faster, or if a reply is lost.
    ///
    /// `Unconfirmed` if a reply is lost and the record cannot be read, or does not show whether the change was made.
    pub fn update(
        &self,
        mut change: impl FnMut(&mut ServingRecord) -> Result<Vec<String>, DeployError>,
    ) -> Result<i64, DeployError> {
        let id = new_id()?;
        let mut unknown = Unknown::default();
        loop {
            let read = match &unknown.pending {
                None => self.read(),
                Some(_) => self.store.read_within(READ_BACK).map_err(DeployError::Store).and_then(|read| decode(&read)),
            };
            let (record_version, mut record) = read.map_err(|error| unknown.refuse(error))?;
            if let Some((record_version, _)) = record.recent.iter().find(|(_, recent)| **recent == id) {
                self.followed.wake();
                return Ok(*record_version);
            }
            unknown.settle(record_version, &record)?;
            let lines = change(&mut record).map_err(|error| unknown.refuse(error))?;
            record.id.clone_from(&id);
            record.recent.insert(record_version + 1, id.clone());
            while record.recent.len() > RECENT {
                record.recent.pop_first();
            }
            let text = serde_json::to_string(&record)
                .map_err(|error| DeployError::Store(StoreError::Engine(error.to_string().into())))?;
            match self.store.replace(record_version, &text, &self.name, lines) {
                Ok(Some(record_version)) => {
                    self.followed.wake();
                    return Ok(record_version);
                }
                // Another host was faster, or an earlier attempt of this change.
                Ok(None) => {}
                Err(error @ StoreError::Unknown { .. }) => {
                    unknown.attempts += 1;
                    unknown.pending = Some((record_version, error));
                }
                Err(error) => return Err(unknown.refuse(DeployError::Store(error))),
            }
        }
    }

    /// Fails if another host is deploying a component.
    pub(super) fn check_no_other_change(&self, record: &ServingRecord, hosts: &[FleetHost]) -> Result<(), DeployError> {
        let Some(other) = record.proposal.as_ref().filter(|other| other.host != self.instance) else { return Ok(()) };
        match coordinator(other, hosts) {
            None => Ok(()),
            Some(host) => Err(DeployError::Fleet(format!(
                "the host {} is deploying the component `{}`; try again when it is done",
                host.name, other.component
            ))),
        }
    }

    /// Whether `without` has the host's name or instance. This host is never left out.
    pub(super) fn leaves_out(&self, without: &[String], host: &FleetHost) -> bool {
        host.instance != self.instance && without.iter().any(|name| *name == host.name || *name == host.instance)
    }

    /// Fails if a name matches no host that can be left out.
    pub(super) fn check_known(&self, without: &[String], hosts: &[FleetHost]) -> Result<(), DeployError> {
        for name in without {
            if hosts.iter().any(|host| self.leaves_out(std::slice::from_ref(name), host)) {
                continue;
            }
            let reason = match *name == self.name || *name == self.instance {
                true => "a host that deploys a component cannot leave itself out; ask another host".to_owned(),
                false => format!("there is no host `{}`; `hexad status` names them", name.escape_debug()),
            };
            return Err(DeployError::Fleet(reason));
        }
        Ok(())
    }

    /// Withdraws a pending change. If that fails, this host's reports say that it has abandoned the change.
    pub(super) fn withdraw(&self, id: &str) {
        let withdrawn = self.update(|record| match &record.proposal {
            Some(proposal) if proposal.id == id => {
                record.proposal = None;
                Ok(Vec::new())
            }
            _ => Err(DeployError::Fleet("it is not there any more".to_owned())),
        });
        match withdrawn {
            Ok(_) | Err(DeployError::Fleet(_)) => {}
            Err(error) => {
                tracing::debug!(%error, "a proposal was not withdrawn");
                self.set_report(|report| report.given_up = Some(id.to_owned()));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Attempts of a change whose replies were lost.
#[derive(Default)]
struct Unknown {
    attempts: u32,
    /// The version that the last attempt was to replace, and its error. `None` if it is certain that no attempt has
    /// taken place or will.
    pending: Option<(i64, StoreError)>,
}

impl Unknown {
    /// The error of a change that the host cannot try again.
    fn refuse(&self, error: DeployError) -> DeployError {
        match &self.pending {
            Some((_, lost)) => DeployError::Unconfirmed(lost.clone()),
            None => error,
        }
    }

    /// Whether the host can try the change again. The present record does not have this change.
    fn settle(&mut self, record_version: i64, record: &ServingRecord) -> Result<(), DeployError> {
        let Some((replaced, lost)) = &self.pending else { return Ok(()) };
        // While the record stays the same, an attempt may still be in progress. The next one replaces the same version,
        // so that at most one of them succeeds.
        let may_follow = *replaced == record_version && self.attempts < MAX_UNKNOWN;
        // Another change has replaced that version.
        let is_settled = *replaced < record_version && record.recent.contains_key(&(replaced + 1));
        if !may_follow && !is_settled {
            return Err(DeployError::Unconfirmed(lost.clone()));
        }
        if is_settled {
            self.pending = None;
        }
        Ok(())
    }
}

pub(super) fn decode(serving: &ServingRow) -> Result<(i64, ServingRecord), DeployError> {
    let record = serde_json::from_str(&serving.record).map_err(|error| {
        let reason = format!("what the hosts serve is written in a form that this hexad does not read: {error}");
        DeployError::Store(StoreError::Engine(reason.into()))
    })?;
    Ok((serving.revision, record))
}

/// The live host that makes a pending change. Without one, any host may replace the change.
fn coordinator<'a>(proposal: &PendingChange, hosts: &'a [FleetHost]) -> Option<&'a FleetHost> {
    let mut live = hosts.iter().filter(|host| host.is_live());
    live.find(|host| host.instance == proposal.host && host.report.given_up.as_ref() != Some(&proposal.id))
}

/// Only hosts of a fleet can be left out.
pub(super) fn check_left_out(without: &[String], fleet: Option<&Fleet>) -> Result<(), DeployError> {
    match without.is_empty() || fleet.is_some() {
        true => Ok(()),
        false => Err(DeployError::Fleet("no other host shares the store, so that none can be left out".to_owned())),
    }
}

impl DeployError {
    /// Whether the store is unavailable or the host stops. Either is no reason to refuse a component.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.kind() != ErrorKind::Fault,
            Self::Load(error) => error.store_error().is_some_and(|error| error.kind() != ErrorKind::Fault),
            // The other hosts learn soon that this host has stopped.
            Self::Stopping => true,
            _ => false,
        }
    }
}

/// Publishes a component to the hosts of a store.
pub fn publish_to(
    store: &FleetStore,
    digest: &Digest,
    wasm: Vec<u8>,
    signature: Option<&Signature>,
) -> Result<(), DeployError> {
    let signature = signature.map(|signature| signature.as_bytes().to_vec());
    store.put_component(&digest.to_string(), wasm, signature).map_err(DeployError::Store)
}

/// Reads a component that a host has published.
pub fn fetch_from(store: &FleetStore, digest: &Digest) -> Result<Signed, DeployError> {
    let damaged = |reason: &str| {
        let reason = format!("the component {digest} in the store {reason}; swap in a component anew");
        DeployError::Store(StoreError::Engine(reason.into()))
    };
    let found = store.component(&digest.to_string()).map_err(DeployError::Store)?;
    let (wasm, signature) = found.ok_or_else(|| damaged("is not there"))?;
    if Digest::of(&wasm) != *digest {
        return Err(damaged("has other bytes than its digest says"));
    }
    let signature =
        signature.map(|bytes| Signature::from_bytes(&bytes).ok_or_else(|| damaged("has no usable signature")));
    Ok((wasm, signature.transpose()?))
}

/// A component and its signature.
pub type Signed = (Vec<u8>, Option<Signature>);

/// The host's own copy of a component if it is trusted, otherwise the store's copy, which may have a newer signature.
/// While the store is unavailable, an untrusted own copy is no substitute: the store's copy may be trusted.
pub fn own_or_fetched(
    own: Result<Signed, DeployError>,
    is_trusted: impl FnOnce(&Signed) -> bool,
    fetch: impl FnOnce() -> Result<Signed, DeployError>,
) -> Result<Signed, DeployError> {
    let own = match own {
        Ok(own) if is_trusted(&own) => return Ok(own),
        own => own,
    };
    match (fetch(), own) {
        (Err(error), Ok(own)) if !error.is_passing() => Ok(own),
        (fetched, _) => fetched,
    }
}

#[cfg(test)]
mod tests;
