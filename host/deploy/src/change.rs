//! One change of what a service serves: of the record that several hosts share, or of this host alone. A host alone is
//! a fleet of one: the rules are the same, and only the place of the compare-and-swap differs.

use hexad_runtime::component::{CanaryPolicy, ComponentService};
use hexad_support::digest::Digest;

use super::audit::{Action, AuditEntry};
use super::deployer::Expected;
use super::files::completed;
use super::fleet::{CanaryEntry, ServingEntry};
use super::fleet_change::finish;
use super::{DeployError, Deployer, HOST};

/// A change that an actor wants.
pub struct Change<'a> {
    pub by: &'a str,
    pub action: Action,
    pub next: Next<'a>,
    /// The reason for trusting the component, if a policy exists.
    pub trust: Option<&'a str>,
    pub reason: Option<&'a str>,
    /// The digests that the change replaces; any if `None`.
    pub expected: Option<&'a Expected>,
}

/// The outcome of a change.
#[derive(Clone, Copy)]
pub enum Next<'a> {
    /// The component is the active one.
    Active(Digest),
    /// The component is on trial beside the active one.
    Canary(Digest, &'a CanaryPolicy),
    /// The canary is the active component.
    Promoted,
    /// The canary is gone.
    TrialEnded,
}

/// The entry after a change, and the version of the record if several hosts share one.
type Committed = (ServingEntry, Option<i64>);

impl Change<'_> {
    /// Changes the entry of a component. Returns the line for the audit log.
    pub fn apply<'a>(&'a self, component: &'a str, entry: &mut ServingEntry) -> Result<AuditEntry<'a>, DeployError> {
        let is_new = matches!(self.next, Next::Active(_) | Next::Canary(..));
        if is_new && entry.canary.is_some() {
            return Err(DeployError::CanaryUnderWay(component.to_owned()));
        }
        Expected::check(self.expected, component, &entry.served())?;
        let canary = entry.canary.take().map(|canary| canary.digest);
        let on_trial = || canary.ok_or_else(|| DeployError::NoCanary(component.to_owned()));
        let (digest, before) = match self.next {
            Next::Active(digest) => (digest, entry.activate(digest)),
            Next::Promoted => (on_trial()?, entry.activate(on_trial()?)),
            Next::TrialEnded => (entry.digest, on_trial()?),
            Next::Canary(digest, _) if digest == entry.digest => {
                return Err(DeployError::ServesAlready(component.to_owned()));
            }
            Next::Canary(digest, policy) => {
                entry.canary = Some(CanaryEntry::new(digest, policy));
                (digest, entry.digest)
            }
        };
        entry.by = self.by.to_owned();
        entry.action = self.action;
        entry.reason = self.reason.map(str::to_owned);
        let line = completed(self.by, self.action, component, digest, Some(before));
        Ok(AuditEntry { trust: self.trust, reason: self.reason, ..line })
    }
}

impl Deployer {
    /// The present entry of a service.
    pub(super) fn entry(&self, service: &ComponentService) -> Result<ServingEntry, DeployError> {
        match &self.fleet {
            Some(fleet) => Ok(fleet.read()?.1.entry(service)),
            None => Ok(ServingEntry::of(service)),
        }
    }

    /// Makes a change for which every host is prepared, in one step.
    fn commit(&self, service: &ComponentService, change: &Change<'_>) -> Result<Committed, DeployError> {
        let Some(fleet) = &self.fleet else { return self.commit_alone(service, change) };
        let mut changed = None;
        let record_version = fleet.update(|record| {
            let mut entry = record.entry(service);
            let line = change.apply(service.id(), &mut entry)?.to_json();
            changed = Some(entry.clone());
            record.components.insert(service.id().to_owned(), entry);
            Ok(vec![line])
        })?;
        let entry = changed.unwrap_or_else(|| ServingEntry::of(service));
        Ok((entry, Some(record_version)))
    }

    /// Makes a change on a host that shares its store with no other.
    pub(super) fn commit_alone(
        &self,
        service: &ComponentService,
        change: &Change<'_>,
    ) -> Result<Committed, DeployError> {
        let mut state = self.state();
        let mut entry = ServingEntry::of(service);
        change.apply(service.id(), &mut entry)?;
        let promoted = service.deployment().canary.clone().filter(|_| matches!(change.next, Next::Promoted));
        // The canary may have failed meanwhile.
        if promoted.as_ref().is_some_and(|canary| !canary.conclude()) {
            return Err(DeployError::NoCanary(service.id().to_owned()));
        }
        // A reload has replaced the settings that the revision was prepared with.
        let replaced = |missing: Option<Digest>| match missing {
            None => Ok(()),
            Some(_) => Err(DeployError::Changed(service.id().to_owned())),
        };
        let applied = self.apply_entry(&mut state.files, service, &entry).and_then(replaced);
        match (applied, promoted) {
            (Ok(()), _) => Ok((entry, None)),
            (Err(source), Some(canary)) => {
                // Otherwise the trial would never end.
                service.end_trial(&canary.revision.digest);
                let (component, source) = (service.id().to_owned(), Box::new(source));
                Err(DeployError::TrialEnded { component, source })
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Makes a change, and waits until every live host serves it.
    pub(super) fn commit_and_wait(
        &self,
        service: &ComponentService,
        change: &Change<'_>,
    ) -> Result<ServingEntry, DeployError> {
        let (entry, record_version) = self.commit(service, change)?;
        if let (Some(fleet), Some(record_version)) = (&self.fleet, record_version) {
            finish(fleet, record_version, &[])?;
        }
        Ok(entry)
    }

    /// Ends the trial of a canary that has failed on this host.
    pub(super) fn end_failed_trial(&self, component: &str, digest: Digest, reason: &str) -> Result<(), DeployError> {
        let service = self.service(component)?;
        let seen = Expected { current: service.current().digest, canary: Some(digest) };
        match self.commit(service, &ended(HOST, reason, &seen)) {
            // An operator or another host was faster.
            Err(DeployError::Changed(_)) => Ok(()),
            ended => ended.map(drop),
        }
    }
}

/// The end of the trial that an actor has `seen`.
pub fn ended<'a>(by: &'a str, reason: &'a str, seen: &'a Expected) -> Change<'a> {
    let (action, next, expected) = (Action::Rollback, Next::TrialEnded, Some(seen));
    Change { by, action, next, trust: None, reason: Some(reason), expected }
}
