//! Deployments to all hosts of a store. A host records a pending change, and every live host prepares the component or
//! refuses. Then one compare-and-swap of the record makes all hosts serve it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use hexad_runtime::component::{CanaryPolicy, ComponentService, Revision, Settings};
use hexad_support::digest::Digest;

use super::audit::{Action, AuditEntry};
use super::deployer::Expected;
use super::files::completed;
use super::fleet::{CanaryEntry, Fleet, FleetHost, PendingChange, ServingEntry, ServingRecord};
use super::policy::Signature;
use super::stop_phase::StopPhase;
use super::{DeployError, DeployReport, Deployer, HOST};

/// How long the hosts may take to compile and check a component.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the hosts may take to serve a prepared component.
const FLIP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the host reads the reports of the hosts during these waits.
const LOOK: Duration = Duration::from_millis(50);

impl Deployer {
    /// Makes all hosts serve a revision that this host has checked. Returns the component that a rollback restores:
    /// other hosts may have deployed meanwhile.
    pub(super) fn deploy_to_fleet(
        &self,
        fleet: &Fleet,
        service: &ComponentService,
        (settings, revision): (Arc<Settings>, Arc<Revision>),
        change: &FleetChange<'_>,
    ) -> Result<Option<Digest>, DeployError> {
        let _changing = fleet.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (component, digest, current) = (service.id(), revision.digest, service.current().digest);
        fleet.keep_prepared(component, settings, revision);
        if let Some((wasm, signature)) = change.sent {
            // A concurrent change may have pruned the component, because no record names it yet.
            self.state().files.keep(&digest, wasm, signature)?;
        }
        // The hosts need the present component too, for a rollback or beside a canary.
        for digest in [current, digest] {
            self.publish_stored(fleet, &digest)?;
        }
        let check = |record: &ServingRecord| {
            check_no_canary(record, component)?;
            Expected::check(change.expected, component, &record.served(component, current))
        };
        let id = fleet.new_id()?;
        // The other hosts must know this host before they read its pending change.
        let hosts = fleet.exchange_reports()?;
        fleet.check_known(change.without, &hosts)?;
        let proposed = fleet.update(|record| {
            check(record)?;
            fleet.check_no_other_change(record, &hosts)?;
            let (host, component) = (fleet.instance.clone(), component.to_owned());
            record.proposal = Some(PendingChange { id: id.clone(), host, component, digest });
            Ok(Vec::new())
        });
        let mut restored = None;
        let moved = proposed.and_then(|_| wait_until_prepared(fleet, &id, change.without)).and_then(|()| {
            fleet.update(|record| {
                if record.proposal.as_ref().is_none_or(|proposal| proposal.id != id) {
                    let reason = "another host deploys now; look at `hexad status`, and try again";
                    return Err(DeployError::Fleet(reason.to_owned()));
                }
                // The record may have changed while the hosts compiled and checked the component.
                check(record)?;
                record.proposal = None;
                let present = record.components.get(component).map_or(current, |entry| entry.digest);
                let line = completed(change.by, change.action, component, digest, Some(present));
                let left_out = (!change.without.is_empty()).then(|| format!("without {}", change.without.join(", ")));
                let line = AuditEntry { trust: change.trust, reason: left_out.as_deref(), ..line }.to_json();
                let entry = change.entry(record.components.get(component), present, digest);
                restored = entry.restored();
                record.components.insert(component.to_owned(), entry);
                Ok(vec![line])
            })
        });
        match moved {
            Ok(record_version) => {
                finish(fleet, record_version, change.without)?;
                prune(fleet);
                Ok(restored)
            }
            Err(error) => {
                fleet.withdraw(&id);
                Err(error)
            }
        }
    }

    /// Publishes a component of the data folder to all hosts.
    fn publish_stored(&self, fleet: &Fleet, digest: &Digest) -> Result<(), DeployError> {
        let stored = self.state().files.read_signed(digest);
        match stored {
            Ok((wasm, signature)) => fleet.publish(digest, wasm, signature.as_ref()),
            // If the folder has no copy, the store has one already, or the component cannot be restored.
            Err(_) => Ok(()),
        }
    }

    /// Ends the trial on all hosts, by a promotion or for a reason. Returns the new version of the record, and its
    /// entry.
    fn end_fleet_trial(
        &self,
        fleet: &Fleet,
        service: &ComponentService,
        by: &str,
        expected: Option<&Expected>,
        (action, reason): (Action, Option<&str>),
    ) -> Result<(i64, ServingEntry), DeployError> {
        let (component, unswapped) = (service.id(), service.current().digest);
        let no_canary = || DeployError::NoCanary(component.to_owned());
        let mut ended = None;
        let record_version = fleet.update(|record| {
            Expected::check(expected, component, &record.served(component, unswapped))?;
            let entry = record.components.get_mut(component).ok_or_else(no_canary)?;
            let canary = entry.canary.take().ok_or_else(no_canary)?.digest;
            let line = match action {
                Action::Promote => {
                    let before = std::mem::replace(&mut entry.digest, canary);
                    // A rollback must not restore an equal component.
                    if before != canary {
                        entry.previous = Some(before);
                    }
                    completed(by, action, component, canary, Some(before))
                }
                _ => completed(by, action, component, entry.digest, Some(canary)),
            };
            entry.by = by.to_owned();
            entry.action = action;
            entry.reason = reason.map(str::to_owned);
            ended = Some(entry.clone());
            Ok(vec![AuditEntry { reason, ..line }.to_json()])
        })?;
        Ok((record_version, ended.ok_or_else(no_canary)?))
    }

    pub(super) fn promote_in_fleet(
        &self,
        fleet: &Fleet,
        component: &str,
        by: &str,
        expected: Option<&Expected>,
    ) -> Result<DeployReport, DeployError> {
        let started = Instant::now();
        let service = self.service(component)?;
        let on_trial = service.deployment().canary.as_ref().map(|canary| canary.revision.clone());
        if let Some(revision) = &on_trial {
            self.check_still_trusted(fleet, service, &revision.digest, expected)?;
        }
        let (record_version, entry) = self.end_fleet_trial(fleet, service, by, expected, (Action::Promote, None))?;
        finish(fleet, record_version, &[])?;
        // Another host may have deployed meanwhile.
        let promoted = on_trial.filter(|revision| revision.digest == entry.digest);
        let promoted = promoted.unwrap_or_else(|| service.current());
        Ok(DeployReport { previous: entry.restored(), ..self.report(service, &promoted, started) })
    }

    /// Ends the trial of a canary that this host's policy no longer admits. If it were promoted, no host with this
    /// policy would serve.
    fn check_still_trusted(
        &self,
        fleet: &Fleet,
        service: &ComponentService,
        digest: &Digest,
        expected: Option<&Expected>,
    ) -> Result<(), DeployError> {
        let component = service.id();
        let Err(error) = self.check_shared(fleet, component, digest) else { return Ok(()) };
        if !matches!(&error, DeployError::Untrusted { source, .. } if source.is_withdrawn()) {
            return Err(error);
        }
        let seen = Expected { current: service.current().digest, canary: Some(*digest) };
        Expected::check(expected, component, &seen)?;
        let ended = (Action::Rollback, Some(&*error.to_string()));
        let (record_version, _) = self.end_fleet_trial(fleet, service, HOST, Some(&seen), ended)?;
        finish(fleet, record_version, &[])?;
        Err(DeployError::TrialEnded { component: component.to_owned(), source: Box::new(error) })
    }

    /// Ends the trial of a canary that failed on this host.
    pub(super) fn fail_canary_in_fleet(
        &self,
        fleet: &Fleet,
        component: &str,
        digest: Digest,
        reason: &str,
    ) -> Result<(), DeployError> {
        let service = self.service(component)?;
        let seen = Expected { current: service.current().digest, canary: Some(digest) };
        match self.end_fleet_trial(fleet, service, HOST, Some(&seen), (Action::Rollback, Some(reason))) {
            // Another host was faster.
            Err(DeployError::Changed(_)) => Ok(()),
            ended => ended.map(drop),
        }
    }

    pub(super) fn roll_back_in_fleet(
        &self,
        fleet: &Fleet,
        component: &str,
        by: &str,
        expected: Option<&Expected>,
    ) -> Result<DeployReport, DeployError> {
        let started = Instant::now();
        let service = self.service(component)?;
        let none = || DeployError::NoPrevious(component.to_owned());
        let (_, record) = fleet.read()?;
        let seen = record.served(component, service.current().digest);
        Expected::check(expected, component, &seen)?;
        let entry = record.components.get(component).ok_or_else(none)?;
        if seen.canary.is_some() {
            let ended = (Action::Rollback, Some("the canary"));
            let (record_version, _) = self.end_fleet_trial(fleet, service, by, Some(&seen), ended)?;
            finish(fleet, record_version, &[])?;
            return Ok(self.report(service, &service.current(), started));
        }
        let previous = entry.previous.ok_or_else(none)?;
        let prepared = self.prepare(fleet, service, &previous)?;
        let revision = prepared.1.clone();
        let trust = self.state().files.trust_stored(component, &previous)?.for_audit();
        // Without `expected`, the rollback would undo a deployment that another host has made meanwhile.
        let (action, trust, expected) = (Action::Rollback, trust.as_deref(), Some(&seen));
        let change = FleetChange { by, action, canary: None, trust, without: &[], expected, sent: None };
        let previous = self.deploy_to_fleet(fleet, service, prepared, &change)?;
        Ok(DeployReport { previous, ..self.report(service, &revision, started) })
    }
}

fn check_no_canary(record: &ServingRecord, component: &str) -> Result<(), DeployError> {
    match record.components.get(component).is_some_and(|entry| entry.canary.is_some()) {
        true => Err(DeployError::CanaryUnderWay(component.to_owned())),
        false => Ok(()),
    }
}

/// Waits until every live host that is not left out is prepared for the change.
fn wait_until_prepared(fleet: &Fleet, id: &str, without: &[String]) -> Result<(), DeployError> {
    let end = Instant::now() + PREPARE_TIMEOUT;
    loop {
        if fleet.phases.is_in(StopPhase::Stopping) {
            return Err(DeployError::Stopping);
        }
        let hosts = match fleet.read_hosts() {
            Err(error) if error.is_passing() && Instant::now() < end => {
                std::thread::sleep(LOOK);
                continue;
            }
            hosts => hosts?,
        };
        let mut is_known = false;
        let mut waited_for = Vec::new();
        let asked = hosts.iter().filter(|host| host.is_live() && !fleet.leaves_out(without, host));
        for FleetHost { instance, name, report, .. } in asked {
            is_known |= *instance == fleet.instance;
            match (&report.proposal, &report.refusal) {
                (Some(proposal), Some(refusal)) if proposal == id => {
                    return Err(DeployError::Fleet(format!(
                        "the host {name} refuses it: {refusal}; correct that, or leave that host out (`hexad swap --exclude-host`)"
                    )));
                }
                (Some(proposal), None) if proposal == id => {}
                _ => waited_for.push(name.as_str()),
            }
        }
        if is_known && waited_for.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let (seconds, names) = (PREPARE_TIMEOUT.as_secs(), waited_for.join(", "));
            return Err(DeployError::Fleet(format!(
                "these hosts have not prepared it within {seconds} s: {names}; their logs say why"
            )));
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits until this host and every other live host that is not left out serve the record. A late host reads the record
/// before it answers a request. The change is made, even if the wait fails.
fn finish(fleet: &Fleet, record_version: i64, without: &[String]) -> Result<(), DeployError> {
    let end = Instant::now() + FLIP_TIMEOUT;
    fleet.wait_until_applied(record_version, end)?;
    loop {
        let hosts = match fleet.read_hosts() {
            Ok(hosts) => hosts,
            Err(error) => {
                tracing::warn!(%error, "it is not known whether the other hosts serve what was deployed");
                return Ok(());
            }
        };
        let late: Vec<&str> = hosts
            .iter()
            .filter(|host| {
                host.instance != fleet.instance && host.is_live() && host.report.record_version < record_version
            })
            .filter(|host| !fleet.leaves_out(without, host))
            // A host with a problem has reported that it does not serve the record.
            .filter(|host| host.report.problem.is_none())
            .map(|host| &*host.name)
            .collect();
        if late.is_empty() || fleet.phases.is_in(StopPhase::Stopping) {
            return Ok(());
        }
        if Instant::now() >= end {
            tracing::warn!(hosts = late.join(", "), "these hosts have not said that they serve what was deployed");
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// Removes unused components from the store.
fn prune(fleet: &Fleet) {
    let pruned = fleet.read().and_then(|(_, record)| {
        let wanted = record.digests().iter().map(Digest::to_string).collect();
        fleet.store.prune_components(wanted).map_err(DeployError::Store)
    });
    if let Err(error) = pruned {
        tracing::warn!(%error, "old components cannot be removed from the store");
    }
}

/// A change of a component that every host prepares first.
pub struct FleetChange<'a> {
    pub by: &'a str,
    pub action: Action,
    pub canary: Option<&'a CanaryPolicy>,
    /// The reason for trusting the component, if a policy exists.
    pub trust: Option<&'a str>,
    /// The hosts that the change leaves out, by name or instance.
    pub without: &'a [String],
    /// The digests that the component replaces; any if `None`.
    pub expected: Option<&'a Expected>,
    /// The component and its signature, if it was sent.
    pub sent: Option<(&'a [u8], Option<&'a Signature>)>,
}

impl FleetChange<'_> {
    /// The entry of the component `digest`, after `entry`, while `present` is active.
    pub fn entry(&self, entry: Option<&ServingEntry>, present: Digest, digest: Digest) -> ServingEntry {
        let before = entry.and_then(|entry| entry.previous);
        let (by, action) = (self.by.to_owned(), self.action);
        match self.canary {
            Some(policy) => {
                let canary = Some(CanaryEntry::new(digest, policy));
                ServingEntry { digest: present, previous: before, canary, by, action, reason: None }
            }
            None => {
                let previous = if present == digest { before } else { Some(present) };
                ServingEntry { digest, previous, canary: None, by, action, reason: None }
            }
        }
    }
}

#[cfg(test)]
mod tests;
