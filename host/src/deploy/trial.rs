//! The end of a canary's trial: promotion or failure.

use std::time::{Duration, Instant};

use super::audit::{Action, AuditEntry};
use super::files::completed;
use super::{DeployError, DeployReport, Deployer, HOST};
use crate::component::Verdict;
use crate::digest::Digest;

impl Deployer {
    /// Makes the canary the active component.
    pub fn promote(&self, component: &str, by: &str) -> Result<DeployReport, DeployError> {
        let outcome = self.try_promote(component, by, None);
        self.log_refusal(&outcome, by, Action::Promote, component, None);
        outcome
    }

    /// With `only`, promotes the canary only if it has this digest.
    fn try_promote(&self, component: &str, by: &str, only: Option<Digest>) -> Result<DeployReport, DeployError> {
        if let Some(fleet) = &self.fleet {
            return match self.is_open() {
                true => self.promote_in_fleet(fleet, component, by, only),
                false => Err(DeployError::Stopping),
            };
        }
        let started = Instant::now();
        let slot = self.slot(component)?;
        let mut state = self.state();
        if !state.open {
            return Err(DeployError::Stopping);
        }
        let canary = slot.deployment().canary.clone().ok_or_else(|| DeployError::NoCanary(component.to_owned()))?;
        if only.is_some_and(|digest| digest != canary.generation.digest) || !canary.conclude() {
            return Err(DeployError::NoCanary(component.to_owned()));
        }
        if let Err(error) = self.install(&mut state.files, slot, &canary.generation, by, Action::Promote) {
            // Otherwise the trial would never end.
            slot.end_trial(&canary.generation.digest);
            return Err(error);
        }
        let previous = slot.deployment().previous.as_ref().map(|previous| previous.digest);
        Ok(DeployReport { previous, ..self.report(slot, &canary.generation, started) })
    }

    /// Promotes the canaries whose trials are over and passed. Returns how long to wait before the next
    /// call.
    pub(super) fn end_trials(&self) -> Option<Duration> {
        /// How soon to check again a trial that is over but has too few responses.
        const RECHECK: Duration = Duration::from_secs(1);
        let mut next: Option<Duration> = None;
        for slot in self.application().slots() {
            let Some(canary) = slot.deployment().canary.clone() else { continue };
            let wait = canary.ends_at().saturating_duration_since(Instant::now());
            if wait.is_zero() && canary.verdict() == Verdict::Passed {
                match self.try_promote(slot.id(), HOST, Some(canary.generation.digest)) {
                    Ok(_) => continue,
                    // Another host was faster.
                    Err(DeployError::NoCanary(_)) if self.fleet.is_some() => continue,
                    Err(error) => {
                        tracing::warn!(component = slot.id(), %error, "the canary passed and was not promoted");
                    }
                }
                if self.fleet.is_none() {
                    continue;
                }
            }
            let wait = if wait.is_zero() { RECHECK } else { wait };
            next = Some(next.map_or(wait, |next| next.min(wait)));
        }
        next
    }

    pub(super) fn canary_failed(&self, component: &str, digest: Digest, reason: &str) {
        tracing::warn!(component, %digest, reason, "the canary was rolled back");
        if let Some(fleet) = &self.fleet {
            if let Err(error) = self.fail_canary_in_fleet(fleet, component, digest, reason) {
                // The follower does it once the store is there.
                tracing::warn!(component, %error, "the other hosts do not know yet that the canary failed");
            }
            return;
        }
        let Ok(slot) = self.slot(component) else { return };
        let mut state = self.state();
        let current = slot.current().digest;
        let line = completed(HOST, Action::Rollback, component, current, Some(digest));
        if let Err(error) = state.files.log(&AuditEntry { reason: Some(reason), ..line }) {
            tracing::error!(%error, "a canary was rolled back, and the audit log does not say so");
        }
        slot.end_trial(&digest);
        self.prune(&state.files);
    }
}
