//! The thread that makes this host serve the same components as all hosts of its store. It applies the record, prepares
//! the components of pending changes, and reports.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hexad_runtime::component::DeploymentEvent;
use hexad_runtime::component::{ComponentService, Revision, Settings};
use hexad_support::digest::Digest;
use hexad_support::serving_threads::ServingThreads;

use super::audit::{Action, AuditEntry};
use super::deployer::Expected;
use super::files::{Deployments, completed};
use super::fleet::{Fleet, PendingChange, ServingEntry, Signed, own_or_fetched};
use super::stop_phase::StopPhase;
use super::{DeployError, Deployer, formats};

/// How often the thread reads the record if no request triggers a read.
const EVERY: Duration = Duration::from_millis(250);

/// How often the host reports if nothing has changed; well below [`LIVE`](super::fleet::LIVE).
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// How long after a failure the host tries again to prepare a component that the others serve.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long after a failure of the store the host tries again to prepare the component of a pending change.
const PROPOSAL_RETRY_AFTER: Duration = Duration::from_secs(1);

const NAME: &str = "fleet";

/// A component, by its id and digest.
type Wanted = (String, Digest);

/// A component that is being prepared.
struct Work {
    wanted: Wanted,
    /// The id of the pending change that it is prepared for; `None` if the others serve the component already.
    proposal: Option<String>,
    thread: JoinHandle<Result<(), DeployError>>,
}

/// Owns the thread.
pub struct Follower {
    fleet: Arc<Fleet>,
    thread: JoinHandle<()>,
}

impl Follower {
    pub fn start(deployer: Arc<Deployer>, fleet: Arc<Fleet>, threads: ServingThreads) -> io::Result<Self> {
        let followed = fleet.clone();
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            FollowerState::new(deployer, followed).run(&threads);
        })?;
        Ok(Self { fleet, thread })
    }

    /// Ends the thread, and removes this host from the hosts of the store.
    pub fn stop(self) {
        self.fleet.followed.stop();
        if self.thread.join().is_err() {
            tracing::error!("the thread that follows the other hosts panicked");
        }
        if let Err(error) = self.fleet.store.leave(&self.fleet.instance) {
            tracing::debug!(%error, "the other hosts do not know that this one has stopped");
        }
    }
}

struct FollowerState {
    deployer: Arc<Deployer>,
    fleet: Arc<Fleet>,
    /// The component that is being prepared, on a thread of its own: reports continue meanwhile.
    work: Option<Work>,
    /// Why the host could not prepare an active component, and when.
    failed: BTreeMap<(String, String), (String, Instant)>,
    /// The id of the last pending change that the host could not prepare, and why. The host tries another change of the
    /// same component.
    refusal: Option<(String, String)>,
    /// When the store failed while the host prepared a pending change, which is no reason to refuse the change.
    interrupted: Option<Instant>,
    /// The last thread that reported a failed canary to the other hosts, and when it began.
    canary_end: Option<(JoinHandle<()>, Instant)>,
}

impl FollowerState {
    fn new(deployer: Arc<Deployer>, fleet: Arc<Fleet>) -> Self {
        let (work, failed, refusal, interrupted, canary_end) = (None, BTreeMap::new(), None, None, None);
        Self { deployer, fleet, work, failed, refusal, interrupted, canary_end }
    }

    fn run(&mut self, threads: &ServingThreads) {
        let mut reported: Option<Instant> = None;
        self.fleet.followed.wake();
        while self.fleet.followed.wait_for_turn(EVERY) {
            threads.turn(NAME, || self.take_turn(&mut reported));
        }
        if let Some(work) = self.work.take() {
            drop(work.thread.join());
        }
    }

    fn take_turn(&mut self, reported: &mut Option<Instant>) {
        let is_new = match self.follow() {
            Ok(is_new) => is_new,
            Err(error) => {
                tracing::debug!(%error, "what the hosts serve cannot be read");
                return;
            }
        };
        if is_new || reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            match self.fleet.exchange_reports() {
                Ok(_) => *reported = Some(Instant::now()),
                Err(error) => tracing::debug!(%error, "the host could not report"),
            }
        }
    }

    /// Follows the record. True if this host has something new to report.
    fn follow(&mut self) -> Result<bool, DeployError> {
        // Before the read, so that a change after it is not missed.
        let number = self.fleet.store.clock().now();
        let (record_version, record) = self.fleet.read()?;
        self.end_work();
        let mut wanted = Vec::new();
        let mut problem = None;
        let deployer = self.deployer.clone();
        for service in deployer.application().services() {
            let Some(entry) = record.components.get(service.id()) else { continue };
            match deployer.follow_entry(service, entry) {
                Ok(missing) => wanted.extend(missing.map(|digest| (service.id().to_owned(), digest))),
                Err(error) => problem = Some(error.to_string()),
            }
            if let (Some(canary), Some(wanted)) = (&service.deployment().canary, &entry.canary)
                && let Some(reason) = canary.failure()
                && canary.revision.digest == wanted.digest
            {
                self.end_failed_canary(service.id(), wanted.digest, reason);
            }
        }
        // A failure is obsolete once the others serve another component.
        self.failed.retain(|failed, _| wanted.iter().any(|wanted| key(wanted) == *failed));
        let is_applied = wanted.is_empty() && problem.is_none();
        // Until it serves the same components as the others, the host answers no request and must not report itself
        // ready.
        if let (Some((component, _)), None) = (wanted.first(), &problem) {
            problem = Some(format!("`{component}`, as the other hosts serve it, is being prepared here"));
        }
        if let Some((reason, _)) = wanted.iter().find_map(|wanted| self.failed.get(&key(wanted))) {
            problem = Some(reason.clone());
        }
        if let Some(problem) = &problem
            && self.fleet.report().problem.as_ref() != Some(problem)
        {
            tracing::error!(problem, "this host cannot serve what the others do");
        }
        let formats = formats::serving(deployer.application().services(), None);
        let mut is_new = self.fleet.set_report(|report| {
            report.problem = problem;
            report.formats = Some(formats);
            if is_applied {
                report.record_version = record_version;
            }
        });
        if is_applied {
            self.fleet.followed.record_applied(number);
            deployer.prepared.forget_except(&record.digests());
        }
        let is_due = |wanted: &Wanted| self.failed.get(&key(wanted)).is_none_or(|(_, at)| at.elapsed() >= RETRY_AFTER);
        // Components that the others serve come before a pending change.
        let next = wanted.into_iter().find(is_due).map(|wanted| (wanted, None));
        let proposed = record.proposal.as_ref().and_then(|proposal| self.respond_to(proposal, &mut is_new));
        if let (Some((wanted, proposal)), None) = (next.or(proposed), &self.work) {
            self.begin_work(wanted, proposal);
        }
        Ok(is_new)
    }

    /// Reports whether this host is prepared for a pending change. Otherwise, returns what it has to prepare.
    fn respond_to(&self, proposal: &PendingChange, is_new: &mut bool) -> Option<(Wanted, Option<String>)> {
        if self.fleet.report().proposal.as_ref() == Some(&proposal.id) {
            return None;
        }
        if let Some(answer) = self.answer(proposal) {
            *is_new |= self.fleet.set_report(|report| {
                report.proposal = Some(proposal.id.clone());
                report.refusal = answer.err();
            });
            return None;
        }
        let waits = self.interrupted.is_some_and(|at| at.elapsed() < PROPOSAL_RETRY_AFTER);
        (!waits).then(|| ((proposal.component.clone(), proposal.digest), Some(proposal.id.clone())))
    }

    /// Whether this host is prepared for a pending change, or why it refuses it. `None` if the host has to prepare the
    /// component first.
    fn answer(&self, proposal: &PendingChange) -> Option<Result<(), String>> {
        let service = match self.deployer.service(&proposal.component) {
            Ok(service) => service,
            Err(error) => return Some(Err(error.to_string())),
        };
        if self.deployer.prepared.find(service, &proposal.digest).is_some() {
            // An operator may have withdrawn trust since it was prepared.
            return match self.deployer.check_shared(service, &proposal.digest) {
                Ok(()) => Some(Ok(())),
                Err(error) if error.is_passing() => None,
                Err(error) => Some(Err(error.to_string())),
            };
        }
        let (_, reason) = self.refusal.as_ref().filter(|(id, _)| *id == proposal.id)?;
        Some(Err(reason.clone()))
    }

    fn begin_work(&mut self, wanted: Wanted, proposal: Option<String>) {
        let (deployer, fleet, (component, digest)) = (self.deployer.clone(), self.fleet.clone(), wanted.clone());
        let is_proposed = proposal.is_some();
        let prepare = move || {
            let prepared = deployer.service(&component).and_then(|service| {
                let prepared = deployer.prepare(service, &digest)?;
                // Components that the others serve already cannot be refused.
                if is_proposed {
                    deployer.check_formats(service, &prepared.1, false)?;
                }
                Ok(prepared)
            });
            let keep = |(settings, revision)| deployer.prepared.keep(&component, settings, revision);
            let prepared = prepared.map(keep);
            fleet.followed.wake();
            prepared
        };
        match std::thread::Builder::new().name("prepare".to_owned()).spawn(prepare) {
            Ok(thread) => self.work = Some(Work { wanted, proposal, thread }),
            Err(error) => tracing::error!(%error, "no thread can be started to prepare a component"),
        }
    }

    fn end_work(&mut self) {
        let Some(work) = self.work.take_if(|work| work.thread.is_finished()) else { return };
        let reason = match work.thread.join() {
            Ok(Ok(())) => {
                self.failed.remove(&key(&work.wanted));
                return;
            }
            Ok(Err(error)) if work.proposal.is_some() && error.is_passing() => {
                tracing::warn!(%error, "what is proposed cannot be prepared yet");
                self.interrupted = Some(Instant::now());
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the host failed; its log says why".to_owned(),
        };
        match work.proposal {
            Some(proposal) => self.refusal = Some((proposal, reason)),
            None => drop(self.failed.insert(key(&work.wanted), (reason, Instant::now()))),
        }
    }

    /// Reports a failed canary to the other hosts, if the report failed before. Runs on a thread of its own: reads and
    /// reports continue while the store takes no writes.
    fn end_failed_canary(&mut self, component: &str, digest: Digest, reason: &str) {
        let is_due =
            |(thread, began): &(JoinHandle<()>, Instant)| thread.is_finished() && began.elapsed() >= RETRY_AFTER;
        if !self.canary_end.as_ref().is_none_or(is_due) {
            return;
        }
        let (deployer, component, reason) = (self.deployer.clone(), component.to_owned(), reason.to_owned());
        let tell = move || {
            if let Err(error) = deployer.end_failed_trial(&component, digest, &reason) {
                tracing::error!(component, %error, "the other hosts do not know yet that the canary failed");
            }
        };
        match std::thread::Builder::new().name("canary".to_owned()).spawn(tell) {
            Ok(thread) => self.canary_end = Some((thread, Instant::now())),
            Err(error) => tracing::error!(%error, "no thread can be started to end the trial of a canary"),
        }
    }
}

fn key((component, digest): &Wanted) -> (String, String) {
    (component.clone(), digest.to_string())
}

impl Deployer {
    /// Serves the components of the entry of all hosts.
    fn follow_entry(&self, service: &ComponentService, entry: &ServingEntry) -> Result<Option<Digest>, DeployError> {
        // Files are written under the lock of the state, and reports must not wait for them.
        if Expected::of(&service.deployment()) == entry.served() {
            service.set_rollback_target(entry.previous);
            return Ok(None);
        }
        self.apply_entry(&mut self.state().files, service, entry)
    }

    /// Serves the components of the entry that are prepared. Returns a missing component.
    pub(super) fn apply_entry(
        &self,
        files: &mut Deployments,
        service: &ComponentService,
        entry: &ServingEntry,
    ) -> Result<Option<Digest>, DeployError> {
        let Some(revision) = self.prepared.find(service, &entry.digest) else { return Ok(Some(entry.digest)) };
        // A swap of equal bytes makes a revision with instances of its own.
        if !Arc::ptr_eq(&revision, &service.current()) {
            if let Some(canary) = &service.deployment().canary {
                canary.conclude();
            }
            self.install(files, service, &revision, &entry.by, entry.action)?;
        }
        service.set_rollback_target(entry.previous);
        if let Some(canary) = &service.deployment().canary {
            let digest = canary.revision.digest;
            if entry.served().canary != Some(digest) {
                let line = completed(&entry.by, Action::Rollback, service.id(), entry.digest, Some(digest));
                // If the line cannot be written, the trial continues and needs a verdict.
                files.log(&AuditEntry { reason: entry.reason.as_deref().or(Some("the canary")), ..line })?;
                canary.conclude();
                service.end_trial(&digest);
                self.prune(files);
            }
        }
        if let Some(wanted) = &entry.canary
            && service.deployment().canary.is_none()
        {
            let Some(revision) = self.prepared.find(service, &wanted.digest) else { return Ok(Some(wanted.digest)) };
            let trust = files.trust_stored(service.id(), &wanted.digest)?.for_audit();
            let line = completed(&entry.by, Action::Canary, service.id(), wanted.digest, Some(entry.digest));
            files.log(&AuditEntry { trust: trust.as_deref(), ..line })?;
            // The host may have retired the revision before.
            revision.revive();
            service.begin_trial(revision, wanted.policy());
            self.send_event(DeploymentEvent::CanaryBegan);
        }
        Ok(None)
    }

    /// Reads a stored component: the copy of this host, or else the copy of the store. This host's policy must admit it.
    fn read_shared(&self, service: &ComponentService, digest: &Digest) -> Result<Signed, DeployError> {
        let trust =
            |(wasm, signature): &Signed| self.state().files.trust(service.id(), wasm, digest, signature.as_ref());
        let own = self.state().files.read_signed(digest);
        let Some(fleet) = &self.fleet else {
            let own = own.or_else(|_| self.restore_from_source(service, digest))?;
            return trust(&own).map(|_| own);
        };
        let shared = own_or_fetched(own, |own| trust(own).is_ok(), || fleet.fetch(digest))?;
        trust(&shared).map(|_| shared)
    }

    fn keep_shared(&self, digest: &Digest, (wasm, signature): &Signed) -> Result<(), DeployError> {
        match self.fleet {
            Some(_) => self.state().files.keep(digest, wasm, signature.as_ref()),
            None => Ok(()),
        }
    }

    fn restore_from_source(&self, service: &ComponentService, digest: &Digest) -> Result<Signed, DeployError> {
        let files = &self.state().files;
        files.check_kept(digest, &service.component().source)?;
        files.read_signed(digest)
    }

    /// Applies this host's policy, if it has one, to a prepared component: an operator may have withdrawn trust since.
    pub(super) fn check_shared(&self, service: &ComponentService, digest: &Digest) -> Result<(), DeployError> {
        let has_policy = self.state().files.has_policy();
        if has_policy {
            self.keep_shared(digest, &self.read_shared(service, digest)?)?;
        }
        Ok(())
    }

    /// Reads, compiles and checks a component with the service's present settings, against this host's own policy.
    /// Blocks for seconds, unless the component is prepared already.
    pub(super) fn prepare(
        &self,
        service: &ComponentService,
        digest: &Digest,
    ) -> Result<(Arc<Settings>, Arc<Revision>), DeployError> {
        let shared = self.read_shared(service, digest)?;
        let find = || {
            let settings = service.deployment().settings.clone();
            self.prepared.find(service, digest).map(|revision| (settings, revision))
        };
        let load = || -> Result<_, DeployError> {
            // While the lock is held, the settings do not change.
            let _compiling = self.lock_compiling();
            let load = || self.load(service, shared.0.clone().into(), "a stored component", StopPhase::Ended);
            match find() {
                Some(found) => Ok(found),
                None => Ok((service.deployment().settings.clone(), load()?)),
            }
        };
        let prepared = find().map_or_else(load, Ok)?;
        self.keep_shared(digest, &shared)?;
        Ok(prepared)
    }
}
