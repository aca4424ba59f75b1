//! The end of a canary's trial: promotion or failure.

use std::time::{Duration, Instant};

use super::audit::{Action, AuditEntry};
use super::expected::Expected;
use super::files::completed;
use super::{DeployError, DeployReport, Deployer, HOST};
use crate::component::Verdict;
use crate::digest::Digest;

/// After one of these actions, a component is not on trial.
const ENDS: [Action; 4] = [Action::Swap, Action::Promote, Action::Rollback, Action::Supersede];

impl Deployer {
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
        if let Some(fleet) = &self.fleet {
            return match self.is_open() {
                true => self.promote_in_fleet(fleet, component, by, expected),
                false => Err(DeployError::Stopping),
            };
        }
        let started = Instant::now();
        let service = self.service(component)?;
        let mut state = self.state();
        if !self.is_open() {
            return Err(DeployError::Stopping);
        }
        let deployment = service.deployment();
        Expected::check(expected, component, &Expected::of(&deployment))?;
        let no_canary = || DeployError::NoCanary(component.to_owned());
        let canary = deployment.canary.as_ref().ok_or_else(no_canary)?;
        if !canary.conclude() {
            return Err(no_canary());
        }
        if let Err(error) = self.install(&mut state.files, service, &canary.revision, by, Action::Promote) {
            // Otherwise the trial would never end.
            service.end_trial(&canary.revision.digest);
            return Err(DeployError::TrialEnded { component: component.to_owned(), source: Box::new(error) });
        }
        let previous = service.deployment().previous.as_ref().map(|previous| previous.digest);
        Ok(DeployReport { previous, ..self.report(service, &canary.revision, started) })
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
                    Ok(_) => continue,
                    // Another host was faster.
                    Err(DeployError::NoCanary(_) | DeployError::Changed(_)) if self.fleet.is_some() => continue,
                    Err(error) => {
                        tracing::warn!(component = service.id(), %error, "the canary passed, and its promotion failed");
                    }
                }
                if self.fleet.is_none() {
                    continue;
                }
            }
            let wait = if wait.is_zero() { RECHECK } else { wait.min(RECHECK) };
            next = Some(next.map_or(wait, |next| next.min(wait)));
        }
        next
    }

    pub(super) fn canary_failed(&self, component: &str, digest: Digest, reason: &str) {
        tracing::warn!(component, %digest, reason, "the canary was rolled back");
        if let Some(fleet) = &self.fleet {
            if let Err(error) = self.fail_canary_in_fleet(fleet, component, digest, reason) {
                // The follower reports the failure once the store is available again.
                tracing::warn!(component, %error, "the other hosts do not know yet that the canary failed");
            }
            return;
        }
        let Ok(service) = self.service(component) else { return };
        let mut state = self.state();
        let deployment = service.deployment();
        if deployment.canary.as_ref().is_none_or(|canary| canary.revision.digest != digest) {
            // An operator was faster.
            return;
        }
        let current = deployment.current.digest;
        let line = completed(HOST, Action::Rollback, component, current, Some(digest));
        if let Err(error) = state.files.log(&AuditEntry { reason: Some(reason), ..line }) {
            tracing::error!(%error, "a canary was rolled back, and the audit log does not say so");
        }
        service.end_trial(&digest);
        self.prune(&state.files);
    }
}
