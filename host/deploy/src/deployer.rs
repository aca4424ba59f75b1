//! Swaps, rollbacks and trials of canaries, from the request to the replaced pointer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hexad_imports::outbound::OutboundFactory;
use hexad_limits::memory_budget::{MemoryBudget, MemoryDivision};
use hexad_runtime::application::Application;
use hexad_runtime::component::DeploymentEvent;
use hexad_runtime::component::{
    ActiveRevisions, Artifact, ComponentService, LoadContext, LoadError, Revision, Settings, Verdict,
};
use hexad_runtime::engine::Runtime;
use hexad_support::bounded_file::read_component;
use hexad_support::digest::Digest;

use super::audit::{Action, AuditEntry, AuditOutcome, AuditRecord};
use super::change::{Change, Next, ended};
use super::files::{Deployments, completed, io_error};
use super::fleet::{Fleet, FleetHost, ServingEntry, check_left_out};
use super::fleet_change::FleetChange;
use super::policy::Signature;
use super::prepared::PreparedRevisions;
use super::record::RecordEntry;
use super::reload::ReloadRecord;
use super::stop_phase::{StopPhase, StopPhases};
use super::{DeployError, DeployReport, HOST, SwapRequest, background, service_of};
use crate::secrets::Secrets;

/// After one of these actions, a component is not on trial.
const ENDS: [Action; 4] = [Action::Swap, Action::Promote, Action::Rollback, Action::Supersede];

/// Deploys components to the services of an application.
pub struct Deployer {
    pub(super) runtime: Arc<Runtime>,
    application: Arc<Application>,
    events: Sender<DeploymentEvent>,
    pub(super) outbound: OutboundFactory,
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) memory_division: MemoryDivision,
    /// Held while the host compiles and checks a component, so that it does one at a time.
    compiling: Mutex<()>,
    /// Whether the host accepts deployments. The flag is not in `state`, which is locked while files are written: the
    /// readiness check and the host's stop must not wait for a disk.
    open: AtomicBool,
    state: Mutex<DeployerState>,
    last_reload: Mutex<Option<ReloadRecord>>,
    pub(super) phases: StopPhases,
    pub(super) secrets: Secrets,
    pub(super) prepared: PreparedRevisions,
    /// The other hosts of the store, if there can be any.
    pub(super) fleet: Option<Arc<Fleet>>,
}

pub(super) struct DeployerState {
    pub(super) files: Deployments,
}

impl Deployer {
    pub fn new(
        runtime: Arc<Runtime>,
        application: Arc<Application>,
        outbound: OutboundFactory,
        (memory, memory_division): (Arc<MemoryBudget>, MemoryDivision),
        (files, secrets, fleet): (Deployments, Secrets, Option<Arc<Fleet>>),
        events: Sender<DeploymentEvent>,
    ) -> Arc<Self> {
        if fleet.is_none() {
            files.set_rollback_targets(application.services());
        }
        let state = Mutex::new(DeployerState { files });
        let (compiling, last_reload) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            runtime,
            application,
            events,
            outbound,
            memory,
            memory_division,
            compiling,
            open: AtomicBool::new(true),
            state,
            last_reload,
            phases: fleet.as_ref().map(|fleet| fleet.phases.clone()).unwrap_or_default(),
            secrets,
            prepared: PreparedRevisions::default(),
            fleet,
        })
    }

    pub fn application(&self) -> &Arc<Application> {
        &self.application
    }

    /// Refuses new deployments. A deployment that is being recorded continues.
    pub fn close(&self) {
        self.open.store(false, Ordering::SeqCst);
        let _ = self.events.send(DeploymentEvent::Stop);
    }

    /// Refuses all deployments, also the ones in progress. Does not block.
    pub fn stop(&self) {
        self.phases.enter(StopPhase::Stopping);
    }

    /// Notes that the host serves no request any more, so that it does not have to follow the other hosts of its store.
    pub fn end(&self) {
        self.phases.enter(StopPhase::Ended);
    }

    /// Removes unused components and compiled code.
    pub(super) fn prune(&self, files: &Deployments) {
        self.runtime.prune_cache(&files.prune(self.application.services(), self.prepared.digests()));
    }

    /// Copies the active components into the data folder, for a rollback, and removes unused ones.
    pub(super) fn preserve_active(&self) {
        if self.state().files.are_read_only() {
            return;
        }
        for service in self.application.services() {
            if let Err(error) = self.state().files.preserve_active(service) {
                tracing::warn!(component = service.id(), %error, "the active component cannot be kept for a rollback");
            }
        }
        self.prune(&self.state().files);
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Compiles, checks and deploys a component. Blocks for seconds; must not be called from an
    /// asynchronous runtime.
    pub fn swap(&self, request: &SwapRequest) -> Result<DeployReport, DeployError> {
        let digest = Digest::of(&request.wasm);
        let action = if request.canary.is_some() { Action::Canary } else { Action::Swap };
        let outcome = self.try_swap(request, digest, action);
        self.log_refusal(&outcome, &request.by, action, &request.component, Some(digest));
        outcome
    }

    fn try_swap(&self, request: &SwapRequest, digest: Digest, action: Action) -> Result<DeployReport, DeployError> {
        let service = self.service(&request.component)?;
        check_left_out(&request.without, self.fleet.as_deref())?;
        let lock_for_change = || {
            let state = self.lock_for_change(service)?;
            let deployment = service.deployment();
            Expected::check(request.expected.as_ref(), service.id(), &Expected::of(&deployment))?;
            if request.canary.is_some() && deployment.current.digest == digest {
                return Err(DeployError::ServesAlready(service.id().to_owned()));
            }
            Ok::<_, DeployError>(state)
        };
        let trust =
            lock_for_change()?.files.trust(&request.component, &request.wasm, &digest, request.signature.as_ref())?;
        let compiling = self.lock_compiling();
        drop(lock_for_change()?);
        // The report's time does not include the wait for another compilation.
        let started = Instant::now();
        let revision = self.load(service, request.wasm.clone(), "the component that was sent", StopPhase::Stopping)?;
        self.check_formats(service, &revision, request.canary.is_some())?;
        let settings = service.deployment().settings.clone();
        let state = lock_for_change()?;
        // Before the file is kept, so that no other change removes it.
        self.prepared.keep(service.id(), settings, revision.clone());
        state.files.keep(&digest, &request.wasm, request.signature.as_ref())?;
        state.files.preserve_active(service).map_err(io_error("the component that serves now"))?;
        drop(state);
        // The other hosts check the component meanwhile. This host may have to check it again, if its settings change.
        let compiling = Some(compiling).filter(|_| self.fleet.is_none());
        let next = request.canary.as_ref().map_or(Next::Active(digest), |policy| Next::Canary(digest, policy));
        let (trust, expected) = (trust.for_audit(), request.expected.as_ref());
        let reason = reason_of_stubs(&revision);
        let (trust, reason) = (trust.as_deref(), reason.as_deref());
        let change = Change { by: &request.by, action, next, trust, reason, expected };
        let sent = Some((&*request.wasm, request.signature.as_ref()));
        let entry = self.deploy(service, digest, sent, &request.without, &change)?;
        drop(compiling);
        let report = self.report(service, &revision, started);
        Ok(DeployReport { previous: entry.restored(), canary: request.canary.is_some(), ..report })
    }

    /// Makes a prepared revision serve, on all hosts or on this one alone.
    fn deploy(
        &self,
        service: &ComponentService,
        digest: Digest,
        sent: Option<(&[u8], Option<&Signature>)>,
        without: &[String],
        change: &Change<'_>,
    ) -> Result<ServingEntry, DeployError> {
        match &self.fleet {
            Some(fleet) => self.deploy_to_fleet(fleet, service, digest, &FleetChange { change, without, sent }),
            None => {
                let committed = self.commit_alone(service, change);
                self.prepared.remove(service.id(), &digest);
                Ok(committed?.0)
            }
        }
    }

    /// Ends the trial of a canary, if one is on trial; otherwise restores the previous component.
    pub fn roll_back(
        &self,
        component: &str,
        by: &str,
        expected: Option<&Expected>,
    ) -> Result<DeployReport, DeployError> {
        let outcome = self.try_roll_back(component, by, expected);
        self.log_refusal(&outcome, by, Action::Rollback, component, None);
        outcome
    }

    fn try_roll_back(
        &self,
        component: &str,
        by: &str,
        expected: Option<&Expected>,
    ) -> Result<DeployReport, DeployError> {
        let started = Instant::now();
        let service = self.service(component)?;
        self.check_open()?;
        let entry = self.entry(service)?;
        let seen = entry.served();
        Expected::check(expected, component, &seen)?;
        if seen.canary.is_some() {
            self.commit_and_wait(service, &ended(by, "the canary", &seen))?;
            return Ok(self.report(service, &service.current(), started));
        }
        let previous = entry.previous.ok_or_else(|| DeployError::NoPrevious(component.to_owned()))?;
        let (settings, revision) = self.prepare(service, &previous)?;
        self.check_formats(service, &revision, false)?;
        self.prepared.keep(component, settings, revision.clone());
        let trust = self.state().files.trust_stored(component, &previous)?.for_audit();
        // Without `expected`, the rollback would undo a deployment that was made meanwhile.
        let (action, next, expected) = (Action::Rollback, Next::Active(previous), Some(&seen));
        let change = Change { by, action, next, trust: trust.as_deref(), reason: None, expected };
        let entry = self.deploy(service, previous, None, &[], &change)?;
        Ok(DeployReport { previous: entry.restored(), ..self.report(service, &revision, started) })
    }

    fn check_open(&self) -> Result<(), DeployError> {
        match self.is_open() {
            true => Ok(()),
            false => Err(DeployError::Stopping),
        }
    }

    /// Makes a checked revision the active one of the service, on disk and then in memory.
    pub(super) fn install(
        &self,
        files: &mut Deployments,
        service: &ComponentService,
        revision: &Arc<Revision>,
        by: &str,
        action: Action,
    ) -> Result<(), DeployError> {
        let component = service.component();
        let current = service.current();
        if self.fleet.is_none() {
            // Hosts that share a store fetch the component from it.
            files.check_kept(&revision.digest, &component.source)?;
        }
        let trust = files.trust_stored(&component.id, &revision.digest)?.for_audit();
        // A rollback after a restart needs the present component's bytes.
        files.preserve_active(service).map_err(io_error("the component that serves now"))?;
        let source = read_component(&component.source).ok().as_deref().map(Digest::of);
        let previous = match current.digest == revision.digest {
            true => files.records.get(&component.id).and_then(|entry| entry.previous),
            false => Some(current.digest),
        };
        let entry = RecordEntry { digest: revision.digest, previous, source };
        let line = completed(by, action, &component.id, revision.digest, Some(current.digest));
        let (trust, reason) = (trust.as_deref(), reason_of_stubs(revision));
        files.record(&component.id, entry, &AuditEntry { trust, reason: reason.as_deref(), ..line })?;
        service.replace(revision.clone());
        service.set_rollback_target(previous);
        self.prune(files);
        Ok(())
    }

    pub(super) fn report(&self, service: &ComponentService, revision: &Revision, started: Instant) -> DeployReport {
        DeployReport {
            component: service.id().to_owned(),
            digest: revision.digest,
            version: revision.description.as_ref().map(|area| area.version.clone()),
            revision: revision.number,
            previous: None,
            canary: false,
            milliseconds: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn service(&self, component: &str) -> Result<&ComponentService, DeployError> {
        Ok(service_of(&self.application, component)?)
    }

    /// The state, if the service may be changed now.
    pub(super) fn lock_for_change(
        &self,
        service: &ComponentService,
    ) -> Result<MutexGuard<'_, DeployerState>, DeployError> {
        let state = self.state();
        self.check_open()?;
        match service.deployment().canary {
            Some(_) => Err(DeployError::CanaryUnderWay(service.id().to_owned())),
            None => Ok(state),
        }
    }

    /// Waits until the host compiles or checks no component and changes no settings.
    pub(super) fn lock_compiling(&self) -> MutexGuard<'_, ()> {
        self.compiling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome of the last reload of the manifest.
    pub fn last_reload(&self) -> Option<ReloadRecord> {
        self.last_reload.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_last_reload(&self, record: ReloadRecord) {
        *self.last_reload.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DeployerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn log_refusal(
        &self,
        outcome: &Result<DeployReport, DeployError>,
        by: &str,
        action: Action,
        component: &str,
        digest: Option<Digest>,
    ) {
        let Err(error) = outcome else { return };
        let reason = error.to_string();
        if let DeployError::NotServedYet(_) = error {
            // The audit logs have the line of a completed change.
            tracing::warn!(component, by, reason, "deployed");
            return;
        }
        let outcome = match error {
            DeployError::Unconfirmed(_) => AuditOutcome::Unknown,
            _ => AuditOutcome::Refused,
        };
        tracing::warn!(component, by, reason, ?outcome, "not deployed");
        let (component, reason) = (Some(component), Some(&*reason));
        let line = AuditEntry { component, digest, outcome, reason, ..AuditEntry::done(by, action) };
        self.state().files.log_refused(&line);
        if let Some(fleet) = &self.fleet
            && let Err(error) = fleet.store.audit(&fleet.name, &line.to_json())
        {
            tracing::error!(%error, "the audit log of all hosts cannot be written");
        }
    }

    pub(super) fn send_event(&self, event: DeploymentEvent) {
        let _ = self.events.send(event);
    }

    /// The last lines of this host's audit log, at most `count`, the newest first. Reads a file.
    pub fn recent_changes(&self, count: usize) -> std::io::Result<Vec<AuditRecord>> {
        self.state().files.audit.recent(count)
    }

    /// The hosts that share the store, as this host knows them; none for a store of one host.
    pub fn known_hosts(&self) -> Vec<FleetHost> {
        self.fleet.as_ref().map(|fleet| fleet.known_hosts()).unwrap_or_default()
    }

    /// The other live hosts.
    pub fn other_live_hosts(&self) -> Vec<FleetHost> {
        let Some(fleet) = &self.fleet else { return Vec::new() };
        fleet.known_hosts().into_iter().filter(|host| host.is_live() && host.instance != fleet.instance).collect()
    }

    /// Whether this host cannot serve the same components as the other hosts.
    pub fn is_behind_fleet(&self) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.report().problem.is_some())
    }

    /// Compiles and checks a component with the service's present settings. Blocks until that is done, or until the
    /// host has come to `end`.
    pub(super) fn load(
        &self,
        service: &ComponentService,
        wasm: Bytes,
        origin: &'static str,
        end: StopPhase,
    ) -> Result<Arc<Revision>, DeployError> {
        let settings = service.deployment().settings.clone();
        let load =
            move |context: LoadContext<'_>, number| Revision::load(context, &Artifact { wasm: &wasm, origin }, number);
        let loaded = self.make(service, settings, end, load)?;
        loaded.check_replaces(service.id(), &service.current())?;
        Ok(Arc::new(loaded))
    }

    /// Makes a revision of the service with these settings.
    pub(super) fn make(
        &self,
        service: &ComponentService,
        settings: Arc<Settings>,
        end: StopPhase,
        make: impl FnOnce(LoadContext<'_>, u64) -> Result<Revision, LoadError> + Send + 'static,
    ) -> Result<Revision, DeployError> {
        let (runtime, application, memory) = (self.runtime.clone(), self.application().clone(), self.memory.clone());
        let (id, number) = (service.id().to_owned(), service.next_number());
        let made = background::run(&self.phases, end, move || {
            let metrics = service_of(&application, &id)?.metrics();
            let Settings { component, outbound, .. } = &*settings;
            let (backends, outbound) = (application.backends(), outbound.as_ref());
            let context = LoadContext { runtime: &runtime, component, backends, outbound, metrics, memory: &memory };
            Ok(make(context, number)?)
        });
        let made = made.map_err(|source| DeployError::Io { subject: "a thread to compile on", source })?;
        made.ok_or(DeployError::Stopping)?
    }

    /// Records the end of trials that the host's last stop ended. Without other hosts, only the audit log has the
    /// canary: the record of active components does not.
    pub(super) fn log_interrupted_trials(&self) {
        if self.fleet.is_some() || self.state().files.are_read_only() {
            return;
        }
        let lines = self.recent_changes(usize::MAX).unwrap_or_default();
        for service in self.application().services() {
            let of_service =
                lines.iter().filter(|line| line.component.as_deref() == Some(service.id()) && line.is_done());
            let last =
                of_service.into_iter().find(|line| line.is(Action::Canary) || ENDS.iter().any(|end| line.is(*end)));
            let Some(last) = last.filter(|last| last.is(Action::Canary)) else { continue };
            let mut state = self.state();
            let deployment = service.deployment();
            // Another trial may have begun meanwhile.
            if deployment.canary.is_some() {
                continue;
            }
            let digest = last.digest.as_deref().and_then(|digest| digest.parse().ok());
            let reason = "the host was started anew during the trial";
            tracing::warn!(component = service.id(), digest = last.digest, reason, "the canary was rolled back");
            let line = completed(HOST, Action::Rollback, service.id(), deployment.current.digest, digest);
            if let Err(error) = state.files.log(&AuditEntry { reason: Some(reason), ..line }) {
                tracing::error!(%error, "a canary was rolled back, and the audit log does not say so");
            }
        }
    }

    /// Makes the canary the active component.
    pub fn promote(&self, component: &str, by: &str, expected: Option<&Expected>) -> Result<DeployReport, DeployError> {
        let outcome = self.try_promote(component, by, expected);
        self.log_refusal(&outcome, by, Action::Promote, component, None);
        outcome
    }

    fn try_promote(&self, component: &str, by: &str, expected: Option<&Expected>) -> Result<DeployReport, DeployError> {
        let started = Instant::now();
        let service = self.service(component)?;
        self.check_open()?;
        let on_trial = service.deployment().canary.as_ref().map(|canary| canary.revision.clone());
        if let Some(revision) = &on_trial {
            self.check_still_trusted(service, &revision.digest, expected)?;
        }
        let (action, next) = (Action::Promote, Next::Promoted);
        let change = Change { by, action, next, trust: None, reason: None, expected };
        let entry = self.commit_and_wait(service, &change)?;
        // Another host may have deployed meanwhile.
        let promoted = on_trial.filter(|revision| revision.digest == entry.digest);
        let promoted = promoted.unwrap_or_else(|| service.current());
        Ok(DeployReport { previous: entry.restored(), ..self.report(service, &promoted, started) })
    }

    /// Ends the trial of a canary that this host's policy no longer admits. If it were promoted, no host with this
    /// policy would serve.
    fn check_still_trusted(
        &self,
        service: &ComponentService,
        digest: &Digest,
        expected: Option<&Expected>,
    ) -> Result<(), DeployError> {
        let component = service.id();
        let Err(error) = self.check_shared(service, digest) else { return Ok(()) };
        if !matches!(&error, DeployError::Untrusted { source, .. } if source.is_withdrawn()) {
            return Err(error);
        }
        let seen = Expected { current: service.current().digest, canary: Some(*digest) };
        Expected::check(expected, component, &seen)?;
        self.commit_and_wait(service, &ended(HOST, &error.to_string(), &seen))?;
        Err(DeployError::TrialEnded { component: component.to_owned(), source: Box::new(error) })
    }

    /// Ends the trial of each canary that has failed, for example because its clients had to wait. Promotes each canary
    /// that has passed at the end of its window. Returns how long to wait before the next call.
    pub(super) fn end_trials(&self) -> Option<Duration> {
        /// How soon to check again: a response that does not end causes no event.
        const RECHECK: Duration = Duration::from_secs(1);
        let mut next: Option<Duration> = None;
        for service in self.application().services() {
            let deployment = service.deployment();
            let Some(canary) = &deployment.canary else { continue };
            if let Some(reason) = canary.fail_by_verdict() {
                self.canary_failed(service.id(), canary.revision.digest, &reason);
                continue;
            }
            if let Some(missing) = canary.take_shortage() {
                tracing::warn!(
                    component = service.id(),
                    missing,
                    "the canary's window is over, and too few requests have come for a verdict: it stays on trial until \
                     they have; `hexad promote` or `hexad rollback` ends it now"
                );
            }
            let wait = canary.ends_at().saturating_duration_since(Instant::now());
            if wait.is_zero() && canary.verdict() == Verdict::Passed {
                match self.try_promote(service.id(), HOST, Some(&Expected::of(&deployment))) {
                    // An operator or another host was faster.
                    Ok(_) | Err(DeployError::NoCanary(_) | DeployError::Changed(_)) => continue,
                    Err(error) => {
                        tracing::warn!(component = service.id(), %error, "the canary passed, and its promotion failed");
                    }
                }
            }
            let wait = if wait.is_zero() { RECHECK } else { wait.min(RECHECK) };
            next = Some(next.map_or(wait, |next| next.min(wait)));
        }
        next
    }

    pub(super) fn canary_failed(&self, component: &str, digest: Digest, reason: &str) {
        tracing::warn!(component, %digest, reason, "the canary was rolled back");
        let Err(error) = self.end_failed_trial(component, digest, reason) else { return };
        if self.fleet.is_some() {
            // The follower reports the failure once the store is available again.
            tracing::warn!(component, %error, "the other hosts do not know yet that the canary failed");
        } else if let Ok(service) = self.service(component) {
            tracing::error!(%error, "a canary was rolled back, and the audit log does not say so");
            service.end_trial(&digest);
            self.prune(&self.state().files);
        }
    }
}

/// For the audit log: the imports of a component that this host does not supply, if there are any.
fn reason_of_stubs(revision: &Revision) -> Option<String> {
    let stubs = revision.stubs().join(", ");
    (!stubs.is_empty()).then(|| format!("a call of these imports fails: {stubs}"))
}

/// The digests that a service serves. An operator can make a change conditional on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub current: Digest,
    /// The component on trial.
    pub canary: Option<Digest>,
}

impl Expected {
    /// The digests that this host serves.
    pub(super) fn of(deployment: &ActiveRevisions) -> Self {
        let canary = deployment.canary.as_ref().map(|canary| canary.revision.digest);
        Self { current: deployment.current.digest, canary }
    }

    /// Refuses a change of `component` if digests are expected and `present` differs from them.
    pub(super) fn check(expected: Option<&Self>, component: &str, present: &Self) -> Result<(), DeployError> {
        match expected.is_none_or(|expected| expected == present) {
            true => Ok(()),
            false => Err(DeployError::Changed(component.to_owned())),
        }
    }
}
